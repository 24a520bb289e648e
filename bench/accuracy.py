#!/usr/bin/env python3
"""How far the precisions of one policy file are from its f32 products: actions of the same requests.

  bench/accuracy.py MODEL [--requests N] [--precisions bf16,int8] [--set KEY=VALUE ...]

Each request has two pictures of noise, a state and a noise seed of its own; all come from the number of
the request. Every precision opens the model anew, so a full-size model takes minutes and its memory.
Printed: the largest absolute difference over all values of a chunk and the cosine, per request.
"""
import argparse
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTRIDER = ROOT / "build/release/bin/outrider"
SIDE = 224


def write_picture(path, rng):
    """Squares of 16 pixels in random colours, as PNG."""
    blocks = rng.integers(0, 256, (SIDE // 16, SIDE // 16, 3), dtype=np.uint8)
    pixels = blocks.repeat(16, 0).repeat(16, 1)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
                     chunk(b"IEND", b""))


def actions(args, folder, request, precision):
    rng = np.random.default_rng(request)
    command = [OUTRIDER, "run", args.model, "--seed", str(request), "--set", f"precision={precision}",
               "--prompt", "put the red cup on the plate", "--out", folder / "actions.npy"]
    for view in range(2):
        picture = folder / f"view{view}.png"
        write_picture(picture, rng)
        command += ["--image", picture]
    command += ["--state=" + ",".join(f"{x:.4f}" for x in rng.uniform(-1, 1, 8))]
    for setting in args.set:
        command += ["--set", setting]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{precision}: outrider run ended with {done.returncode}: {done.stderr.strip()}")
    return np.load(folder / "actions.npy").astype(np.float64).ravel()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=1)
    parser.add_argument("--precisions", default="bf16,int8")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for request in range(args.requests):
            exact = actions(args, folder, request, "f32")
            for precision in args.precisions.split(","):
                found = actions(args, folder, request, precision)
                cosine = exact @ found / np.sqrt((exact @ exact) * (found @ found))
                print(f"request {request}: {precision} largest difference {np.abs(found - exact).max():.2e} "
                      f"(values up to {np.abs(exact).max():.2f}), cosine {cosine:.7f}", flush=True)


if __name__ == "__main__":
    main()
