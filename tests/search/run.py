"""BEAM, logs, --like and explain on small models: what is found computes what the model says, is found again in the cache, and replays to the
same bytes. Nothing here depends on how long anything takes.

run.py [--build DIR] [--filter TEXT]
"""
import json
import os
import platform
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import Failure, check, need

import numpy as np
import onnx
from onnx import TensorProto, helper

class Bench:
    """A fresh folder for one check."""

    def __init__(self, tools, folder):
        self.tools, self.dir = tools, folder
        # Without attention in one kernel: whether it wins is a matter of time, and the kernels are counted.
        self.env = {"ATTENTION": "0", "DEV": "CPU", "CACHEDB": self.path("cache.db"), "PARALLEL": "2", "NUM_CPU_THREADS": "1"}

    def path(self, name):
        return os.path.join(self.dir, name)

    def save(self, name, nodes, inputs, outputs, weights):
        f = lambda n, d: helper.make_tensor_value_info(n, TensorProto.FLOAT, d)
        g = helper.make_graph(nodes, "g", [f(*i) for i in inputs], [f(*o) for o in outputs], [onnx.numpy_helper.from_array(v, k) for k, v in weights])
        onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path(name))
        return self.path(name)

    def matmul(self, name="matmul.onnx", seed=1, n=48, k=64, m=80):
        """relu(x @ w)"""
        self.w = np.random.default_rng(seed).standard_normal((k, m)).astype(np.float32)
        return self.save(name, [helper.make_node("MatMul", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])], [("x", [n, k])], [("y", [n, m])], [("w", self.w)])

    def net(self):
        """Three kernels: a matmul, a softmax, a matmul of other sizes."""
        r = np.random.default_rng(2)
        self.a, self.b = r.standard_normal((64, 96)).astype(np.float32), r.standard_normal((96, 40)).astype(np.float32)
        return self.save("net.onnx", [helper.make_node("MatMul", ["x", "a"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "b"], ["y"])],
                         [("x", [48, 64])], [("y", [48, 40])], [("a", self.a), ("b", self.b)])

    def call(self, program, *args, env=None):
        return harness.call([self.tools[program], *args], 300, {**self.env, **(env or {})})

    def good(self, program, *args, env=None):
        code, out, err = self.call(program, *args, env=env)
        if code != 0:
            raise Failure("failed", f"{program} {' '.join(args)}: exit code {code}: {err.strip()[-500:]}")
        return out, err

    def bad(self, program, *args, words, env=None):
        code, out, err = self.call(program, *args, env=env)
        if code == 0:
            raise Failure("wrong", f"{program} {' '.join(args)} ended well")
        for w in words:
            need(w in err, f"{program} {' '.join(args)}: no {w!r} in: {err.strip()}")

    def run(self, bundle, x):
        np.save(self.path("x.npy"), x)
        os.makedirs(self.path("out"), exist_ok=True)
        self.good("tgb", "run", bundle, "--input", f"x={self.path('x.npy')}", "--output", self.path("out"))
        return np.load(self.path("out/0.npy"))

    def opts(self, bundle):
        return json.loads(self.good("tgaot", "inspect", "--part", "kernels", "--json", bundle)[0])


def bytes_of(path):
    with open(path, "rb") as f:
        return f.read()


def numbers(err):
    """(kernels, searched, better, from the cache) of the summary"""
    m = re.search(r"search: (\d+) kernels: (\d+) searched, (\d+) better than the heuristics, (\d+) from the cache", err)
    need(m, f"no summary in: {err}")
    return tuple(int(x) for x in m.groups())


@check
def what_is_found_is_right(b):
    m = b.net()
    _, err = b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "2"})
    kernels, searched, better, cached = numbers(err)
    need(searched == kernels and cached == 0, err)
    need("candidates" in err and "rank correlation" in err, err)
    x = np.random.default_rng(3).standard_normal((48, 64)).astype(np.float32)
    s = x.astype(np.float64) @ b.a
    e = np.exp(s - s.max(-1, keepdims=True))
    want = (e / e.sum(-1, keepdims=True)) @ b.b
    got = b.run(b.path("a.tgb"), x)
    need(np.allclose(got, want, rtol=1e-4, atol=1e-5), f"off by {np.abs(got - want).max()}")


