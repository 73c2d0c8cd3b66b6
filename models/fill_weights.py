"""Makes a graph of graphs/ a runnable model: fill_weights.py GRAPH.onnx OUT.onnx

The graphs are real architectures whose large weights were emptied: an initializer of float32 with no data is to be filled. Values are
normal with standard deviation sqrt(2 / fan_in), fan_in = elements / dims[0], from a generator seeded by the initializer's name: every
machine makes the same file.
"""
import math
import os
import sys
import zlib

import numpy as np
import onnx


def fill(tensor):
    count = math.prod(tensor.dims)
    values = np.random.default_rng(zlib.crc32(tensor.name.encode())).standard_normal(count, dtype=np.float32)
    values *= np.float32(math.sqrt(2 / (count / tensor.dims[0])))
    tensor.raw_data = values.astype("<f4").tobytes()


def fill_model(source, target):
    model = onnx.load(source)
    for t in model.graph.initializer:
        empty = not t.raw_data and not t.float_data
        if t.data_type == onnx.TensorProto.FLOAT and empty and math.prod(t.dims) > 0:
            fill(t)
    part = target + ".part"
    onnx.save(model, part)
    os.replace(part, target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: fill_weights.py GRAPH.onnx OUT.onnx")
    fill_model(sys.argv[1], sys.argv[2])
