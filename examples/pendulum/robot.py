#!/usr/bin/env python3
"""The robot: a simulated pendulum that talks to `outrider loop --input shm:NAME`. Standard library only.

    robot.py NAME [--kick]

Waits for the loop's shared memory, then goes on as long as it ticks: read the newest action, let the pendulum move for
one period, write what the sensors say. --kick pushes the pendulum after 60 % of the first 10 seconds.
The layout of the memory: docs/reference/loop.md.
"""
import argparse
import math
import mmap
import os
import struct
import sys
import time

import pendulum

FRAME = struct.Struct("<IIQqQHHI")  # magic bytes number time_ns answers origin reason flags
FRAME_MAGIC, ENDED = 0x4D52464F, 6
SLOT_HEADER = 64


class Ring:
    """One ring of the segment; sizes are read once."""

    def __init__(self, memory, place_at):
        self.memory = memory
        self.offset, self.n_slots, self.slot_bytes, self.payload_bytes = struct.unpack_from("<QIII", memory, place_at)
        if self.n_slots < 2 or self.offset + 64 + self.n_slots * self.slot_bytes > len(memory):
            raise ValueError("the ring does not fit its memory")

    def slot(self, number):
        return self.offset + 64 + number % self.n_slots * self.slot_bytes

    def head(self):
        return struct.unpack_from("<Q", self.memory, self.offset)[0]

    def newest(self):
        """(frame, payload) or None."""
        number = self.head() - 1
        if number < 0:
            return None
        at = self.slot(number)
        before = struct.unpack_from("<Q", self.memory, at)[0]
        frame = FRAME.unpack_from(self.memory, at + 8)
        payload = bytes(self.memory[at + SLOT_HEADER:at + SLOT_HEADER + self.payload_bytes])
        whole = before == 2 * number + 2 == struct.unpack_from("<Q", self.memory, at)[0]
        return (frame, payload) if whole and frame[0] == FRAME_MAGIC else None

    def send(self, payload, flags=0):
        number = self.head()
        at = self.slot(number)
        struct.pack_into("<Q", self.memory, at, 2 * number + 1)
        FRAME.pack_into(self.memory, at + 8, FRAME_MAGIC, len(payload), number, time.monotonic_ns(), 0, 0, 0, flags)
        self.memory[at + SLOT_HEADER:at + SLOT_HEADER + len(payload)] = payload
        struct.pack_into("<Q", self.memory, at, 2 * number + 2)
        struct.pack_into("<QI", self.memory, self.offset, number + 1, (number + 1) & 0xFFFFFFFF)


def attach(name, patience_s=20.0):
    """The memory of a loop: its magic is written when everything else is there."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        try:
            with open("/dev/shm/" + name, "r+b") as file:
                if os.fstat(file.fileno()).st_size >= 256:
                    memory = mmap.mmap(file.fileno(), 0)
                    if memory[:8] == b"OUTLOOP1" and struct.unpack_from("<I", memory, 8)[0] == 1:
                        return memory
        except FileNotFoundError:
            pass
        time.sleep(0.01)
    sys.exit(f"robot: no loop at shm:{name} after {patience_s:g} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name")
    parser.add_argument("--kick", action="store_true")
    args = parser.parse_args()
    memory = attach(args.name)
    observations, actions = Ring(memory, 64), Ring(memory, 96)
    if observations.payload_bytes != 16 or actions.payload_bytes != 8:
        sys.exit("robot: this policy is not the pendulum's")
    period_s = struct.unpack_from("<q", memory, 24)[0] * 1e-9
    n_steps = max(1, round(period_s / pendulum.STEP_S))
    angle, rate, seen, ticks, kicked, upright = math.pi, 0.0, 0, 0, not args.kick, []
    while True:
        observations.send(struct.pack("<3fI", math.cos(angle), math.sin(angle), rate / 8.0, 0))
        until = time.monotonic() + 2.0
        while actions.head() == seen:  # at most two seconds: the loop may have been killed
            if time.monotonic() > until:
                sys.exit("robot: the loop does not tick any more")
            time.sleep(0.0002)
        seen = actions.head()
        newest = actions.newest()
        if newest is None:
            continue
        frame, payload = newest
        if frame[6] == ENDED:
            break
        torque = max(-1.0, min(1.0, struct.unpack_from("<f", payload)[0]))
        for _ in range(n_steps):
            angle, rate = pendulum.step(angle, rate, torque)
        ticks += 1
        if not kicked and ticks * period_s >= 6.0:
            rate, kicked = rate + 2.0, True
        upright.append(math.cos(angle) > 0.95)
    last = upright[len(upright) * 3 // 4:]
    share = sum(last) / max(1, len(last))
    print(f"robot: {ticks} ticks, upright in {100 * share:.0f} % of the last quarter")


if __name__ == "__main__":
    main()
