#!/usr/bin/env python3
"""Writes convolutional networks with random weights as ONNX, for bench/peers/onnxruntime.sh.

    cnn.py FOLDER

encoder64, encoder128   six layers of a camera encoder (3 pictures' channels in, one depthwise), pooled, 10 outputs
nature                  the encoder of game-playing policies: 4 x 84 x 84, three layers, 512, 18 outputs
residual                a stem, eight residual blocks of two layers, 16 to 64 channels, 64 x 64
mobile                  pointwise and depthwise pairs with squeeze-and-excite, hard-swish, 96 x 96
"""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "pendulum"))
from train import attribute, data, node, number, port, tensor  # noqa: E402


def integers(name, values):
    return data(5, data(1, name) + b"".join(number(8, v) for v in values) + number(20, 7))


class Net:
    def __init__(self, shape):
        self.rng = np.random.default_rng(0)
        self.shape, self.channels, self.nodes, self.weights = shape, shape[1], [], []

    def op(self, kind, inputs, *attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(kind, inputs, name, *attributes))
        return name

    def weight(self, *shape, scale=1.0):
        name = f"w{len(self.weights)}"
        self.weights.append(tensor(name, (self.rng.standard_normal(shape) * scale).astype("f4")))
        return name

    def conv(self, x, n_in, n_out, kernel, stride=1, groups=1, pad=None):
        w = self.weight(n_out, n_in // groups, kernel, kernel, scale=1 / np.sqrt(n_in // groups * kernel**2))
        b = self.weight(n_out, scale=0.1)
        pads = [kernel // 2 if pad is None else pad] * 4
        return self.op("Conv", [x, w, b], integers("kernel_shape", [kernel] * 2) + integers("pads", pads)
                       + integers("strides", [stride] * 2) + attribute("group", groups))

    def relu(self, x):
        return self.op("Relu", [x])

    def dense(self, x, n_in, n_out):
        w = self.weight(n_out, n_in, scale=1 / np.sqrt(n_in))
        return self.op("Gemm", [x, w, self.weight(n_out)], attribute("transB", 1))

    def pooled(self, x, n_in, n_out):
        return self.dense(self.op("Flatten", [self.op("GlobalAveragePool", [x])]), n_in, n_out)

    def write(self, path, y, n_out):
        graph = b"".join(data(1, n) for n in self.nodes) + data(1, node("Identity", [y], "action"))
        graph += data(2, path.stem) + b"".join(data(5, w) for w in self.weights)
        graph += data(11, port("obs", self.shape)) + data(12, port("action", [1, n_out]))
        path.write_bytes(number(1, 8) + data(7, graph) + data(8, number(2, 14)))


def encoder(size, n):
    net = Net([1, 3, size, size])
    x = "obs"
    for n_in, n_out, kernel, stride, groups in ((3, n, 3, 2, 1), (n, 2 * n, 3, 2, 1), (2 * n, 2 * n, 3, 1, 1),
                                                (2 * n, 2 * n, 3, 1, 2 * n), (2 * n, 4 * n, 1, 1, 1),
                                                (4 * n, 4 * n, 3, 2, 1)):
        x = net.relu(net.conv(x, n_in, n_out, kernel, stride, groups))
    return net, net.pooled(x, 4 * n, 10), 10


def nature():
    net = Net([1, 4, 84, 84])
    x = net.relu(net.conv("obs", 4, 32, 8, 4, pad=0))
    x = net.relu(net.conv(x, 32, 64, 4, 2, pad=0))
    x = net.op("Flatten", [net.relu(net.conv(x, 64, 64, 3, pad=0))])
    return net, net.dense(net.relu(net.dense(x, 3136, 512)), 512, 18), 18


def residual():
    net = Net([1, 3, 64, 64])
    n, x = 16, net.relu(net.conv("obs", 3, 16, 3))
    for n_out, stride in ((16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (64, 1), (64, 1)):
        beside = x if n == n_out and stride == 1 else net.conv(x, n, n_out, 1, stride)
        x = net.conv(net.relu(net.conv(x, n, n_out, 3, stride)), n_out, n_out, 3)
        x, n = net.relu(net.op("Add", [x, beside])), n_out
    return net, net.pooled(x, n, 12), 12


def mobile():
    net = Net([1, 3, 96, 96])
    n, x = 16, net.op("HardSwish", [net.conv("obs", 3, 16, 3, 2)])
    for n_out, wide, stride in ((24, 64, 2), (24, 72, 1), (40, 96, 2), (40, 120, 1), (80, 240, 2)):
        y = net.op("HardSwish", [net.conv(x, n, wide, 1)])
        y = net.op("HardSwish", [net.conv(y, wide, wide, 3, stride, wide)])
        gate = net.relu(net.conv(net.op("GlobalAveragePool", [y]), wide, wide // 4, 1))
        y = net.op("Mul", [y, net.op("HardSigmoid", [net.conv(gate, wide // 4, wide, 1)])])
        y = net.conv(y, wide, n_out, 1)
        x, n = net.op("Add", [y, x]) if stride == 1 and n == n_out else y, n_out
    return net, net.pooled(x, n, 12), 12


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (made, last, size) in {"encoder64": encoder(64, 16), "encoder128": encoder(128, 32), "nature": nature(),
                                     "residual": residual(), "mobile": mobile()}.items():
        made.write(folder / f"{name}.onnx", last, size)
