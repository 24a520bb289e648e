#!/usr/bin/env python3
"""Trains the pendulum's policy and writes it as ONNX. NumPy only; the same seed gives the same file.

    train.py policy.onnx [--rounds N] [--seed N]

Learning from a teacher, round by round (DAgger): the network swings the pendulum from many angles, the teacher, who
knows the energy that leads upright, says at every place reached what it would have done, and the network learns from all
places seen so far. Observation (1, 3): cos, sin of the angle, rate / 8. Action (1, 1): torque, -1 to 1.
3 -> 32 -> 32 -> 1, tanh.
"""
import argparse
import struct

import numpy as np

import pendulum

SIZES = [3, 32, 32, 1]
CONTROL_S, EPISODE_S, N_STARTS = 0.02, 5.0, 32


def observe(angle, rate):
    return np.stack([np.cos(angle), np.sin(angle), rate / 8.0], axis=-1)


def teacher(angle, rate):
    """Torque -1..1: near upright a spring and a damper, elsewhere energy until it is just enough."""
    energy = 0.5 * rate**2 + pendulum.GRAVITY * (np.cos(angle) - 1)
    swing = -0.6 * energy * np.tanh(3 * rate + 0.1 * np.sin(angle))
    catch = -(6.0 * np.sin(angle) + 2.0 * rate)
    near = 1 / (1 + np.exp(-20 * (np.cos(angle) - 0.85 - 0.02 * rate**2)))
    return np.clip(near * catch + (1 - near) * swing, -1, 1)


class Network:
    def __init__(self, rng):
        self.w = [rng.standard_normal((n, m)) / np.sqrt(m) for m, n in zip(SIZES, SIZES[1:])]
        self.b = [np.zeros(n) for n in SIZES[1:]]
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.w + self.b]
        self.n_steps = 0

    def run(self, x):
        """Every layer's values, the input first."""
        values = [x]
        for w, b in zip(self.w, self.b):
            values.append(np.tanh(values[-1] @ w.T + b))
        return values

    def learn(self, x, wanted, rate):
        """One step of Adam on the mean squared error."""
        values = self.run(x)
        grad = 2 * (values[-1] - wanted) / len(x)
        grads_w, grads_b = [], []
        for i in reversed(range(len(self.w))):
            grad = grad * (1 - values[i + 1]**2)
            grads_w.insert(0, grad.T @ values[i])
            grads_b.insert(0, grad.sum(0))
            grad = grad @ self.w[i]
        self.n_steps += 1
        for p, g, (m, v) in zip(self.w + self.b, grads_w + grads_b, self.moments):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= rate * (m / (1 - 0.9**self.n_steps)) / (np.sqrt(v / (1 - 0.999**self.n_steps)) + 1e-8)


def drive(rng, choose):
    """Angles and rates that N_STARTS pendulums go through, half of them from rest hanging."""
    angle = np.where(np.arange(N_STARTS) % 2 == 0, np.pi + rng.normal(0, 0.05, N_STARTS),
                     rng.uniform(-np.pi, np.pi, N_STARTS))
    rate = np.where(np.arange(N_STARTS) % 2 == 0, 0.0, rng.uniform(-6, 6, N_STARTS))
    seen = []
    for _ in range(int(EPISODE_S / CONTROL_S)):
        seen.append(np.stack([angle, rate], axis=1))
        torque = choose(angle, rate)
        for _ in range(4):  # coarser than the plant
            angle, rate = pendulum.step(angle, rate, torque, CONTROL_S / 4, np.sin)
    still = np.mean(np.cos(angle) > 0.95)
    return np.concatenate(seen), still


def train(rounds, seed, log=print):
    rng = np.random.default_rng(seed)
    network = Network(rng)
    places, still = drive(rng, teacher)
    log(f"teacher: upright at the end {100 * still:.0f} %")
    for i in range(rounds):
        x, wanted = observe(places[:, 0], places[:, 1]), teacher(places[:, 0], places[:, 1])[:, None]
        n_steps = 1000
        for k in range(n_steps):
            some = rng.integers(0, len(x), 512)
            network.learn(x[some], wanted[some], 4e-3 * (1 - k / n_steps) + 1e-4)
        more, still = drive(rng, lambda a, r: network.run(observe(a, r))[-1][:, 0])
        places = np.concatenate([places, more])
        log(f"round {i}: upright at the end {100 * still:.0f} %")
    return network


# ---- ONNX, written by hand: a protobuf message is (field number and kind, value) after each other ----

def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def tensor(name, array):
    array = np.ascontiguousarray(array, dtype="<f4")
    dims = b"".join(number(1, n) for n in array.shape)
    return dims + number(2, 1) + data(8, name) + data(9, array.tobytes())


def port(name, shape):
    dims = b"".join(data(1, number(1, n)) for n in shape)
    return data(1, name) + data(2, data(1, number(1, 1) + data(2, dims)))


def attribute(name, value):
    return data(5, data(1, name) + number(3, value) + number(20, 2))


def node(kind, inputs, output, attributes=b""):
    return b"".join(data(1, name) for name in inputs) + data(2, output) + data(4, kind) + attributes


def onnx_bytes(network):
    nodes, weights, value = [], [], "obs"
    for i, (w, b) in enumerate(zip(network.w, network.b)):
        out = "action" if i + 1 == len(network.w) else f"h{i}"
        nodes.append(node("Gemm", [value, f"w{i}", f"b{i}"], f"s{i}", attribute("transB", 1)))
        nodes.append(node("Tanh", [f"s{i}"], out))
        weights += [tensor(f"w{i}", w), tensor(f"b{i}", b)]
        value = out
    graph = (b"".join(data(1, n) for n in nodes) + data(2, "pendulum") + b"".join(data(5, w) for w in weights) +
             data(11, port("obs", [1, SIZES[0]])) + data(12, port("action", [1, SIZES[-1]])))
    return number(1, 8) + data(2, "outrider pendulum example") + data(7, graph) + data(8, number(2, 13))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    network = train(args.rounds, args.seed)
    with open(args.out, "wb") as file:
        file.write(onnx_bytes(network))


if __name__ == "__main__":
    main()