@check
def the_cache_answers_the_next_time(b):
    m = b.net()
    b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "2"})
    _, err = b.good("tgaot", "compile", m, "-o", b.path("b.tgb"), env={"BEAM": "2"})
    kernels, searched, better, cached = numbers(err)
    need(searched == 0 and cached == kernels, err)
    need(bytes_of(b.path("a.tgb")) == bytes_of(b.path("b.tgb")), "the cached search gives another bundle")
    _, err = b.good("tgaot", "compile", m, "-o", b.path("c.tgb"), env={"BEAM": "2", "IGNORE_BEAM_CACHE": "1"})
    need(numbers(err)[1] == kernels, err)
    # Another width is another search.
    _, err = b.good("tgaot", "compile", m, "-o", b.path("c.tgb"), env={"BEAM": "1"})
    need(numbers(err)[1] == kernels, err)


@check
def choices_are_timed_and_kept(b):
    w = np.random.default_rng(4).standard_normal((32, 32, 3, 3)).astype(np.float32)
    m = b.save("conv.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], [("x", [1, 32, 14, 14])], [("y", [1, 32, 14, 14])], [("w", w)])
    beam = {"BEAM": "1", "BEAM_BUDGET": "6s"}
    _, err = b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env=beam)
    need("1 choices timed in the whole model" in err, err)
    _, err = b.good("tgaot", "compile", m, "-o", b.path("b.tgb"), env=beam)
    need("choices timed" not in err, err)
    b.good("tgaot", "log", "export", b.path("a.tgb"), "-o", b.path("a.log"))
    with open(b.path("a.log")) as f:
        log = f.read()
    line = re.search(r"^.*name=choice opts=(.*)$", log, re.M)
    need(line, log)
    # The log's word counts, with and without search; retune takes it from the bundle.
    seen = {}
    for name in ("direct", "F(2,3)", "F(4,3)", "F(4,3) in one kernel"):
        with open(b.path("one.log"), "w") as f:
            f.write(line.group(0).replace(f"opts={line.group(1)}", f"opts={name}") + "\n")
        b.good("tgaot", "compile", m, "-o", b.path("c.tgb"), "--log", b.path("one.log"))
        seen[name] = bytes_of(b.path("c.tgb"))
        b.good("tgaot", "retune", b.path("c.tgb"), "-o", b.path("d.tgb"))
        need(bytes_of(b.path("d.tgb")) == seen[name], f"retune of {name} gives another bundle")
    need(len(set(seen.values())) == 4, "the log's choice makes no difference")


@check
def layouts_are_timed_and_kept(b):
    """Three 1x1 convolutions: what lies between them may have channels or columns innermost."""
    r = np.random.default_rng(5)
    ws = [r.standard_normal((c, k, 1, 1)).astype(np.float32) for c, k in ((128, 64), (128, 128), (64, 128))]
    m = b.save("pw.onnx", [helper.make_node("Conv", [a, f"w{i}"], [o]) for i, (a, o) in enumerate((("x", "s"), ("s", "t"), ("t", "y")))],
               [("x", [1, 64, 24, 32])], [("y", [1, 64, 24, 32])], [(f"w{i}", w) for i, w in enumerate(ws)])
    _, err = b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "1", "BEAM_BUDGET": "20s"})
    n = re.search(r"(\d+) layouts timed in the whole model", err)
    need(n and int(n.group(1)) > 0, err)
    log, _ = b.good("tgaot", "log", "export", b.path("a.tgb"))
    lines = [x for x in log.splitlines() if "name=choice opts=axis" in x]
    need(len(lines) == int(n.group(1)), log)
    x = r.standard_normal((1, 64, 24, 32)).astype(np.float32)
    want = x.reshape(64, -1).astype(np.float64)
    for w in ws:
        want = w[:, :, 0, 0].astype(np.float64) @ want
    seen = {}
    for axis in (1, 3):
        with open(b.path("one.log"), "w") as f:
            f.write("".join(re.sub("opts=.*", f"opts=axis {axis} innermost", x) + "\n" for x in lines))
        b.good("tgaot", "compile", m, "-o", b.path("c.tgb"), "--log", b.path("one.log"))
        got = b.run(b.path("c.tgb"), x).reshape(64, -1)
        need(np.allclose(got, want, rtol=1e-4, atol=1e-2), f"axis {axis}: off by {np.abs(got - want).max()}")
        seen[axis] = bytes_of(b.path("c.tgb"))
        b.good("tgaot", "retune", b.path("c.tgb"), "-o", b.path("d.tgb"))
        need(bytes_of(b.path("d.tgb")) == seen[axis], "retune gives another bundle")
        b.good("tgaot", "compile", m, "-o", b.path("e.tgb"), "--like", b.path("c.tgb"))
        need(b.opts(b.path("e.tgb")) == b.opts(b.path("c.tgb")), "--like gives other kernels")
    need(seen[1] != seen[3], "the log's layout makes no difference")


