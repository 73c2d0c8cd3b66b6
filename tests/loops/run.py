"""Loops whose carried values change their shape from round to round, against onnxruntime: lists of tokens that grow, tensors that shrink, several
of them, loops inside loops, branches; rounds counted here, by an input, or ended by a condition.

run.py [--build DIR] [--filter TEXT]
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import check, need
from small import F, I, Case, agree, both, random, refused, scalar

import numpy as np
from onnx import TensorProto, helper
from onnx.helper import make_node as op

B = TensorProto.BOOL
info = helper.make_tensor_value_info
i64 = lambda *v: np.array(v, np.int64)


def body(nodes, carried, scans=(), go="go"):
    """A graph of nodes over i, go and the carried values (name, kind, dims, next)."""
    tail = [op("Identity", ["go"], ["go1"])] if go == "go" else []
    return helper.make_graph(nodes + tail, "body", [info("i", I, []), info("go", B, [])] + [info(n, k, d) for n, k, d, _ in carried],
                             [info("go1", B, [])] + [info(x, k, None) for _, k, _, x in carried] + [info(*s) for s in scans])


def greedy(c, rounds, stop=None, out="n", vocab=40, width=16):
    """Greedy decoding: the mean of the embeddings of all tokens so far gives the next one."""
    nodes = [op("Gather", ["emb", "tokens"], ["e"]), op("ReduceMean", ["e", "zero"], ["mean"], keepdims=1), op("MatMul", ["mean", "w"], ["s"]),
             op("ArgMax", ["s"], ["t"], axis=1, keepdims=0), op("Concat", ["tokens", "t"], ["tokens1"], axis=0)]
    go = "go"
    if stop is not None:
        nodes += [op("Squeeze", ["t"], ["t0"]), op("Equal", ["t0", "stop"], ["end"]), op("Not", ["end"], ["go1"])]
        go = "go1"
    g = body(nodes, [("tokens", I, None, "tokens1")], go=go)
    weights = [("emb", random(3, vocab, width)), ("w", random(4, width, vocab)), ("zero", i64(0)), ("true", np.array(True))]
    if stop is not None:
        weights.append(("stop", scalar(stop)))
    ins = [("first", [2], I)]
    if rounds is None:
        ins.append(("m", [], I))
    else:
        weights.append(("m", scalar(rounds)))
    return c.model([op("Loop", ["m", "true", "first"], ["y"], body=g)], ins, [("y", [out], I)], weights)


@check
def a_list_of_tokens(c):
    starts = [i64(1, 2), i64(39, 0), i64(7, 7)]
    for rounds in (1, 9, 64):
        path = greedy(c, rounds)
        both(c, path, [], [(s,) for s in starts], [], [])
    path = greedy(c, None)
    c.compile(path, words=["--var n=0..MAX"])
    both(c, path, ["--var", "n=0..40"], [(s, scalar(k)) for s in starts for k in (38, 1, 0, 17)], [(starts[0], scalar(39)), (starts[0], scalar(400))], ["n = ", "--var n="])
    path = greedy(c, None, out=12)
    both(c, path, [], [(s, scalar(10)) for s in starts], [(starts[0], scalar(11)), (starts[0], scalar(9))], ["declared as 12"])


@check
def tokens_until_one_says_stop(c):
    starts = [i64(a, b) for a in (1, 39, 7) for b in (2, 0, 31)]
    for stop in (5, 17):
        path = greedy(c, 50, stop=stop)
        both(c, path, [], [(s,) for s in starts], [], [])
        path = greedy(c, None, stop=stop)
        both(c, path, ["--var", "n=0..30"], [(s, scalar(k)) for s in starts for k in (0, 1, 7, 28)], [], [])


@check
def what_is_new_is_all_that_is_stored(c):
    g = body([op("Add", ["x", "one"], ["a"]), op("Concat", ["t", "a"], ["t1"], axis=0)], [("t", F, None, "t1")])
    path = c.model([op("Loop", ["m", "", "x"], ["y"], body=g)], [("x", [1, 8])], [("y", ["n", 8])], [("m", scalar(500)), ("one", np.float32(1))])
    bundle = c.compile(path)
    text = str(c.inspect(bundle, "commands"))
    inside = text[text.index("'do'"):]
    need(inside.count("'launch'") == 1, f"more than one kernel a round: {inside}")
    with c.open(bundle) as m:
        agree(c, path, m, random(1, 1, 8))


@check
def along_an_inner_axis_and_at_the_front(c):
    x = random(5, 3, 2, 4)
    for axis, order in ((1, ["t", "new"]), (2, ["t", "new"]), (1, ["new", "t"]), (0, ["t", "new"])):
        g = body([op("ReduceMax", ["t", "ax"], ["new"], keepdims=1), op("Concat", order, ["t1"], axis=axis)], [("t", F, None, "t1")])
        path = c.model([op("Loop", ["m", "", "x"], ["y"], body=g)], [("x", [3, 2, 4])], [("y", [None, None, None])], [("m", scalar(40)), ("ax", i64(axis))])
        both(c, path, [], [(x,)], [], [])


@check
def shrinking(c):
    x = random(6, 40, 3)
    slices = [("b", i64(1)), ("e", i64(99)), ("ax", i64(0))]
    g = body([op("Slice", ["t", "b", "e", "ax"], ["t1"]), op("ReduceSum", ["t", "ax"], ["s"], keepdims=0)], [("t", F, None, "t1")], [("s", F, [3])])
    path = c.model([op("Loop", ["m", "", "x"], ["y", "sums"], body=g)], [("x", [40, 3])], [("y", [None, 3]), ("sums", [None, 3])], slices + [("m", scalar(39))])
    both(c, path, [], [(x,)], [], [])
    path = c.model([op("Loop", ["m", "", "x"], ["y", "sums"], body=g)], [("x", [40, 3]), ("m", [], I)], [("y", [None, 3]), ("sums", ["k", 3])], slices)
    both(c, path, ["--var", "k=0..40"], [(x, scalar(k)) for k in (0, 1, 39, 40)], [(x, scalar(41))], ["k = 41"])


@check
def two_values_and_a_scan(c):
    """One grows by 2 a round, one loses 1, one stays; what is scanned reads all of them."""
    nodes = [op("Unsqueeze", ["c", "zero"], ["cu"]), op("Concat", ["cu", "cu"], ["p"], axis=0), op("Concat", ["a", "p"], ["a1"], axis=0),
             op("Slice", ["b", "one", "far", "zero"], ["b1"]), op("ReduceMax", ["a1", "zero"], ["sa"], keepdims=0), op("ReduceMin", ["b", "zero"], ["sb"], keepdims=0),
             op("Add", ["sa", "sb"], ["s"]), op("Sin", ["s"], ["c1"])]
    g = body(nodes, [("a", F, None, "a1"), ("b", F, None, "b1"), ("c", F, [4], "c1")], [("s", F, [4])])
    weights = [("one", i64(1)), ("far", i64(999)), ("zero", i64(0))]
    ins = [("x", [3, 4]), ("z", [70, 4]), ("c0", [4])]
    outs = [("a9", [None, 4]), ("b9", [None, 4]), ("c9", [4]), ("y", [None, 4])]
    arrays = (random(1, 3, 4) * 1e-2, random(2, 70, 4) * 1e-2, random(3, 4) * 1e-2)
    for rounds in (3, 69):
        path = c.model([op("Loop", ["m", "", "x", "z", "c0"], [o[0] for o in outs], body=g)], ins, outs, weights + [("m", scalar(rounds))])
        both(c, path, [], [arrays], [], [])


@check
def a_loop_in_a_loop(c):
    """The outer list grows by one a round; the inner loop appends to a copy of it, and its last element comes back."""
    inner = helper.make_graph([op("ReduceMean", ["u", "zero"], ["q"], keepdims=1), op("Sin", ["q"], ["q1"]), op("Concat", ["u", "q1"], ["u1"], axis=0), op("Identity", ["g2"], ["g3"])],
                              "inner", [info("k", I, []), info("g2", B, []), info("u", F, None)], [info("g3", B, []), info("u1", F, None)])
    g = body([op("Loop", ["mi", "", "t"], ["v"], body=inner), op("Slice", ["v", "last", "far", "zero"], ["w"]), op("Concat", ["t", "w"], ["t1"], axis=0)], [("t", F, None, "t1")])
    weights = [("zero", i64(0)), ("last", i64(-1)), ("far", i64(999)), ("mi", scalar(12)), ("m", scalar(20))]
    path = c.model([op("Loop", ["m", "", "x"], ["y"], body=g)], [("x", [2, 3])], [("y", [None, 3])], weights)
    both(c, path, [], [(random(7, 2, 3),)], [], [])


@check
def a_branch_in_the_loop(c):
    yes = helper.make_graph([op("ReduceMax", ["t", "zero"], ["p"], keepdims=1)], "yes", [], [info("p", F, [1, 3])])
    no = helper.make_graph([op("ReduceMean", ["t", "zero"], ["q"], keepdims=1)], "no", [], [info("q", F, [1, 3])])
    nodes = [op("Mod", ["i", "two"], ["odd"]), op("Cast", ["odd"], ["o"], to=B), op("If", ["o"], ["n0"], then_branch=yes, else_branch=no), op("Cos", ["n0"], ["n"]),
             op("Concat", ["t", "n"], ["t1"], axis=0)]
    path = c.model([op("Loop", ["m", "", "x"], ["y"], body=body(nodes, [("t", F, None, "t1")]))], [("x", [2, 3])], [("y", [None, 3])],
                   [("m", scalar(30)), ("zero", i64(0)), ("two", scalar(2))])
    both(c, path, [], [(random(8, 2, 3),)], [], [])


@check
def free_rounds_and_free_starts(c):
    """The number of rounds is a size of an input, and so is the list at first."""
    g = body([op("Gather", ["z", "i"], ["r0"]), op("Unsqueeze", ["r0", "zero"], ["r"]), op("Concat", ["t", "r"], ["t1"], axis=0), op("ReduceSum", ["t1", "zero"], ["s"], keepdims=0)],
             [("t", F, None, "t1")], [("s", F, [3])])
    path = c.model([op("Shape", ["z"], ["d"], start=0, end=1), op("Squeeze", ["d"], ["m"]), op("Loop", ["m", "", "x"], ["y", "s9"], body=g)],
                   [("x", ["a", 3]), ("z", ["b", 3])], [("y", [None, 3]), ("s9", [None, 3])], [("zero", i64(0))])
    both(c, path, ["--var", "a=1..20", "--var", "b=1..50"], [(random(a, a, 3), random(b, b, 3)) for a, b in ((1, 1), (20, 50), (7, 13), (20, 1), (1, 50))], [], [])


@check
def a_cell_that_reads_its_state_beside_its_input(c):
    """h = tanh(concat(x[i], h, h0) w): one kernel for all rounds."""
    nodes = [op("Gather", ["x", "i"], ["xi"]), op("Concat", ["xi", "h", "h0"], ["xh"], axis=1), op("MatMul", ["xh", "w"], ["s"]), op("Tanh", ["s"], ["h1"]), op("Concat", ["h1", "h1", "h"], ["o"], axis=0)]
    g = body(nodes, [("h", F, [3, 5], "h1")], [("o", F, [9, 5])])
    path = c.model([op("Loop", ["m", "", "h0"], ["y", "all"], body=g)], [("x", [40, 3, 4]), ("h0", [3, 5])], [("y", [3, 5]), ("all", [40, 9, 5])],
                   [("m", scalar(40)), ("w", random(2, 14, 5) * 0.4)])
    both(c, path, [], [(random(k, 40, 3, 4), random(k + 9, 3, 5)) for k in (1, 2)], [], [])
    text = str(c.inspect(c.compile(path), "commands"))
    need("'while'" not in text and "rounds_40" in text, f"rounds that the runtime counts: {text}")


@check
def what_cannot_be(c):
    double = body([op("Concat", ["t", "t"], ["t1"], axis=0)], [("t", F, None, "t1")])
    path = c.model([op("Loop", ["m", "", "x"], ["y"], body=double)], [("x", [1, 3]), ("m", [], I)], [("y", ["n", 3])])
    c.compile(path, "--var", "n=1..64", words=["axis 0 of carried value 0", "the same in each"])


harness.run_checks("loops", __doc__, Case)
