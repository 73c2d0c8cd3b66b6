"""What the search makes of kernels and models.

search.py noopt|odd [--count N] [--beam 4] [--budget 5s] [--filter TEXT] [--json FILE] [--build DIR]
noopt: usual kernels, the search beginning without an Opt (NOOPT=1); how many come within 10 % of the heuristics' kernel.
odd: primes, narrow, tall and strided shapes; time as found over that of the heuristics, and the geometric mean.

search.py models [--budget 60s]: the bench set with BEAM against BEAM=0: seconds, candidates, ratio of times, rank correlations of the estimate.
search.py estimate [--budget 20s]: how the estimate ranks candidates drawn at random, over the bench set (compiler/README.md, "Search").
search.py rate [--size 512] [--budget 0]: candidates a second on one product, beside tinygrad's BEAM.
search.py again [--size 1024] [--times 3] [--budget 0]: how far apart cold searches of one product end.

Bundles are open in one process and run in turns; a figure is the least CPU time of many runs on one thread. Budget 0: no limit.
"""
import argparse
import json
import math
import os
import random
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests"), os.path.join(ROOT, "models")]
import harness
import numpy as np
import onnx
import searches
import tgb
from micro import Op, conv, f32, gemm
from onnx import helper as h

node = h.make_node


def softmax(rows, columns):
    return Op(f"softmax_{rows}x{columns}", 5.0 * rows * columns, 0, [node("Softmax", ["x"], ["y"], axis=-1)], {"x": (rows, columns)}, {})


def layer_norm(rows, columns):
    return Op(f"layer_norm_{rows}x{columns}", 8.0 * rows * columns, 0, [node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1)],
              {"x": (rows, columns)}, {"g": f32(columns, 1).ravel(), "b": f32(columns, 1).ravel()})


def total(axis, *dims):
    return Op(f"sum{axis}_{'x'.join(map(str, dims))}", float(math.prod(dims)), 0, [node("ReduceSum", ["x", "a"], ["y"], keepdims=0)], {"x": dims},
              {"a": np.array([axis])}, opset=18)


def pool(c, size, k, stride):
    return Op(f"pool{k}_{c}_{size}", float(c * size * size), 0, [node("AveragePool", ["x"], ["y"], kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4)],
              {"x": (1, c, size, size)}, {})


def transposed(m, k, n):
    """a' b': both operands lie the other way."""
    return Op(f"gemm_tt_{m}x{k}x{n}", 2.0 * m * k * n, 0, [node("Gemm", ["a", "b"], ["y"], transA=1, transB=1)], {"a": (k, m), "b": (n, k)}, {})


def batched(b, m, k, n):
    return Op(f"bmm_{b}x{m}x{k}x{n}", 2.0 * b * m * k * n, 0, [node("MatMul", ["a", "b"], ["y"])], {"a": (b, m, k), "b": (b, k, n)}, {})


def spread(rows, columns):
    """A row and a column over a matrix, read the other way."""
    return Op(f"spread_{rows}x{columns}", 3.0 * rows * columns, 0, [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("Mul", ["t", "r"], ["u"]), node("Add", ["u", "c"], ["y"])],
              {"x": (columns, rows), "r": (1, columns), "c": (rows, 1)}, {})