@check
def a_log_replays_to_the_same_bytes(b):
    m = b.net()
    b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "2"})
    b.good("tgaot", "log", "export", b.path("a.tgb"), "-o", b.path("a.log"))
    fresh = {"CACHEDB": b.path("other.db")}
    b.good("tgaot", "compile", m, "-o", b.path("b.tgb"), "--log", b.path("a.log"), "--log-required", env=fresh)
    need(bytes_of(b.path("a.tgb")) == bytes_of(b.path("b.tgb")), "compile --log gives another bundle")
    b.good("tgaot", "retune", b.path("a.tgb"), "-o", b.path("c.tgb"), env=fresh)
    need(bytes_of(b.path("a.tgb")) == bytes_of(b.path("c.tgb")), "retune gives another bundle")
    out, _ = b.good("tgaot", "log", "export", b.path("b.tgb"))
    need(out == open(b.path("a.log")).read(), "the log does not come back")


@check
def a_log_decides(b):
    """A line written by hand is what the kernel becomes."""
    m = b.matmul()
    b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "1", "BEAM_BUDGET": "0.000001"})
    log, _ = b.good("tgaot", "log", "export", b.path("a.tgb"))
    with open(b.path("hand.log"), "w") as f:
        f.write("# by hand\n" + re.sub("opts=.*", "opts=UPCAST 0 2", log))
    b.good("tgaot", "compile", m, "-o", b.path("b.tgb"), "--log", b.path("hand.log"))
    need('"UPCAST 0 2"' in json.dumps(b.opts(b.path("b.tgb"))), "the log's Opts are not taken")
    x = np.random.default_rng(3).standard_normal((48, 64)).astype(np.float32)
    need(np.allclose(b.run(b.path("b.tgb"), x), np.maximum(x @ b.w, 0), atol=1e-3), "wrong values")
    # Opts that do not fit: heuristics, with a note; an error where the log is required.
    with open(b.path("hand.log"), "w") as f:
        f.write(re.sub("opts=.*", "opts=UPCAST 0 7", log))
    _, err = b.good("tgaot", "compile", m, "-o", b.path("c.tgb"), "--log", b.path("hand.log"))
    need("the log's Opts are refused (UPCAST 0 7" in err and "heuristics instead" in err, err)
    b.bad("tgaot", "compile", m, "-o", b.path("d.tgb"), "--log", b.path("hand.log"), "--log-required", words=["refused", "UPCAST 0 7"])
    need(not os.path.exists(b.path("d.tgb")), "a bundle is left behind")


@check
def logs_that_miss_or_are_damaged(b):
    m = b.matmul()
    open(b.path("empty.log"), "w").close()
    b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), "--log", b.path("empty.log"))
    b.bad("tgaot", "compile", m, "-o", b.path("b.tgb"), "--log", b.path("empty.log"), "--log-required", words=["--log-required", "no line for kernel", "BEAM=4"])
    with open(b.path("bad.log"), "w") as f:
        f.write("# fine\nkernel=nonsense\n")
    b.bad("tgaot", "compile", m, "-o", b.path("b.tgb"), "--log", b.path("bad.log"), words=["bad.log:2", "not a line of a search log"])
    b.bad("tgaot", "compile", m, "-o", b.path("b.tgb"), "--log", b.path("none.log"), words=["none.log"])
    b.bad("tgaot", "log", "export", b.path("a.tgb"), words=["has no search log"])


@check
def logs_merge_and_sum_up(b):
    b.good("tgaot", "compile", b.matmul(), "-o", b.path("a.tgb"), env={"BEAM": "1"})
    b.good("tgaot", "compile", b.net(), "-o", b.path("b.tgb"), env={"BEAM": "1"})
    one, _ = b.good("tgaot", "log", "export", b.path("a.tgb"))
    two, _ = b.good("tgaot", "log", "export", b.path("b.tgb"))
    both, _ = b.good("tgaot", "log", "merge", b.path("a.tgb"), b.path("b.tgb"))
    need(sorted(both.splitlines()) == sorted(one.splitlines() + two.splitlines()), both)
    out, _ = b.good("tgaot", "log", "stats", b.path("a.tgb"), b.path("b.tgb"))
    need(f"{len(both.splitlines())} kernels" in out and "geometric mean" in out, out)


