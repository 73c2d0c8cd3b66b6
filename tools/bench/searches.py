"""Whole searches: over the bench set, again and again, beside tinygrad's, and how well the estimate ranks what was timed."""
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import helper as h

import harness
import manifest
import suite
import tgb
from micro import Op

PAIR = re.compile(r"([\d.]+) us, estimate +([\d.]+) us")


def spearman(pairs):
    """Spearman's rank correlation; ties share their mean rank. NaN for fewer than three."""
    if len(pairs) < 3:
        return math.nan

    def ranks(values):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[inverse]

    a, b = (ranks([p[i] for p in pairs]) for i in (0, 1))
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else math.nan


def compile_into(args, model, bundle, cache, env, options=()):
    """(seconds, what tgaot says) of one compile."""
    start = time.monotonic()
    code, _, err = harness.call([args.tools["tgaot"], "compile", model, "-o", bundle, *options], args.limit, {"DEV": "CPU", "CACHEDB": cache, **env})
    if code:
        raise SystemExit(f"{os.path.basename(model)}: exit code {code}: {err.strip()[-2000:]}")
    return time.monotonic() - start, err


def shape_options(entry):
    infos = manifest.input_infos(onnx.load(manifest.path(entry)))
    dims = manifest.shapes(entry, infos).items()
    return infos, [o for name, d in dims for o in ("--shape", f"{name}={'x'.join(map(str, d))}")]


def bench_set(args):
    names = [n for n in suite.BENCH_SET if args.filter in n][: args.count]
    entries = manifest.models(names)
    suite.fetch(entries)
    return entries


def counts(err):
    """What the report says of a search: {candidates, timed, rate}; none if there was nothing to search."""
    m = re.search(r"(\d+) candidates \((\d+) a second\), (\d+) compiled, (\d+) timed", err)
    return dict(zip(("candidates", "rate", "compiled", "timed"), map(int, m.groups()))) if m else None


def correlations(err):
    m = re.search(r"rank correlation of estimate and time: (\S+) over the heuristics' kernels \(\d+\), (\S+) over all that was timed \(\d+\), (\S+) within", err)
    return [float(x) for x in m.groups()] if m else [math.nan] * 3


def models(args, least):
    """BEAM over the bench set: seconds, candidates, and the model as found over BEAM=0, in turns."""
    rows = {}
    for entry in bench_set(args):
        with tempfile.TemporaryDirectory() as work:
            infos, shapes = shape_options(entry)
            bundles, cache = [os.path.join(work, f"{k}.tgb") for k in "ab"], os.path.join(work, "cache.db")
            compile_into(args, manifest.path(entry), bundles[0], cache, {}, shapes)
            env = {"BEAM": args.beam, **({"BEAM_BUDGET": args.budget} if args.budget != "0" else {})}
            seconds, err = compile_into(args, manifest.path(entry), bundles[1], cache, env, shapes)
            opened = [tgb.Model(b, args.library) for b in bundles]
            feeds = manifest.make_inputs(entry, infos)
            for m in opened:
                m.prepare([feeds[name] for name, _, _ in m.inputs])
            plain, found = least(opened, args.seconds)
        within = correlations(err)
        row = rows[entry["name"]] = {"search_s": seconds, "plain_ms": plain * 1e3, "found_ms": found * 1e3, "ratio": found / plain, **(counts(err) or {}),
                                     "correlation_kernels": within[0], "correlation_timed": within[1], "correlation_within": within[2]}
        print(f"{entry['name']:26} {seconds:6.1f} s  {row.get('candidates', 0):6} candidates {row.get('timed', 0):5} timed  {plain * 1e3:9.3f} -> {found * 1e3:9.3f} ms"
              f"  {found / plain:.3f}  correlation {within[0]:.2f} {within[1]:.2f} {within[2]:.2f}", flush=True)
    ratios = [r["ratio"] for r in rows.values()]
    result = {"geometric_mean": math.exp(statistics.fmean(map(math.log, ratios))), "worst": max(ratios), "models": rows}
    print(f"models: {len(ratios)}, geometric mean {result['geometric_mean']:.3f}, worst {result['worst']:.3f}, over 1.01: {sum(r > 1.01 for r in ratios)}")
    return result


def pairs_of(err):
    """From what DEBUG=2 says: pairs (estimate, time) of the heuristics' kernels, and by kernel of all that was timed."""
    kernels, within, now = [], {}, None
    for line in err.splitlines():
        m = PAIR.search(line)
        if line.startswith("search ") and " us by the heuristics" in line:
            now = within.setdefault(line.split("(")[-1].split(")")[0], [])
        elif m and line.startswith("kernel "):
            kernels.append((float(m[2]), float(m[1])))
        elif m and line.startswith("  ") and now is not None:
            now.append((float(m[2]), float(m[1])))
    return kernels, within


def mean_within(kernels):
    """Of the kernels' correlations, weighted by what was timed of each."""
    known = [(len(p), spearman(p)) for p in kernels if len(p) >= 6]
    known = [(n, s) for n, s in known if not math.isnan(s)]
    return (sum(n * s for n, s in known) / sum(n for n, _ in known) if known else math.nan), len(known)


