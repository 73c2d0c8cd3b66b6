"""Outputs that feed inputs of the next run (compile --state): what many runs give, against numpy and onnxruntime, and that a cache is not copied.

run.py [--build DIR] [--filter TEXT]
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import check, need
from small import F, I, Case, close, random, refused

import numpy as np
import onnxruntime as ort
from onnx import TensorProto
from onnx.helper import make_node as op

def pairs(*names):
    return [x for p in names for x in ("--state", p)]


@check
def a_sum_runs_on(c):
    path = c.model([op("Add", ["x", "s"], ["t"]), op("Mul", ["t", "t"], ["y"])], [("x", [3]), ("s", [3])], [("y", [3]), ("t", [3])])
    with c.open(c.compile(path, *pairs("t=s"))) as m:
        need([i[0] for i in m.inputs] == ["x"] and [o[0] for o in m.outputs] == ["y"], f"signature: {m.inputs} {m.outputs}")
        total = np.zeros(3)
        for k in range(5):
            total += [1, k, -2]
            close(m.run([1, k, -2])[0], total**2, f"run {k}")
        m.reset()
        close(m.run([1, 2, 3])[0], np.array([1, 4, 9.0]), "after reset")


@check
def the_old_value_is_read_until_the_end(c):
    # Both outputs read the old state in a product, which no kernel may overwrite while it runs.
    w = random(1, 8, 8) * 0.5
    path = c.model([op("MatMul", ["s", "w"], ["p"]), op("Add", ["p", "x"], ["n"]), op("MatMul", ["s", "n"], ["y"])],
                   [("x", [8, 8]), ("s", [8, 8])], [("y", [8, 8]), ("n", [8, 8])], [("w", w)])
    with c.open(c.compile(path, *pairs("n=s"))) as m:
        s = np.zeros((8, 8))
        for k in range(6):
            x = random(k, 8, 8)
            n = s @ w + x
            close(m.run(x)[0], s @ n, f"run {k}", 1e-4)
            s = n


@check
def two_states_change_places(c):
    path = c.model([op("Add", ["a", "x"], ["y"]), op("Identity", ["a"], ["b1"]), op("Add", ["b", "x"], ["a1"])],
                   [("x", [4]), ("a", [4]), ("b", [4])], [("y", [4]), ("a1", [4]), ("b1", [4])])
    with c.open(c.compile(path, *pairs("a1=a", "b1=b"))) as m:
        a = b = np.zeros(4)
        for k in range(7):
            x = random(k, 4)
            close(m.run(x)[0], a + x, f"run {k}")
            a, b = b + x, a


@check
def a_swap_without_arithmetic(c):
    path = c.model([op("Add", ["a", "x"], ["y"]), op("Identity", ["a"], ["b1"]), op("Identity", ["b"], ["c1"]), op("Add", ["c", "x"], ["a1"])],
                   [("x", [4]), ("a", [4]), ("b", [4]), ("c", [4])], [("y", [4]), ("a1", [4]), ("b1", [4]), ("c1", [4])])
    with c.open(c.compile(path, *pairs("a1=a", "b1=b", "c1=c"))) as m:
        a = b = d = np.zeros(4)
        for k in range(7):
            x = random(k, 4)
            close(m.run(x)[0], a + x, f"run {k}")
            a, b, d = d + x, a, b


@check
def a_window_that_moves(c):
    path = c.model([op("Slice", ["w", "one", "far", "axis"], ["old"]), op("Concat", ["old", "x"], ["w1"], axis=1), op("ReduceSum", ["w1", "axis"], ["y"])],
                   [("x", [2, 1]), ("w", [2, 5])], [("y", [2, 1]), ("w1", [2, 5])],
                   [("one", np.array([1])), ("far", np.array([99])), ("axis", np.array([1]))])
    with c.open(c.compile(path, *pairs("w1=w"))) as m:
        xs = [random(k, 2, 1) for k in range(12)]
        for k in range(12):
            close(m.run(xs[k])[0], sum(xs[max(0, k - 4): k + 1]), f"run {k}")


@check
def one_value_for_state_and_caller(c):
    path = c.model([op("Add", ["x", "s"], ["t"]), op("Identity", ["t"], ["y"])], [("x", [3]), ("s", [3])], [("y", [3]), ("t", [3])])
    with c.open(c.compile(path, *pairs("t=s"))) as m:
        for k in range(1, 4):
            close(m.run([1, 2, 3])[0], np.array([1, 2, 3.0]) * k, f"run {k}")


@check
def state_of_bytes_and_of_integers(c):
    path = c.model([op("Add", ["n", "one"], ["n1"]), op("Greater", ["x", "zero"], ["p"]), op("Or", ["p", "f"], ["f1"]), op("Cast", ["f1"], ["y"], to=F), op("Cast", ["n1"], ["z"], to=F)],
                   [("x", [3]), ("n", [], I), ("f", [3], TensorProto.BOOL)], [("y", [3]), ("z", []), ("n1", [], I), ("f1", [3], TensorProto.BOOL)],
                   [("one", np.array(1)), ("zero", np.float32(0))])
    with c.open(c.compile(path, *pairs("n1=n", "f1=f"))) as m:
        seen = np.zeros(3, bool)
        for k, x in enumerate(([1, -1, -1], [-1, -1, -1], [-1, -1, 5.0])):
            seen |= np.array(x) > 0
            y, z = m.run(x)
            close(y, seen.astype(float), f"run {k}")
            close(z, np.float64(k + 1), f"count {k}")


def decoder(c, layers=2, heads=4, d=16, most=64, vocab=50):
    """One token in, its scores out; keys and values of all tokens in caches of `most` rows, written by ScatterND at `at`."""
    r, width = np.random.default_rng(5), heads * d
    weights = [("emb", r.standard_normal((vocab, width)).astype(np.float32)), ("most", np.arange(most).reshape(1, 1, most)),
               ("low", np.float32(-1e9)), ("zero", np.float32(0)), ("scale", np.float32(d**-0.5)), ("split", np.array([1, heads, d])),
               ("row", np.array([heads, 1, d])), ("flat", np.array([1, width])), ("one", np.array([1]))]
    nodes = [op("Gather", ["emb", "token"], ["h0"]), op("LessOrEqual", ["most", "at"], ["seen"]), op("Where", ["seen", "zero", "low"], ["mask"]),
             op("Unsqueeze", ["at", "one"], ["place"])]
    ins, outs = [("token", [1], I), ("at", [1], I)], [("scores", [1, vocab])]
    for k in range(layers):
        for m, dims in (("q", (width, width)), ("k", (width, width)), ("v", (width, width)), ("o", (width, width)), ("u", (width, 2 * width)), ("d", (2 * width, width))):
            weights.append((f"{m}{k}", (r.standard_normal(dims) * dims[0] ** -0.5).astype(np.float32)))
        weights += [(f"g{k}", np.ones(width, np.float32))]
        n = lambda s: f"{s}_{k}"
        nodes += [op("LayerNormalization", [f"h{k}", f"g{k}"], [n("n")])]
        for m in "qkv":
            nodes += [op("MatMul", [n("n"), f"{m}{k}"], [n(m)])]
        nodes += [op("Reshape", [n("q"), "row"], [n("qr")])]
        for m in "kv":
            nodes += [op("Reshape", [n(m), "split"], [n(m + "r")]), op("ScatterND", [f"past_{m}{k}", "place", n(m + "r")], [f"now_{m}{k}"]),
                      op("Transpose", [f"now_{m}{k}"], [n(m + "t")], perm=[1, 2, 0] if m == "k" else [1, 0, 2])]
            ins.append((f"past_{m}{k}", [most, heads, d]))
            outs.append((f"now_{m}{k}", [most, heads, d]))
        nodes += [op("MatMul", [n("qr"), n("kt")], [n("s")]), op("Mul", [n("s"), "scale"], [n("ss")]), op("Add", [n("ss"), "mask"], [n("sm")]),
                  op("Softmax", [n("sm")], [n("p")], axis=-1), op("MatMul", [n("p"), n("vt")], [n("a")]), op("Reshape", [n("a"), "flat"], [n("af")]),
                  op("MatMul", [n("af"), f"o{k}"], [n("ao")]), op("Add", [f"h{k}", n("ao")], [n("h")]), op("MatMul", [n("h"), f"u{k}"], [n("u")]),
                  op("Relu", [n("u")], [n("ur")]), op("MatMul", [n("ur"), f"d{k}"], [n("dd")]), op("Add", [n("h"), n("dd")], [f"h{k + 1}"])]
    nodes += [op("Transpose", ["emb"], ["embt"]), op("MatMul", [f"h{layers}", "embt"], ["scores"])]
    return c.model(nodes, ins, outs, weights), [f"past_{m}{k}" for k in range(layers) for m in "kv"], (most, heads, d)


@check
def a_decoder_makes_64_tokens_without_copying_its_cache(c):
    path, caches, dims = decoder(c)
    bundle = c.compile(path, *pairs(*[f"{p.replace('past', 'now')}={p}" for p in caches]))
    batches = [b for v in c.inspect(bundle, "commands")["variants"] for b in v["run"]]
    labels = [step.get("launch", "copy") for b in batches for steps in b.values() for step in steps]
    need(len(labels) > 20 and not any(l.startswith("copy") for l in labels), f"a cache is copied: {labels}")
    with c.open(bundle) as m:
        need([i[0] for i in m.inputs] == ["token", "at"] and len(m.outputs) == 1, f"signature: {m.inputs} {m.outputs}")
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        past = {p: np.zeros(dims, np.float32) for p in caches}
        token = mine = 7
        for at in range(64):
            want = session.run(None, {"token": np.array([token]), "at": np.array([at]), **past})
            past = dict(zip(caches, want[1:]))
            got = m.run([mine], [at])[0]
            close(got, want[0], f"token {at}", 1e-4)
            token, mine = int(np.argmax(want[0])), int(np.argmax(got))
            need(token == mine, f"token {at}: {mine}, expected {token}")


@check
def pairs_that_cannot_be(c):
    path = c.model([op("Add", ["x", "s"], ["t"]), op("ReduceSum", ["t"], ["y"], keepdims=0), op("Cast", ["t"], ["i"], to=I)],
                   [("x", [3]), ("s", [3])], [("y", []), ("t", [3]), ("i", [3], I)])
    c.compile(path, *pairs("t=q"), words=['no input "q"', "x, s"])
    c.compile(path, *pairs("q=s"), words=['no output "q"', "y, t, i"])
    c.compile(path, *pairs("y=s"), words=["f32()", "f32(3)", "must be equal"])
    c.compile(path, *pairs("i=s"), words=["i64(3)", "must be equal"])
    c.compile(path, *pairs("t=s", "t=x"), words=["in another pair already"])
    code, _, err = harness.call([c.tools["tgaot"], "compile", path, "--state", "t"], 60, c.env)
    need(code != 0 and "OUTPUT=INPUT" in err, err)


def growing_decoder(c, layers=2, heads=4, d=16, vocab=50, batch=1, past="P"):
    """One token in, its scores out; keys and values of all tokens are past_key_values (B, heads, P, d), which a Concat makes longer by one."""
    r, width = np.random.default_rng(5), heads * d
    weights = [("emb", r.standard_normal((vocab, width)).astype(np.float32)), ("scale", np.float32(d**-0.5)), ("split", np.array([0, 1, heads, d])), ("flat", np.array([0, 1, width]))]
    nodes = [op("Gather", ["emb", "token"], ["h0"])]
    ins, outs = [("token", [batch, 1], I)], [("scores", [batch, 1, vocab])]
    for k in range(layers):
        for m, dims in (("q", (width, width)), ("k", (width, width)), ("v", (width, width)), ("o", (width, width)), ("u", (width, 2 * width)), ("d", (2 * width, width))):
            weights.append((f"{m}{k}", (r.standard_normal(dims) * dims[0] ** -0.5).astype(np.float32)))
        weights.append((f"g{k}", np.ones(width, np.float32)))
        n = lambda s: f"{s}_{k}"
        nodes += [op("LayerNormalization", [f"h{k}", f"g{k}"], [n("n")])]
        for m in "qkv":
            nodes += [op("MatMul", [n("n"), f"{m}{k}"], [n(m)]), op("Reshape", [n(m), "split"], [n(m + "r")]), op("Transpose", [n(m + "r")], [n(m + "t")], perm=[0, 2, 1, 3])]
        for m in "kv":
            nodes.append(op("Concat", [f"past_{m}{k}", n(m + "t")], [f"now_{m}{k}"], axis=2))
            ins.append((f"past_{m}{k}", [batch, heads, past, d]))
            outs.append((f"now_{m}{k}", [batch, heads, f"{past}+1", d]))
        nodes += [op("Transpose", [f"now_k{k}"], [n("kx")], perm=[0, 1, 3, 2]), op("MatMul", [n("qt"), n("kx")], [n("s")]), op("Mul", [n("s"), "scale"], [n("ss")]),
                  op("Softmax", [n("ss")], [n("p")], axis=-1), op("MatMul", [n("p"), f"now_v{k}"], [n("a")]), op("Transpose", [n("a")], [n("at")], perm=[0, 2, 1, 3]),
                  op("Reshape", [n("at"), "flat"], [n("af")]), op("MatMul", [n("af"), f"o{k}"], [n("ao")]), op("Add", [f"h{k}", n("ao")], [n("h")]),
                  op("MatMul", [n("h"), f"u{k}"], [n("u")]), op("Relu", [n("u")], [n("ur")]), op("MatMul", [n("ur"), f"d{k}"], [n("dd")]), op("Add", [n("h"), n("dd")], [f"h{k + 1}"])]
    nodes += [op("Transpose", ["emb"], ["embt"]), op("MatMul", [f"h{layers}", "embt"], ["scores"])]
    return c.model(nodes, ins, outs, weights), [f"past_{m}{k}" for k in range(layers) for m in "kv"], (heads, d)


def follow(m, path, caches, dims, batch, tokens, start):
    """As many greedy tokens as onnxruntime makes."""
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    past = {p: np.zeros((batch, dims[0], 0, dims[1]), np.float32) for p in caches}
    token = np.arange(start, start + batch).reshape(batch, 1)
    mine = token
    for at in range(tokens):
        want = session.run(None, {"token": token, **past})
        past = dict(zip(caches, want[1:]))
        got = m.run(mine)[0]
        close(got, want[0], f"token {at}", 1e-4)
        token, mine = np.argmax(want[0], -1), np.argmax(got, -1)
        need((token == mine).all(), f"token {at}: {mine}, expected {token}")


@check
def past_key_values_grow(c):
    path, caches, dims = growing_decoder(c)
    bundle = c.compile(path, *pairs(*[f"{p.replace('past', 'now')}={p}" for p in caches]), "--var", "P=0..63")
    labels = [step["launch"] for v in c.inspect(bundle, "commands")["variants"] for b in v["run"] for part in b.values() if isinstance(part, list) for step in part if "launch" in step]
    # The number of tokens is copied, the caches are not: the product that makes a row stores it there.
    need(len(labels) > 20 and not any(l.startswith("copy_") for l in labels), f"a cache is copied: {labels}")
    with c.open(bundle) as m:
        need([i[0] for i in m.inputs] == ["token"] and len(m.outputs) == 1, f"signature: {m.inputs} {m.outputs}")
        follow(m, path, caches, dims, 1, 64, 7)
        refused(m, ["P = 64", "--var P", "tgb_reset"], np.array([[1]]))
        refused(m, ["P = 64"], np.array([[1]]))
        m.reset()
        follow(m, path, caches, dims, 1, 20, 3)
    with c.open(c.retune(bundle)) as m:
        follow(m, path, caches, dims, 1, 5, 7)


@check
def past_key_values_of_a_free_batch(c):
    path, caches, dims = growing_decoder(c, layers=1, batch="B")
    with c.open(c.compile(path, *pairs(*[f"{p.replace('past', 'now')}={p}" for p in caches]), "--var", "P=0..63", "--var", "B=1..4")) as m:
        for batch in (3, 1, 4):
            follow(m, path, caches, dims, batch, 12, 7)
            other = batch % 4 + 1
            refused(m, ["another B", "reset"], np.zeros((other, 1), np.int64))
            m.reset()


@check
def a_state_of_a_free_size(c):
    path = c.model([op("Add", ["x", "s"], ["t"]), op("MatMul", ["t", "w"], ["n"]), op("ReduceSum", ["n"], ["y"], keepdims=0)], [("x", ["N", 3]), ("s", ["N", 3])],
                   [("y", []), ("n", ["N", 3])], [("w", random(1, 3, 3) * 0.3)])
    with c.open(c.compile(path, *pairs("n=s"), "--var", "N=1..20")) as m:
        for n in (5, 20, 1):
            s = np.zeros((n, 3))
            for k in range(6):
                x = random(k, n, 3)
                s = (x + s) @ (random(1, 3, 3) * 0.3)
                close(m.run(x)[0], s.sum(), f"run {k} of {n}", 1e-4)
            refused(m, ["another N", "tgb_reset"], random(1, n + 1 if n < 20 else 2, 3))
            m.reset()


@check
def a_growing_state_that_is_no_bare_concat(c):
    """In front, and scaled: copied, but right."""
    for order, extra in ((["x", "s"], []), (["s", "x"], [op("Mul", ["c", "half"], ["t"])])):
        path = c.model([op("Concat", order, ["c" if extra else "t"], axis=1), *extra, op("ReduceMax", ["t"], ["y"], keepdims=0), op("Identity", ["t"], ["z"])],
                       [("x", [2, 3]), ("s", [2, "P"])], [("y", []), ("z", [2, "Q"]), ("t", [2, "Q"])], [("half", np.float32(0.5))])
        with c.open(c.compile(path, *pairs("t=s"), "--var", "P=0..30:3")) as m:
            s = np.zeros((2, 0), np.float32)
            for k in range(11):
                x = random(k, 2, 3)
                s = np.concatenate([x, s] if not extra else [s, x], 1) * (0.5 if extra else 1)
                y, z = m.run(x)
                close(z, s, f"run {k}")
                close(y, s.max(), f"run {k}")
            refused(m, ["P = ", "tgb_reset"], random(1, 2, 3))


@check
def free_states_that_cannot_be(c):
    path = c.model([op("Concat", ["s", "x"], ["t"], axis=0), op("ReduceSum", ["t"], ["y"], keepdims=0)], [("x", ["N"]), ("s", ["P"])], [("y", []), ("t", ["Q"])])
    c.compile(path, *pairs("t=s"), "--var", "P=1..9", "--var", "N=1..3", words=["no elements at first", "--var P=0..9"])
    path = c.model([op("Mul", ["s", "x"], ["t"]), op("ReduceSum", ["t"], ["y"], keepdims=0)], [("x", [1]), ("s", ["P"])], [("y", []), ("t", ["P"])])
    c.compile(path, *pairs("t=s"), "--var", "P=1..9", words=["nothing says how large P is"])


@check
def several_new_elements_at_a_time(c):
    path = c.model([op("Concat", ["s", "x"], ["t"], axis=0), op("ReduceSum", ["t"], ["y"], keepdims=0)], [("x", ["N"]), ("s", ["P"])], [("y", []), ("t", ["Q"])])
    with c.open(c.compile(path, *pairs("t=s"), "--var", "P=0..20", "--var", "N=1..8")) as m:
        total, n = 0, 0
        for k, more in enumerate((1, 8, 3, 8, 8)):
            x = random(k, more)
            total, n = total + x.sum(), n + more
            close(m.run(x)[0], total, f"run {k}")
        refused(m, ["P = ", "tgb_reset"], random(1, 1))




harness.run_checks("state", __doc__, Case)
