"""tgaot and tgb as a new user meets them: what works at first try, and for each mistake one line that says what and what to do, an exit
code that is not 0, and no output left behind.

run.py [--build DIR] [--filter TEXT]
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import Failure, check

import numpy as np
import onnx
from onnx import TensorProto, helper

def model(nodes, inputs, outputs, weights=(), opset=17, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(v, k) for k, v in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def value(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


class Bench:
    """A fresh folder for one check, with the models and the bundle that most checks need."""

    def __init__(self, tools, folder):
        self.tools, self.dir = tools, folder
        self.env = {"DEV": "CPU", "CACHEDB": os.path.join(folder, "cache.db")}
        os.mkdir(os.path.join(folder, "out"))

    def path(self, name):
        return os.path.join(self.dir, name)

    def save(self, name, m):
        onnx.save(m, self.path(name))
        return self.path(name)

    def relu(self):
        """relu(x + b): x f32[2,3]"""
        b = np.array([1, -2, 3], np.float32)
        return self.save("relu.onnx", model([helper.make_node("Add", ["x", "b"], ["s"], name="/add"), helper.make_node("Relu", ["s"], ["y"], name="/relu")],
                                            [value("x", [2, 3])], [value("y", [2, 3])], [("b", b)]))

    def bundle(self):
        self.good("tgaot", "compile", self.relu(), "-o", self.path("relu.tgb"))
        return self.path("relu.tgb")

    def npy(self, name, x):
        np.save(self.path(name), x)
        return self.path(name)

    def call(self, program, *args, env=None):
        return harness.call([self.tools[program], *args], 120, {**self.env, **(env or {})})

    def good(self, program, *args, env=None):
        code, out, err = self.call(program, *args, env=env)
        if code != 0:
            raise Failure("failed", f"{program} {' '.join(args)}: exit code {code}: {err.strip()}")
        return out, err

    def bad(self, program, *args, words, leaves_no=None, env=None):
        """The command must fail with one line that holds all `words`."""
        code, out, err = self.call(program, *args, env=env)
        what = f"{program} {' '.join(args)}"
        if code == 0:
            raise Failure("wrong", f"{what}: ended with 0")
        lines = harness.error_lines(err)
        if len(lines) != 1 or not lines[0].startswith(program + ": "):
            raise Failure("wrong", f"{what}: one line beginning with \"{program}: \" expected, got {lines}")
        for w in words:
            if w not in lines[0]:
                raise Failure("wrong", f"{what}: \"{w}\" is not in: {lines[0]}")
        if leaves_no and os.path.exists(leaves_no):
            raise Failure("wrong", f"{what}: left {leaves_no}")
        temporary = [f for f in os.listdir(self.dir) if f.endswith(".tmp")]
        if temporary:
            raise Failure("wrong", f"{what}: left {temporary}")
        return lines[0]


def expect(what, got, want):
    if got != want:
        raise Failure("wrong", f"{what}: {got!r}, expected {want!r}")


# --- what works

@check
def compile_and_run(b):
    x = np.array([[-3, 1, 0.5], [0, 5, -9]], np.float32)
    bundle = b.bundle()
    b.good("tgb", "run", bundle, "--input", f"x={b.npy('x.npy', x)}", "--output", b.path("out"))
    want = np.maximum(x + np.array([1, -2, 3], np.float32), 0)
    expect("relu(x + b)", np.load(b.path("out/0.npy")).tolist(), want.tolist())


def several_kernels(b):
    """x f32[4,64]: two matmuls with a softmax between; the first with a scale that folds into its weights"""
    r = np.random.default_rng(1)
    w1, w2, s = (r.standard_normal(d).astype(np.float32) for d in ((64, 96), (96, 32), (96,)))
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Mul", ["a", "s"], ["c"]), helper.make_node("Softmax", ["c"], ["p"], axis=1),
             helper.make_node("MatMul", ["p", "w2"], ["y"])]
    return b.save("several.onnx", model(nodes, [value("x", [4, 64])], [value("y", [4, 32])], [("w1", w1), ("w2", w2), ("s", s)]))


def read(path):
    with open(path, "rb") as f:
        return f.read()


@check
def the_same_input_gives_the_same_bytes(b):
    m = several_kernels(b)
    ways = [{}, {"PARALLEL": "0"}, {"PARALLEL": "1"}, {"PARALLEL": "2"}, {"CCACHE": "0", "SCACHE": "0"}, {"DEBUG": "7"}, {"CACHEDB": b.path("fresh.db")}]
    made = []
    for i, env in enumerate(ways):
        b.good("tgaot", "compile", m, "-o", b.path(f"{i}.tgb"), env=env)
        made.append(read(b.path(f"{i}.tgb")))
    for env, bytes_ in zip(ways, made):
        expect(f"the bundle made with {env} is the first one", bytes_ == made[0], True)


@check
def retune_for_the_same_target_gives_the_same_bytes(b):
    m, bundle, again = several_kernels(b), b.path("m.tgb"), b.path("again.tgb")
    for options in ([], ["--compress"]):
        b.good("tgaot", "compile", m, "-o", bundle, *options)
        before = read(bundle)
        for env in ({}, {"DEV": ""}, {"SCACHE": "0", "CCACHE": "0"}):
            b.good("tgaot", "retune", bundle, "-o", again, env=env)
            expect(f"retuned with {env}", read(again) == before, True)
        b.good("tgaot", "retune", bundle)
        expect("retuned in place", read(bundle) == before, True)


@check
def retune_for_another_target(b):
    m, bundle = several_kernels(b), b.path("m.tgb")
    x = b.npy("x.npy", np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32))
    b.good("tgaot", "compile", m, "-o", bundle)
    b.good("tgb", "run", bundle, "--input", f"x={x}", "--output", b.path("out"))
    want = np.load(b.path("out/0.npy"))
    _, _ = b.good("tgaot", "retune", bundle, "-o", b.path("old.tgb"), env={"DEV": "CPU:LLVM:x86_64,x86-64-v2"})
    out, _ = b.good("tgaot", "inspect", b.path("old.tgb"), "--json")
    expect("target", json.loads(out)["targets"], ["CPU:LLVM:x86_64,x86-64-v2"])
    b.good("tgb", "run", b.path("old.tgb"), "--input", f"x={x}", "--output", b.path("out"))
    np.testing.assert_allclose(np.load(b.path("out/0.npy")), want, rtol=1e-5, atol=1e-6)


@check
def a_stripped_bundle_runs_and_cannot_be_retuned(b):
    m = several_kernels(b)
    b.good("tgaot", "compile", m, "-o", b.path("full.tgb"))
    _, err = b.good("tgaot", "compile", m, "-o", b.path("small.tgb"), "--strip")
    expect("compile says so", "stripped" in err, True)
    expect("it is smaller", os.path.getsize(b.path("small.tgb")) < os.path.getsize(b.path("full.tgb")), True)
    b.good("tgb", "run", b.path("small.tgb"))
    b.bad("tgaot", "retune", b.path("small.tgb"), "-o", b.path("o.tgb"), words=["small.tgb", "--strip"], leaves_no=b.path("o.tgb"))


@check
def weights_made_at_open_are_those_that_are_stored(b):
    w = np.random.default_rng(3).standard_normal((48, 32, 3, 3)).astype(np.float32)
    m = b.save("conv.onnx", model([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], [value("x", [1, 32, "h", "h"])], [value("y", [1, 48, "h", "h"])], [("w", w)]))
    xs = {n: b.npy(f"x{n}.npy", np.random.default_rng(n).standard_normal((1, 32, n, n)).astype(np.float32)) for n in (12, 16)}
    shapes = ["--shape", "x=1,32,12,12", "--shape", "x=1,32,16,16"]

    def results(bundle):
        out = []
        for x in xs.values():
            b.good("tgb", "run", bundle, "--input", f"x={x}", "--output", b.path("out"))
            out.append(np.load(b.path("out/0.npy")))
        return out

    env = {"WINO": "1"}
    b.good("tgaot", "compile", m, *shapes, "-o", b.path("stored.tgb"), env={**env, "DERIVE": "0"})
    b.good("tgaot", "compile", m, *shapes, "-o", b.path("made.tgb"), env=env)
    b.good("tgaot", "compile", m, *shapes, "-o", b.path("strip.tgb"), "--strip", env=env)
    b.good("tgaot", "retune", b.path("stored.tgb"), "-o", b.path("again.tgb"), env=env)
    size = {n: os.path.getsize(b.path(f"{n}.tgb")) for n in ("stored", "made", "strip")}
    expect("the bundle is smaller by most of a transform", size["stored"] - size["made"] > w.nbytes, True)
    expect("retuned to the same bytes", read(b.path("again.tgb")) == read(b.path("made.tgb")), True)
    want = results(b.path("stored.tgb"))
    for n in ("made", "strip"):
        for got, v in zip(results(b.path(f"{n}.tgb")), want):
            np.testing.assert_array_equal(got, v)


@check
def rows_of_two_bytes_by_constant_bytes(b):
    rng = np.random.default_rng(4)
    w, scale = rng.integers(90, 160, (96, 64)).astype(np.uint8), rng.uniform(0.01, 0.02, 64).astype(np.float32)
    zero = rng.integers(120, 131, 64).astype(np.uint8)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=1), helper.make_node("MatMul", ["x", "f"], ["y"])]
    m = b.save("bytes.onnx", model(nodes, [value("x", ["n", 96])], [value("y", ["n", 64])], [("w", w), ("s", scale), ("z", zero)]))
    centred = w.astype(np.float64) - zero
    for name, wish in (("bytes", "1"), ("plain", "0")):
        b.good("tgaot", "compile", m, "--var", "n=1..40", "-o", b.path(f"{name}.tgb"), env={"A16W8": wish})
    b.good("tgaot", "retune", b.path("plain.tgb"), "-o", b.path("again.tgb"), env={"A16W8": "1"})
    expect("retuned to the same bytes", read(b.path("again.tgb")) == read(b.path("bytes.tgb")), True)
    for n in (1, 7, 40):
        x = rng.standard_normal((n, 96)).astype(np.float32)
        x[n // 2] = 0
        file = b.npy(f"x{n}.npy", x)
        for name in ("bytes", "plain"):
            got = []
            for threads in ("1", "2"):
                b.good("tgb", "run", b.path(f"{name}.tgb"), "--input", f"x={file}", "--output", b.path("out"), env={"NUM_CPU_THREADS": threads})
                got.append(np.load(b.path("out/0.npy")))
            np.testing.assert_array_equal(got[0], got[1])
            bound = np.abs(x).max(1, keepdims=True) * np.abs(centred).sum(0) / 64000 * scale
            over = np.abs(got[0] - x.astype(np.float64) @ (centred * scale)) - bound - 1e-30
            expect(f"{name}, {n} rows: within the bound", bool((over <= 0).all()), True)
    x = np.ones((9, 96), np.float32)
    x[2, 95], x[4, 3] = np.nan, -np.inf
    file = b.npy("special.npy", x)
    b.good("tgb", "run", b.path("bytes.tgb"), "--input", f"x={file}", "--output", b.path("out"))
    finite = np.isfinite(np.load(b.path("out/0.npy")))
    expect("rows with NaN and infinity, and those beside them", [bool(finite[r].any()) for r in (2, 4)] + [bool(finite[r].all()) for r in (1, 3, 5)], [False] * 2 + [True] * 3)


@check
def compile_prints_the_share_of_each_stage_and_a_report(b):
    _, err = b.good("tgaot", "compile", several_kernels(b), "-o", b.path("m.tgb"), "--report", b.path("m.json"))
    for word in ("import", "fold", "schedule", "kernels", "codegen", "machine code", "packing", " %", " ms"):
        expect(f"{word!r} is printed", word in err, True)
    with open(b.path("m.json")) as f:
        r = json.load(f)
    expect("launches", r["launches"], sum(k["launches"] for k in r["kernels"]))
    expect("file", r["file_bytes"], os.path.getsize(b.path("m.tgb")))
    expect("stages", list(r["stages_ms"]), ["import", "fold", "schedule", "kernels", "packing"])


@check
def debug_levels_add_to_those_below_in_one_order(b):
    m = several_kernels(b)
    marks = {1: ["target CPU:LLVM:", "compile: "], 2: [" MFLOP ", " MB  tasks "], 3: [" Opts: "], 4: [" source", "define "], 5: [" UOps", "SINK void"],
             6: [" linear UOps"], 7: [" assembly", ".text"]}
    for level in range(0, 8):
        _, err = b.good("tgaot", "compile", m, "-o", b.path("m.tgb"), env={"DEBUG": str(level), "CCACHE": "0"})
        for at, words in marks.items():
            for w in words:
                if at == 1 and level == 0 or at >= 2:
                    expect(f"DEBUG={level} prints {w!r}", w in err, level >= at)
    import re
    texts = set()
    for workers in ("0", "1", "2"):
        _, err = b.good("tgaot", "compile", m, "-o", b.path("m.tgb"), env={"DEBUG": "7", "PARALLEL": workers})
        kernels = err[err.index("--- k_"):err.rindex("compile: ")]
        texts.add(re.sub(r"[0-9.]+ ms", "ms", kernels))
    expect("different texts with 0, 1 and 2 workers", len(texts), 1)


@check
def bench_prints_one_json_object(b):
    out, _ = b.good("tgb", "bench", b.bundle(), "--runs", "3", "--json")
    r = json.loads(out)
    for key in ("load_ms", "first_ms", "median_ms", "p90_ms", "peak_rss_bytes"):
        if not r[key] >= 0:
            raise Failure("wrong", f"{key}: {r[key]}")
    expect("kernels", len(r["kernels"]), 1)
    expect("fields of a kernel", set(r["kernels"][0]) >= {"name", "ms", "gflops", "gbs"}, True)


@check
def inspect_prints_every_part(b):
    bundle = b.bundle()
    out, _ = b.good("tgaot", "inspect", bundle, "--json")
    summary = json.loads(out)
    expect("inputs", summary["inputs"], [{"name": "x", "dtype": "f32", "dims": [2, 3]}])
    expect("outputs", summary["outputs"], [{"name": "y", "dtype": "f32", "dims": [2, 3]}])
    expect("kernels", summary["variants"][0]["kernels"], 1)
    for part in ("weights", "programs", "memory", "commands", "settings", "graph", "kernels"):
        json.loads(b.good("tgaot", "inspect", bundle, "--part", part, "--json")[0])
        b.good("tgaot", "inspect", bundle, "--part", part)


@check
def info_and_check(b):
    bundle = b.bundle()
    out, _ = b.good("tgb", "info", bundle)
    for word in ("x", "f32", "y"):
        expect(f"info names {word}", word in out, True)
    b.good("tgb", "check", bundle)


@check
def settings_and_devices(b):
    out, _ = b.good("tgaot", "settings")
    expect("DEBUG is listed", "DEBUG " in out, True)
    out, _ = b.good("tgaot", "devices")
    expect("CPU is listed", "CPU " in out, True)
    out, _ = b.good("tgaot", "ops", "Conv")
    expect("Conv is listed", "Conv " in out, True)


@check
def an_unnamed_free_dimension_becomes_1_with_a_note(b):
    m = b.save("free.onnx", model([helper.make_node("Relu", ["x"], ["y"])], [value("x", ["N", 3])], [value("y", ["N", 3])]))
    _, err = b.good("tgaot", "compile", m, "-o", b.path("free.tgb"))
    expect("a note names N", "note" in err and "N" in err, True)
    _, err = b.good("tgaot", "compile", m, "-o", b.path("free.tgb"), "--shape", "x=4x3")
    out, _ = b.good("tgaot", "inspect", b.path("free.tgb"), "--json")
    expect("dims", json.loads(out)["inputs"][0]["dims"], [4, 3])


def sizes_as_inputs(b):
    """y = x + Range(0, limit, 1) along the last axis; limit is an input"""
    nodes = [helper.make_node("Range", ["zero", "limit", "one"], ["r"]), helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Add", ["x", "f"], ["y"])]
    return b.save("sizes.onnx", model(nodes, [value("x", [2, 3]), value("limit", [], TensorProto.INT64)], [value("y", None)],
                                      [("zero", np.array(0, np.int64)), ("one", np.array(1, np.int64))]))


@check
def an_input_becomes_a_constant(b):
    m = sizes_as_inputs(b)
    b.bad("tgaot", "compile", m, "-o", b.path("m.tgb"), words=["Range", "must be known at compile time"], leaves_no=b.path("m.tgb"))
    three = b.npy("three.npy", np.array(3, np.int64))
    with open(b.path("three.pb"), "wb") as f:
        f.write(onnx.numpy_helper.from_array(np.array(3, np.int64), "limit").SerializeToString())
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    for file in (three, b.path("three.pb")):
        b.good("tgaot", "compile", m, "-o", b.path("m.tgb"), "--fix", f"limit={file}")
        out, _ = b.good("tgaot", "inspect", b.path("m.tgb"), "--json")
        expect("inputs", [i["name"] for i in json.loads(out)["inputs"]], ["x"])
        b.good("tgb", "run", b.path("m.tgb"), "--input", f"x={b.npy('x.npy', x)}", "--output", b.path("out"))
        expect("x + 0..2", np.load(b.path("out/0.npy")).tolist(), (x + np.arange(3)).tolist())


@check
def mistakes_in_fixed_inputs(b):
    m, none = sizes_as_inputs(b), b.path("m.tgb")
    f32, row = b.npy("f32.npy", np.array(3, np.float32)), b.npy("row.npy", np.array([3], np.int64))
    b.bad("tgaot", "compile", m, "-o", none, "--fix", f"limits={row}", words=["limits", "x, limit"], leaves_no=none)
    b.bad("tgaot", "compile", m, "-o", none, "--fix", f"limit={f32}", words=["f32.npy", "f32", "i64"], leaves_no=none)
    b.bad("tgaot", "compile", m, "-o", none, "--fix", f"limit={row}", words=["limit", "(1)", "()"], leaves_no=none)
    b.bad("tgaot", "compile", m, "-o", none, "--fix", f"limit={b.path('none.npy')}", words=["none.npy", "No such file"], leaves_no=none)
    b.bad("tgaot", "compile", m, "-o", none, "--fix", "limit", words=["--fix limit", "INPUT=FILE"], leaves_no=none)


# --- mistakes at compile

@check
def missing_file(b):
    b.bad("tgaot", "compile", b.path("none.onnx"), "-o", b.path("o.tgb"), words=["none.onnx", "No such file"], leaves_no=b.path("o.tgb"))


@check
def not_an_onnx_file(b):
    with open(b.path("text.onnx"), "w") as f:
        f.write("this is a text, not a model\n" * 50)
    b.bad("tgaot", "compile", b.path("text.onnx"), "-o", b.path("o.tgb"), words=["text.onnx", "ONNX"], leaves_no=b.path("o.tgb"))


@check
def an_empty_file(b):
    open(b.path("empty.onnx"), "w").close()
    b.bad("tgaot", "compile", b.path("empty.onnx"), "-o", b.path("o.tgb"), words=["empty.onnx"], leaves_no=b.path("o.tgb"))


@check
def a_truncated_model(b):
    data = open(b.relu(), "rb").read()
    for n in (len(data) // 3, len(data) // 2, len(data) - 3):
        with open(b.path("cut.onnx"), "wb") as f:
            f.write(data[:n])
        b.bad("tgaot", "compile", b.path("cut.onnx"), "-o", b.path("o.tgb"), words=["cut.onnx"], leaves_no=b.path("o.tgb"))


@check
def an_unsupported_operator(b):
    nodes = [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("NoSuchOp", ["t"], ["y"], name="/head/odd")]
    m = b.save("odd.onnx", model(nodes, [value("x", [2, 3])], [value("y", [2, 3])]))
    b.bad("tgaot", "compile", m, "-o", b.path("o.tgb"), words=["NoSuchOp", "/head/odd"], leaves_no=b.path("o.tgb"))


@check
def an_opset_that_is_not_known(b):
    m = b.save("new.onnx", model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])], opset=99))
    b.bad("tgaot", "compile", m, "-o", b.path("o.tgb"), words=["opset 99", "1 to "], leaves_no=b.path("o.tgb"))


@check
def an_unknown_device(b):
    b.bad("tgaot", "compile", b.relu(), "-o", b.path("o.tgb"), words=["DEV=CPX", "CPU", "tgaot devices"], leaves_no=b.path("o.tgb"), env={"DEV": "CPX"})


@check
def a_device_that_is_not_built(b):
    b.bad("tgaot", "compile", b.relu(), "-o", b.path("o.tgb"), words=["AMD"], leaves_no=b.path("o.tgb"), env={"DEV": "AMD::gfx950"})


@check
def an_unknown_arch(b):
    b.bad("tgaot", "compile", b.relu(), "-o", b.path("o.tgb"), words=["znver99"], leaves_no=b.path("o.tgb"), env={"DEV": "CPU:LLVM:x86_64,znver99"})


@check
def a_bad_setting(b):
    b.bad("tgaot", "compile", b.relu(), "-o", b.path("o.tgb"), words=["NOOPT=yes", "integer"], leaves_no=b.path("o.tgb"), env={"NOOPT": "yes"})


@check
def a_shape_for_an_input_that_is_not_there(b):
    b.bad("tgaot", "compile", b.relu(), "-o", b.path("o.tgb"), "--shape", "z=2x3", words=["z", "x"], leaves_no=b.path("o.tgb"))


@check
def a_shape_that_contradicts_the_model(b):
    b.bad("tgaot", "compile", b.relu(), "-o", b.path("o.tgb"), "--shape", "x=2x4", words=["x", "3", "4"], leaves_no=b.path("o.tgb"))


@check
def a_shape_that_is_not_one(b):
    b.bad("tgaot", "compile", b.relu(), "-o", b.path("o.tgb"), "--shape", "x=2x", words=["--shape"], leaves_no=b.path("o.tgb"))


@check
def an_output_folder_that_is_missing(b):
    b.bad("tgaot", "compile", b.relu(), "-o", b.path("no/such/o.tgb"), words=["does not exist", "create it"], leaves_no=b.path("no"))


@check
def an_old_bundle_survives_a_failed_compile(b):
    bundle = b.bundle()
    before = open(bundle, "rb").read()
    b.bad("tgaot", "compile", b.path("none.onnx"), "-o", bundle, words=["none.onnx"])
    expect("the bundle is as it was", open(bundle, "rb").read() == before, True)


@check
def external_data_outside_the_models_folder(b):
    w = np.arange(3, dtype=np.float32)
    m = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [3])], [value("y", [3])], [("w", w)])
    t = m.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    for key, v in (("location", "../outside.bin"), ("offset", "0"), ("length", "12")):
        t.external_data.add(key=key, value=v)
    os.mkdir(b.path("in"))
    with open(b.path("outside.bin"), "wb") as f:
        f.write(w.tobytes())
    with open(b.path("in/m.onnx"), "wb") as f:
        f.write(m.SerializeToString())
    b.bad("tgaot", "compile", b.path("in/m.onnx"), "-o", b.path("o.tgb"), words=["outside.bin"], leaves_no=b.path("o.tgb"))


@check
def an_unknown_verb(b):
    b.bad("tgaot", "complie", words=["complie", "compile"])
    b.bad("tgb", "rum", words=["rum"])


# --- mistakes at run

@check
def a_wrong_input_name(b):
    x = b.npy("x.npy", np.zeros((2, 3), np.float32))
    b.bad("tgb", "run", b.bundle(), "--input", f"q={x}", "--output", b.path("out"), words=["q", "x"], leaves_no=b.path("out/0.npy"))


@check
def a_wrong_shape(b):
    x = b.npy("x.npy", np.zeros((3, 2), np.float32))
    b.bad("tgb", "run", b.bundle(), "--input", f"x={x}", "--output", b.path("out"), words=["x", "2", "3"], leaves_no=b.path("out/0.npy"))


@check
def a_wrong_dtype(b):
    x = b.npy("x.npy", np.zeros((2, 3), np.float64))
    b.bad("tgb", "run", b.bundle(), "--input", f"x={x}", "--output", b.path("out"), words=["x", "f32", "f64"], leaves_no=b.path("out/0.npy"))


@check
def a_missing_input_file(b):
    b.bad("tgb", "run", b.bundle(), "--input", f"x={b.path('none.npy')}", words=["none.npy"])


@check
def a_missing_bundle(b):
    b.bad("tgb", "run", b.path("none.tgb"), words=["none.tgb"])


@check
def an_output_folder_that_is_missing_at_run(b):
    b.bad("tgb", "run", b.bundle(), "--output", b.path("no/such/out"), words=["no/such", "make the folder"], leaves_no=b.path("no"))


@check
def truncated_and_damaged_bundles(b):
    data = open(b.bundle(), "rb").read()
    for n in (0, 10, 63, 64, 1000, len(data) // 2, len(data) - 1):
        with open(b.path("cut.tgb"), "wb") as f:
            f.write(data[:n])
        b.bad("tgb", "run", b.path("cut.tgb"), words=["cut.tgb"])
        b.bad("tgaot", "inspect", b.path("cut.tgb"), words=["cut.tgb"])
    for at in range(0, len(data), max(1, len(data) // 40)):
        flipped = bytearray(data)
        flipped[at] ^= 0x40
        with open(b.path("flip.tgb"), "wb") as f:
            f.write(flipped)
        # Padding between segments carries no digest; everything else does.
        code, _, err = b.call("tgb", "check", b.path("flip.tgb"))
        if code == 0 and data[at] != 0:
            raise Failure("wrong", f"byte {at} flipped, and tgb check says nothing")


@check
def a_bundle_for_another_cpu(b):
    b.good("tgaot", "compile", b.relu(), "-o", b.path("arm.tgb"), env={"DEV": "CPU:LLVM:arm64,cortex-a76"})
    b.bad("tgb", "run", b.path("arm.tgb"), words=["arm64"])


@check
def a_model_instead_of_a_bundle(b):
    b.bad("tgb", "run", b.relu(), words=["relu.onnx"])


@check
def verbs_that_are_not_built(b):
    b.bad("tgaot", "bisect", words=["not built yet"])
    b.bad("tgaot", "compile", b.relu(), "--max-size", "1", words=["--max-size", "not built yet"])


harness.run_checks("cli", __doc__, Bench)
