"""What the long suites share: running tgaot and tgb on one case, reading what they write, and telling the outcomes apart.

Outcomes: passed; refused (compile says no in one line that names an operator or the reason given by the caller); wrong (other values, shapes
or dtypes); failed (an error where none was due); crashed (a signal or an internal error); hung (over the time limit).
"""
import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BAD = ("wrong", "failed", "crashed", "hung")


@dataclasses.dataclass
class Outcome:
    kind: str
    detail: str = ""
    seconds: float = 0.0


class Failure(Exception):
    def __init__(self, kind, detail):
        super().__init__(detail)
        self.outcome = Outcome(kind, detail)


def in_tenth(name):
    """A fixed tenth of all names, the same on every machine."""
    return zlib.crc32(name.encode()) % 10 == 0


def regressions(suite):
    path = os.path.join(ROOT, "tests", "regressions.txt")
    with open(path) as f:
        lines = [l.strip() for l in f if l.strip() and not l.startswith("#")]
    return {l.split("/", 1)[1] for l in lines if l.startswith(suite + "/")}


def programs(build):
    tools = os.path.join(os.path.abspath(build), "tools")
    found = {p: os.path.join(tools, p) for p in ("tgaot", "tgb")}
    missing = [p for p in found.values() if not os.path.exists(p)]
    if missing:
        raise SystemExit(f"{' and '.join(missing)} missing; build first: cmake --preset release && cmake --build --preset release")
    return found


def call(command, timeout, env=None):
    """(exit code, stdout, stderr); raises Failure for a crash or a hang."""
    try:
        p = subprocess.run(command, capture_output=True, timeout=timeout, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Failure("hung", f"{os.path.basename(command[0])} {command[1]}: over {timeout} s")
    out, err = p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")
    last = err.strip().splitlines()[-1] if err.strip() else ""
    # A program ends in 0 or 1, or 2 for its command line; a signal shows as a negative code, an abort in a child as an internal error.
    if p.returncode < 0 or p.returncode > 2 or "internal error" in err or "AddressSanitizer" in err or "runtime error:" in err:
        raise Failure("crashed", f"{os.path.basename(command[0])} {command[1]}: exit code {p.returncode}: {last}")
    return p.returncode, out, err


def error_lines(err):
    return [l for l in err.splitlines() if l.strip() and not l.startswith(("tgaot: note:", "tgaot: warning:", "tgb: note:"))]


def compile_model(tools, model, output, shapes, timeout, env=None, names=(), options=()):
    """Compiles, or raises Failure: refused if the message holds one of `names`."""
    command = [tools["tgaot"], "compile", model, "-o", output, *options]
    for name, dims in shapes.items():
        command += ["--shape", f"{name}={'x'.join(map(str, dims))}"]
    code, _, err = call(command, timeout, env)
    if code == 0:
        if not os.path.exists(output):
            raise Failure("failed", "compile ended with 0 and wrote no bundle")
        return err
    if os.path.exists(output):
        raise Failure("failed", "compile failed and left a bundle")
    lines = error_lines(err)
    if not lines:
        raise Failure("failed", f"compile ended with {code} and said nothing")
    message = " | ".join(lines)
    raise Failure("refused" if any(n in message for n in names) else "failed", message)


def run_bundle(tools, bundle, feeds, folder, timeout, env=None):
    """Runs with {index: file}; writes <index>.npy into `folder`."""
    command = [tools["tgb"], "run", bundle, "--output", folder]
    for index, path in feeds.items():
        command += ["--input", f"{index}={path}"]
    code, out, err = call(command, timeout, env)
    if code != 0:
        raise Failure("failed", f"tgb run: {' | '.join(error_lines(err)) or 'exit code ' + str(code)}")
    return out


def as_dtype(got, dtype):
    """Kinds that .npy cannot name come as unsigned integers of their width, those under 8 bits one a byte."""
    if got.dtype == dtype:
        return got
    name = dtype.name
    if name in ("int4", "int2"):
        half = 8 if name == "int4" else 2
        return ((got.astype(np.int16) ^ half) - half).astype(np.int8).astype(dtype)
    if name in ("uint4", "uint2"):
        return got.astype(dtype)
    if got.dtype.kind == "u" and got.dtype.itemsize == dtype.itemsize and dtype.kind not in "iub":
        return got.view(dtype)
    raise Failure("wrong", f"dtype {got.dtype}, expected {dtype}")


def load_output(folder, index, dtype, dims):
    path = os.path.join(folder, f"{index}.npy")
    if not os.path.exists(path):
        raise Failure("failed", f"tgb run wrote no {index}.npy")
    got = np.load(path)
    if tuple(got.shape) != tuple(dims):
        raise Failure("wrong", f"output {index}: shape {list(got.shape)}, expected {list(dims)}")
    return as_dtype(got, np.dtype(dtype))


def widen(x):
    return x.astype(np.float64) if x.dtype.kind not in "iubc" else x


def summary(suite, results, left, skipped):
    """Prints the totals, every outcome that is bad, and returns the exit code."""
    kinds = {}
    for name, o in results.items():
        kinds.setdefault(o.kind, []).append(name)
    for kind in BAD:
        for name in sorted(kinds.get(kind, [])):
            print(f"{kind}: {suite}/{name}: {results[name].detail[:400]}")
    counts = ", ".join(f"{len(kinds.get(k, []))} {k}" for k in ("passed", "refused", *BAD))
    print(f"{suite}: run {len(results)} ({counts}); left for --all {left}; skipped {skipped}")
    return 1 if any(kinds.get(k) for k in BAD) else 0


CHECKS = []


def check(f):
    """Marks a check of the suite."""
    CHECKS.append(f)
    return f


def need(ok, what):
    if not ok:
        raise Failure("wrong", what)


def run_checks(suite, doc, bench):
    """The command line of a suite of checks: each gets a bench(tools, folder) of its own in a fresh folder; ends the program."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--filter", default="")
    args = parser.parse_args()
    tools = programs(args.build)
    results = {}
    for f in CHECKS:
        if args.filter not in f.__name__:
            continue
        folder = tempfile.mkdtemp(prefix=f"{suite}-")
        try:
            f(bench(tools, folder))
            results[f.__name__] = Outcome("passed")
        except Failure as e:
            results[f.__name__] = e.outcome
        except Exception as e:
            results[f.__name__] = Outcome("failed", f"{type(e).__name__}: {e}")
        finally:
            shutil.rmtree(folder)
    sys.exit(summary(suite, results, 0, 0))
