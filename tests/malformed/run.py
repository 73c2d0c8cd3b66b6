"""Malformed models through `tgaot compile`: each ends within a time and a memory limit, in a bundle or in a clear error, never in a crash.

run.py [--tenth | --all] [--filter TEXT] [--build DIR] [--list KIND] [--keep FOLDER]
"""
import argparse
import concurrent.futures
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import Outcome

import mutate

SECONDS = 10  # of processor time; a run that waits for something is ended after six times as much by the clock
BYTES = 2 << 30


def judge(code, err, seconds, peak, bundle, limit):
    """The outcome of one run, by what the program left."""
    text = err.decode(errors="replace").strip()
    lines = harness.error_lines(text)
    last = lines[-1][:300] if lines else ""
    if code is None:
        return Outcome("hung", f"over {limit} s")
    if code not in (0, 1) or "internal error" in text or "Sanitizer" in text or "runtime error:" in text:
        return Outcome("crashed", f"exit code {code}: {' | '.join(lines)[-600:]}")
    if peak > BYTES:
        return Outcome("failed", f"{peak >> 20} MiB of memory")
    if code == 0:
        return Outcome("passed") if os.path.exists(bundle) else Outcome("failed", "ended with 0 and wrote no bundle")
    if os.path.exists(bundle):
        return Outcome("failed", "failed and left a bundle")
    if not last.startswith(("tgaot: ", "  ")) or len(lines[0]) < 20:
        return Outcome("failed", f"no clear error: {text[-200:]!r}")
    if len(text) > 20000:
        return Outcome("failed", f"an error of {len(text)} bytes")
    return Outcome("refused", " | ".join(lines)[:400])


def run(tgaot, name, write, top, limit, sanitized, keep):
    folder = tempfile.mkdtemp(dir=top)
    try:
        path, bundle = write(folder), os.path.join(folder, "out.tgb")
        if keep:
            shutil.copy(path, os.path.join(keep, f"{name}.onnx"))

        def limits():
            if not sanitized:  # the sanitizer's own maps are larger
                resource.setrlimit(resource.RLIMIT_AS, (2 * BYTES, 2 * BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (limit + 1, limit + 1))

        env = {**os.environ, "DEV": "CPU", "CACHEDB": os.path.join(top, "cache.db"), "PARALLEL": "1", "SPEC": "1"}
        with open(os.path.join(folder, "err"), "w+b") as err:
            start = time.monotonic()
            p = subprocess.Popen([tgaot, "compile", path, "-o", bundle], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, env=env, preexec_fn=limits)
            code = peak = None
            seconds = None
            while code is None and time.monotonic() - start < 6 * limit:
                pid, status, usage = os.wait4(p.pid, os.WNOHANG)
                if pid:
                    code, peak, seconds = os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime
                else:
                    time.sleep(0.005)
            if code is None:
                p.kill()
                os.wait4(p.pid, 0)
            p.returncode = 0  # reaped above
            err.seek(0)
            text = err.read()
        seconds = seconds if seconds is not None else time.monotonic() - start
        if code == -signal.SIGXCPU or seconds > limit:
            code = None
        o = judge(code, text, seconds, 0 if sanitized else peak, bundle, limit)
        o.seconds = round(seconds, 3)
        return name, o
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    share = parser.add_mutually_exclusive_group()
    share.add_argument("--tenth", action="store_true")
    share.add_argument("--all", action="store_true", help="the default")
    parser.add_argument("--filter", default="")
    parser.add_argument("--build", default=os.path.join(harness.ROOT, "build"))
    parser.add_argument("--list", metavar="KIND", help="print the models of this outcome with their messages")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the models there")
    parser.add_argument("--sanitized", action="store_true", help="the build has sanitizers: ten times the time, memory is not judged")
    parser.add_argument("--count", type=int, default=300, help="how many models; more go on in the same order")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()

    tgaot = os.path.join(os.path.abspath(args.build), "tools", "tgaot")
    if not os.path.exists(tgaot):
        raise SystemExit(f"{tgaot} missing; build first")
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    always = harness.regressions("malformed")
    every = mutate.all_models(args.count)
    todo = [(n, w) for n, w in every if args.filter in n and (not args.tenth or harness.in_tenth(n) or n in always)]
    results = {}
    with tempfile.TemporaryDirectory(prefix="malformed-") as top, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        limit = SECONDS * (10 if args.sanitized else 1)
        for job in concurrent.futures.as_completed([pool.submit(run, tgaot, n, w, top, limit, args.sanitized, args.keep) for n, w in todo]):
            name, o = job.result()
            results[name] = o
    if args.list:
        for name in sorted(results):
            if results[name].kind == args.list:
                print(f"{args.list}: {name} ({results[name].seconds} s): {results[name].detail}")
    slow = max(results, key=lambda n: results[n].seconds, default=None)
    if slow:
        print(f"malformed: the slowest, {slow}, took {results[slow].seconds} s")
    sys.exit(harness.summary("malformed", results, len(every) - len(todo), 0))


main()
