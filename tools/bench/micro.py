"""Single operators as models of one node: the speed of each kernel, its share of the machine's peak, onnxruntime's speed beside it.

A convolution alone reads and writes the model's own layout; `_in_net` has it between two others of 1x1, and counts its kernel alone.

`aim` is what a hand-tuned prototype of the same kernel reached on a Zen 4 core whose f32 peak was 118 GFLOP/s, scaled to this machine's peak. The
operations of an element are counted as: softmax 5, layer norm 8, gelu 10, add and transpose 1; a multiply-add is 2.
"""
import math
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

import contest
import harness

AIM_PEAK = 118.0


class Op:
    """A model of `nodes`; inputs {name: shape or array}, weights {name: array}, output y."""

    def __init__(self, name, flops, aim, nodes, inputs, weights, opset=20, kind="f32", env=None, output=T.FLOAT):
        self.name, self.flops, self.aim, self.kind, self.env, self.among = name, flops, aim, kind, env or {}, False
        rng = np.random.default_rng(len(name))
        self.feeds = {n: (x if isinstance(x, np.ndarray) else rng.standard_normal(x).astype(np.float32)) for n, x in inputs.items()}
        made = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in self.feeds.items()]
        consts = [onnx.numpy_helper.from_array(w, n) for n, w in weights.items()]
        graph = h.make_graph(nodes, name, made, [h.make_tensor_value_info("y", output, None)], consts)
        self.model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=9)


def f32(*shape):
    """Weights of a sensible size: sums stay near 1."""
    fan = math.prod(shape[1:]) if len(shape) != 2 else shape[0]
    return (np.random.default_rng(math.prod(shape)).standard_normal(shape) / math.sqrt(fan)).astype(np.float32)


def gemm(name, m, k, n, aim, **more):
    return Op(name, 2.0 * m * k * n, aim, [h.make_node("MatMul", ["x", "w"], ["y"])], {"x": (m, k)}, {"w": f32(k, n)}, **more)


