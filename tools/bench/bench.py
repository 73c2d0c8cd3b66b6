"""Speed of compiled bundles against onnxruntime, interleaved: each peer is a process of its own, they take turns, and what counts is the
ratio of the medians over all turns.

bench.py [MODEL...] [--threads N] [--rounds N] [--build DIR] [--json FILE]   models of models/manifest.json; default: the six headline ones
Both sides get the same inputs, the same shapes and the same number of threads. Prints a line a model and the geometric mean of the ratios
(below 1: faster than onnxruntime).
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "models"), os.path.join(ROOT, "tests")]
import harness
import manifest

HEADLINE = ("resnet50", "mobilenet_v2", "bert_minilm_dyn", "ppocrv4_det", "basic_pitch", "magika_v3_3")
TURN_SECONDS = 0.4


def worker(name, threads):
    """onnxruntime: reads a number of runs a line, answers with their times in milliseconds."""
    import onnx
    import onnxruntime

    entry = manifest.models([name])[0]
    feeds = manifest.make_inputs(entry, manifest.input_infos(onnx.load(manifest.path(entry))))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(manifest.path(entry), options, providers=["CPUExecutionProvider"])
    session.run(None, feeds)
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            session.run(None, feeds)
            times.append((time.perf_counter() - start) * 1e3)
        print(json.dumps(times), flush=True)


class Onnxruntime:
    def __init__(self, name, threads):
        self.p = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", name, str(threads)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.p.stdout.readline().strip() != "ready":
            raise SystemExit(f"{name}: onnxruntime did not start")

    def turn(self, runs):
        self.p.stdin.write(f"{runs}\n")
        self.p.stdin.flush()
        return statistics.median(json.loads(self.p.stdout.readline()))

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def compile_bundle(tools, entry, work, env):
    import numpy as np
    import onnx

    infos = manifest.input_infos(onnx.load(manifest.path(entry)))
    feeds = manifest.make_inputs(entry, infos)
    bundle = os.path.join(work, entry["name"] + ".tgb")
    start = time.monotonic()
    harness.compile_model(tools, manifest.path(entry), bundle, manifest.shapes(entry, infos), 600, env)
    seconds = time.monotonic() - start
    inputs = []
    for i, (name, _, _) in enumerate(infos):
        path = os.path.join(work, f"{entry['name']}.{i}.npy")
        np.save(path, feeds[name])
        inputs += ["--input", f"{i}={path}"]
    return bundle, inputs, seconds


def tgb_turn(tools, bundle, inputs, runs, env):
    command = [tools["tgb"], "bench", bundle, "--runs", str(runs), "--json", *inputs]
    code, out, err = harness.call(command, 600, env)
    if code != 0:
        raise harness.Failure("failed", f"tgb bench: {err.strip()}")
    return json.loads(out)


def measure(tools, entry, args):
    env = {"DEV": args.dev, "NUM_CPU_THREADS": str(args.threads)}
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        bundle, inputs, seconds = compile_bundle(tools, entry, work, {"DEV": args.dev})
        peer = Onnxruntime(entry["name"], args.threads)
        peer_runs = max(1, int(TURN_SECONDS * 1e3 / max(peer.turn(3), 1e-3)))
        first = tgb_turn(tools, bundle, inputs, 3, env)
        runs = max(1, int(TURN_SECONDS * 1e3 / max(first["median_ms"], 1e-3)))
        ours, theirs = [], []
        for _ in range(args.rounds):
            theirs.append(peer.turn(peer_runs))
            last = tgb_turn(tools, bundle, inputs, runs, env)
            ours.append(last["median_ms"])
        peer.close()
    return {"tgaot_ms": statistics.median(ours), "onnxruntime_ms": statistics.median(theirs), "ratio": statistics.median(ours) / statistics.median(theirs),
            "spread": max(ours) / min(ours), "compile_s": seconds, "load_ms": last["load_ms"], "peak_rss_mb": last["peak_rss_bytes"] / 1e6,
            "kernels": len(last["kernels"])}


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--worker":
        return worker(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--dev", default="CPU")
    parser.add_argument("--json")
    args = parser.parse_args()
    tools = harness.programs(args.build)
    entries = manifest.models(args.names or HEADLINE)
    missing = [e["name"] for e in entries if not os.path.exists(manifest.path(e))]
    if missing:
        raise SystemExit(f"not fetched: {' '.join(missing)}; fetch with: models/fetch.py {' '.join(missing)}")
    rows, failed = {}, []
    print(f"{'model':26} {'tgaot ms':>9} {'onnxrt ms':>9} {'ratio':>6} {'spread':>6} {'compile s':>9} {'load ms':>8} {'rss MB':>7} {'kernels':>7}")
    for entry in entries:
        try:
            r = rows[entry["name"]] = measure(tools, entry, args)
        except harness.Failure as f:
            failed.append(entry["name"])
            print(f"{entry['name']:26} {f.outcome.kind}: {f.outcome.detail[:200]}")
            continue
        print(f"{entry['name']:26} {r['tgaot_ms']:9.3f} {r['onnxruntime_ms']:9.3f} {r['ratio']:6.2f} {r['spread']:6.2f} {r['compile_s']:9.2f} {r['load_ms']:8.2f} "
              f"{r['peak_rss_mb']:7.1f} {r['kernels']:7d}", flush=True)
    if rows:
        mean = math.exp(statistics.fmean(math.log(r["ratio"]) for r in rows.values()))
        print(f"geometric mean of {len(rows)} ratios, {args.threads} thread(s): {mean:.3f}; worst {max(r['ratio'] for r in rows.values()):.2f}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    sys.exit(1 if failed else 0)


main()
