#!/usr/bin/env python3
"""Logits of a text model in Outrider against a peer's, for bench/peers/types.sh.

    types.py LIB_DIR MODEL.gguf PEER.f32 ID...

Prints, for precision f32 and stored, the largest difference as a share of the largest logit, and
whether the likeliest id is the same one. Exit status 1 when f32 is further off than 0.1.
"""
import array
import ctypes as c
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples"))
from tick import load_host  # noqa: E402


def logits(lib_dir, model, precision, ids):
    config = {"model_family": "llm", "model_path": model, "backend": "cpu", "n_ctx": 256, "n_threads": 1,
              "temp": 0, "top_k": 0, "top_p": 0, "seed": 1, "max_tokens": 1, "precision": precision}
    host, session, reason = load_host(lib_dir), c.c_void_p(), c.create_string_buffer(512)
    host.outrider_find_stage.argtypes = [c.c_void_p, c.c_char_p]
    host.outrider_run_stage.argtypes = [c.c_void_p, c.c_uint64]
    code = host.outrider_open((lib_dir + "/provider_gguf.so").encode(), json.dumps(config).encode(),
                              c.byref(session), reason, len(reason))
    if code != 0:
        sys.exit(reason.value.decode())
    given, written = array.array("i", ids), c.c_uint64()
    at = given.buffer_info()[0]
    codes = [host.outrider_set_input(session, host.outrider_find_port(session, b"tokens"), at, 4 * len(ids)),
             host.outrider_run_stage(session, host.outrider_find_stage(session, b"reset")),
             host.outrider_run_stage(session, host.outrider_find_stage(session, b"prefill"))]
    out = (c.c_float * (1 << 18))()
    codes.append(host.outrider_get_output(session, host.outrider_find_port(session, b"logits"), out,
                                          c.sizeof(out), c.byref(written)))
    if any(codes):
        sys.exit(f"{codes}: {host.outrider_session_error(session).decode()}")
    host.outrider_close(session)
    return out[:written.value // 4]


def main(words):
    lib_dir, model, path, ids = words[1], words[2], words[3], [int(w) for w in words[4:]]
    peer = array.array("f")
    with open(path, "rb") as file:
        peer.frombytes(file.read())
    largest = max(abs(x) for x in peer)
    shares = []
    for precision in ("f32", "stored"):
        ours = logits(lib_dir, model, precision, ids)
        if len(ours) != len(peer):
            sys.exit(f"{len(ours)} logits here, {len(peer)} there")
        shares.append(max(abs(a - b) for a, b in zip(ours, peer)) / largest)
        same = ours.index(max(ours)) == peer.index(max(peer))
        print(f"  {precision}: {100 * shares[-1]:.3f} % of the largest logit{'' if same else ', another likeliest id'}", end="")
    print()
    return 1 if shares[0] > 0.1 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