def conv(name, c, o, k, size, aim, stride=1, groups=1, **more):
    pad = k // 2
    out = (size + 2 * pad - k) // stride + 1
    node = h.make_node("Conv", ["x", "w", "b"], ["y"], pads=[pad] * 4, strides=[stride] * 2, group=groups)
    return Op(name, 2.0 * o * (c // groups) * k * k * out * out, aim, [node], {"x": (1, c, size, size)}, {"w": f32(o, c // groups, k, k), "b": f32(o)}, **more)


def in_net(name, c, o, k, size, aim, groups=1, **more):
    """The same convolution between two of 1x1: only its kernel counts."""
    node = h.make_node
    nodes = [node("Conv", ["x", "w0"], ["t"]), node("Relu", ["t"], ["a"]),
             node("Conv", ["a", "w", "b"], ["u"], pads=[k // 2] * 4, group=groups), node("Relu", ["u"], ["v"]), node("Conv", ["v", "w1"], ["y"])]
    weights = {"w0": f32(c, 16, 1, 1), "w": f32(o, c // groups, k, k), "b": f32(o), "w1": f32(16, o, 1, 1)}
    op = Op(name, 2.0 * o * (c // groups) * k * k * size * size, aim, nodes, {"x": (1, 16, size, size)}, weights, **more)
    op.among = True
    return op


WINOGRAD = ("winograd_", "transform_", "matmul_16_", "matmul_36_")  # kernels that such a convolution becomes


def ops():
    node = h.make_node
    rng = np.random.default_rng(1)
    direct, wino = {"WINO": "0"}, {"WINO": "1"}
    bf16 = {"DEFAULT_FLOAT": "BFLOAT16"}
    u8 = lambda *s: rng.integers(0, 256, s).astype(np.uint8)
    s8 = lambda *s: rng.integers(-127, 128, s).astype(np.int8)
    out = [gemm("gemm_256", 256, 256, 256, 117.5), gemm("gemm_512", 512, 512, 512, 115), gemm("gemm_1024", 1024, 1024, 1024, 114.5),
           gemm("gemm_2048", 2048, 2048, 2048, 112), gemm("gemm_64x768x3072", 64, 768, 3072, 113.5),
           Op("bmm_12x128x64x128", 2.0 * 12 * 128 * 64 * 128, 117.3, [node("MatMul", ["a", "b"], ["y"])], {"a": (12, 128, 64), "b": (12, 64, 128)}, {}),
           Op("bmm_abt_12x128x64x128", 2.0 * 12 * 128 * 64 * 128, 114, [node("Transpose", ["b"], ["t"], perm=[0, 2, 1]), node("MatMul", ["a", "t"], ["y"])],
              {"a": (12, 128, 64), "b": (12, 128, 64)}, {}),
           gemm("gemv_768x3072", 1, 768, 3072, 49), gemm("gemv_4096x4096", 1, 4096, 4096, 17), gemm("gemv_1024x32000", 1, 1024, 32000, 15.5),
           conv("conv3x3_64_56", 64, 64, 3, 56, 118, env=direct), conv("conv3x3_128_28", 128, 128, 3, 28, 122, env=direct),
           conv("conv3x3_256_14", 256, 256, 3, 14, 127, env=direct), conv("conv3x3_512_7", 512, 512, 3, 7, 117.7, env=direct),
           conv("conv1x1_256_64_56", 256, 64, 1, 56, 116.8), conv("conv1x1_512_2048_7", 512, 2048, 1, 7, 117.5),
           conv("conv7x7s2_3_64_224", 3, 64, 7, 224, 115.8, stride=2), conv("dwconv3x3_144_56", 144, 144, 3, 56, 117.2, groups=144),
           conv("dwconv5x5_240_28", 240, 240, 5, 28, 127, groups=240),
           Op("softmax_1536x128", 5.0 * 1536 * 128, 23.2, [node("Softmax", ["x"], ["y"], axis=-1)], {"x": (1536, 128)}, {}),
           Op("softmax_1x32000", 5.0 * 32000, 21.9, [node("Softmax", ["x"], ["y"], axis=-1)], {"x": (1, 32000)}, {}),
           Op("layernorm_128x768", 8.0 * 128 * 768, 68.5, [node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1)], {"x": (128, 768)},
              {"g": f32(768) + 1, "b": f32(768)}),
           Op("gelu_128x3072", 10.0 * 128 * 3072, 30.5, [node("Gelu", ["x"], ["y"])], {"x": (128, 3072)}, {}),
           Op("add_1M", 1.0 * (1 << 20), 6.2, [node("Add", ["a", "b"], ["y"])], {"a": (1024, 1024), "b": (1024, 1024)}, {}),
           Op("transpose_1024", 1.0 * (1 << 20), 5.2, [node("Transpose", ["x"], ["y"], perm=[1, 0])], {"x": (1024, 1024)}, {})]
    for c, size, aim in ((64, 56, 116), (128, 28, 116.7), (256, 14, 116), (512, 7, 117.7)):
        out.append(in_net(f"conv3x3_{c}_{size}_in_net", c, c, 3, size, aim, env=direct))
    out += [in_net("dwconv3x3_144_56_in_net", 144, 144, 3, 56, 115, groups=144), in_net("dwconv5x5_240_28_in_net", 240, 240, 5, 28, 117, groups=240)]
    for n, aim in ((512, 465), (1024, 453)):
        out.append(Op(f"u8s8_gemm_{n}", 2.0 * n**3, aim, [node("MatMulInteger", ["x", "w"], ["y"])], {"x": u8(n, n)}, {"w": s8(n, n)}, kind="int8", output=T.INT32))
    for n, aim in ((512, 234), (1024, 229)):
        out.append(gemm(f"bf16_gemm_{n}", n, n, n, aim, kind="bf16", env=bf16))
    for c, size, aim in ((64, 56, 411), (128, 28, 437), (256, 14, 345), (512, 7, 240)):
        out.append(conv(f"winograd_{c}_{size}", c, c, 3, size, aim, env=wino))
        out.append(in_net(f"winograd_{c}_{size}_in_net", c, c, 3, size, aim, env=wino))
    return out


def measure(op, args, tools, work, options):
    folder = os.path.join(work, op.name)
    os.makedirs(folder)
    model, bundle, inputs = (os.path.join(folder, n) for n in ("m.onnx", "m.tgb", "inputs.npz"))
    onnx.save(onnx.shape_inference.infer_shapes(op.model), model)
    np.savez(inputs, *op.feeds.values())
    harness.compile_model(tools, model, bundle, {}, options["compile_limit"], {**options["env"], **op.env})
    spec = {"model": model, "bundle": bundle, "library": tools["library"], "inputs": inputs, "input_names": list(op.feeds), "output_names": ["y"],
            "kept": os.path.join(args.work, "micro", op.name), "huge": options["huge"], "profile_runs": 60}
    tolerance = {"bf16": 0.03, "int8": 0.0}.get(op.kind, 1e-4)
    rows, _ = contest.contest(("tgaot", *args.peers), spec, folder, dict(options, threads=1, starts=1), tolerance)
    return rows


def run(args, tools, here, options, result):
    """Prints a line an operator; returns those that tgaot does not compile or gets wrong."""
    known = {o.name: o for o in ops()}
    unknown = [n for n in args.names if n not in known]
    if unknown:
        raise SystemExit(f"no operator named {' '.join(unknown)}; known: {' '.join(known)}")
    chosen = [known[n] for n in args.names] or list(known.values())
    failed, best_ratio = [], []
    options = dict(options, turn_seconds=args.turn if args.quick else min(args.turn, 0.15))
    result["ops"] = {}
    print(here.line())
    print("GFLOP/s of one thread: 'run' by the CPU time of a whole run, 'kernel' by the best time of its kernels alone, with their share of the peak of that kind")
    print(f"{'operator':24}{'run':>8}{'kernel':>8}{'peak %':>8}{'GB/s':>8}{'aim':>8}{'of aim':>8}" + "".join(f"{p[:11]:>12}" for p in args.peers) + f"{'/best':>8}{'error':>9}")
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        for op in chosen:
            try:
                rows = measure(op, args, tools, work, options)
            except harness.Failure as f:
                print(f"{op.name:24} {f.outcome.kind}: {f.outcome.detail[:150]}", flush=True)
                result["ops"][op.name] = {"failed": f.outcome.detail}
                failed.append(op.name)
                continue
            result["ops"][op.name] = rows
            mine = rows["tgaot"]
            if "gap" in mine or "wrong" in mine:
                failed.append(op.name)
            if "gap" in mine:
                print(f"{op.name:24} {mine['gap']}")
                continue
            if op.among:
                parts = [k for k in mine["kernels"] if k[0].startswith(WINOGRAD)] or [min(mine["kernels"], key=lambda k: abs(k[2] - op.flops))]
                ns, moved = sum(k[1] for k in parts), sum(k[3] for k in parts)
                aim = op.aim * (here.flops_peak() / AIM_PEAK if here.peaks else 1)
                share = here.shares(ns, op.flops, moved, op.kind)[0]
                mine.update(kernel_gflops=op.flops / ns, peak_percent=share, aim=aim)
                e = mine.get("error")
                print(f"{op.name:24}{'-':>8}{op.flops / ns:8.1f}{share:8.1f}{moved / ns:8.1f}{aim:8.1f}{op.flops / ns / aim:8.2f}" + f"{'-':>12}" * len(args.peers)
                      + f"{'-':>8}" + (f"{e:9.1e}" if isinstance(e, float) else f" {e or ''}") + ("  WRONG" if "wrong" in mine else ""), flush=True)
                continue
            # On a busy machine no wall time of a long kernel is undisturbed; the CPU time of a run is then nearer.
            ns, moved = min(sum(k[1] for k in mine["kernels"]), mine["ms"] * 1e6), sum(k[3] for k in mine["kernels"])
            rate = lambda ms: op.flops / ms * 1e-6
            aim = op.aim * (here.flops_peak() / AIM_PEAK if here.peaks else 1)
            kernel, share = op.flops / ns, here.shares(ns, op.flops, moved, op.kind)[0]
            others = [rate(rows[p]["ms"]) for p in args.peers if "ms" in rows[p] and "wrong" not in rows[p]]
            mine.update(gflops=rate(mine["ms"]), kernel_gflops=kernel, peak_percent=share, aim=aim)
            ratio = max(others) / rate(mine["ms"]) if others else None
            if ratio:
                best_ratio.append(ratio)
            e = mine.get("error")
            print(f"{op.name:24}{rate(mine['ms']):8.1f}{kernel:8.1f}{share:8.1f}{moved / ns:8.1f}{aim:8.1f}{kernel / aim:8.2f}"
                  + "".join(f"{rate(rows[p]['ms']):12.1f}" if "ms" in rows[p] else f"{'none':>12}" for p in args.peers)
                  + (f"{ratio:8.3f}" if ratio else f"{'-':>8}") + (f"{e:9.1e}" if isinstance(e, float) else f" {e or ''}")
                  + ("  WRONG" if "wrong" in mine else ""), flush=True)
    if best_ratio:
        print(f"geometric mean of the time of a run against the best peer: {math.exp(sum(map(math.log, best_ratio)) / len(best_ratio)):.3f} of {len(best_ratio)} operators")
    for name, rows in result["ops"].items():
        for p in args.peers:
            why = rows.get(p, {}).get("gap") or rows.get(p, {}).get("wrong")
            if why:
                print(f"gap: {p}: {why}: {name}")
    here.measure()
    result["peaks"] = here.peaks
    return failed
