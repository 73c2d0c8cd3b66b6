"""What suites of small models share: making one, compiling it, opening it through libtgb.so, comparing."""
import json
import os

import harness
from harness import need
from libtgb import Model, TgbError

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

F, I = TensorProto.FLOAT, TensorProto.INT64


def close(got, want, what, tolerance=1e-5):
    need(got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}")
    other = ~((got == want) | ((got != got) & (want != want)))  # infinities and NaN are equal to themselves
    got, want = got[other].astype(np.float64), want[other]
    error = np.max(np.abs(got - want) / np.maximum(1, np.abs(want))) if want.size else 0
    need(error <= tolerance, f"{what}: error {error:.3g}, {got.ravel()[:3]} {want.ravel()[:3]}")


class Case:
    def __init__(self, tools, folder):
        self.tools, self.dir = tools, folder
        self.env = {"DEV": "CPU", "CACHEDB": os.path.join(folder, "cache.db"), "PARALLEL": "0"}

    def model(self, nodes, inputs, outputs, weights=(), opset=18):
        info = lambda name, dims, kind=F: helper.make_tensor_value_info(name, kind, dims)
        g = helper.make_graph(nodes, "g", [info(*i) for i in inputs], [info(*o) for o in outputs],
                              [onnx.numpy_helper.from_array(v, k) for k, v in weights])
        path = os.path.join(self.dir, "model.onnx")
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        onnx.checker.check_model(m)
        onnx.save(m, path)
        return path

    def compile(self, path, *options, words=None):
        """The bundle; with words, compile must fail and say them."""
        out = os.path.join(self.dir, "model.tgb")
        code, _, err = harness.call([self.tools["tgaot"], "compile", path, "-o", out, *options], 120, self.env)
        if words is None:
            need(code == 0, f"compile: {err.strip()[-300:]}")
        else:
            need(code == 1, "compile accepted what it must refuse")
            for w in words:
                need(w in err, f"no {w!r} in: {err.strip()}")
        return out

    def retune(self, bundle):
        code, _, err = harness.call([self.tools["tgaot"], "retune", bundle, "-o", bundle], 120, self.env)
        need(code == 0, f"retune: {err.strip()[-300:]}")
        return bundle

    def open(self, bundle):
        return Model(os.path.dirname(os.path.dirname(self.tools["tgb"])), bundle)

    def inspect(self, bundle, part):
        code, out, err = harness.call([self.tools["tgaot"], "inspect", "--json", "--part", part, bundle], 60, self.env)
        need(code == 0, err)
        return json.loads(out)


def random(seed, *dims):
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def scalar(v):
    return np.array(v, np.int64)


def oracle(path, arrays):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays)})


def agree(c, path, m, *arrays):
    for got, want in zip(m.run(*arrays), oracle(path, arrays)):
        close(got, want, f"at {[a.tolist() if a.size < 9 else a.shape for a in arrays]}")


def refused(m, words, *arrays):
    try:
        m.run(*arrays)
    except TgbError as e:
        for w in words:
            need(w in str(e), f"no {w!r} in: {e}")
        return
    need(False, f"{[a.tolist() for a in arrays]} ran")


def both(c, path, options, good, bad, words):
    """Every one of `good` agrees, every one of `bad` is an error with these words, and a good run after it is good."""
    with c.open(c.compile(path, *options)) as m:
        for arrays in good:
            agree(c, path, m, *arrays)
        for arrays in bad:
            refused(m, words, *arrays)
            agree(c, path, m, *good[0])
