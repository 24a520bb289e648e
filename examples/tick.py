#!/usr/bin/env python3
"""Runs one request of a PI0 / PI0.5 policy through liboutrider_host.so with plain ctypes.

    examples/tick.py LIB_DIR CONFIG.json "pick up the cup" [STATE_CSV]

LIB_DIR holds liboutrider_host.so and provider_gguf.so (build/release/lib). Pictures are black ones of
the opened size; put your own RGB bytes in their place. Needs nothing beyond Python 3.
Exit status: 0 good, 1 refused, 2 usage.
"""
import ctypes as c
import json
import sys


class ImageView(c.Structure):
    """frt_image_view, 48 bytes."""
    _fields_ = [("struct_size", c.c_uint32), ("pixel_format", c.c_uint32), ("data", c.c_void_p),
                ("bytes", c.c_uint64), ("width", c.c_int32), ("height", c.c_int32),
                ("stride_bytes", c.c_int32), ("reserved", c.c_uint32), ("timestamp_ns", c.c_uint64)]


class Refused(Exception):
    """A code below zero and the reason beside it."""


def load_host(folder):
    host = c.CDLL(folder + "/liboutrider_host.so")
    session = c.c_void_p
    host.outrider_open.argtypes = [c.c_char_p, c.c_char_p, c.POINTER(session), c.c_char_p, c.c_uint64]
    host.outrider_close.argtypes = [session]
    host.outrider_session_error.argtypes = [session]
    host.outrider_session_error.restype = c.c_char_p
    host.outrider_find_port.argtypes = [session, c.c_char_p]
    host.outrider_set_input.argtypes = [session, c.c_uint32, c.c_void_p, c.c_uint64]
    host.outrider_get_output.argtypes = [session, c.c_uint32, c.c_void_p, c.c_uint64,
                                         c.POINTER(c.c_uint64)]
    host.outrider_tick.argtypes = [session]
    return host


class Policy:
    """One open policy. Use it from one thread at a time; close it with `with`."""

    def __init__(self, lib_dir, config_text):
        self.config = json.loads(config_text)
        self.host = load_host(lib_dir)
        self.session = c.c_void_p()
        reason = c.create_string_buffer(512)
        code = self.host.outrider_open((lib_dir + "/provider_gguf.so").encode(), config_text.encode(),
                                       c.byref(self.session), reason, len(reason))
        if code != 0:
            raise Refused(f"{code}: {reason.value.decode(errors='replace')}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.host.outrider_close(self.session)

    def _check(self, code):
        if code != 0:
            text = self.host.outrider_session_error(self.session)
            raise Refused(f"{code}: {text.decode(errors='replace')}")

    def _set(self, port, data, n_bytes):
        index = self.host.outrider_find_port(self.session, port)
        self._check(self.host.outrider_set_input(self.session, index, data, n_bytes))

    def act(self, pictures, prompt, state):
        """pictures: RGB bytes, one a camera. Returns action_steps rows of action_dim floats."""
        width, height = self.config["image_width"], self.config["image_height"]
        kept = [c.create_string_buffer(rgb, len(rgb)) for rgb in pictures]  # alive during the call
        views = (ImageView * len(kept))(*[
            ImageView(c.sizeof(ImageView), 0, c.addressof(rgb), len(rgb), width, height, 0, 0, 0)
            for rgb in kept])
        self._set(b"images", views, c.sizeof(views))
        text = prompt.encode()
        self._set(b"prompt", text, len(text))
        floats = (c.c_float * len(state))(*state)
        self._set(b"state", floats, c.sizeof(floats))
        self._check(self.host.outrider_tick(self.session))
        n_steps, n_dims = self.config["action_steps"], self.config["action_dim"]
        actions = (c.c_float * (n_steps * n_dims))()
        written = c.c_uint64()
        port = self.host.outrider_find_port(self.session, b"actions")
        self._check(self.host.outrider_get_output(self.session, port, actions, c.sizeof(actions),
                                                  c.byref(written)))
        return [list(actions[i * n_dims:(i + 1) * n_dims]) for i in range(n_steps)]


def main(words):
    if len(words) < 4:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(words[2], encoding="utf-8") as file:
        config_text = file.read()
    state = [float(x) for x in words[4].split(",")] if len(words) > 4 else [0.0] * 8
    try:
        with Policy(words[1], config_text) as policy:
            config = policy.config
            black = bytes(config["image_width"] * config["image_height"] * 3)
            for row in policy.act([black] * config["n_views"], words[3], state):
                print(" ".join(f"{value:.6f}" for value in row))
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
