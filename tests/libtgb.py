"""A bundle that is open and run more than once, for tests of state, streams and changing sizes: tools/bench/tgb.py with outputs of any size."""
import ctypes
import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools", "bench"))
import tgb

TgbError = RuntimeError


class Model(tgb.Model):
    """inputs, outputs: (name, dtype number, largest dims). run() takes arrays of the sizes of this run, and gives them."""

    def __init__(self, build, path, threads=1):
        super().__init__(path, os.path.join(os.path.abspath(build), "runtime-lite", "libtgb.so"), threads)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.tgb_close(self.handle)

    def run(self, *arrays):
        held = [np.ascontiguousarray(a, tgb.DTYPES[kind]).reshape(np.shape(a)) for a, (_, kind, _) in zip(arrays, self.inputs, strict=True)]
        ins = self._tensors([(name, kind, a.shape) for a, (name, kind, _) in zip(held, self.inputs)], held)
        outs = (tgb.Tensor * max(1, len(self.outputs)))()
        for t, (_, kind, _) in zip(outs, self.outputs):
            t.size, t.dtype = ctypes.sizeof(tgb.Tensor), kind
        self._check(self.lib.tgb_run(self.handle, ins, len(held), outs, len(self.outputs)), self.handle)
        return [np.frombuffer(ctypes.string_at(t.data, t.bytes) if t.bytes else b"", tgb.DTYPES[t.dtype]).reshape([t.dims[k] for k in range(t.rank)])
                for t in outs[:len(self.outputs)]]

    def reset(self):
        self._check(self.lib.tgb_reset(self.handle), self.handle)
