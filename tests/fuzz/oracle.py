#!/usr/bin/env python3
"""Judges the judge: computes the graphs that `graph_fuzz --dump DIR` wrote with numpy and compares with the interpreter's answers.

  graph_fuzz --stage none --seed 1 --count 500 --dump /tmp/graphs && tests/fuzz/oracle.py /tmp/graphs

Nothing here is shared with compiler/ir: every op is written again from its line in ops.def. Exit code 1 if any graph differs.
"""
import math
import pathlib
import re
import sys

import ml_dtypes as ml
import numpy as np

FLOAT = {"f16": np.float16, "bf16": ml.bfloat16, "f32": np.float32, "f64": np.float64}
MINI = {"f8e4m3fn": ml.float8_e4m3fn, "f8e4m3fnuz": ml.float8_e4m3fnuz, "f8e5m2": ml.float8_e5m2, "f8e5m2fnuz": ml.float8_e5m2fnuz,
        "f8e8m0": ml.float8_e8m0fnu, "f4e2m1": ml.float4_e2m1fn}
INT = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
       "index": np.int64, "bool": np.bool_}
PACKED = {"i2": (2, True), "u2": (2, False), "i4": (4, True), "u4": (4, False), "f4e2m1": (4, False)}

# Values are numpy arrays: float kinds as float64 (numbers of the kind), packed integers as int32, other integers as themselves.
erf = np.vectorize(math.erf, otypes=[np.float64])


def is_float(d):
    return d in FLOAT or d in MINI


def rounded(d, x):
    x = np.asarray(x, np.float64)
    if d in FLOAT:
        return x.astype(FLOAT[d]).astype(np.float64)
    info = ml.finfo(MINI[d])
    return np.clip(x, float(info.min), float(info.max)).astype(MINI[d]).astype(np.float64)


def wrapped(d, x):
    if d == "bool":
        return np.asarray(x) != 0
    if d in PACKED:
        bits, signed = PACKED[d]
        x = np.asarray(x).astype(np.int64) & ((1 << bits) - 1)
        return np.where(signed & (x >> (bits - 1) == 1), x - (1 << bits), x).astype(np.int32)
    return np.asarray(x).astype(INT[d])


def load(path, dtype, dims):
    raw = np.frombuffer(path.read_bytes(), np.uint8)
    n = math.prod(dims)
    if dtype in PACKED:
        bits, _ = PACKED[dtype]
        per = 8 // bits
        codes = np.stack([raw >> (bits * i) & ((1 << bits) - 1) for i in range(per)], 1).reshape(-1)[:n]
        if dtype == "f4e2m1":
            return codes.astype(np.uint8).view(MINI[dtype]).astype(np.float64).reshape(dims)
        return wrapped(dtype, codes).reshape(dims)
    if is_float(dtype):
        return raw.view(FLOAT.get(dtype) or MINI[dtype]).astype(np.float64).reshape(dims)
    return raw.view(INT[dtype]).reshape(dims)


def cast(to, frm, x):
    if is_float(frm):
        if is_float(to):
            return rounded(to, x)
        if to == "bool":
            return x != 0
        if to in PACKED:
            raise ValueError("float to packed integer")
        info = np.iinfo(INT[to])
        out = np.empty(x.shape, INT[to])
        for i, v in np.ndenumerate(x):  # Python's integers saturate exactly
            out[i] = 0 if math.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v)
        return out
    if is_float(to):
        if to in ("f32", "f64"):
            return np.asarray(x).astype(FLOAT[to]).astype(np.float64)
        return rounded(to, np.asarray(x).astype(np.float64))
    return wrapped(to, x)


def f_max(a, b):
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, np.maximum(a, b)))


def f_min(a, b):
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, np.minimum(a, b)))


UNARY = {
    "NEG": np.negative, "ABS": np.abs, "SQRT": np.sqrt, "RECIP": lambda x: 1 / x, "FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc,
    "ROUND": np.rint, "EXP": np.exp, "EXP2": np.exp2, "LOG": np.log, "LOG2": np.log2, "SIN": np.sin, "COS": np.cos, "TAN": np.tan,
    "ASIN": np.arcsin, "ACOS": np.arccos, "ATAN": np.arctan, "SINH": np.sinh, "COSH": np.cosh, "TANH": np.tanh, "ASINH": np.arcsinh,
    "ACOSH": np.arccosh, "ATANH": np.arctanh, "ERF": erf,
}
BINARY = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide, "REM": np.fmod, "POW": np.power, "MAX": f_max, "MIN": f_min}
COMPARE = {"LT": np.less, "LE": np.less_equal, "EQ": np.equal, "NE": np.not_equal}


