#!/usr/bin/env python3
"""Ticks of one PI0 / PI0.5 file: Outrider beside Jetson-PI-Edge, alternating in one run.

    bench/peers/jetson_pi.py --peer LIBDIR MODEL.gguf MMPROJ.gguf [--rounds 3] [--ticks 2] [--views 2] [--threads 2]

LIBDIR holds libjetson_pi_pi0.so of a CPU build of Jetson-PI-Edge (branch Jetson-PI-flashrt; cmake with
JETSON_PI_BUILD_MTMD=ON, GGML_NATIVE=ON, target jetson_pi_pi0). Each side runs in a process of its own, opened anew every
round; the first tick after opening is not counted. Prints one JSON document: milliseconds of every counted tick, medians,
spread and ratios peer / Outrider. Both sides get the same file, prompt and state and
pictures of the same size; Outrider runs with numerics=jetson-pi, so that both compute the same rows.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

BINARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/release/bin/outrider")


class PeerConfig(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("model", ctypes.c_char_p), ("mmproj", ctypes.c_char_p),
                ("backend", ctypes.c_char_p), ("n_views", ctypes.c_uint32), ("height", ctypes.c_uint32),
                ("width", ctypes.c_uint32), ("n_threads", ctypes.c_int32)]


def peer_ticks(args):
    """Child: opens the peer, ticks once uncounted, then args.ticks times; prints the times in ms."""
    lib = ctypes.CDLL(os.path.join(args.peer, "libjetson_pi_pi0.so"), mode=ctypes.RTLD_GLOBAL)
    lib.jetson_pi_pi0_open_error.restype = ctypes.c_char_p
    lib.jetson_pi_pi0_last_error.restype = ctypes.c_char_p
    config = PeerConfig(ctypes.sizeof(PeerConfig), args.model.encode(), args.mmproj.encode(), b"cpu", args.views, 224, 224,
                        args.threads)
    handle = ctypes.c_void_p()
    if lib.jetson_pi_pi0_open(ctypes.byref(config), ctypes.byref(handle)) != 0:
        sys.exit("peer: open failed: " + lib.jetson_pi_pi0_open_error().decode())
    steps, width = ctypes.c_uint32(), ctypes.c_uint32()
    lib.jetson_pi_pi0_action_shape(handle, ctypes.byref(steps), ctypes.byref(width))
    n_bytes = 224 * 224 * 3
    pictures = [(ctypes.c_uint8 * n_bytes)(*[(i * (7 + v) + i // 224) % 256 for i in range(n_bytes)]) for v in range(args.views)]
    table = (ctypes.c_void_p * args.views)(*[ctypes.addressof(p) for p in pictures])
    state = (ctypes.c_float * 8)(*[0.1 * i for i in range(8)])
    out = (ctypes.c_float * (steps.value * width.value))()
    written = ctypes.c_size_t()
    prompt = args.prompt.encode()
    times = []
    for _ in range(args.ticks + 1):
        start = time.perf_counter()
        code = lib.jetson_pi_pi0_infer(handle, table, ctypes.c_uint32(args.views), prompt, ctypes.c_size_t(len(prompt)), state,
                                       ctypes.c_size_t(8), out, ctypes.c_size_t(len(out)), ctypes.byref(written))
        times.append((time.perf_counter() - start) * 1e3)
        if code != 0:
            sys.exit("peer: tick failed: " + lib.jetson_pi_pi0_last_error(handle).decode())
    lib.jetson_pi_pi0_close(handle)
    print("TICKS " + json.dumps(times[1:]))


def run_peer(args):
    command = [sys.executable, os.path.abspath(__file__), "--child"] + sys.argv[1:]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("TICKS ")]
    if not lines:
        sys.exit(done.stderr[-2000:] or "peer: no result")
    return json.loads(lines[0][6:])


def run_outrider(args, precision):
    samples = f"/tmp/outrider-peer-{os.getpid()}.csv"
    command = [args.outrider, "bench", args.model, "--ticks", str(args.ticks), "--warmup", "1", "--idle", "0", "--no-limits",
               "--threads", str(args.threads), "--views", str(args.views), "--prompt", args.prompt, "--set", f"precision={precision}", "--set",
               "numerics=jetson-pi",
               "--state", ",".join(f"{0.1 * i:.1f}" for i in range(8)), "--samples", samples, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    with open(samples, encoding="utf-8") as file:
        rows = [line.strip().split(",") for line in file if line.strip()]
    os.remove(samples)
    column = rows[0].index("total_ms") if "total_ms" in rows[0] else None
    if column is None:
        sys.exit(f"samples without total_ms: {rows[0]}")
    return [float(row[column]) for row in rows[1:]][-args.ticks:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peer", required=True, help="folder of libjetson_pi_pi0.so")
    parser.add_argument("model")
    parser.add_argument("mmproj")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ticks", type=int, default=2)
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompt", default="pick up the red cup and put it on the plate")
    parser.add_argument("--precisions", default="bf16,int8")
    parser.add_argument("--outrider", default=BINARY)
    args = parser.parse_args()
    if args.child:
        return peer_ticks(args)
    sides = {"peer": lambda: run_peer(args)}
    for precision in args.precisions.split(","):
        sides[precision] = lambda precision=precision: run_outrider(args, precision)
    times = {side: [] for side in sides}
    for number in range(args.rounds):
        order = list(sides) if number % 2 == 0 else list(sides)[::-1]
        for side in order:
            times[side] += sides[side]()
            print(f"round {number + 1} {side}: {times[side][-args.ticks:]}", file=sys.stderr, flush=True)
    medians = {side: statistics.median(values) for side, values in times.items()}
    print(json.dumps({"ms": times, "median_ms": medians, "spread_ms": {s: [min(v), max(v)] for s, v in times.items()},
                      "peer_over": {s: medians["peer"] / m for s, m in medians.items() if s != "peer"},
                      "load": os.getloadavg(), "threads": args.threads}, indent=1))


main()
