"""Kernels of free sizes: one bundle of each small model, run at several sizes, the ends included, against onnxruntime.

run.py [--build DIR] [--filter TEXT]
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import check, need
from small import F, I, Case, close, random

import numpy as np
import onnxruntime as ort
from onnx.helper import make_node

def op(kind, inputs, outputs, **attributes):
    return make_node(kind, inputs.split(), outputs.split(), **attributes)


def ints(*v):
    return np.array(v, np.int64)


def add(name, inputs, nodes, weights=(), variables=("N=0..40",), sizes=(0, 1, 2, 7, 16, 33, 40), env=({},), rank=None):
    """inputs: name -> dims, with `(dims, most)` for indices below `most`. sizes: of the first variable, or of all of them."""

    def run(c):
        kinds = {k: I if isinstance(d, tuple) else F for k, d in inputs.items()}
        dims = {k: d[0] if isinstance(d, tuple) else d for k, d in inputs.items()}
        path = c.model(nodes, [(k, dims[k], kinds[k]) for k in inputs], [("y", [f"y{k}" for k in range(rank or len(dims["x"]))], I if name == "argmax" else F)], list(weights))
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        for extra in env:
            c.env = {**c.env, "NOOPT": "0", "DEV": "CPU", **extra}
            with c.open(c.compile(path, *[x for v in variables for x in ("--var", v)])) as m:
                for k, size in enumerate(sizes):
                    value = dict(zip([v.split("=")[0] for v in variables], size if isinstance(size, tuple) else (size,)))
                    feed = {}
                    for i, d in inputs.items():
                        shape = [value.get(n, n) for n in dims[i]]
                        feed[i] = random(k, *shape) if kinds[i] == F else np.random.default_rng(k).integers(0, d[1], shape)
                    want = session.run(None, feed)[0]
                    close(m.run(*[feed[name] for name, _, _ in m.inputs])[0], want, f"{extra} at {value}", 5e-5)

    run.__name__ = name
    check(run)


W = random
EVERYWHERE = ({}, {"NOOPT": "1"}, {"DEV": "CPU:CLANG"})
TWO = dict(variables=("B=0..3", "N=0..40"), sizes=((3, 16), (1, 1), (2, 0), (0, 5), (2, 7), (3, 40)))

add("elementwise", {"x": ["N", 20]}, [op("Relu", "x", "a"), op("Add", "a c", "y")], [("c", W(1, 20))], env=EVERYWHERE)
add("elementwise_columns", {"x": [20, "N"], "z": [20, 1]}, [op("Exp", "x", "a"), op("Mul", "a z", "y")])
add("sum_of_columns", {"x": [6, "N"]}, [op("ReduceSum", "x ax", "y", keepdims=0)], [("ax", ints(1))], env=EVERYWHERE, rank=1)
add("mean_of_rows", {"x": ["N", 24]}, [op("ReduceMean", "x ax", "y", keepdims=1)], [("ax", ints(0))], ("N=1..40",), (1, 2, 7, 16, 33, 40))  # of no rows: NaN here, 0 there
add("maximum", {"x": [6, "N"]}, [op("ReduceMax", "x ax", "y", keepdims=0)], [("ax", ints(1))], rank=1)
add("matmul_rows", {"x": ["N", 48]}, [op("MatMul", "x w", "a"), op("Add", "a b", "y")], [("w", W(1, 48, 40)), ("b", W(2, 40))], env=EVERYWHERE)
add("matmul_columns", {"x": [32, "N"]}, [op("MatMul", "w x", "y")], [("w", W(1, 24, 32))])
add("matmul_depth", {"x": [8, "N"], "z": ["N", 16]}, [op("MatMul", "x z", "y")])
add("matmul_all", {"x": ["N", 16]}, [op("Transpose", "x", "t", perm=[1, 0]), op("MatMul", "x t", "y")])
add("matmul_of_one_row", {"x": [1, "N"], "z": [30, "N"]}, [op("Transpose", "z", "t", perm=[1, 0]), op("MatMul", "x t", "y")])
add("residual", {"x": ["B", "N", 48]}, [op("Relu", "x", "r"), op("MatMul", "r w", "a"), op("Add", "a r", "y")], [("w", W(1, 48, 48))], **TWO)
add("perceptron", {"x": ["N", 32]}, [op("MatMul", "x w", "a"), op("Relu", "a", "r"), op("MatMul", "r v", "c"), op("Add", "c x", "y")],
    [("w", W(1, 32, 64)), ("v", W(2, 64, 32))])
add("softmax_of_rows", {"x": ["N", 30]}, [op("Softmax", "x", "y", axis=1)])
add("softmax_of_columns", {"x": [6, "N"]}, [op("Softmax", "x", "y", axis=1)], env=EVERYWHERE)
add("softmax_of_both", {"x": ["B", 12, "N", "N"]}, [op("Softmax", "x", "y", axis=3)], **TWO)
add("softmax_of_long_rows", {"x": ["B", 12, "N", "N"]}, [op("Softmax", "x", "y", axis=3)], (), ("B=1..3", "N=1..300"), ((3, 16), (2, 131), (1, 1)))
add("layer_norm", {"x": ["B", "N", 40]}, [op("LayerNormalization", "x s b", "y", axis=-1)], [("s", W(1, 40)), ("b", W(2, 40))], **TWO)
add("norm_of_a_free_row", {"x": [3, "N"]}, [op("ReduceMean", "x ax", "m"), op("Sub", "x m", "d"), op("Mul", "d d", "q"), op("ReduceMean", "q ax", "v"),
    op("Add", "v e", "w"), op("Sqrt", "w", "s"), op("Div", "d s", "y")], [("ax", ints(1)), ("e", np.float32(1e-3))])
add("transposes", {"x": [3, "N", 24]}, [op("Transpose", "x", "y", perm=[2, 0, 1])])
add("concat", {"x": ["N", 8], "z": [5, 8]}, [op("Relu", "x", "a"), op("Concat", "a z", "y", axis=0)])
add("concat_of_free", {"x": [4, "N"], "z": [4, "N"]}, [op("Relu", "x", "a"), op("Exp", "z", "b"), op("Concat", "a b", "y", axis=1)])
add("pad", {"x": [3, "N"]}, [op("Relu", "x", "a"), op("Pad", "a p", "b"), op("Exp", "b", "y")], [("p", ints(0, 2, 1, 3))])
add("slice", {"x": ["N", 8]}, [op("Slice", "x s e a", "y")], [("s", ints(2)), ("e", ints(2**40)), ("a", ints(1))])
add("running_sum", {"x": [3, "N"]}, [op("CumSum", "x a", "y")], [("a", np.int64(1))])
add("largest", {"x": [3, "N"]}, [op("TopK", "x k", "v i", axis=1), op("Identity", "v", "y")], [("k", ints(3))], ("N=3..40",), (3, 5, 16, 40))
add("argmax", {"x": [5, "N"]}, [op("ArgMax", "x", "y", axis=1, keepdims=0)], (), ("N=1..40",), (1, 2, 7, 16, 33, 40), rank=1)
add("embedding", {"x": (["B", "N"], 50)}, [op("Gather", "w x", "y", axis=0)], [("w", W(1, 50, 12))], **TWO, rank=3)
add("convolution_batch", {"x": ["N", 4, 9, 9]}, [op("Conv", "x w b", "a", pads=[1, 1, 1, 1]), op("Relu", "a", "r"), op("Conv", "r v", "y", pads=[1, 1, 1, 1])],
    [("w", W(1, 8, 4, 3, 3)), ("b", W(2, 8)), ("v", W(3, 8, 8, 3, 3))], ("N=1..6",), (1, 2, 5, 6), EVERYWHERE)
add("convolution_picture", {"x": [1, 4, "H", "W"]}, [op("Conv", "x w b", "a", pads=[1, 1, 1, 1]), op("Relu", "a", "r"),
    op("Conv", "r v", "y", pads=[1, 1, 1, 1], strides=[2, 2])], [("w", W(1, 8, 4, 3, 3)), ("b", W(2, 8)), ("v", W(3, 8, 8, 3, 3))],
    ("H=4..24", "W=4..24"), ((4, 4), (5, 9), (24, 24), (17, 8)), EVERYWHERE)
add("convolution_by_channel", {"x": [1, 16, "N", 10]}, [op("Conv", "x w", "y", pads=[1, 1, 1, 1], group=16)], [("w", W(1, 16, 1, 3, 3))], ("N=4..24",), (4, 5, 9, 24))
add("max_pool", {"x": [1, 4, "N", 10]}, [op("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])], (), ("N=4..24",), (4, 5, 9, 24))
add("global_pool", {"x": ["B", 4, "N", 10]}, [op("GlobalAveragePool", "x", "y")], (), ("B=0..3", "N=1..40"), ((3, 16), (1, 1), (0, 5), (2, 7), (3, 40)))
add("attention", {"x": ["B", "N", 32]}, [op("MatMul", f"x {w}", f"{w}0") for w in "qkv"] + [op("Reshape", f"{w}0 split", f"{w}1") for w in "qkv"] +
    [op("Transpose", "q1", "qt", perm=[0, 2, 1, 3]), op("Transpose", "k1", "kt", perm=[0, 2, 3, 1]), op("Transpose", "v1", "vt", perm=[0, 2, 1, 3]),
     op("MatMul", "qt kt", "s"), op("Softmax", "s", "p", axis=-1), op("MatMul", "p vt", "o"), op("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
     op("Reshape", "ot join", "y")],
    [(w, 0.2 * W(k, 32, 32)) for k, w in enumerate("qkv")] + [("split", ints(0, 0, 4, 8)), ("join", ints(0, 0, 32))], **TWO, env=EVERYWHERE)
add("multiples", {"x": ["N", 48]}, [op("MatMul", "x w", "a"), op("Softmax", "a", "y", axis=0)], [("w", W(1, 48, 40))], ("N=16..64:16",), (16, 32, 48, 64))


def recurrent(kind, gates, directions, **attributes):
    """Steps and rows of a recurrent layer: one loop in one kernel, whose rounds and rows the run gives."""
    sizes = ((1, 1), (2, 1), (7, 3), (33, 2), (40, 4))
    add(f"{kind.lower()}_{directions}", {"x": ["N", "B", 10]}, [op(kind, "x w r b", "y", hidden_size=24, direction="bidirectional" if directions == 2 else "forward", **attributes)],
        [("w", W(1, directions, gates * 24, 10) * 0.3), ("r", W(2, directions, gates * 24, 24) * 0.3), ("b", W(3, directions, 2 * gates * 24) * 0.3)],
        variables=("N=1..40", "B=1..4"), sizes=sizes, rank=4, env=EVERYWHERE)


recurrent("LSTM", 4, 1)
recurrent("LSTM", 4, 2)
recurrent("GRU", 3, 1, linear_before_reset=1)
recurrent("GRU", 3, 2)
recurrent("RNN", 1, 2)


@check
def the_need_grows_with_the_size(c):
    path = c.model([op("Exp", "x", "a"), op("Softmax", "a", "b", axis=0), op("Softmax", "b", "y", axis=1)], [("x", ["N", "N"])], [("y", ["N", "N"])])
    code, out, err = harness.call([c.tools["tgb"], "info", "--bounds", c.compile(path, "--var", "N=1..401")], 60, c.env)
    need(code == 0, err)
    needs = [float(l.split(": ")[1].split()[0]) for l in out.splitlines() if l.startswith("memory 0 N = ")]
    need(len(needs) == 5 and needs == sorted(needs) and needs[0] < 0.01 * needs[4], f"needs at five sizes: {needs}\n{out}")


@check
def sizes_that_the_data_give(c):
    """As many rows as there are different numbers: products, a norm over them, a box beside rows that were made before."""
    nodes = [op("Unique", "x", "p i j n"), op("Unsqueeze", "p one", "q"), op("MatMul", "q w", "a"), op("Softmax", "a", "s", axis=0), op("Exp", "b", "e"),
             op("Concat", "e s a", "y", axis=0), op("Transpose", "s", "t", perm=[1, 0]), op("MatMul", "t a", "u"), op("Concat", "e0 q", "v", axis=1),
             op("Exp", "q", "e0")]
    nodes[-1], nodes[-2] = nodes[-2], nodes[-1]
    path = c.model(nodes, [("x", ["N"]), ("b", [6, 24])], [("y", ["r", 24]), ("t", [24, "q"]), ("u", [24, 24]), ("v", ["q", 2])],
                   [("w", W(1, 1, 24)), ("one", ints(1))])
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for options, sizes in ((("--shape", "x=30"), (30,)), (("--shape", "x=7"), (7,))):
        for extra in EVERYWHERE:
            c.env = {**c.env, "NOOPT": "0", "DEV": "CPU", **extra}
            with c.open(c.compile(path, *options)) as m:
                for n in sizes:
                    for different in (1, 3, 100, 7):
                        x, b = np.random.default_rng(n).integers(0, different, n).astype(np.float32) / 4, random(n, 6, 24)
                        for got, want, (name, _, _) in zip(m.run(x, b), session.run(None, {"x": x, "b": b}), m.outputs):
                            close(got, want, f"{extra} {name} of {different} in {n}", 5e-5)


harness.run_checks("free", __doc__, Case)