@check
def like_another_bundle(b):
    """Retrained weights: the old bundle's Opts, without a search."""
    b.good("tgaot", "compile", b.matmul(), "-o", b.path("old.tgb"), env={"BEAM": "1", "NOOPT": "1"})
    new = b.matmul("new.onnx", seed=9)
    _, err = b.good("tgaot", "compile", new, "-o", b.path("new.tgb"), "--like", b.path("old.tgb"), env={"CACHEDB": b.path("other.db")})
    need("1 of 1 kernels have their Opts from the other bundle" in err, err)
    need(b.opts(b.path("old.tgb")) == b.opts(b.path("new.tgb")), "other Opts")
    x = np.random.default_rng(3).standard_normal((48, 64)).astype(np.float32)
    need(np.allclose(b.run(b.path("new.tgb"), x), np.maximum(x @ b.w, 0), atol=1e-3), "wrong values")


@check
def from_nothing_to_a_tile(b):
    """NOOPT=1 begins with a scalar loop: the search finds lanes and a register tile."""
    m = b.matmul(n=96, k=128, m=128)
    b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"NOOPT": "1", "BEAM": "4"})
    text = json.dumps(b.opts(b.path("a.tgb")))
    need("VECTOR 1 " in text and "UPCAST 0 " in text, text)
    x = np.random.default_rng(3).standard_normal((96, 128)).astype(np.float32)
    need(np.allclose(b.run(b.path("a.tgb"), x), np.maximum(x @ b.w, 0), atol=1e-3), "wrong values")


@check
def a_spent_budget(b):
    m = b.net()
    _, err = b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "2", "BEAM_BUDGET": "0.000001"})
    kernels, searched, _, _ = numbers(err)
    need(searched == 0 and f"{kernels} kernels are not searched: BEAM_BUDGET is spent" in err, err)
    b.good("tgb", "run", b.path("a.tgb"))
    _, err = b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "2"})
    kernels, searched, _, _ = numbers(err)  # the choice of kernels may be another one
    need(searched == kernels, err)


@check
def ctrl_c_keeps_what_was_found(b):
    m = b.net()
    env = {**os.environ, **b.env, "BEAM": "8", "DEBUG": "2"}
    p = subprocess.Popen([b.tools["tgaot"], "compile", m, "-o", b.path("a.tgb")], env=env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    said = ""
    for line in p.stderr:
        said += line
        if line.startswith("search ") and "by the heuristics" in line:
            p.send_signal(signal.SIGINT)
            break
    said += p.stderr.read()
    need(p.wait(300) == 0, said)
    need("Ctrl-C" in said and "The next run goes on from here" in said, said)
    b.good("tgb", "run", b.path("a.tgb"))
    _, err = b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "8"})
    kernels, searched, _, cached = numbers(err)
    need(searched + cached == kernels, err)


@check
def kernels_for_another_machine(b):
    other = "CPU:LLVM:arm64,cortex-a76" if platform.machine() == "x86_64" else "CPU:LLVM:x86_64,znver2"
    m = b.matmul()
    b.bad("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"DEV": other, "BEAM": "2"}, words=["BEAM=2", "this machine cannot run", "--log FILE"])
    b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"DEV": other})


@check
def explain(b):
    m = b.net()
    out, _ = b.good("tgaot", "explain", m)
    need("GFLOP/s in a register tile" in out and "no search of it is known" in out and "bound by" in out, out)
    b.good("tgaot", "compile", m, "-o", b.path("a.tgb"), env={"BEAM": "1"})
    before = bytes_of(b.path("a.tgb"))
    out, _ = b.good("tgaot", "explain", b.path("a.tgb"))
    need("search:" in out and "lists of Opts in" in out and "refused:" in out, out)
    need(bytes_of(b.path("a.tgb")) == before, "explain changed the bundle")
    j = json.loads(b.good("tgaot", "explain", "--json", b.path("a.tgb"))[0])
    need(len(j["kernels"]) == 3 and all(k["ns"] > 0 and k["roofline_ns"] > 0 for k in j["kernels"]) and j["peak_gflops"] > 0, str(j))


harness.run_checks("search", __doc__, Bench)
