"""ONNX's own backend cases through `tgaot compile` and `tgb run`, at ONNX's tolerances.

run.py [--tenth | --all] [--filter TEXT] [--build DIR] [--data FOLDER] [--json FILE] [--list KIND] [--record]
A case is refused if the compiler names one of its operators or what it does not take; that is not a failure, unless the case stands in
passing.txt, which --record (with --all) rewrites. Refused cases are counted by reason, those whose inputs and outputs are all tensors of
numbers or bools apart: they may only be refused for one of KNOWN_GAPS. A case that is refused because the value of an input must be known at
compile time is tried again with that input fixed (--fix); such cases are counted apart.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import re
import shutil
import sys
import tempfile
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import Failure, Outcome

import numpy as np
import onnx
from onnx import numpy_helper

warnings.filterwarnings("ignore")
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
RTOL, ATOL = 1e-3, 1e-7  # onnx.backend.test's own defaults
# Sums of ten terms of size 1 that cancel to 0: what is left is the rounding of whoever wrote the data (onnxruntime misses them too).
CANCELLING = {"DFT": 1e-6}
# Drawn anew by every implementation: shape, dtype and range are what can be compared.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# Refusals of a whole model rather than of a node.
WHOLE = ("holds strings, which are not supported", "is a sequence; only tensors are supported", "is an optional; only tensors are supported")
# Why a case is refused, by its message.
REASONS = (("strings", "strings"), ("image", "compressed images"), ("sequence", "sequences as inputs or outputs"),
           ("optional", "optionals of sequences or without a value"), ("gradient", "gradients"), ("loop", "loops"), ("recurrent", "recurrent layers"),
           ("must be known at compile time", "values needed at compile time"), ("depends on data", "shapes that depend on data"))
# The reasons for which a case on tensors of numbers may be refused.
KNOWN_GAPS = {"compressed images", "gradients"}
PASSING = os.path.join(HERE, "passing.txt")


def cases(root):
    for kind in KINDS:
        for folder in sorted(glob.glob(os.path.join(root, kind, "*", ""))):
            folder = folder.rstrip("/")
            if os.path.exists(os.path.join(folder, "model.onnx")):
                yield f"{kind}/{os.path.basename(folder)}", folder
    for model in sorted(glob.glob(os.path.join(root, "light", "*.onnx"))):  # the models of real/, with constant weights
        yield f"real/test_{os.path.basename(model)[len('light_'):-len('.onnx')]}", model


def tensor_type(v):
    """Of a tensor or an optional tensor; None for others."""
    t = v.type.optional_type.elem_type if v.type.HasField("optional_type") else v.type
    return t.tensor_type if t.HasField("tensor_type") else None


def is_numeric(model):
    """Whether all inputs and outputs are tensors of numbers or bools."""
    weights = {t.name for t in model.graph.initializer}
    values = [v for v in model.graph.input if v.name not in weights] + list(model.graph.output)
    return all(v.type.HasField("tensor_type") and v.type.tensor_type.elem_type != onnx.TensorProto.STRING for v in values)


def reason(message):
    return next((r for part, r in REASONS if part in message), message.split(": ")[-1][:80])


def operators(graph):
    names = set()
    for n in graph.node:
        names.add(n.op_type)
        for a in n.attribute:
            for g in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                names |= operators(g)
    return names


def read_tensor(path):
    t = onnx.TensorProto()
    with open(path, "rb") as f:
        t.ParseFromString(f.read())
    return t


def tensors(folder, what):
    count = len(glob.glob(os.path.join(folder, f"{what}_*.pb")))
    return [os.path.join(folder, f"{what}_{i}.pb") for i in range(count)]


def compare(index, got, want, names, case):
    if want.dtype.kind in "OSU":
        raise Failure("wrong", f"output {index}: strings expected")
    g, w = harness.widen(got), harness.widen(want)
    if names & RANDOM or ("training_dropout" in case and "zero_ratio" not in case):
        if g.shape != w.shape or not np.isfinite(g).all() or ("Bernoulli" in names and not np.isin(g, (0, 1)).all()):
            raise Failure("wrong", f"output {index} ({want.dtype}{list(want.shape)}): {g.shape}, {g.min()}..{g.max()}")
        return
    atol = max([ATOL] + [a for op, a in CANCELLING.items() if op in names])
    try:
        np.testing.assert_allclose(g, w, rtol=RTOL, atol=atol, equal_nan=True)
    except AssertionError as e:
        lines = [l for l in str(e).splitlines() if "ismatch" in l or "difference" in l]
        raise Failure("wrong", f"output {index} ({want.dtype}{list(want.shape)}): " + "; ".join(lines)[:200])


def inputs_to_fix(message, inputs, feeds, fixed):
    """The inputs whose value the compiler asks for: the one it names, or all short ones if it names a value made from them."""
    if "must be known at compile time" not in message:
        return []
    named = re.findall(r'input \d+ "([^"]*)" must be known at compile time', message)
    by_name = [v.name for v in inputs if v.name in named and v.name not in fixed]
    short = [v.name for v, p in zip(inputs, feeds) if v.name not in fixed and np.prod(read_tensor(p).dims) <= 16 and len(read_tensor(p).dims) <= 1]
    return by_name or short


def compile_fixing(tools, model, bundle, shapes, inputs, feeds, timeout, env, names, free=()):
    """Compiles; where the value of an input is asked for, again with it as a constant. The names of the inputs fixed so."""
    fixed = {}
    while True:
        options = [*free, *(a for n, p in fixed.items() for a in ("--fix", f"{n}={p}"))]
        try:
            harness.compile_model(tools, model, bundle, {n: d for n, d in shapes.items() if n not in fixed}, timeout, env, names, options)
            return fixed
        except Failure as f:
            more = inputs_to_fix(f.outcome.detail, inputs, feeds, fixed)
            if not more:
                raise
            fixed.update({v.name: p for v, p in zip(inputs, feeds) if v.name in more})


def free_sizes(folder):
    """Options of tgaot compile, if the case keeps sizes free (onnx_eval/free_cases.py); then one bundle serves all its data sets."""
    path = os.path.join(folder, "vars")
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return [a for line in f.read().split() for a in ("--var" if ".." in line else "--shape", line)]


def data_sets(folder, model, work):
    """(input files, expected outputs) of each set; tensors out of optionals are written anew."""
    weights = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights]
    if folder.endswith(".onnx"):  # a light model: the input is 0 .. 1 in order, as onnx.backend.test makes it
        shape = [d.dim_value for d in inputs[0].type.tensor_type.shape.dim]
        x = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
        path = os.path.join(work, "input_0.pb")
        with open(path, "wb") as f:
            f.write(numpy_helper.from_array(x, inputs[0].name).SerializeToString())
        yield [path], [numpy_helper.to_array(read_tensor(folder[:-len(".onnx")] + "_output_0.pb"))]
        return
    for data in sorted(glob.glob(os.path.join(folder, "test_data_set_*"))):
        feeds = tensors(data, "input")
        for i, v in enumerate(inputs):
            if v.type.HasField("optional_type"):
                o = onnx.OptionalProto()
                with open(feeds[i], "rb") as f:
                    o.ParseFromString(f.read())
                if not o.HasField("tensor_value"):
                    raise Failure("refused", "an optional without a value at run time")
                feeds[i] = os.path.join(work, f"{os.path.basename(data)}_{i}.pb")
                with open(feeds[i], "wb") as f:
                    f.write(o.tensor_value.SerializeToString())
        yield feeds, [numpy_helper.to_array(read_tensor(p)) for p in tensors(data, "output")]


def run_case(tools, folder, work, env, timeout):
    """The names of the inputs that had to be fixed at compile time."""
    ever_fixed = set()
    path = folder if folder.endswith(".onnx") else os.path.join(folder, "model.onnx")
    model = onnx.load(path)
    weights = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights]
    names = operators(model.graph) | {f.name for f in model.functions}
    if any(tensor_type(v) is None for v in [*inputs, *model.graph.output]):
        harness.compile_model(tools, path, os.path.join(work, "no.tgb"), {}, timeout, env, names)
        raise Failure("failed", "compiled, though it takes or gives other things than tensors")
    compiled, free = {}, free_sizes(folder)
    for feeds, wants in data_sets(folder, model, work):
        shapes = {}
        for v, p in zip(inputs, feeds) if free is None else ():
            dims = tensor_type(v).shape.dim
            if not tensor_type(v).HasField("shape") or any(not d.HasField("dim_value") for d in dims):
                shapes[v.name] = list(read_tensor(p).dims)
        key = str(shapes)
        if key not in compiled:
            bundle = os.path.join(work, f"{len(compiled)}.tgb")
            fixed = compile_fixing(tools, path, bundle, shapes, inputs, feeds, timeout, env, names, free or ())
            ever_fixed |= set(fixed)
            if not fixed:
                compiled[key] = bundle, fixed
        if key in compiled:
            bundle, fixed = compiled[key]
        left = [p for v, p in zip(inputs, feeds) if v.name not in fixed]
        out = os.path.join(work, "out")
        shutil.rmtree(out, ignore_errors=True)
        os.mkdir(out)
        harness.run_bundle(tools, bundle, dict(enumerate(left)), out, timeout, env)
        for i, want in enumerate(wants):
            compare(i, harness.load_output(out, i, want.dtype, want.shape), want, names, os.path.basename(folder))
    return ever_fixed


def outcome(tools, name, folder, top, env, timeout):
    start = time.monotonic()
    work = tempfile.mkdtemp(dir=top)
    try:
        fixed = run_case(tools, folder, work, env, timeout)
        o = Outcome("passed", f"fixed: {', '.join(sorted(fixed))}" if fixed else "")
    except Failure as f:
        o = f.outcome
        if o.kind == "failed" and any(w in (o.detail or "") for w in WHOLE):
            o = Outcome("refused", o.detail)
    except Exception as e:
        o = Outcome("failed", f"{type(e).__name__}: {e}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    o.seconds = round(time.monotonic() - start, 3)
    return name, o


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    share = parser.add_mutually_exclusive_group()
    share.add_argument("--tenth", action="store_true")
    share.add_argument("--all", action="store_true", help="the default")
    parser.add_argument("--filter", help="only cases whose name contains this; several with ','")
    parser.add_argument("--build", default=os.path.join(harness.ROOT, "build"))
    parser.add_argument("--data", default=os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data"),
                        help="cases in that layout, as those of onnx_eval/ort_cases.py")
    parser.add_argument("--json")
    parser.add_argument("--list", metavar="KIND", help="print the cases of this outcome with their messages")
    parser.add_argument("--record", action="store_true", help="write passing.txt from this run")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=60)
    parser.add_argument("--dev", default="CPU")
    args = parser.parse_args()

    tools = harness.programs(args.build)
    must_pass = set()
    if os.path.exists(PASSING):
        with open(PASSING) as f:
            must_pass = {l.strip() for l in f if l.strip() and not l.startswith("#")}
    todo, left, numeric = [], 0, set()
    always = harness.regressions("onnx")
    for name, folder in cases(args.data):
        if args.filter and not any(t in name for t in args.filter.split(",")):
            continue
        if args.tenth and not harness.in_tenth(name) and name not in always:
            left += 1
            continue
        path = folder if folder.endswith(".onnx") else os.path.join(folder, "model.onnx")
        if is_numeric(onnx.load(path, load_external_data=False)):
            numeric.add(name)
        todo.append((name, folder))

    results = {}
    with tempfile.TemporaryDirectory(prefix="onnx-cases-") as top:
        env = {"DEV": args.dev, "CACHEDB": os.path.join(top, "cache.db")}
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            jobs = [pool.submit(outcome, tools, n, f, top, env, args.timeout) for n, f in todo]
            for job in concurrent.futures.as_completed(jobs):
                name, o = job.result()
                if o.kind == "refused" and name in must_pass:
                    o = Outcome("failed", f"passed before, now refused: {o.detail}", o.seconds)
                results[name] = o
                if len(results) % 100 == 0:
                    print(f"  {len(results)}/{len(todo)}", file=sys.stderr, flush=True)

    if args.list:
        for name in sorted(results):
            if results[name].kind == args.list:
                print(f"{args.list}: {name}: {results[name].detail[:300]}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({n: vars(o) for n, o in sorted(results.items())}, f, indent=1)
    if args.record:
        if args.tenth or args.filter:
            raise SystemExit("--record needs every case: run it with --all and without --filter")
        with open(PASSING, "w") as f:
            f.write("# Cases of ONNX's backend data that pass; one of them refused is a failure. Written by run.py --all --record.\n")
            f.writelines(n + "\n" for n in sorted(results) if results[n].kind == "passed")
    print(f"onnx: passed with fixed inputs {sum(o.kind == 'passed' and o.detail != '' for o in results.values())}, within those passed")
    refused = {n: reason(o.detail) for n, o in results.items() if o.kind == "refused"}
    for title, some in (("on numbers", numeric), ("others", results.keys() - numeric)):
        counts = collections.Counter(refused[n] for n in some if n in refused)
        reasons = ", ".join(f"{r} {k}" for r, k in counts.most_common())
        passed = sum(results[n].kind == "passed" for n in some)
        print(f"onnx: {title}: {len(some)} cases, {passed} passed, {sum(counts.values())} refused{': ' if reasons else ''}{reasons}")
    for n in sorted(refused.keys() & numeric):
        if refused[n] not in KNOWN_GAPS:
            results[n] = Outcome("failed", f"refused, though it is on numbers: {results[n].detail}", results[n].seconds)
    sys.exit(harness.summary("onnx", results, left, 0))


main()
