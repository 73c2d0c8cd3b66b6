"""Sizes that only the run knows, at what the model declares or --var allows and beyond: the right result or an error of the run, never less than
the whole result. Against onnxruntime.

run.py [--build DIR] [--filter TEXT]
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import check, need
from small import F, I, Case, both, random, refused, scalar

import numpy as np
from onnx import TensorProto, helper
from onnx.helper import make_node as op

B = TensorProto.BOOL
i64 = lambda *v: np.array(v, np.int64)


# --- Loop
def squares(c, declared, cond=False, limit=True):
    """Round i gives i*i + x; with cond it goes on while the sum of i is below `stop`."""
    body = [op("Cast", ["i"], ["f"], to=F), op("Mul", ["f", "f"], ["q"]), op("Add", ["q", "x"], ["s"]), op("Add", ["t", "i"], ["t1"])]
    body += [op("Less", ["t1", "stop"], ["go1"])] if cond else [op("Identity", ["go"], ["go1"])]
    v = helper.make_tensor_value_info
    g = helper.make_graph(body, "body", [v("i", I, []), v("go", B, []), v("t", I, [])], [v("go1", B, []), v("t1", I, []), v("s", F, [2])])
    c0 = [("t0", scalar(0)), ("true", np.array(True))]
    names = [("x", [2])] + ([("m", [], I)] if limit else []) + ([("stop", [], I)] if cond else [])
    return c.model([op("Loop", ["m" if limit else "", "true" if cond else "", "t0"], ["t", "y"], body=g, name="rounds")], names,
                   [("y", [declared, 2]), ("t", [], I)], c0)


@check
def loop_with_a_limit(c):
    x = random(1, 2)
    path = squares(c, 5)
    both(c, path, [], [(x, scalar(5))], [(x, scalar(n)) for n in (6, 4, 100, 0, -1)], ["rounds", 'axis 0 of "y" is declared as 5', "--var y.size", "--fix"])
    path = squares(c, "n")
    c.compile(path, words=["--var n=0..MAX"])
    both(c, path, ["--var", "n=0..5"], [(x, scalar(n)) for n in (5, 4, 1, 0, -3)], [(x, scalar(n)) for n in (6, 1000)], ["n = ", "--var n="])
    path = squares(c, 5)
    both(c, path, ["--var", "y.size=0..7"], [(x, scalar(n)) for n in (5, 4, 7, 0)], [(x, scalar(8))], ["y.size = 8"])


@check
def loop_with_a_condition(c):
    x = random(2, 2)
    path = squares(c, 5, cond=True, limit=False)  # sums 0 1 3 6 10 15: below 10 for four rounds, and one more
    both(c, path, [], [(x, scalar(n)) for n in (10, 7)], [(x, scalar(n)) for n in (11, 1000, 6, 1)], ["rounds", 'axis 0 of "y" is declared as 5'])
    path = squares(c, "n", cond=True, limit=False)
    c.compile(path, words=["--var n=0..MAX"])
    both(c, path, ["--var", "n=0..5"], [(x, scalar(n)) for n in (10, 6, 1, 0)], [(x, scalar(n)) for n in (11, 1000)], ["n = 6", "--var n="])


@check
def loop_with_both(c):
    x = random(3, 2)
    path = squares(c, 5, cond=True)
    both(c, path, [], [(x, scalar(5), scalar(100)), (x, scalar(9), scalar(10))], [(x, scalar(6), scalar(100)), (x, scalar(9), scalar(11)), (x, scalar(3), scalar(100)), (x, scalar(0), scalar(9))],
         ['declared as 5'])
    path = squares(c, "n", cond=True)
    both(c, path, ["--var", "n=0..5"], [(x, scalar(a), scalar(b)) for a, b in ((5, 100), (9, 10), (2, 100), (0, 100), (9, 1))],
         [(x, scalar(6), scalar(100)), (x, scalar(9), scalar(11))], ["n = 6"])


# --- declared shapes of operators whose shape is an input
def declared(c, node, inputs, dims, kind=F, weights=()):
    return c.model([node], inputs, [("y", dims, kind)], weights)


@check
def reshape(c):
    x = random(4, 2, 6)
    path = declared(c, op("Reshape", ["x", "s"], ["y"]), [("x", [2, 6]), ("s", [2], I)], [3, 4])
    both(c, path, [], [(x, i64(3, 4)), (x, i64(-1, 4)), (x, i64(3, -1))], [(x, i64(4, 3)), (x, i64(0, 6)), (x, i64(-1, 2)), (x, i64(12, 1))], ["Reshape", "is declared as"])


@check
def range_(c):
    path = declared(c, op("Range", ["a", "b", "d"], ["y"]), [("a", [], I), ("b", [], I), ("d", [], I)], [4], I)
    s = scalar
    both(c, path, [], [(s(0), s(4), s(1)), (s(9), s(1), s(-2)), (s(0), s(7), s(2))], [(s(0), s(5), s(1)), (s(0), s(3), s(1)), (s(4), s(0), s(1))], ["declared as 4"])
    path = declared(c, op("Range", ["a", "b", "d"], ["y"]), [("a", []), ("b", []), ("d", [])], ["n"])
    f = lambda v: np.array(v, np.float32)
    both(c, path, ["--var", "n=0..4"], [(f(0), f(4), f(1)), (f(1), f(0), f(-0.25)), (f(0), f(0), f(1)), (f(0), f(3.5), f(1))], [(f(0), f(4.5), f(1)), (f(0), f(50), f(1))], ["n = ", "--var n="])


@check
def expand(c):
    x = random(5, 3, 1)
    path = declared(c, op("Expand", ["x", "s"], ["y"]), [("x", [3, 1]), ("s", [2], I)], [3, 4])
    both(c, path, [], [(x, i64(3, 4)), (x, i64(1, 4))], [(x, i64(3, 5)), (x, i64(1, 1)), (x, i64(2, 4))], ["declared as"])
    path = declared(c, op("Expand", ["x", "s"], ["y"]), [("x", [3, 1]), ("s", [2], I)], ["k", "n"])
    both(c, path, ["--var", "n=1..4"], [(x, i64(3, 4)), (x, i64(1, 2))], [(x, i64(3, 5))], ["n = 5"])
    with c.open(c.compile(path, "--var", "n=1..4")) as m:
        refused(m, ["axis 0 of input 0 has 3 elements"], x, i64(2, 4))


@check
def constant_of_shape_and_tile_and_pad(c):
    path = declared(c, op("ConstantOfShape", ["s"], ["y"]), [("s", [2], I)], [2, 3])
    both(c, path, [], [(i64(2, 3),)], [(i64(3, 2),), (i64(2, 4),)], ["declared as"])
    path = declared(c, op("ConstantOfShape", ["s"], ["y"]), [("s", [2], I)], ["n", "m"])
    both(c, path, ["--var", "n=0..3", "--var", "m=0..3"], [(i64(3, 3),), (i64(0, 2),)], [(i64(3, 4),), (i64(4, 3),), (i64(-1, 3),)], ["--var"])
    x = random(6, 2, 3)
    path = declared(c, op("Tile", ["x", "s"], ["y"]), [("x", [2, 3]), ("s", [2], I)], [4, 3])
    both(c, path, [], [(x, i64(2, 1))], [(x, i64(3, 1)), (x, i64(2, 2)), (x, i64(1, 1))], ["declared as"])
    path = declared(c, op("Pad", ["x", "s"], ["y"]), [("x", [2, 3]), ("s", [4], I)], [3, 5])
    both(c, path, [], [(x, i64(1, 0, 0, 2)), (x, i64(0, 1, 1, 1)), (x, i64(0, -1, 1, 3))], [(x, i64(1, 0, 1, 2)), (x, i64(0, 0, 1, 1))], ["declared as"])


@check
def slices_and_splits(c):
    x = random(7, 4, 6)
    path = declared(c, op("Slice", ["x", "b", "e", "a", "t"], ["y"]), [("x", [4, 6])] + [(n, [2], I) for n in "beat"], [2, 3])
    both(c, path, [], [(x, i64(0, 1), i64(2, 4), i64(0, 1), i64(1, 1)), (x, i64(-1, 5), i64(-9, -7), i64(1, 0), i64(-2, -1))][:1] + [(x, i64(5, 0), i64(-99, 99), i64(1, 0), i64(-2, 2))],
         [(x, i64(0, 1), i64(3, 4), i64(0, 1), i64(1, 1)), (x, i64(0, 1), i64(2, 9), i64(0, 1), i64(1, 1)), (x, i64(2, 0), i64(2, 3), i64(0, 1), i64(1, 1))], ["declared as"])
    path = c.model([op("Split", ["x", "s"], ["y", "z"], axis=1)], [("x", [4, 6]), ("s", [2], I)], [("y", [4, 2]), ("z", [4, 4])])
    both(c, path, [], [(x, i64(2, 4))], [(x, i64(3, 3)), (x, i64(1, 5))], ["declared as"])
    path = c.model([op("TopK", ["x", "k"], ["y", "z"])], [("x", [4, 6]), ("k", [1], I)], [("y", [4, 2]), ("z", [4, 2], I)])
    both(c, path, [], [(x, i64(2))], [(x, i64(3)), (x, i64(1)), (x, i64(7))], ["declared as 2"])
    path = c.model([op("TopK", ["x", "k"], ["y", "z"])], [("x", [4, 6]), ("k", [1], I)], [("y", [4, "k"]), ("z", [4, "k"], I)])
    both(c, path, ["--var", "k=1..4"], [(x, i64(4)), (x, i64(1))], [(x, i64(5))], ["k = 5"])


@check
def axes_of_the_run(c):
    x = random(8, 2, 1, 3, 1)
    path = declared(c, op("Squeeze", ["x", "a"], ["y"]), [("x", [2, 1, 3, 1]), ("a", [1], I)], [2, 3, 1])
    both(c, path, [], [(x, i64(1)), (x, i64(-3))], [(x, i64(3)), (x, i64(-1))], ["declared as"])
    x = random(9, 2, 3)
    path = declared(c, op("Unsqueeze", ["x", "a"], ["y"]), [("x", [2, 3]), ("a", [2], I)], [1, 2, 3, 1])
    both(c, path, [], [(x, i64(0, 3)), (x, i64(-1, 0))], [(x, i64(0, 1)), (x, i64(1, 3))], ["declared as"])
    path = declared(c, op("ReduceSum", ["x", "a"], ["y"]), [("x", [2, 3]), ("a", [1], I)], [2, 1])
    both(c, path, [], [(x, i64(1)), (x, i64(-1))], [(x, i64(0))], ["declared as"])
    path = declared(c, op("ReduceMax", ["x", "a"], ["y"], keepdims=0), [("x", [2, 3]), ("a", [1], I)], [3])
    both(c, path, [], [(x, i64(0))], [(x, i64(1))], ["declared as"])


@check
def one_hot_and_resize(c):
    i = i64(0, 2, 1)
    path = declared(c, op("OneHot", ["i", "d", "v"], ["y"]), [("i", [3], I), ("d", [], I)], [3, 4], weights=[("v", np.array([0, 1], np.float32))])
    both(c, path, [], [(i, scalar(4))], [(i, scalar(5)), (i, scalar(3))], ["declared as 4"])
    x = random(10, 1, 1, 4, 4)
    path = declared(c, op("Resize", ["x", "", "", "s"], ["y"]), [("x", [1, 1, 4, 4]), ("s", [4], I)], [1, 1, 8, 6])
    both(c, path, [], [(x, i64(1, 1, 8, 6))], [(x, i64(1, 1, 8, 7)), (x, i64(1, 1, 2, 6))], ["declared as"])
    path = declared(c, op("Resize", ["x", "", "s"], ["y"]), [("x", [1, 1, 4, 4]), ("s", [4])], [1, 1, 8, 6])
    f = lambda *v: np.array(v, np.float32)
    both(c, path, [], [(x, f(1, 1, 2, 1.5))], [(x, f(1, 1, 2, 1.2)), (x, f(1, 1, 3, 1.5))], ["declared as"])


# --- counts that --var keeps below what is possible
@check
def non_zero_and_compress(c):
    path = c.model([op("NonZero", ["x"], ["y"])], [("x", [9])], [("y", [1, "n"], I)])
    some = lambda n: (np.arange(9) < n).astype(np.float32)
    both(c, path, ["--var", "n=0..4"], [(some(4),), (some(0),), (some(3),)], [(some(5),), (some(9),)], ["n = ", "--var n="])
    both(c, path, ["--var", "n=0..8:4"], [(some(4),), (some(8),)], [(some(5),), (some(9),)], ["n = ", "multiples of 4"])
    path = c.model([op("Compress", ["x", "k"], ["y"], axis=0)], [("x", [6, 2]), ("k", [6], B)], [("y", ["n", 2])])
    x = random(11, 6, 2)
    both(c, path, ["--var", "n=0..3"], [(x, np.arange(6) < n) for n in (3, 0, 1)], [(x, np.arange(6) < n) for n in (4, 6)], ["n = ", "--var n="])


@check
def a_side_that_is_not_taken_measures_nothing(c):
    v = helper.make_tensor_value_info
    then = helper.make_graph([op("NonZero", ["x"], ["i"]), op("ReduceSum", ["i"], ["p"], keepdims=0)], "then", [], [v("p", I, [])])
    other = helper.make_graph([op("Size", ["x"], ["q"])], "other", [], [v("q", I, [])])
    path = c.model([op("If", ["k"], ["y"], then_branch=then, else_branch=other)], [("x", [9]), ("k", [], B)], [("y", [], I)])
    some = lambda n: (np.arange(9) < n).astype(np.float32)
    yes, no = np.array(True), np.array(False)
    both(c, path, ["--var", "i.0.1.size=0..4"], [(some(4), yes), (some(9), no), (some(2), no)], [(some(5), yes)], ["i.0.1.size = 5"])


harness.run_checks("bounds", __doc__, Case)