def int_binary(op, d, a, b):
    if op in ("DIV", "REM"):
        q = np.where((a < 0) != (b < 0), -(np.abs(a) // np.abs(b)), np.abs(a) // np.abs(b)).astype(a.dtype) if np.issubdtype(a.dtype, np.signedinteger) else a // b
        # numpy's // of the smallest integer: its magnitude has no sign of its own.
        if np.issubdtype(a.dtype, np.signedinteger):
            q = np.array([int(x) // int(y) if (x < 0) == (y < 0) else -(-int(x) // int(y)) if x < 0 else -(int(x) // -int(y)) for x, y in zip(a.ravel(), b.ravel())], dtype=object)
            q = wrapped(d, np.array([((int(v) + 2**63) % 2**64) - 2**63 for v in q], np.int64)).reshape(a.shape)
        return q if op == "DIV" else wrapped(d, a - q * b)
    f = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "FLOORDIV": np.floor_divide, "FLOORMOD": np.mod, "MAX": np.maximum,
         "MIN": np.minimum, "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor, "SHL": np.left_shift, "SHR": np.right_shift}[op]
    return wrapped(d, f(a, b))


def fma(a, b, c, d):
    """a*b + c rounded once, by exact rationals where all are finite."""
    from fractions import Fraction
    out = np.empty(np.broadcast(a, b, c).shape)
    for i, (x, y, z) in enumerate(np.broadcast(a, b, c)):
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
            out.flat[i] = rounded(d, np.float64(x) * np.float64(y) + np.float64(z))
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        near = float(exact)
        # To odd in f64, so that the second rounding is the only one that counts.
        if d != "f64" and Fraction(near) != exact and not np.float64(near).view(np.int64) & 1:
            near = np.nextafter(near, math.inf if exact > Fraction(near) else -math.inf)
        out.flat[i] = rounded(d, near)
    return out


def alu(op, d, src, x):
    if op == "WHERE":
        return np.where(x[0], x[1], x[2])
    if op in COMPARE:
        return COMPARE[op](*x)
    k = src[0]
    if op == "MULACC":
        return fma(*x, k) if is_float(k) else wrapped(k, x[0] * x[1] + x[2])
    if op in UNARY and is_float(k):
        return rounded(k, UNARY[op](x[0]))
    if op in BINARY and is_float(k):
        return rounded(k, BINARY[op](*x))
    if op == "NOT":
        return ~x[0]
    if op == "NEG":
        return wrapped(k, -x[0])
    if op == "ABS":
        return np.abs(x[0])
    return int_binary(op, k, *np.broadcast_arrays(*x))


ALU = set(UNARY) | set(BINARY) | set(COMPARE) | {"WHERE", "MULACC", "NOT", "FLOORDIV", "FLOORMOD", "AND", "OR", "XOR", "SHL", "SHR"}
KINDS = ["ADD", "MUL", "MAX", "MIN", "AND", "OR"]


def identity(kind, d):
    if is_float(d):
        return {"ADD": 0.0, "MUL": 1.0, "MAX": -math.inf, "MIN": math.inf}[kind]
    info = None if d == "bool" else np.iinfo(INT[d])
    lo, hi = (False, True) if d == "bool" else (info.min, info.max)
    return {"ADD": 0, "MUL": 1, "MAX": lo, "MIN": hi, "AND": True if d == "bool" else INT[d](-1 if info.min < 0 else info.max), "OR": 0}[kind]


def combine(kind, d, a, b):
    if is_float(d):
        return BINARY[kind](a, b)
    if d == "bool":
        return {"ADD": np.logical_or, "MUL": np.logical_and, "MAX": np.logical_or, "MIN": np.logical_and, "AND": np.logical_and, "OR": np.logical_or}[kind](a, b)
    return int_binary(kind, d, a, b)


def scan_axis(kind, d, x, exclusive, reverse):
    """Along axis 0."""
    out, acc = np.empty_like(x), np.full(x.shape[1:], identity(kind, d), x.dtype)
    for i in range(len(x))[:: -1 if reverse else 1]:
        before, acc = acc, combine(kind, d, acc, x[i])
        out[i] = before if exclusive else acc
    return (rounded(d, out) if is_float(d) else out), (rounded(d, acc) if is_float(d) else acc)


class Graph:
    def __init__(self, folder):
        self.folder, self.files, self.nodes, self.val = folder, {}, {}, {}
        for line in (folder / "values.txt").read_text().splitlines():
            name, dtype, dims, error = re.fullmatch(r"(\S+) (\S+) \((.*)\) (\S+)", line).groups()
            self.files[name] = (dtype, [int(v) for v in dims.split(",")] if dims else [], float(error))
        for line in (folder / "graph.txt").read_text().splitlines():
            name, op, dtype, rest = re.fullmatch(r"(%\d+) = (\S+) (\S+)(.*)", line).groups()
            src = re.findall(r"%\d+", rest)
            arg = re.match(r" \[(.*?)\]| #(-?\d+)| ([^%]\S*)", rest)
            ints = [int(v) for v in arg[1].split(",")] if arg and arg[1] else []
            self.nodes[name] = (op, dtype, src, ints, int(arg[2]) if arg and arg[2] else None, arg[3] if arg else None)
            self.last = name

    def file(self, name):
        dtype, dims, _ = self.files[name]
        return load(self.folder / (name + ".bin"), dtype, dims)

    def run(self):
        self.bodies, self.rounds, self.running = set(), {}, set()  # rounds: the LOOPs on whose round a node depends
        for name, (op, _, src, ints, num, _) in self.nodes.items():
            if op == "PLACEHOLDER" or (op != "FOLD" and any(s in self.bodies for s in src)):
                self.bodies.add(name)
            on = {ints[0]} if op == "CARRY" else {num} if op == "STEP" else set()
            for i, s in enumerate(src):
                on |= self.rounds[s] - {ints[0] if op == "LOOP" and i >= 2 + ints[1] else None}
            self.rounds[name] = on
        for name in self.nodes:
            if name not in self.bodies and not self.rounds[name]:
                self.val[name] = self.node(name)
        return [self.val[s] for s in self.nodes[self.last][2]]

    def stack(self, name):
        return [int(self.val[s]) for s in self.nodes[name][2]]

    def fold(self, name):
        _, _, src, ints, _, _ = self.nodes[name]
        n_in, n_st, axes = ints[0], ints[1], ints[2:]
        inputs = [np.moveaxis(self.val[s], axes, range(len(axes))) for s in src[:n_in]]
        inputs = [x.reshape((math.prod(x.shape[: len(axes)]),) + x.shape[len(axes) :]) for x in inputs]
        state = [np.broadcast_to(self.val[s], inputs[0].shape[1:]) for s in src[n_in : n_in + n_st]]
        for i in range(len(inputs[0])):
            memo = {}
            state = [np.broadcast_to(self.body(s, [x[i] for x in inputs], state, memo), inputs[0].shape[1:]) for s in src[n_in + n_st : n_in + 2 * n_st]]
        return state

    def loop(self, name):
        _, _, src, (number, carried, scans), _, _ = self.nodes[name]
        self.running.add(number)
        inside = [n for n in self.nodes if number in self.rounds[n] and self.rounds[n] <= self.running and n not in self.bodies]
        count, go = int(self.val[src[0]]), bool(self.val[src[1]])
        now, scanned, step = [self.val[s] for s in src[2 : 2 + carried]], [[] for _ in range(scans)], 0
        while (go and step < count) or (step == 0 and scans):
            ran = go and step < count
            for n in inside:
                op, _, _, ints, num, _ = self.nodes[n]
                if op == "CARRY" and ints[0] == number:
                    self.val[n] = now[ints[1]]
                elif op == "STEP" and num == number:
                    self.val[n] = np.int64(step)
                else:
                    self.val[n] = self.node(n)
            if not ran:  # only to know the shapes
                scanned = [np.empty((0,) + np.shape(self.val[s])) for s in src[3 + 2 * carried :]]
                break
            go = bool(self.val[src[2 + carried]])
            now = [self.val[s] for s in src[3 + carried : 3 + 2 * carried]]
            for k, s in enumerate(src[3 + 2 * carried :]):
                scanned[k].append(self.val[s])
            step += 1
        self.running.discard(number)
        return now + [np.stack([np.asarray(v) for v in x]) if len(x) else x for x in scanned]

    def body(self, name, inputs, state, memo):
        if name in self.val:
            return self.val[name]
        if name not in memo:
            op, dtype, src, ints, _, _ = self.nodes[name]
            if op == "PLACEHOLDER":
                memo[name] = (inputs if ints[0] == 0 else state)[ints[1]]
            else:
                memo[name] = alu(op, dtype, [self.nodes[s][1] for s in src][1 if op == "WHERE" else 0 :], [np.asarray(self.body(s, inputs, state, memo)) for s in src])
        return memo[name]

    def node(self, name):
        op, d, src, ints, num, text = self.nodes[name]
        x = [self.val.get(s) for s in src]
        kinds = [self.nodes[s][1] for s in src]
        if op == "CONST":
            if is_float(d):
                return np.float64(np.array([int(text[5:])], np.uint64).view(np.float64)[0]) if text.startswith("bits:") else np.float64(text)
            return wrapped(d, {"true": 1, "false": 0}.get(text) if text in ("true", "false") else np.array(int(text), dtype=np.uint64 if d == "u64" else np.int64))
        if op in ("STACK", "SINK"):
            return None
        if op == "PARAM":
            return self.file(f"x{num}")
        if op == "CONSTANT":
            return self.file(f"c{num}")
        if op == "IOTA":
            return wrapped(d, np.arange(int(x[0])))
        if op == "CAST":
            return cast(d, kinds[0], np.asarray(x[0]))
        if op == "BITCAST":
            return np.ascontiguousarray(x[0]).view(INT[d]) if np.ndim(x[0]) else np.asarray(x[0]).reshape(1).view(INT[d])[0]
        if op in ALU:
            return alu(op, d, kinds[1:] if op == "WHERE" else kinds, [np.asarray(v) for v in x])
        if op == "RESHAPE":
            return x[0].reshape(self.stack(src[1]))
        if op == "PERMUTE":
            return np.transpose(x[0], ints)
        if op == "EXPAND":
            return np.broadcast_to(x[0], self.stack(src[1]))
        if op == "PAD":
            return np.pad(x[0], list(zip(self.stack(src[1]), self.stack(src[2]))), constant_values=x[3])
        if op == "SHRINK":
            return x[0][tuple(slice(b, e, s) for b, e, s in zip(*[self.stack(s) for s in src[1:]]))]
        if op == "FLIP":
            return np.flip(x[0], ints)
        if op == "WINDOW":
            n = len(ints) // 4
            axes, ks, ss, ds = (ints[i * n : (i + 1) * n] for i in range(4))
            out = x[0]
            for a, k, s, dil in zip(axes, ks, ss, ds):
                m = (out.shape[a] - dil * (k - 1) - 1) // s + 1
                out = np.stack([np.take(out, [o * s + j * dil for o in range(m)], a) for j in range(k)], -1)
            return out
        if op == "CONCAT":
            return np.concatenate(x, num)
        if op == "REDUCE":
            kind, axes = KINDS[ints[0]], ints[1:]
            moved = np.moveaxis(np.asarray(x[0]), axes, range(len(axes)))
            return scan_axis(kind, d, moved.reshape((math.prod(moved.shape[: len(axes)]),) + moved.shape[len(axes) :]), False, False)[1]
        if op == "FOLD":
            return self.fold(name)
        if op == "LOOP":
            return self.loop(name)
        if op == "BRANCH":
            return x[1 : 1 + num] if x[0] else x[1 + num :]
        if op == "GET":
            return x[0][num]
        if op == "GATHER":
            return x[0][tuple(i.astype(np.int64) for i in x[1:])]
        if op == "SCATTER":
            out = np.array(x[0])
            for p in np.ndindex(x[1].shape):
                at = tuple(int(i[p]) for i in x[2:])
                kind = [None, "ADD", "MUL", "MAX", "MIN"][num]
                out[at] = x[1][p] if kind is None else alu(kind, d, [d, d], [np.asarray(out[at]), np.asarray(x[1][p])])
            return out
        if op == "SORT":
            axis, descending = ints
            out = np.empty(x[0].shape, np.int64)
            for p in np.ndindex(*[1 if i == axis else n for i, n in enumerate(x[0].shape)]):
                at = tuple(slice(None) if i == axis else v for i, v in enumerate(p))
                line = [v.item() for v in x[0][at]]
                key = lambda i: (isinstance(line[i], float) and math.isnan(line[i]), 0 if line[i] != line[i] else line[i])
                out[at] = sorted(range(len(line)), key=key) if not descending else sorted(reversed(range(len(line))), key=key)[::-1]
            return out
        if op == "SCAN":
            kind, axis, exclusive, reverse = KINDS[ints[0]], *ints[1:]
            return np.moveaxis(scan_axis(kind, d, np.moveaxis(np.asarray(x[0]), axis, 0), exclusive, reverse)[0], 0, axis)
        if op == "CONTIGUOUS":
            return x[0]
        raise ValueError(f"no {op}")


def main():
    np.seterr(all="ignore")
    bad = 0
    folders = sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.is_dir())
    for folder in folders:
        g = Graph(folder)
        try:
            outs = g.run()
        except Exception as e:
            print(f"{folder.name}: {type(e).__name__}: {e}")
            bad += 1
            continue
        for i, want in enumerate(outs):
            dtype, dims, error = g.files[f"y{i}"]
            got = g.file(f"y{i}")
            want = np.asarray(want)
            if list(want.shape) != dims:
                ok, why = False, f"shape {want.shape} in place of {dims}"
            elif is_float(dtype):
                same = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= error)
                ok, why = bool(same.all()), f"{(~same).sum()} of {same.size} differ" + ("" if same.all() else f": {got[~same].flat[0]} in place of {want[~same].flat[0]} +- {error}")
            else:
                same = got == want
                ok, why = bool(np.all(same)), f"{np.sum(~same)} of {np.size(same)} differ"
            if not ok:
                print(f"{folder.name} output {i}: {why}")
                bad += 1
    print(f"{len(folders)} graphs, {bad} wrong")
    return 1 if bad or not folders else 0


sys.exit(main())
