"""Quantized graphs: what only moves, joins or compares passes bytes through, buffers between kernels hold bytes, results are ONNX's.

run.py [--build DIR] [--filter TEXT]
Expected values are onnxruntime's without optimizations, which computes each DequantizeLinear, operator and QuantizeLinear in f32 as ONNX says.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]
import harness
import quantized
from harness import check, need
from small import F, Case

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnx.helper import make_node as op

KINDS = {"u8": (np.uint8, TensorProto.UINT8, 128), "i8": (np.int8, TensorProto.INT8, -3)}


def reference(path, feeds, optimized=False):
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)


class Bench(Case):
    def quantized(self, nodes, dims, kind="u8", scales=(0.05, 0.05), zeros=(None, None), out=("y",), weights=()):
        """Compiles DequantizeLinear of each x0, x1.. -> nodes over f0, f1.. -> QuantizeLinear of each output. Input dims: a list a tensor."""
        dtype, proto, middle = KINDS[kind]
        zeros = [middle if z is None else z - (128 if kind == "i8" else 0) for z in zeros]
        w = [(f"s{i}", np.float32(s)) for i, s in enumerate(scales)] + [(f"z{i}", np.array(z, dtype)) for i, z in enumerate(zeros)] + list(weights)
        before = [op("DequantizeLinear", [f"x{i}", f"s{i}", f"z{i}"], [f"f{i}"]) for i in range(len(dims))]
        last = len(scales) - 1
        after = [op("QuantizeLinear", [f"{y}f", f"s{last}", f"z{last}"], [y]) for y in out]
        ins = [helper.make_tensor_value_info(f"x{i}", proto, d) for i, d in enumerate(dims)]
        outs = [helper.make_tensor_value_info(y, proto, None) for y in out]  # of any shape
        graph = helper.make_graph(before + nodes + after, "g", ins, outs, [onnx.numpy_helper.from_array(v, k) for k, v in w])
        path = os.path.join(self.dir, "model.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        rng = np.random.default_rng(len(nodes))
        info = np.iinfo(dtype)
        feeds = {f"x{i}": rng.integers(info.min, info.max + 1, d).astype(dtype) for i, d in enumerate(dims)}
        bundle = self.compile(path)
        want = reference(path, feeds)
        with self.open(bundle) as m:
            return m.run(*[feeds[i[0]] for i in m.inputs]), want, bundle

    def words(self, bundle):
        """Ops of the graph that is compiled."""
        code, out, err = harness.call([self.tools["tgaot"], "inspect", "--part", "graph", bundle], 60, self.env)
        need(code == 0, err)
        return {l.split("=", 1)[1].split()[0] for l in out.splitlines() if "=" in l}

    def wide(self, bundle):
        """Elements of scratch buffers that are wider than a byte."""
        buffers = self.inspect(bundle, "memory")["variants"][0]["buffers"]
        return [int(b["bytes"]) // 4 for b in buffers if b["kind"] == "scratch" and b["dtype"] not in ("u8", "i8", "bool")]


def steps(got, want):
    return int(np.max(np.abs(got.astype(np.int64) - want.astype(np.int64)))) if want.size else 0


def ints(name, v):
    return (name, np.array(v, np.int64))


MOVES = {
    "reshape": ([op("Reshape", ["f0", "d"], ["yf"])], [[2, 3, 4, 5]], [ints("d", [6, 20])]),
    "transpose": ([op("Transpose", ["f0"], ["yf"], perm=[0, 2, 3, 1])], [[2, 3, 4, 5]], []),
    "slice": ([op("Slice", ["f0", "a", "b"], ["yf"])], [[7, 9]], [ints("a", [1, 2]), ints("b", [6, 9])]),
    "pad": ([op("Pad", ["f0", "p"], ["yf"])], [[5, 6]], [ints("p", [1, 2, 0, 3])]),
    "expand": ([op("Expand", ["f0", "d"], ["yf"])], [[3, 1, 5]], [ints("d", [2, 3, 4, 5])]),
    "gather": ([op("Gather", ["f0", "d"], ["yf"], axis=1)], [[3, 6]], [ints("d", [4, 0, 4])]),
    "resize": ([op("Resize", ["f0", "", "r"], ["yf"], mode="nearest")], [[1, 3, 4, 5]], [("r", np.array([1, 1, 2, 2], np.float32))]),
    "depth_to_space": ([op("DepthToSpace", ["f0"], ["yf"], blocksize=2)], [[1, 8, 3, 4]], []),
    "concat": ([op("Concat", ["f0", "f1"], ["yf"], axis=1)], [[2, 3, 4], [2, 5, 4]], []),
    "relu": ([op("Relu", ["f0"], ["yf"])], [[40, 50]], []),
    "max": ([op("Max", ["f0", "f1"], ["yf"])], [[7, 9], [7, 9]], []),
    "max_pool": ([op("MaxPool", ["f0"], ["yf"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)], [[1, 4, 15, 17]], []),
    "reduce_max": ([op("ReduceMax", ["f0"], ["yf"], axes=[2], keepdims=0)], [[3, 4, 9]], []),
    "several": ([op("MaxPool", ["f0"], ["a"], kernel_shape=[2, 2]), op("Relu", ["a"], ["b"]), op("Concat", ["b", "f1"], ["c"], axis=1),
                 op("Transpose", ["c"], ["yf"], perm=[0, 2, 3, 1])], [[1, 3, 8, 8], [1, 2, 7, 7]], []),
}


@check
def moves_pass_bytes_through(c):
    for name, (nodes, dims, weights) in MOVES.items():
        for kind in KINDS:
            got, want, bundle = c.quantized(nodes, dims, kind, [0.05] * (len(dims) + 1), [None] * (len(dims) + 1), weights=weights)
            need(np.array_equal(got[0], want[0]), f"{name} of {kind}: other bytes")
            arithmetic = c.words(bundle) & {"MUL", "DIV", "ROUND", "ADD", "SUB"}
            need(not arithmetic and not c.wide(bundle), f"{name} of {kind}: computes {arithmetic}, wide buffers {c.wide(bundle)}")


@check
def moves_between_other_scales(c):
    # Ties too: 0.5 and 0.75 make k * 2 / 3 and k / 2.
    for scales, zeros in (((0.05, 0.031, 0.07), (3, 120, 77)), ((0.5, 0.25, 1.0), (100, 128, 127)), ((0.75, 0.1, 0.5), (0, 5, 9)), ((1e-3, 2e3, 1.0), (1, 2, 3))):
        for name, (nodes, dims, weights) in MOVES.items():
            for kind in KINDS:
                s, z = (*scales[:len(dims)], scales[2]), (*zeros[:len(dims)], zeros[2])
                got, want, _ = c.quantized(nodes, dims, kind, s, z, weights=weights)
                need(np.array_equal(got[0], want[0]), f"{name} of {kind}, scales {s}, zero points {z}: {steps(got[0], want[0])} steps off")


@check
def bounds_that_are_no_bytes(c):
    # A fill and a limit between two steps: each is rounded by itself.
    for scales in ((0.05, 0.05), (0.05, 0.033)):
        pad = [op("Pad", ["f0", "p", "v"], ["yf"])]
        got, want, _ = c.quantized(pad, [[5, 6]], scales=scales, weights=[ints("p", [1, 2, 0, 3]), ("v", np.float32(0.61))])
        need(np.array_equal(got[0], want[0]), f"pad with 0.61, scales {scales}")
        clip = [op("Clip", ["f0", "a", "b"], ["yf"])]
        got, want, _ = c.quantized(clip, [[40, 50]], scales=scales, weights=[("a", np.float32(-0.61)), ("b", np.float32(1.234))])
        need(np.array_equal(got[0], want[0]), f"clip, scales {scales}")


ARITHMETIC = {
    "add": ([op("Add", ["f0", "f1"], ["yf"])], [[3, 40, 5], [3, 40, 5]], 0),
    "mul": ([op("Mul", ["f0", "f1"], ["yf"])], [[3, 40, 5], [3, 1, 5]], 0),
    "leaky": ([op("LeakyRelu", ["f0"], ["yf"], alpha=0.1)], [[40, 50]], 0),
    "sigmoid": ([op("Sigmoid", ["f0"], ["yf"])], [[40, 50]], 1),
    "hard_swish": ([op("HardSwish", ["f0"], ["yf"])], [[40, 50]], 0),
    "softmax": ([op("Softmax", ["f0"], ["yf"])], [[6, 50]], 1),
    "average": ([op("AveragePool", ["f0"], ["yf"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)], [[1, 4, 15, 17]], 1),
    "padded average": ([op("AveragePool", ["f0"], ["yf"], kernel_shape=[3, 2], pads=[1, 1, 0, 0], count_include_pad=1)], [[1, 4, 9, 9]], 1),
    "global average": ([op("GlobalAveragePool", ["f0"], ["yf"])], [[2, 5, 31, 17]], 1),
    "mean": ([op("ReduceMean", ["f0"], ["yf"], axes=[0, 2], keepdims=1)], [[3, 5, 40]], 1),
}


@check
def arithmetic_between_bytes(c):
    for name, (nodes, dims, most) in ARITHMETIC.items():
        for kind in KINDS:
            for scales, zeros in (((0.05, 0.05, 0.05), (0, 0, 0)), ((0.05, 0.031, 0.07), (3, 120, 77))):
                s, z = (*scales[:len(dims)], scales[2]), (*zeros[:len(dims)], zeros[2])
                got, want, bundle = c.quantized(nodes, dims, kind, s, z)
                need(steps(got[0], want[0]) <= most, f"{name} of {kind}, scales {s}: {steps(got[0], want[0])} steps off")


@check
def sums_of_bytes_are_exact(c):
    # f32 sums of 2^17 such numbers are off by many steps of this scale; the integer sum has one rounding. By hand: the mean of all bytes.
    x = np.random.default_rng(3).integers(0, 256, [1, 1, 512, 512]).astype(np.uint8)
    path = c.model([op("DequantizeLinear", ["x", "s", "z"], ["f"]), op("GlobalAveragePool", ["f"], ["y"])], [("x", list(x.shape), TensorProto.UINT8)],
                   [("y", [1, 1, 1, 1])], [("s", np.float32(0.37)), ("z", np.uint8(200))])
    with c.open(c.compile(path)) as m:
        want = (int(x.sum()) - 200 * x.size) / x.size * float(np.float32(0.37))
        got = float(m.run(x)[0].reshape(()))
        need(abs(got - want) <= 3e-7 * abs(want), f"{got}, expected {want}")


def network(c, model, form, signed=False):
    path = quantized.quantize(model, c.dir, form, signed)
    dims = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(5).standard_normal(dims).astype(np.float32)}
    bundle = c.compile(path)
    with c.open(bundle) as m:
        got = m.run(feeds["x"])[0]
    want = reference(path, feeds, form == "qlinear")[0]
    error = np.abs(got - want).max() / np.abs(want).max()
    need(error <= 0.02, f"{form}: error {error:.3g} of the largest")  # a step or two of the last bytes
    return bundle


def networks(c, make, most):
    for form in ("qdq", "qlinear"):
        for signed in (False, True):
            if form == "qlinear" and signed:
                continue
            bundle = network(c, make(), form, signed)
            wide = c.wide(bundle)
            need(all(n <= most for n in wide), f"{form}: buffers of {wide} elements are wider than bytes")


# Values that are not bytes: sums of pooled channels and what the classifier sums.
@check
def a_residual_network(c):
    networks(c, quantized.resnet, 64)


@check
def a_mobile_network(c):
    networks(c, quantized.mobilenet, 64)


@check
def a_network_of_joins(c):
    networks(c, quantized.squeezenet, 64)


harness.run_checks("quant", __doc__, Bench)
