"""The machine's peaks, measured in the same run as everything else, and the share of them that a kernel reaches."""
import json
import os
import platform
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def build(name, work):
    """The program made from name.cc, and why there is none."""
    source, program = os.path.join(HERE, name + ".cc"), os.path.join(work, name)
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        try:
            done = subprocess.run(["c++", "-O2", "-std=c++20", "-march=native", "-pthread", source, "-o", program], capture_output=True, text=True)
        except FileNotFoundError:
            return None, "there is no C++ compiler"
        if done.returncode:
            return None, f"{name}.cc does not compile: {done.stderr.strip().splitlines()[0]}"
    return program, ""


class Machine:
    def __init__(self, work, seconds=0.25):
        """Builds the probe once a work folder and runs it. Where that is not possible there are no percentages, and `why` says so."""
        self.peaks, self.why, self.seconds = None, "", seconds
        if platform.machine() == "x86_64":
            self.program, self.why = build("probe", work)
        else:
            self.why = f"the probe knows x86-64 only, not {platform.machine()}"
        self.measure()

    def measure(self):
        """Once more; the best of all measurements stands, since load only ever lowers them."""
        if self.why:
            return
        new = json.loads(subprocess.run([self.program, str(self.seconds)], capture_output=True, text=True, check=True).stdout)
        old = self.peaks or {}
        handover = old.get("handover_ns", []) + [new.pop("handover_ns")]
        self.peaks = {k: max(v, old.get(k, 0)) for k, v in new.items() if k != "read"}
        self.peaks["handover_ns"] = handover  # one a measurement: it changes with the host
        self.peaks["read"] = {k: max(v, old.get("read", {}).get(k, 0)) for k, v in new["read"].items()}

    def flops_peak(self, kind="f32"):
        """GFLOP/s of one core; a kind without instructions of its own is counted against f32."""
        return self.peaks.get(kind, self.peaks["f32"])

    def bytes_peak(self, moved):
        """GB/s of one core for a kernel that moves so many bytes: that of the smallest measured working set which holds them."""
        sizes = sorted((int(k), v) for k, v in self.peaks["read"].items())
        for kib, rate in sizes:
            if moved <= kib << 10:
                return rate
        return sizes[-1][1]

    def shares(self, ns, flops, moved, kind="f32"):
        """(percent of the multiply-add peak, percent of the memory peak)."""
        if not self.peaks or ns <= 0:
            return 0.0, 0.0
        return 100 * flops / ns / self.flops_peak(kind), 100 * moved / ns / self.bytes_peak(moved)

    def line(self):
        if not self.peaks:
            return f"peaks: {self.why}"
        read = ", ".join(f"{k} KiB {v:.0f}" for k, v in self.peaks["read"].items())
        kinds = ", ".join(f"{k} {v:.1f}" for k, v in self.peaks.items() if isinstance(v, float) and k != "read_two")
        load = os.getloadavg()[0]
        handover = ", ".join(f"{v:.1f}" for v in self.peaks["handover_ns"])
        return f"one core: {kinds} GFLOP/s; reads {read} GB/s; two cores from memory {self.peaks['read_two']:.0f} GB/s; a line another core wrote {handover} ns; load average {load:.1f} of {os.cpu_count()}"
