"""The runtimes that are compared, each in a process of its own: `python peers.py NAME SPEC` (contest.py starts them).

SPEC is a JSON file: model (an ONNX file whose input shapes are fixed), bundle (tgaot's), inputs (an .npz, arrays in the order of the model's
inputs), input_names, output_names, threads, folder (for what a peer converts the model to), result (.npz to write the outputs to), library.
A peer says one JSON object a line: first {load_s, first_s, base_mb, peak_mb} once it has run, or {gap} if it cannot; then, for every line
{"seconds": s, "block": n} that it reads, the median {wall, cpu} in seconds of a run.
"""
import importlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


class Gap(Exception):
    """The peer is not there or does not take this model."""


def need(module):
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise Gap(f"not installed ({e.name or module})")


def aligned(a):
    """A copy that begins at a multiple of 64, so that nobody has to copy it again."""
    room = np.empty(a.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    out = room[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


class Tgaot:
    def __init__(self, spec):
        sys.path.insert(0, HERE)
        import tgb

        self.tgb, self.spec = tgb, spec

    def load(self, inputs):
        self.model = self.tgb.Model(self.spec["bundle"], self.spec["library"], threads=self.spec["threads"], huge=self.spec.get("huge", False))
        self.model.prepare(inputs)

    def run(self):
        self.model.step()

    def outputs(self):
        return self.model.out

    def kernels(self):
        return self.model.profile(self.spec.get("profile_runs", 7))


class TgaotPlain(Tgaot):
    """The same model without search, beside the searched one."""

    def __init__(self, spec):
        super().__init__(dict(spec, bundle=spec["plain"]))


class Onnxruntime:
    def __init__(self, spec):
        self.ort, self.spec = need("onnxruntime"), spec

    def load(self, inputs):
        o = self.ort.SessionOptions()
        o.log_severity_level = 3
        o.intra_op_num_threads, o.inter_op_num_threads = self.spec["threads"], 1
        self.session = self.ort.InferenceSession(self.spec["model"], o, providers=["CPUExecutionProvider"])
        # Bound once: a run is then the model alone, without python's conversions.
        self.io = self.session.io_binding()
        for name, x in zip(self.spec["input_names"], inputs):
            self.io.bind_cpu_input(name, x)
        for name in self.spec["output_names"]:
            self.io.bind_output(name, "cpu")

    def run(self):
        self.session.run_with_iobinding(self.io)

    def outputs(self):
        return self.io.copy_outputs_to_cpu()


class Openvino:
    def __init__(self, spec):
        self.ov, self.spec = need("openvino"), spec

    def precision(self):
        return "f32"  # its default computes in bfloat16 where the core has it

    def load(self, inputs):
        config = {"INFERENCE_NUM_THREADS": self.spec["threads"], "NUM_STREAMS": "1", "PERFORMANCE_HINT": "LATENCY",
                  "INFERENCE_PRECISION_HINT": self.precision()}
        self.request = self.ov.Core().compile_model(self.spec["model"], "CPU", config).create_infer_request()
        self.held = [self.ov.Tensor(x, shared_memory=True) for x in inputs]
        for i, t in enumerate(self.held):
            self.request.set_input_tensor(i, t)

    def run(self):
        self.request.infer()

    def outputs(self):
        return [np.array(self.request.get_output_tensor(i).data) for i in range(len(self.spec["output_names"]))]


class OpenvinoBf16(Openvino):
    def precision(self):
        return "bf16"


class Tinygrad:
    def __init__(self, spec):
        os.environ.setdefault("DEV", "CPU")
        if os.path.exists("/usr/bin/clang-22"):
            os.environ.setdefault("CC", "clang-22")
        self.t, self.onnx, self.spec = need("tinygrad"), need("tinygrad.nn.onnx"), spec

    def load(self, inputs):
        runner, names = self.onnx.OnnxRunner(self.spec["model"]), self.spec["output_names"]

        def once(**feeds):
            got = runner(feeds)
            return [got[n].contiguous().realize() for n in names]

        self.jit = self.t.TinyJit(once)
        self.feeds = {n: self.t.Tensor(x).realize() for n, x in zip(self.spec["input_names"], inputs)}

    def run(self):
        self.out = self.jit(**self.feeds)
        self.t.Device[self.t.Device.DEFAULT].synchronize()

    def outputs(self):
        return [o.numpy() for o in self.out]


class Ncnn:
    """Through pnnx, whose converter writes beside the model how batches are passed."""

    def __init__(self, spec):
        self.ncnn, self.spec = need("ncnn"), spec

    def convert(self):
        folder, shapes = self.spec["folder"], []
        pnnx = need("importlib.util").find_spec("pnnx")
        if not pnnx:
            raise Gap("not installed (pnnx)")
        types = {"float32": "f32", "int64": "i64", "int32": "i32", "float64": "f64", "bool": "i8", "uint8": "u8"}
        for x in np.load(self.spec["inputs"]).values():
            if x.dtype.name not in types:
                raise Gap(f"pnnx has no name for {x.dtype}")
            shapes.append(f"[{','.join(map(str, x.shape))}]{types[x.dtype.name]}")
        copy = os.path.join(folder, "m.onnx")
        if not os.path.exists(copy):
            os.link(self.spec["model"], copy)
        done = subprocess.run([os.path.join(os.path.dirname(pnnx.origin), "pnnx"), copy, "inputshape=" + ",".join(shapes), "fp16=0"],
                              capture_output=True, text=True, cwd=folder)
        for name in os.listdir(folder):  # its own copies of the weights
            if "pnnx" in name:
                os.remove(os.path.join(folder, name))
        if not os.path.exists(os.path.join(folder, "m_ncnn.py")):
            raise Gap(f"pnnx does not convert it: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")

    def load(self, inputs):
        folder = self.spec["folder"]
        with open(os.path.join(folder, "m_ncnn.py")) as f:
            script = f.read()
        ins = re.findall(r'ex\.input\("(\w+)", ncnn\.Mat\(\w+(?:\.[\w()]+)*\.numpy\(\)(?:, batch_index=(\d+))?\)', script)
        outs = re.findall(r'ex\.extract\("(\w+)"\)\s+out\.append\(torch\.from_numpy\(\w+\.numpy\((?:batch_index=(\d+))?\)', script)
        if len(ins) != len(inputs) or len(outs) != len(self.spec["output_names"]):
            raise Gap(f"pnnx left {len(ins)} inputs and {len(outs)} outputs, the model has {len(inputs)} and {len(self.spec['output_names'])}")
        self.net = self.ncnn.Net()
        o = self.net.opt
        o.num_threads = self.spec["threads"]
        for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage", "use_vulkan_compute"):
            if hasattr(o, name):
                setattr(o, name, False)
        if self.net.load_param(os.path.join(folder, "m.ncnn.param")) or self.net.load_model(os.path.join(folder, "m.ncnn.bin")):
            raise Gap("ncnn does not load what pnnx wrote (an operator without a layer)")
        self.feeds = []
        for (name, batch), x in zip(ins, inputs):
            x = x.astype(np.int32) if x.dtype == np.int64 else x
            mat = self.ncnn.Mat(x, batch_index=int(batch)) if batch else self.ncnn.Mat(x)
            self.feeds.append((name, mat.clone()))
        self.names = outs

    def run(self):
        with self.net.create_extractor() as ex:
            for name, mat in self.feeds:
                ex.input(name, mat)
            self.out = []
            for name, _ in self.names:
                code, mat = ex.extract(name)
                if code:
                    raise Gap(f"ncnn stops at output {name} with {code}")
                self.out.append(mat)

    def outputs(self):
        return [np.array(m.numpy(batch_index=int(b)) if b else m.numpy()) for m, (_, b) in zip(self.out, self.names)]


class Mnn:
    def __init__(self, spec):
        self.mnn, self.spec = need("MNN"), spec

    def path(self):
        return os.path.join(self.spec["folder"], "m.mnn")

    def convert(self):
        # The converter itself, not the command mnnconvert, which installs packages and reports to its makers.
        tools = need("_tools")
        tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", self.spec["model"], "--MNNModel", self.path(), "--bizCode", "bench"])
        if not os.path.exists(self.path()):
            raise Gap("its converter does not take the model")

    def load(self, inputs):
        self.net = self.mnn.Interpreter(self.path())
        self.session = self.net.createSession({"backend": "CPU", "numThread": self.spec["threads"], "precision": "high"})
        kinds = {"float32": self.mnn.Halide_Type_Float, "int32": self.mnn.Halide_Type_Int, "uint8": self.mnn.Halide_Type_Uint8}
        self.pairs = []
        for name, x in zip(self.spec["input_names"], inputs):
            x = x.astype(np.int32) if x.dtype in (np.int64, np.bool_) else x
            if x.dtype.name not in kinds:
                raise Gap(f"no inputs of {x.dtype}")
            to = self.net.getSessionInput(self.session, name)
            self.net.resizeTensor(to, x.shape)
            self.pairs.append((to, x, kinds[x.dtype.name]))
        self.net.resizeSession(self.session)
        self.held = [(to, self.mnn.Tensor(x.shape, kind, x, self.mnn.Tensor_DimensionType_Caffe)) for to, x, kind in self.pairs]

    def run(self):
        for to, host in self.held:
            to.copyFrom(host)
        self.net.runSession(self.session)

    def outputs(self):
        out = []
        for name in self.spec["output_names"]:
            t = self.net.getSessionOutput(self.session, name)
            shape, kind = t.getShape(), t.getDataType()
            dtype = np.float32 if kind == self.mnn.Halide_Type_Float else np.int32
            host = self.mnn.Tensor(shape, kind, np.zeros(shape, dtype), self.mnn.Tensor_DimensionType_Caffe)
            t.copyToHostTensor(host)
            out.append(np.array(host.getNumpyData()).reshape(shape))
        return out


PEERS = {"tgaot": Tgaot, "tgaot_plain": TgaotPlain, "onnxruntime": Onnxruntime, "openvino": Openvino, "openvino_bf16": OpenvinoBf16, "ncnn": Ncnn, "mnn": Mnn,
         "tinygrad": Tinygrad}
CONVERTS = [n for n, c in PEERS.items() if hasattr(c, "convert")]


def peak_mb():
    with open("/proc/self/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+) kB", f.read()).group(1)) / 1024


def priority(high):
    """Real-time priority for all threads of the process, or back."""
    for tid in os.listdir("/proc/self/task"):
        os.sched_setscheduler(int(tid), os.SCHED_FIFO if high else os.SCHED_OTHER, os.sched_param(10 if high else 0))


def turn(peer, seconds, block):
    """Median seconds of a run, over blocks of runs so that reading clocks does not count."""
    wall, cpu, end = [], [], time.perf_counter() + seconds
    peer.run()  # the caches are another peer's
    while len(wall) < 2 or time.perf_counter() < end:
        w, c = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(block):
            peer.run()
        c, w = time.process_time_ns() - c, time.perf_counter_ns() - w
        wall.append(w / block), cpu.append(c / block)
    return {"wall": statistics.median(wall) * 1e-9, "cpu": statistics.median(cpu) * 1e-9}


def serve(name, spec, say):
    peer = PEERS[name](spec)
    if spec.get("convert"):
        peer.convert()
        say({"converted": True})
        return
    inputs = [aligned(x) for x in np.load(spec["inputs"]).values()]
    base, faults = peak_mb(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start, cpu = time.perf_counter(), time.process_time()
    peer.load(inputs)
    loaded = time.perf_counter()
    peer.run()
    first, cpu = time.perf_counter(), time.process_time() - cpu
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    out = peer.outputs()
    np.savez(spec["result"], *out)
    say({"load_s": loaded - start, "first_s": first - start, "first_cpu_s": cpu, "faults": faults, "base_mb": base, "peak_mb": peak_mb()})
    for line in sys.stdin:
        ask = json.loads(line)
        if ask.get("alone"):
            priority(True)
        answer = {"kernels": peer.kernels()} if ask.get("kernels") else turn(peer, ask["seconds"], ask["block"])
        if ask.get("alone"):
            priority(False)
        say(answer)


def main():
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    with open(sys.argv[2]) as f:
        spec = json.load(f)
    try:
        serve(sys.argv[1], spec, say)
    except Gap as g:
        say({"gap": str(g)})
    except Exception as e:
        say({"gap": f"{type(e).__name__}: {str(e).strip().splitlines()[0][:160] if str(e).strip() else ''}"})


if __name__ == "__main__":
    main()
