"""Speed of compiled bundles against other runtimes, interleaved: each is a process of its own, they take turns, and what counts is the ratio of
the medians over all turns.

bench.py                      the bench set, every peer, one and two threads
bench.py MODEL...             models of models/manifest.json; tinygrad only if asked for. Missing ones are fetched.
bench.py --quick              the whole bench set in under three minutes: one thread, few turns, and only peers whose models are converted already
bench.py --micro [OP...]      single operators instead of models, with their share of the machine's peak
Options: --threads 1,2  --rounds N  --peers a,b  --dtype bfloat16  --beam N  --cold  --alone  --huge  --json FILE  --build DIR  --dev TARGET  --work DIR

Peers that are not installed, do not take a model or compute something else are named at the end. Install them with tools/setup.sh peers. A
result of tgaot that is wrong, or a model that it does not compile, makes the exit code 1.
"""
import argparse
import json
import os
import platform
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "models"), os.path.join(ROOT, "tests")]
import harness
import machine
import manifest
import micro
import report
import suite

ALL_PEERS = ("onnxruntime", "openvino", "ncnn", "mnn", "tinygrad")
QUICK_PEERS = ("onnxruntime", "openvino", "ncnn", "mnn")  # tinygrad compiles for half a minute a model


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--micro", action="store_true")
    parser.add_argument("--threads", help="numbers, with commas (1,2; --quick and --micro: 1)")
    parser.add_argument("--rounds", type=int, help="turns of each peer (9; --quick: 3)")
    parser.add_argument("--peers", help=f"which, with commas ({','.join(ALL_PEERS)}); openvino_bf16 is its bfloat16")
    parser.add_argument("--starts", type=int, help="fresh processes of each peer for the first inference (3; --quick: 1)")
    parser.add_argument("--turn", type=float, help="seconds of a turn (0.3; --quick: 0.1)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "half"), default="float32", help="what tgaot computes and stores in")
    parser.add_argument("--beam", type=int, default=0, help="searched kernels, beside those of BEAM=0")
    parser.add_argument("--cold", action="store_true", help="compile without the caches, so that compile times mean something")
    parser.add_argument("--huge", action="store_true", help="tgaot's weights copied to huge pages")
    parser.add_argument("--alone", action="store_true", help="turns at real-time priority, which other work on the machine then waits for (needs the right to)")
    parser.add_argument("--kernels", type=int, default=4, help="kernels shown a model")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--dev", default="CPU")
    parser.add_argument("--work", help="keeps converted models (BUILD/bench)")
    parser.add_argument("--json")
    args = parser.parse_args()
    fast = args.quick
    args.threads = [int(t) for t in (args.threads or ("1" if fast or args.micro else "1,2")).split(",")]
    args.rounds = args.rounds or (3 if fast else 9)
    args.starts = args.starts or (1 if fast else 3)
    args.turn = args.turn or (0.1 if fast else 0.3)
    default = ("onnxruntime",) if args.micro else QUICK_PEERS if fast or args.names else ALL_PEERS + (("openvino_bf16",) if args.dtype == "bfloat16" else ())
    args.peers = tuple(args.peers.split(",")) if args.peers else default
    known = [p for p in suite.contest.peers.PEERS if not p.startswith("tgaot")]
    unknown = [p for p in args.peers if p not in known]
    if unknown:
        raise SystemExit(f"no peer named {' '.join(unknown)}; known: {' '.join(known)}")
    args.work = args.work or os.path.join(args.build, "bench")
    return args


def options_of(args):
    env = {"DEV": args.dev}
    if args.dtype != "float32":
        env["DEFAULT_FLOAT"] = {"bfloat16": "BFLOAT16", "half": "HALF"}[args.dtype]
    if args.beam:
        env["BEAM"] = str(args.beam)
    if args.cold:
        env.update(CCACHE="0", SCACHE="0")
    return {"threads": args.threads, "rounds": args.rounds, "turn_seconds": args.turn, "starts": args.starts, "limit": 60 if args.quick else 240,
            "no_convert": args.quick, "env": env, "huge": args.huge, "alone": args.alone, "compile_limit": 7200 if args.beam else 600,
            "tolerance": None if args.dtype == "float32" else 0.05}


def kernel_row(here, kind, name, ns, flops, moved):
    compute, memory = here.shares(ns, flops, moved, kind)
    return {"name": name, "us": ns * 1e-3, "gflops": flops / max(ns, 1), "gbs": moved / max(ns, 1), "fma_percent": compute, "memory_percent": memory}


def run_suite(args, tools, here, options, result):
    entries = manifest.models(args.names or suite.BENCH_SET)
    suite.fetch(entries)
    names, failed = ("tgaot", *(["tgaot_plain"] if args.beam else []), *args.peers), []
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        for entry in entries:
            start = time.monotonic()
            try:
                row = suite.measure(tools, entry, names, work, args.work, options)
                mine = row["threads"][str(args.threads[0])]["tgaot"]
                if "gap" in mine or "wrong" in mine:
                    failed.append(entry["name"])
            except harness.Failure as f:
                row = {"failed": f"{f.outcome.kind}: {f.outcome.detail}"}
                failed.append(entry["name"])
            result["models"][entry["name"]] = row
            ratio = report.ratios({"models": {"x": row}}, args.threads[0], "best").get("x")
            print(f"{entry['name']}: {row.get('failed') or (f'{ratio:.3f} of the best peer' if ratio else 'no ratio')} ({time.monotonic() - start:.0f} s)",
                  file=sys.stderr, flush=True)
    here.measure()
    result["peaks"], kind = here.peaks, "bf16" if args.dtype == "bfloat16" else "f32"
    print(here.line())
    for threads in args.threads:
        print("\n" + report.times_table(result, threads, names))
    if 1 in args.threads:
        print("\n" + report.first_table(result, names))
        print("\n" + report.kernel_table(result, here, args.kernels, kind))
    for row in result["models"].values():
        mine = row.get("threads", {}).get("1", {}).get("tgaot", {})
        if mine.get("kernels"):
            mine["kernels"] = [kernel_row(here, kind, *k) for k in mine["kernels"]]
    missing = report.gaps(result)
    if missing:
        print("\n" + missing)
    return failed


def main():
    args = arguments()
    tools = dict(harness.programs(args.build), library=os.path.join(os.path.abspath(args.build), "runtime-lite", "libtgb.so"))
    if not os.path.exists(tools["library"]):
        raise SystemExit(f"{tools['library']} missing; build it: cmake --build {args.build} --target tgb_shared")
    os.makedirs(args.work, exist_ok=True)
    here = machine.Machine(args.work)
    tools["spawn"], _ = machine.build("spawn", args.work)
    options = options_of(args)
    result = {"date": time.strftime("%Y-%m-%dT%H:%M:%S"), "cpu": platform.processor() or platform.machine(), "load_average": os.getloadavg()[0],
              "options": {k: options[k] for k in ("threads", "rounds", "turn_seconds", "env")}, "models": {}}
    failed = micro.run(args, tools, here, options, result) if args.micro else run_suite(args, tools, here, options, result)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)
    sys.exit(1 if failed else 0)


main()
