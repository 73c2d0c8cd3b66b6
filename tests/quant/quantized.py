"""Quantized models made with onnxruntime.quantization, and the small networks that the tests quantize."""
import logging
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

FORMS = {"qdq": QuantFormat.QDQ, "qlinear": QuantFormat.QOperator}


class Reader(CalibrationDataReader):
    def __init__(self, dims):
        rng = np.random.default_rng(1)
        self.left = iter([{n: rng.standard_normal(d).astype(np.float32) for n, d in dims.items()} for _ in range(3)])

    def get_next(self):
        return next(self.left, None)


def quantize(model, folder, form, signed=False, per_channel=True):
    """Path of the model (fixed float inputs) with weights of i8 and activations of u8, or i8, calibrated on noise."""
    logging.disable(logging.WARNING)
    known = {i.name for i in model.graph.initializer}
    dims = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input if i.name not in known}
    if model.opset_import[0].version < 13:  # scales along an axis
        model = onnx.version_converter.convert_version(model, 13)
    plain, prepared, out = (os.path.join(folder, n + ".onnx") for n in ("plain", "prepared", form))
    onnx.save(model, plain)
    quant_pre_process(plain, prepared, skip_symbolic_shape=True)
    quantize_static(prepared, out, Reader(dims), quant_format=FORMS[form], per_channel=per_channel, weight_type=QuantType.QInt8,
                    activation_type=QuantType.QInt8 if signed else QuantType.QUInt8)
    return out


class Net:
    """A small network, layer by layer, with random weights."""

    def __init__(self, channels, size, seed=0):
        self.rng, self.nodes, self.weights, self.channels = np.random.default_rng(seed), [], [], {"x": channels}
        self.dims, self.n = [1, channels, size, size], 0

    def op(self, kind, *inputs, channels=None, **attrs):
        self.n += 1
        name = f"v{self.n}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attrs))
        self.channels[name] = channels or self.channels[inputs[0]]
        return name

    def weight(self, *dims, scale=1.0):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array((self.rng.standard_normal(dims) * scale).astype(np.float32), name))
        return name

    def conv(self, x, out, k=1, stride=1, groups=1):
        per = self.channels[x] // groups
        w, b = self.weight(out, per, k, k, scale=(2 / (per * k * k)) ** 0.5), self.weight(out, scale=0.1)
        return self.op("Conv", x, w, b, channels=out, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4, group=groups)

    def model(self, y):
        pooled = self.op("Flatten", self.op("GlobalAveragePool", y))
        y = self.op("Gemm", pooled, self.weight(self.channels[y], 10, scale=0.3))
        info = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        graph = helper.make_graph(self.nodes, "g", [info("x", self.dims)], [info(y, [1, 10])], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def resnet():
    n = Net(3, 32)
    x = n.op("MaxPool", n.op("Relu", n.conv("x", 16, 7, 2)), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for out, stride in ((16, 1), (32, 2)):
        y = n.conv(n.op("Relu", n.conv(x, out, 3, stride)), out, 3)
        x = n.op("Relu", n.op("Add", y, x if stride == 1 else n.conv(x, out, 1, stride)))
    return n.model(x)


def mobilenet():
    n = Net(3, 32)
    clip = [n.weight(), n.weight()]
    for w, v in zip(n.weights, (0, 6)):
        w.CopyFrom(numpy_helper.from_array(np.float32(v), w.name))
    relu6 = lambda x: n.op("Clip", x, *clip)
    x = relu6(n.conv("x", 16, 3, 2))
    for stride in (1, 2):
        y = relu6(n.conv(relu6(n.conv(x, 48)), 48, 3, stride, 48))
        y = n.conv(y, 16)
        x = n.op("Add", x, y) if stride == 1 else y
    # Squeeze and excite, hard swish.
    g = n.op("HardSigmoid", n.conv(n.op("Relu", n.conv(n.op("GlobalAveragePool", x), 8)), 16), alpha=0.2, beta=0.5)
    return n.model(n.op("Mul", x, g))


def squeezenet():
    n = Net(3, 33)
    x = n.op("MaxPool", n.op("Relu", n.conv("x", 16, 3, 2)), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    for _ in range(2):
        s = n.op("Relu", n.conv(x, 8))
        x = n.op("Concat", n.op("Relu", n.conv(s, 16)), n.op("Relu", n.conv(s, 16, 3)), axis=1, channels=32)
    return n.model(x)
