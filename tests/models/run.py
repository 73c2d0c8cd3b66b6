"""The models of models/manifest.json against onnxruntime.

run.py [--small | --all | NAME...] [--var] [--float TYPE] [--optimized] [--build DIR] [--json FILE]
A float output agrees if its largest error is at most the manifest's tolerance times the largest value of the reference; integers must be
equal. With --float the models compute in another type, and the tolerance is what that allows. With --optimized they are compiled
as onnxruntime's own optimizer leaves them. With --var the models are compiled with free sizes, as the manifest says, and run at five of them. A model that needs an operator which is not built yet must be refused, naming one of the operators that the manifest lists for it.
"""
import argparse
import json
import os
import re
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(os.path.dirname(HERE)), "models")]
import harness
import manifest
from harness import Failure, Outcome

import numpy as np
import onnx
import onnxruntime

# What a type costs, as a share of an output's largest value, where the manifest's tolerance is less.
OF_FLOAT = {"FLOAT64": 0, "HALF": 3e-2, "BFLOAT16": 0.15}


def reference(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # with more, quantized recurrent layers take the scales of a part of the batch each
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return [o.name for o in session.get_outputs()], session.run(None, feeds)


def error_of(got, want):
    """Largest error over the largest reference value; NaN and infinities must be at the same places."""
    if want.dtype.kind in "iub":
        return 0.0 if np.array_equal(got, want) else np.inf
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(w)
    if not np.array_equal(np.isnan(g), np.isnan(w)) or not np.array_equal(g[np.isinf(w)], w[np.isinf(w)]) or not np.isfinite(g[finite]).all():
        return np.inf
    if not finite.any():
        return 0.0
    return float(np.abs(g[finite] - w[finite]).max() / max(np.abs(w[finite]).max(), 1e-30))


def optimized(path, work):
    """The model as onnxruntime writes it after its own optimizer, with the com.microsoft operators that this puts in."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = os.path.join(work, "optimized.onnx")
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return options.optimized_model_filepath


def run_model(tools, entry, work, env, timeout, options, by_onnxruntime=False):
    path = manifest.path(entry)
    if not os.path.exists(path):
        raise Failure("failed", f"not fetched; fetch with: models/fetch.py {entry['name']}")
    if by_onnxruntime:
        path = optimized(path, work)
    model = onnx.load(path)
    infos = manifest.input_infos(model)
    feeds = manifest.make_inputs(entry, infos)
    shapes = manifest.shapes(entry, infos)
    facts = {}
    bundle = os.path.join(work, "m.tgb")
    start = time.monotonic()
    log = harness.compile_model(tools, path, bundle, shapes, timeout, env, entry.get("stopped_by", ()), options)
    facts["compile_s"] = round(time.monotonic() - start, 2)
    facts["mb"] = round(os.path.getsize(bundle) / 1e6, 2)
    kernels = re.search(r"(\d+) kernels", log)
    if kernels:
        facts["kernels"] = int(kernels.group(1))
    facts["error"] = float(f"{compare(tools, entry, bundle, infos, feeds, os.path.join(work, 'out'), env, timeout):.3g}")
    return facts


def compare(tools, entry, bundle, infos, feeds, out, env, timeout, where=""):
    """Runs the bundle and onnxruntime on the same inputs; the largest error."""
    os.mkdir(out)
    files = {}
    for i, (name, _, _) in enumerate(infos):
        files[i] = os.path.join(out, f"in{i}.npy")
        np.save(files[i], feeds[name])
    names, wants = reference(manifest.path(entry), feeds)
    harness.run_bundle(tools, bundle, files, out, timeout, env)
    worst = 0.0
    for i, (name, want) in enumerate(zip(names, wants)):
        e = error_of(harness.load_output(out, i, want.dtype, want.shape), want)
        worst = max(worst, e)
        if not e <= entry["tolerance"]:
            raise Failure("wrong", f"{where}output {name} ({want.dtype}{list(want.shape)}): error {e:.3g} of the largest value, allowed {entry['tolerance']:g}")
    return worst


def run_free(tools, entry, work, env, timeout, options):
    path, free = manifest.path(entry), entry["free"]
    if not os.path.exists(path):
        raise Failure("failed", f"not fetched; fetch with: models/fetch.py {entry['name']}")
    model = onnx.load(path)
    infos = manifest.input_infos(model)
    bundle = os.path.join(work, "m.tgb")
    options = [*options, *(w for v in free["vars"] for w in ("--var", v)), *(w for s in free.get("shapes", []) for w in ("--shape", s))]
    start = time.monotonic()
    log = harness.compile_model(tools, path, bundle, {}, timeout, env, entry.get("stopped_by", ()), options)
    facts = {"compile_s": round(time.monotonic() - start, 2), "kernels": int(re.search(r"(\d+) kernels", log).group(1))}
    worst = 0.0
    for k, sizes in enumerate(manifest.free_sizes(entry)):
        at = {**entry, "shapes": manifest.free_dims(entry, model, sizes)}
        feeds = manifest.make_inputs(at, infos)
        where = ", ".join(f"{n} {v}" for n, v in sizes.items()) + ": "
        try:
            worst = max(worst, compare(tools, at, bundle, infos, feeds, os.path.join(work, f"out{k}"), env, timeout, where))
        except Failure as f:
            raise Failure(f.outcome.kind, f.outcome.detail if f.outcome.detail.startswith(where) else where + f.outcome.detail)
    facts["error"] = float(f"{worst:.3g}")
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--var", action="store_true", help="with free sizes; models that have none are passed over")
    parser.add_argument("--optimized", action="store_true", help="after onnxruntime's own optimizer")
    parser.add_argument("--float", choices=OF_FLOAT, help="DEFAULT_FLOAT")
    parser.add_argument("--all", action="store_true", help="the default without names")
    parser.add_argument("--build", default=os.path.join(harness.ROOT, "build"))
    parser.add_argument("--json")
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--dev", default="CPU")
    parser.add_argument("--keep", metavar="DIR", help="keep bundles, inputs and outputs in DIR/<model>")
    parser.add_argument("--option", action="append", default=[], help="a further option of tgaot compile")
    args = parser.parse_args()

    tools = harness.programs(args.build)
    entries = manifest.models(args.names, small=args.small)
    if args.var:
        entries = [e for e in entries if "free" in e]
    skipped = [e for e in entries if args.float in ("HALF", "BFLOAT16") and "needs_float32" in e]
    for e in skipped:
        print(f"{e['name']:26} skipped  {e['needs_float32']}")
    entries = [e for e in entries if e not in skipped]
    left = 0 if args.names else len(manifest.models()) - len(entries) - len(skipped)
    results, table = {}, {}
    for entry in entries:
        name, facts = entry["name"], {}
        env = {"DEV": args.dev}
        if args.float:
            env["DEFAULT_FLOAT"] = args.float
            entry = {**entry, "tolerance": max(entry["tolerance"], OF_FLOAT[args.float])}
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="models-run-") as work:
            if args.keep:
                work = os.path.join(args.keep, name)
                os.makedirs(work)
            try:
                env["CACHEDB"] = os.path.join(work, "cache.db")
                if args.var:
                    facts = run_free(tools, entry, work, env, args.timeout, args.option)
                else:
                    facts = run_model(tools, entry, work, env, args.timeout, args.option, args.optimized)
                o = Outcome("passed")
            except Failure as f:
                o = f.outcome
            except Exception as e:
                o = Outcome("failed", f"{type(e).__name__}: {e}")
        o.seconds = round(time.monotonic() - start, 2)
        results[name], table[name] = o, {**vars(o), **facts}
        print(f"{name:26} {o.kind:8} " + (" ".join(f"{k} {v}" for k, v in facts.items()) or o.detail[:200]), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(table, f, indent=1)
    sys.exit(harness.summary("models", results, left, len(skipped)))


main()
