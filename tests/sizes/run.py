"""Models of several sizes in one bundle: --shape given several times, against onnxruntime at each of them.

run.py [--build DIR] [--filter TEXT]
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import check, need
from libtgb import TgbError
from small import F, Case, close, random

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper
from onnx.helper import make_node as op

def shapes(*texts):
    return [x for t in texts for x in ("--shape", t)]


def conv(c):
    nodes = [op("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1], strides=[2, 2]), op("Relu", ["t"], ["y"]), op("GlobalAveragePool", ["y"], ["m"])]
    return c.model(nodes, [("x", ["n", 3, "h", "w_"])], [("y", ["n", 8, "p", "q"]), ("m", ["n", 8, 1, 1])], [("w", random(1, 8, 3, 3, 3))])


def agree(c, bundle, path, inputs):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    with c.open(bundle) as m:
        for arrays in inputs * 2:
            want = session.run(None, {name: a for (name, _, _), a in zip(m.inputs, arrays)})
            for got, w, (name, _, _) in zip(m.run(*arrays), want, m.outputs):
                close(got, w, f"{name} at {[a.shape for a in arrays]}", 1e-4)


@check
def three_pictures(c):
    path = conv(c)
    bundle = c.compile(path, *shapes("x=1x3x32x32", "x=1x3x40x24", "x=2x3x16x16"))
    sizes = [(1, 3, 32, 32), (1, 3, 40, 24), (2, 3, 16, 16)]
    agree(c, bundle, path, [[random(k, *d)] for k, d in enumerate(sizes)])
    agree(c, c.retune(bundle), path, [[random(k, *d)] for k, d in enumerate(sizes)])
    summary = c.inspect(bundle, "weights")
    need(str(summary).count("'name': 'w'") == 1, f"the weights are there more than once: {summary}")
    with c.open(bundle) as m:
        for d in ((1, 3, 32, 24), (2, 3, 32, 32)):
            try:
                m.run(random(0, *d))
                need(False, f"{d} ran")
            except TgbError as e:
                need("no variant" in str(e), str(e))


@check
def two_inputs_change_together(c):
    path = c.model([op("MatMul", ["a", "b"], ["t"]), op("Softmax", ["t"], ["y"], axis=-1)], [("a", ["m", "k"]), ("b", ["k", 5])], [("y", ["m", 5])])
    bundle = c.compile(path, *shapes("a=4x8", "a=9x3", "b=8x5", "b=3x5"))
    agree(c, bundle, path, [[random(1, 4, 8), random(2, 8, 5)], [random(3, 9, 3), random(4, 3, 5)]])


@check
def state_is_shared(c):
    path = c.model([op("ReduceSum", ["x"], ["r"], keepdims=0), op("Add", ["r", "s"], ["t"]), op("Identity", ["t"], ["y"])],
                   [("x", ["n"]), ("s", [])], [("y", []), ("t", [])])
    with c.open(c.compile(path, "--state", "t=s", *shapes("x=3", "x=5"))) as m:
        total = 0
        for k, n in enumerate((3, 5, 5, 3)):
            x = random(k, n)
            total += x.sum()
            close(m.run(x)[0], total, f"run {k}", 1e-5)


@check
def sizes_that_the_run_finds(c):
    path = c.model([op("NonZero", ["x"], ["i"]), op("Cast", ["i"], ["y"], to=F)], [("x", ["n"])], [("y", [1, "found"])])
    x, z = random(1, 5), random(2, 9)
    x[1] = z[3] = z[4] = 0
    agree(c, c.compile(path, *shapes("x=5", "x=9")), path, [[x], [z], [np.zeros(5, np.float32)], [np.ones(9, np.float32)]])


@check
def a_branch_for_other_sizes(c):
    """The side that cannot be computed at this shape is an error of the run, not of the compilation."""
    side = lambda w: helper.make_graph([op("MatMul", ["x", w], [f"y_{w}"])], w, [], [helper.make_tensor_value_info(f"y_{w}", F, None)])
    path = c.model([op("If", ["short"], ["y"], name="pick", then_branch=side("a"), else_branch=side("b"))],
                   [("x", ["n", "k"]), ("short", [], TensorProto.BOOL)], [("y", ["n", 4])], [("a", random(1, 3, 4)), ("b", random(2, 5, 4))])
    bundle = c.compile(path, *shapes("x=2x3", "x=2x5"))
    x, z = random(3, 2, 3), random(4, 2, 5)
    with c.open(bundle) as m:
        for _ in range(2):
            close(m.run(x, True)[0], x @ random(1, 3, 4), "the short one")
            close(m.run(z, False)[0], z @ random(2, 5, 4), "the long one")
            for bad, short, taken in ((x, False, "then_branch"), (z, True, "else_branch")):
                try:
                    m.run(bad, short)
                    need(False, "it ran")
                except TgbError as e:
                    need(f"only its {taken} can be computed" in str(e) and "pick" in str(e), str(e))


@check
def what_cannot_be(c):
    path = conv(c)
    c.compile(path, *shapes("x=1x3x32x32", "x=1x3x32x32"), words=["two variants have the same sizes"])
    path = c.model([op("Add", ["a", "b"], ["y"])], [("a", ["n"]), ("b", ["n"])], [("y", ["n"])])
    c.compile(path, *shapes("a=3", "a=4", "b=3", "b=4", "b=5"), words=["given 2 times", "3 times"])


harness.run_checks("sizes", __doc__, Case)
