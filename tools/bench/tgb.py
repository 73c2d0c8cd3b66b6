"""libtgb.so from Python, for tests and benchmarks: open a bundle, run it on numpy arrays, time its kernels."""
import ctypes as C
import numpy as np

DTYPES = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "u2", "f4", "f8"] + ["u1"] * 10
BITS = [8, 8, 16, 32, 64, 8, 16, 32, 64, 16, 16, 32, 64, 2, 2, 4, 4, 8, 8, 8, 8, 8, 4]


class Tensor(C.Structure):
    _fields_ = [("size", C.c_uint32), ("dtype", C.c_int), ("data", C.c_void_p), ("bytes", C.c_size_t), ("rank", C.c_uint32),
                ("dims", C.POINTER(C.c_int64)), ("memory", C.c_int), ("handle", C.c_uint64)]


class Signature(C.Structure):
    _fields_ = [("size", C.c_uint32), ("dtype", C.c_int), ("name", C.c_char_p), ("rank", C.c_uint32), ("dims", C.POINTER(C.c_int64)),
                ("vars", C.POINTER(C.c_char_p))]


class Options(C.Structure):
    _fields_ = [("size", C.c_uint32), ("device", C.c_char_p), ("alloc", C.c_void_p), ("free", C.c_void_p), ("ctx", C.c_void_p),
                ("jit", C.c_int), ("threads", C.c_uint32), ("debug", C.c_uint32), ("verify", C.c_uint32), ("huge", C.c_uint32),
                ("inspect", C.c_uint32), ("require_key", C.c_void_p)]


class Event(C.Structure):
    _fields_ = [("size", C.c_uint32), ("name", C.c_char_p), ("start_ns", C.c_uint64), ("end_ns", C.c_uint64), ("flops", C.c_int64),
                ("bytes", C.c_int64), ("groups", C.c_int64)]


PROFILER = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(Event))


class Model:
    """One opened bundle. run(list of arrays) -> list of arrays, in signature order."""

    def __init__(self, path, lib, threads=1, huge=False):
        self.lib = C.CDLL(lib)
        self.lib.tgb_message.restype = C.c_char_p
        self.handle = C.c_void_p()
        o = Options(size=C.sizeof(Options), threads=threads, huge=int(huge))
        self._check(self.lib.tgb_open_file(path.encode(), C.byref(o), C.byref(self.handle)), None)
        self.inputs = [self._signature(self.lib.tgb_input, i) for i in range(self.lib.tgb_input_count(self.handle))]
        self.outputs = [self._signature(self.lib.tgb_output, i) for i in range(self.lib.tgb_output_count(self.handle))]
        self.out = [self._room(self._stored(s), DTYPES[s[1]]) for s in self.outputs]
        self.out_tensors = self._tensors(self.outputs, self.out)

    @staticmethod
    def _room(shape, dtype):
        """An array that begins at a multiple of 64: numpy's may begin in the middle of a line of the cache, and each store of a vector then goes to two."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        room = np.empty(size + 64, np.uint8)
        start = -room.ctypes.data % 64
        return room[start : start + size].view(dtype).reshape(shape)

    @staticmethod
    def _stored(sig):
        """Kinds under 8 bits are packed bytes."""
        if BITS[sig[1]] >= 8:
            return sig[2]
        return ((int(np.prod(sig[2])) * BITS[sig[1]] + 7) // 8,)

    def _check(self, status, handle):
        if status:
            raise RuntimeError((self.lib.tgb_message(handle) or b"").decode() or f"status {status}")

    def _signature(self, fn, i):
        s = Signature(size=C.sizeof(Signature))
        self._check(fn(self.handle, i, C.byref(s)), self.handle)
        return s.name.decode(), s.dtype, tuple(s.dims[k] for k in range(s.rank))

    def _tensors(self, sigs, arrays):
        ts = (Tensor * max(1, len(sigs)))()
        for t, (_, dtype, dims), a in zip(ts, sigs, arrays):
            t.size, t.dtype, t.data, t.bytes, t.rank = C.sizeof(Tensor), dtype, a.ctypes.data, a.nbytes, len(dims)
            t.dims = (C.c_int64 * max(1, len(dims)))(*dims)
        return ts

    def prepare(self, arrays):
        self.held = [np.ascontiguousarray(a) for a in arrays]
        self.in_tensors = self._tensors(self.inputs, self.held)

    def step(self):
        self._check(self.lib.tgb_run(self.handle, self.in_tensors, len(self.inputs), self.out_tensors, len(self.outputs)), self.handle)

    def run(self, arrays):
        self.prepare(arrays)
        self.step()
        return [a.copy() for a in self.out]

    def profile(self, runs=5):
        """Kernels of one run: (name, best ns, flops, bytes)."""
        seen = []

        def on_event(_, e):
            e = e.contents
            seen.append((e.name.decode(), e.end_ns - e.start_ns, e.flops, e.bytes))
        cb = PROFILER(on_event)
        self._check(self.lib.tgb_profile(self.handle, cb, None), self.handle)
        rounds = []
        for _ in range(runs):
            seen.clear()
            self.step()
            rounds.append(list(seen))
        self.lib.tgb_profile(self.handle, None, None)
        return [(r[0][0], min(x[1] for x in r), r[0][2], r[0][3]) for r in zip(*rounds)]