def usual():
    out = [gemm(f"gemm_{m}x{k}x{n}", m, k, n, 0) for m, k, n in ((64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (128, 384, 1536), (128, 1536, 384), (64, 768, 768),
                                                                 (1, 768, 3072), (1, 1280, 1000), (16, 512, 512), (196, 384, 384))]
    out += [conv(f"conv3x3_{c}_{o}_{s}", c, o, 3, s, 0) for c, o, s in ((16, 16, 56), (32, 32, 28), (64, 64, 28), (64, 128, 14), (128, 128, 14), (256, 256, 7), (3, 32, 64))]
    out += [conv(f"conv1x1_{c}_{o}_{s}", c, o, 1, s, 0) for c, o, s in ((16, 96, 56), (24, 144, 28), (96, 24, 28), (64, 256, 28), (256, 64, 14), (320, 1280, 7), (160, 960, 7))]
    out += [conv(f"dw{k}_{c}_{s}", c, c, k, s, 0, groups=c, stride=t) for c, k, s, t in ((32, 3, 56, 1), (96, 3, 56, 2), (144, 3, 28, 1), (240, 5, 14, 1), (480, 3, 14, 1), (672, 5, 14, 2))]
    out += [batched(b, m, k, n) for b, m, k, n in ((12, 128, 32, 128), (12, 128, 128, 32), (4, 64, 64, 64))]
    out += [softmax(r, c) for r, c in ((1536, 128), (256, 256), (64, 1000), (768, 64))] + [layer_norm(r, c) for r, c in ((128, 384), (64, 768), (256, 512))]
    out += [total(1, 128, 1024), total(0, 512, 256), total(2, 16, 64, 196), pool(64, 56, 3, 2), pool(192, 28, 3, 1), spread(256, 256), spread(512, 128), transposed(128, 128, 128),
            transposed(256, 64, 256)]
    return out


def odd():
    r = random.Random(7)
    prime = lambda: r.choice([7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167])
    out = []
    for _ in range(12):
        m, k, n = prime(), prime(), prime()
        out.append(gemm(f"gemm_{m}x{k}x{n}", m, k, n, 0))
    for m, k, n in ((3, 1000, 5), (2000, 7, 3), (5, 3001, 17), (1, 997, 13), (1009, 3, 31), (7, 7, 4001)):
        out.append(gemm(f"narrow_{m}x{k}x{n}", m, k, n, 0))
    for _ in range(6):
        out.append(transposed(prime(), prime(), prime()))
    for _ in range(5):
        out.append(batched(r.choice([3, 5, 7]), prime(), prime(), prime()))
    for _ in range(8):
        c, o, s, k = r.choice([3, 5, 7, 10, 13, 19, 27]), r.choice([5, 9, 11, 17, 23, 30]), r.choice([13, 17, 21, 29, 35]), r.choice([3, 5, 7])
        out.append(conv(f"conv{k}x{k}_{c}_{o}_{s}", c, o, k, s, 0, stride=r.choice([1, 2])))
    for _ in range(6):
        c, k, s = r.choice([5, 13, 27, 33, 51]), r.choice([3, 5]), r.choice([17, 29, 41])
        out.append(conv(f"dw{k}_{c}_{s}", c, c, k, s, 0, groups=c))
    for _ in range(5):
        out.append(softmax(prime(), prime() * 3))
    for _ in range(4):
        out.append(layer_norm(prime(), prime() * 5))
    for _ in range(4):
        out += [total(r.choice([0, 1, 2]), prime(), prime(), r.choice([3, 5, 9, 17]))]
    for _ in range(2):
        out += [pool(prime(), r.choice([23, 31, 45]), 3, 2)]
    for _ in range(2):
        out += [spread(prime() * 3, prime() * 5)]
    return out


def least(models, seconds):
    """Least CPU time of a run of each, in turns."""
    best = [math.inf] * len(models)
    for m in models:
        m.step()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for i, m in enumerate(models):
            n = max(1, int(2e-4 / best[i])) if best[i] < 1 else 1
            start = time.process_time()
            for _ in range(n):
                m.step()
            best[i] = min(best[i], (time.process_time() - start) / n)
    return best


def kernels(args, tools, lib):
    ops = [o for o in (usual() if args.what == "noopt" else odd()) if args.filter in o.name][:args.count]
    rows = {}
    for i, op in enumerate(ops):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "m.onnx")
            onnx.save(op.model, path)
            bundles = [os.path.join(work, f"{k}.tgb") for k in "ab"]
            env = {"DEV": "CPU", "WINO": "0", "CACHEDB": os.path.join(work, "cache.db")}
            search = {"BEAM": args.beam, "BEAM_BUDGET": args.budget, **({"NOOPT": "1"} if args.what == "noopt" else {})}
            for bundle, more in zip(bundles, ({}, search)):
                code, _, err = harness.call([tools["tgaot"], "compile", path, "-o", bundle], 600, {**env, **more})
                if code:
                    raise SystemExit(f"{op.name}: {err.strip()}")
            models = [tgb.Model(b, lib) for b in bundles]
            for m in models:
                m.prepare([op.feeds[name] for name, _, _ in m.inputs])
            plain, found = least(models, 0.4)
        rows[f"{i:02d} {op.name}"] = {"heuristics_us": plain * 1e6, "found_us": found * 1e6, "ratio": found / plain}
        print(f"{op.name:28} heuristics {plain * 1e6:9.2f} us  found {found * 1e6:9.2f} us  {found / plain:.3f}", flush=True)
    ratios = [r["ratio"] for r in rows.values()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{args.what}: {len(ratios)} kernels, geometric mean {mean:.3f}, within 10 % of the heuristics {sum(x <= 1.1 for x in ratios)}, worst {max(ratios):.3f}")
    return {"geometric_mean": mean, "kernels": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["noopt", "odd", *searches.COMMANDS])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--beam", default="4")
    parser.add_argument("--budget", help="BEAM_BUDGET; 0: none")
    parser.add_argument("--filter", default="")
    parser.add_argument("--size", type=int, help="of the product that rate and again search")
    parser.add_argument("--times", type=int, default=3, help="cold searches of again")
    parser.add_argument("--seconds", type=float, default=2, help="that bundles run in turns")
    parser.add_argument("--limit", type=float, default=3600, help="seconds until one compile is given up")
    parser.add_argument("--json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    args = parser.parse_args()
    args.budget = args.budget or {"models": "60s", "estimate": "20s", "rate": "0", "again": "0"}.get(args.what, "5s")
    args.size = args.size or {"again": 1024}.get(args.what, 512)
    args.tools = tools = harness.programs(args.build)
    args.library = lib = os.path.join(os.path.abspath(args.build), "runtime-lite", "libtgb.so")
    result = searches.COMMANDS[args.what](args, least) if args.what in searches.COMMANDS else kernels(args, tools, lib)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"what": args.what, **result}, f, indent=1)


if __name__ == "__main__":
    main()
