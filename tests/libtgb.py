"""libtgb.so from Python, for tests that run a model more than once: state, streams, changing sizes."""
import ctypes as c
import os

import numpy as np

KINDS = {0: np.bool_, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.int64, 5: np.uint8, 6: np.uint16, 7: np.uint32, 8: np.uint64, 9: np.float16,
         11: np.float32, 12: np.float64}  # tgb_dtype


class Tensor(c.Structure):
    _fields_ = [("size", c.c_uint32), ("dtype", c.c_int), ("data", c.c_void_p), ("bytes", c.c_size_t), ("rank", c.c_uint32),
                ("dims", c.POINTER(c.c_int64)), ("memory", c.c_int), ("handle", c.c_uint64)]


class Signature(c.Structure):
    _fields_ = [("size", c.c_uint32), ("dtype", c.c_int), ("name", c.c_char_p), ("rank", c.c_uint32), ("dims", c.POINTER(c.c_int64)),
                ("vars", c.POINTER(c.c_char_p))]


class Options(c.Structure):
    _fields_ = [("size", c.c_uint32), ("device", c.c_char_p), ("alloc", c.c_void_p), ("free", c.c_void_p), ("ctx", c.c_void_p), ("jit", c.c_int),
                ("threads", c.c_uint32), ("debug", c.c_uint32), ("verify", c.c_uint32), ("huge", c.c_uint32), ("inspect", c.c_uint32),
                ("require_key", c.c_void_p)]


class TgbError(Exception):
    pass


class Model:
    """A bundle that is open; run() takes and gives numpy arrays in signature order."""

    def __init__(self, build, path, threads=1):
        self.lib = c.CDLL(os.path.join(os.path.abspath(build), "runtime-lite", "libtgb.so"))
        self.lib.tgb_message.restype = c.c_char_p
        self.model = c.c_void_p()
        options = Options(c.sizeof(Options), threads=threads)
        if self.lib.tgb_open_file(path.encode(), c.byref(options), c.byref(self.model)):
            raise TgbError(self.lib.tgb_message(None).decode())
        self.inputs, self.outputs = self._side("input"), self._side("output")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.tgb_close(self.model)

    def _side(self, side):
        count, get = getattr(self.lib, f"tgb_{side}_count"), getattr(self.lib, f"tgb_{side}")
        found = []
        for i in range(count(self.model)):
            s = Signature(c.sizeof(Signature))
            get(self.model, i, c.byref(s))
            found.append((s.name.decode(), np.dtype(KINDS[s.dtype]), s.dtype))
        return found

    def _good(self, status):
        if status:
            raise TgbError(self.lib.tgb_message(self.model).decode())

    def run(self, *arrays):
        held = [np.ascontiguousarray(a, dtype=kind).reshape(np.shape(a)) for a, (_, kind, _) in zip(arrays, self.inputs, strict=True)]
        ins, outs = (Tensor * max(1, len(held)))(), (Tensor * len(self.outputs))()
        for t, a, (_, _, number) in zip(ins, held, self.inputs):
            t.size, t.dtype, t.data, t.bytes, t.rank = c.sizeof(Tensor), number, a.ctypes.data, a.nbytes, a.ndim
            t.dims = (c.c_int64 * a.ndim)(*a.shape)
        for t, (_, _, number) in zip(outs, self.outputs):
            t.size, t.dtype = c.sizeof(Tensor), number
        self._good(self.lib.tgb_run(self.model, ins, len(held), outs, len(self.outputs)))
        found = []
        for t, (_, kind, _) in zip(outs, self.outputs):
            raw = c.string_at(t.data, t.bytes) if t.bytes else b""
            found.append(np.frombuffer(raw, dtype=kind).reshape([t.dims[k] for k in range(t.rank)]))
        return found

    def reset(self):
        self._good(self.lib.tgb_reset(self.model))
