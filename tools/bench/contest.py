"""Runs peers against each other on one model: each in a process of its own, all loaded at once, taking turns. What counts is CPU time of the
process on one thread, which other work on the machine hardly changes, and wall time on more; the figure is the median over all turns."""
import json
import os
import select
import statistics
import subprocess
import sys

import numpy as np

import peers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PEERS_PYTHON = os.path.join(ROOT, ".venv-peers", "bin", "python")  # tools/setup.sh peers
LOG = "stderr.txt"


def python_for(name):
    """tgaot and onnxruntime are in .venv; the others have an environment of their own, since their versions of numpy differ."""
    return PEERS_PYTHON if name != "onnxruntime" and not name.startswith("tgaot") and os.path.exists(PEERS_PYTHON) else sys.executable


class Runner:
    def __init__(self, name, spec, work, env, limit):
        self.name, self.gap, self.turns = name, "", []
        self.spec = dict(spec, result=os.path.join(work, f"{name}.npz"))
        path = os.path.join(work, f"{name}.json")
        with open(path, "w") as f:
            json.dump(self.spec, f)
        self.log = open(os.path.join(work, f"{name}.{LOG}"), "w")
        self.p = subprocess.Popen([python_for(name), os.path.join(HERE, "peers.py"), name, path], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, **env})
        self.first = self.answer(limit)

    def answer(self, limit):
        """The next line of the peer, or none and the reason in `gap`."""
        ready, _, _ = select.select([self.p.stdout], [], [], limit)
        line = self.p.stdout.readline() if ready else ""
        if line:
            got = json.loads(line)
            if "gap" not in got:
                return got
            self.gap = got["gap"]
        else:
            self.gap = f"ends with {self.p.wait()}" if ready else f"over {limit:.0f} s"
        self.close()
        return None

    def ask(self, limit=300, **what):
        try:
            self.p.stdin.write(json.dumps(what) + "\n")
            self.p.stdin.flush()
        except BrokenPipeError:
            self.gap = f"ends with {self.p.wait()}"
            return None
        return self.answer(limit)

    def close(self):
        if self.p.poll() is None:
            self.p.stdin.close()
            try:
                self.p.wait(10)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()
        self.p.stdout.close()
        self.log.close()


def convert(name, spec, work, limit):
    """What the peer makes of the model, kept in its folder. Returns the reason why there is none, or nothing."""
    folder = spec["folder"]
    done = os.path.join(folder, "done.json")
    if os.path.exists(done):
        with open(done) as f:
            return json.load(f)["gap"]
    os.makedirs(folder, exist_ok=True)
    r = Runner(name, dict(spec, convert=True), work, {}, limit)
    r.close()
    if not r.gap.startswith("not installed"):
        with open(done, "w") as f:
            json.dump({"gap": r.gap}, f)
    return r.gap


def error(got, want):
    """Largest error over the largest reference value of all outputs; why there is none as text."""
    worst = 0.0
    if len(got) != len(want):
        return f"{len(got)} outputs for {len(want)}"
    for g, w in zip(got, want):
        if g.size != w.size:
            return f"an output of {g.size} elements for {w.size}"
        if not w.size:
            continue
        w64, g64 = w.astype(np.float64).ravel(), g.astype(np.float64).ravel()
        if not np.array_equal(np.isfinite(g64), np.isfinite(w64)):
            return "values that are not finite"
        fine = np.isfinite(w64)
        scale = np.abs(w64[fine]).max(initial=0.0)
        worst = max(worst, np.abs(g64[fine] - w64[fine]).max(initial=0.0) / (scale or 1.0))
    return float(worst)


def outputs(path):
    with np.load(path) as z:
        return [z[k] for k in z.files]


def contest(names, spec, work, options, tolerance, want=None):
    """{peer: {ms, error, ...} or {gap}}. The reference is onnxruntime's output, or `want`. options: threads, rounds, turn_seconds, starts,
    limit, no_convert."""
    rows, runners = {}, []
    env = {"OMP_NUM_THREADS": str(options["threads"]), "OPENBLAS_NUM_THREADS": "1"}
    for name in names:
        if name == "tinygrad" and options["threads"] > 1:
            rows[name] = {"gap": "runs its kernels on one thread"}
            continue
        one = dict(spec, threads=options["threads"], folder=os.path.join(spec["kept"], name))
        if name in peers.CONVERTS:
            if options.get("no_convert") and not os.path.exists(os.path.join(one["folder"], "done.json")):
                rows[name] = {"gap": "not converted yet, and --quick does not"}
                continue
            gap = convert(name, one, work, options["limit"])
            if gap:
                rows[name] = {"gap": gap}
                continue
        firsts = []
        starts = 1 if name == "tinygrad" else options["starts"]  # it compiles at each start
        for start in range(starts):
            r = Runner(name, one, work, env, options["limit"])
            if r.gap:
                break
            firsts.append(r.first)
            if start + 1 < starts:
                r.close()
        if r.gap:
            rows[name] = {"gap": r.gap}
            continue
        best = min(firsts, key=lambda f: f["first_s"])
        rows[name] = {"first_ms": best["first_s"] * 1e3, "load_ms": best["load_s"] * 1e3, "first_cpu_ms": min(f["first_cpu_s"] for f in firsts) * 1e3,
                      "faults": best["faults"], "base_mb": best["base_mb"], "peak_mb": best["peak_mb"]}
        runners.append(r)
    if want is None and rows.get("onnxruntime", {}).get("gap") is None and "onnxruntime" in rows:
        want = outputs(os.path.join(work, "onnxruntime.npz"))
    for r in runners:
        if want is not None:
            e = error(outputs(r.spec["result"]), want)
            rows[r.name]["error"] = e
            limit = tolerance if r.name.startswith("tgaot") else max(tolerance, 0.02)
            if isinstance(e, str) or e > limit:
                rows[r.name]["wrong"] = e if isinstance(e, str) else f"error {e:.1e} of the largest value"
    key = "cpu" if options["threads"] == 1 else "wall"
    blocks = {}
    for r in runners:
        got = r.ask(seconds=0.02, block=1)
        if got:
            blocks[r.name] = max(1, int(0.002 / max(got["wall"], 1e-7)))
    for round_ in range(options["rounds"]):
        k = round_ % max(1, len(runners))
        for r in runners[k:] + runners[:k]:
            if not r.gap:
                got = r.ask(seconds=options["turn_seconds"], block=blocks[r.name], alone=options["alone"])
                if got:
                    r.turns.append(got[key] * 1e3)
    for r in runners:
        if r.gap:
            rows[r.name] = {"gap": r.gap}
            continue
        rows[r.name]["ms"] = statistics.median(r.turns)
        rows[r.name]["spread"] = max(r.turns) / min(r.turns)
        if r.name == "tgaot" and options["threads"] == 1:
            got = r.ask(kernels=True, alone=options["alone"])
            rows[r.name]["kernels"] = got["kernels"] if got else []
        r.close()
    return rows, want