def estimate(args, _):
    """Candidates drawn without regard to their estimates (BEAM_ESTIMATE=2), and how their estimates rank them."""
    rows, kernels, timed, within = {}, [], [], []
    for entry in bench_set(args):
        with tempfile.TemporaryDirectory() as work:
            env = {"BEAM": args.beam, "BEAM_BUDGET": args.budget, "BEAM_ESTIMATE": "2", "DEBUG": "2"}
            _, err = compile_into(args, manifest.path(entry), os.path.join(work, "m.tgb"), os.path.join(work, "cache.db"), env, shape_options(entry)[1])
        base, by_kernel = pairs_of(err)
        all_timed = [p for l in by_kernel.values() for p in l]
        kernels += base
        timed += all_timed
        within += by_kernel.values()
        mean, known = mean_within(by_kernel.values())
        rows[entry["name"]] = {"kernels": spearman(base), "timed": spearman(all_timed), "within": mean, "pairs": [len(base), len(all_timed), known]}
        print(f"{entry['name']:26} kernels {spearman(base):.2f} ({len(base)})  timed {spearman(all_timed):.2f} ({len(all_timed)})  within a kernel {mean:.2f} ({known})", flush=True)
    mean, known = mean_within(within)
    result = {"kernels": spearman(kernels), "timed": spearman(timed), "within": mean, "models": rows}
    print(f"estimate: over the heuristics' kernels {result['kernels']:.3f} ({len(kernels)}), over all that was timed {result['timed']:.3f} ({len(timed)}), within a kernel {mean:.3f} ({known})")
    return result


def matmul(n):
    """a b, both of them inputs."""
    return Op(f"matmul_{n}", 2.0 * n**3, 0, [h.make_node("MatMul", ["a", "b"], ["y"])], {"a": (n, n), "b": (n, n)}, {})


def search_matmul(args, op, work, name):
    path, bundle = os.path.join(work, "m.onnx"), os.path.join(work, f"{name}.tgb")
    onnx.save(op.model, path)
    env = {"BEAM": args.beam, **({"BEAM_BUDGET": args.budget} if args.budget != "0" else {})}
    seconds, err = compile_into(args, path, bundle, os.path.join(work, f"{name}.db"), env)
    return bundle, seconds, err


TINYGRAD = """
import sys
from tinygrad import Tensor
n = int(sys.argv[1])
a, b = Tensor.rand(n, n).realize(), Tensor.rand(n, n).realize()
print("BEGIN", flush=True)
(a @ b).realize()
"""


def tinygrad(args):
    """{seconds, candidates, timed, rate} of tinygrad's own search of the same product."""
    python = os.path.join(harness.ROOT, ".venv-peers", "bin", "python")
    if not os.path.exists(python):
        raise SystemExit("tinygrad is not there: tools/setup.sh peers")
    env = {**os.environ, "DEV": "CPU", "BEAM": args.beam, "DEBUG": "2", "IGNORE_BEAM_CACHE": "1", "CACHELEVEL": "0", "NO_COLOR": "1", "PARALLEL": str(os.cpu_count())}
    if os.path.exists("/usr/bin/clang-22"):
        env.setdefault("CC", "clang-22")
    done = subprocess.run([python, "-c", TINYGRAD, str(args.size)], env=env, capture_output=True, text=True, timeout=args.limit)
    if done.returncode:
        raise SystemExit(f"tinygrad: {done.stderr.strip()[-500:]}")
    said = re.sub(r"\x1b\[[0-9;]*[mK]", "", done.stdout.split("BEGIN", 1)[1])
    rounds = re.findall(r"([\d.]+)s: [^\r\n]*?from +(\d+) -> +(\d+) actions", said)
    if not rounds:
        raise SystemExit(f"tinygrad: no round of its search in what it says: {said[-500:]}")
    seconds, candidates, timed = max(float(r[0]) for r in rounds), sum(int(r[1]) for r in rounds[1:]), sum(int(r[2]) for r in rounds[1:])
    return {"seconds": seconds, "candidates": candidates, "timed": timed, "rate": candidates / seconds}


def rate(args, _):
    """Candidates a second on one product. tgaot's are lists of Opts that were tried: those that the estimate puts behind are not compiled.
    tinygrad's are actions, each compiled; both also say how many they timed."""
    with tempfile.TemporaryDirectory() as work:
        _, _, err = search_matmul(args, matmul(args.size), work, "m")
    mine = counts(err)
    peer = tinygrad(args)
    took = mine["candidates"] / mine["rate"]
    result = {"size": args.size, "tgaot": {**mine, "timed_rate": mine["timed"] / took}, "tinygrad": {**peer, "timed_rate": peer["timed"] / peer["seconds"]},
              "ratio": mine["rate"] / peer["rate"]}
    print(f"tgaot     {mine['candidates']:6} candidates {mine['timed']:5} timed  {took:7.1f} s  {mine['rate']:7.1f} candidates a second  {mine['timed'] / took:6.1f} timed a second")
    print(f"tinygrad  {peer['candidates']:6} candidates {peer['timed']:5} timed  {peer['seconds']:7.1f} s  {peer['rate']:7.1f} candidates a second  {peer['timed'] / peer['seconds']:6.1f} timed a second")
    print(f"rate: {args.size}^3, {result['ratio']:.1f} times as many candidates a second")
    return result


def again(args, least):
    """Cold searches of one product, each with a cache of its own: how far apart what they find is."""
    op = matmul(args.size)
    with tempfile.TemporaryDirectory() as work:
        found = [search_matmul(args, op, work, f"s{i}") for i in range(args.times)]
        opened = [tgb.Model(bundle, args.library) for bundle, _, _ in found]
        for m in opened:
            m.prepare([op.feeds[name] for name, _, _ in m.inputs])
        times = least(opened, max(args.seconds, 4))
    for (_, seconds, _), t in zip(found, times):
        print(f"searched {seconds:6.1f} s  {t * 1e3:8.3f} ms  {op.flops / t * 1e-9:7.1f} GFLOP/s")
    spread = max(times) / min(times)
    print(f"again: {args.size}^3, {len(times)} cold searches end within {100 * (spread - 1):.1f} %")
    return {"size": args.size, "ms": [t * 1e3 for t in times], "spread": spread}


COMMANDS = {"models": models, "estimate": estimate, "rate": rate, "again": again}
