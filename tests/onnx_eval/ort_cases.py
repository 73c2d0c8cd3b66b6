"""Makes cases in the layout of ONNX's backend data whose expected outputs come from onnxruntime, or from numpy where onnxruntime has no kernel
for CPUs: com.microsoft and ai.onnx.ml operators, and combinations of attributes that ONNX's own cases leave out. Run the result with onnx_eval.

ort_cases.py OUT [--filter TEXT]
"""
import argparse
import math
import os
import shutil

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
ML = "ai.onnx.ml"
rng = np.random.default_rng(7)
cases = []


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def ints(low, high, *shape, dtype=np.uint8):
    return rng.integers(low, high, size=shape).astype(dtype)


def case(name, op, inputs, outputs=1, domain="", const=(), onnx_opset=21, expect=None, **attrs):
    """inputs: arrays or None; const: numbers of those that are initializers; outputs: a count or a list of names ("" for one not wanted);
    expect: the outputs, if onnxruntime is not to be asked."""
    cases.append((name, op, inputs, outputs, domain, const, onnx_opset, expect, attrs))


def ms(name, op, inputs, outputs=1, const=(), **attrs):
    case(name, op, inputs, outputs, MS, const, **attrs)


def ml(name, op, inputs, outputs=1, **attrs):
    case(name, op, inputs, outputs, ML, (), **attrs)


def whole(name, text, *inputs):
    """A model as text (onnx.parser), for what one node cannot say; the inputs in order."""
    cases.append((name, text, inputs))


def build_whole(name, text, inputs, out):
    model = onnx.parser.parse_model(text)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    values = session.run(None, dict(zip(names, inputs)))
    folder = os.path.join(out, "node", name, "test_data_set_0")
    os.makedirs(folder)
    onnx.save(model, os.path.join(out, "node", name, "model.onnx"))
    for k, (n, x) in enumerate(zip(names, inputs)):
        save(os.path.join(folder, f"input_{k}.pb"), x, n)
    for k, v in enumerate(values):
        save(os.path.join(folder, f"output_{k}.pb"), v, session.get_outputs()[k].name)


def elem(a):
    return helper.np_dtype_to_tensor_dtype(a.dtype)


def build(name, op, inputs, outputs, domain, const, opset, expect, attrs, out):
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    outs = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(op, names, outs, name=name, domain=domain, **attrs)
    given = [(i, x) for i, x in enumerate(inputs) if x is not None]
    init = [numpy_helper.from_array(x, f"x{i}") for i, x in given if i in const]
    free = [(i, x) for i, x in given if i not in const]
    graph = helper.make_graph(
        [node], name, [helper.make_tensor_value_info(f"x{i}", elem(x), x.shape) for i, x in free],
        [onnx.ValueInfoProto(name=o) for o in outs if o], init)
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid(MS, 1), helper.make_opsetid(ML, 4)])
    if expect is None:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = 1  # or DynamicQuantizeLSTM would quantize the rows of each thread by themselves
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        expect = session.run(None, {f"x{i}": x for i, x in free})
    values = expect
    del graph.output[:]
    for o, v in zip([o for o in outs if o], values):
        graph.output.append(helper.make_tensor_value_info(o, elem(v), v.shape))
    del model.graph.output[:]
    model.graph.output.extend(graph.output)
    folder = os.path.join(out, "node", name, "test_data_set_0")
    os.makedirs(folder)
    onnx.save(model, os.path.join(out, "node", name, "model.onnx"))
    for k, (i, x) in enumerate(free):
        save(os.path.join(folder, f"input_{k}.pb"), x, f"x{i}")
    for k, v in enumerate(values):
        save(os.path.join(folder, f"output_{k}.pb"), v, f"y{k}")


def save(path, array, name):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(np.asarray(array), name).SerializeToString())


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def erf(x):
    return np.vectorize(math.erf)(x).astype(np.float32)


def complex_pairs(z):
    return np.stack([z.real, z.imag], -1).astype(np.float32)


def signals():
    for n in (1, 2, 97, 128, 257, 320, 400, 1000, 2048):   # direct, prime, and split once or more
        x = f32(2, n)
        case(f"dft_{n}", "DFT", [x[..., None]], onnx_opset=20, expect=[complex_pairs(np.fft.fft(x))])
        case(f"dft_onesided_{n}", "DFT", [x[..., None]], onnx_opset=20, onesided=1, expect=[complex_pairs(np.fft.rfft(x))])
        z = x + 1j * f32(2, n)
        case(f"dft_complex_{n}", "DFT", [complex_pairs(z)], onnx_opset=20, expect=[complex_pairs(np.fft.fft(z))])
        case(f"dft_inverse_{n}", "DFT", [complex_pairs(z)], onnx_opset=20, inverse=1, expect=[complex_pairs(np.fft.ifft(z))])
    x = f32(3, 12, 5)
    case("dft_axis_padded", "DFT", [x[..., None], np.array(15, np.int64), np.array(1, np.int64)], const=(1, 2), onnx_opset=20,
         expect=[complex_pairs(np.fft.fft(x, n=15, axis=1))])
    case("dft_cut_17", "DFT", [x[..., None], np.array(7, np.int64)], const=(1,), onnx_opset=17, axis=1, expect=[complex_pairs(np.fft.fft(x, n=7, axis=1))])
    for n in (8, 9):
        z = np.fft.rfft(f32(2, n))
        case(f"dft_real_inverse_{n}", "DFT", [complex_pairs(z), np.array(n, np.int64)], const=(1,), onnx_opset=20, inverse=1, onesided=1,
             expect=[np.fft.irfft(z, n)[..., None].astype(np.float32)])
    x, window = f32(2, 100), np.hanning(16).astype(np.float32)
    frames = np.stack([x[:, i:i + 16] * window for i in range(0, 85, 6)], 1)
    case("stft", "STFT", [x[..., None], np.array(6, np.int64), window], const=(1,), onnx_opset=17, expect=[complex_pairs(np.fft.rfft(frames))])
    case("stft_two_sided", "STFT", [x[..., None], np.array(6, np.int64), window], const=(1,), onnx_opset=17, onesided=0, expect=[complex_pairs(np.fft.fft(frames))])


def convolutions():
    x1, x2, x3 = f32(2, 6, 19), f32(2, 6, 11, 13), f32(1, 4, 6, 7, 8)
    for i, (x, w, a) in enumerate([
        (x1, f32(4, 6, 3), dict(pads=[1, 2], strides=[2])),
        (x1, f32(6, 1, 5), dict(group=6, strides=[3], auto_pad="SAME_LOWER")),
        (x2, f32(8, 3, 3, 3), dict(group=2, pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2])),
        (x2, f32(12, 1, 3, 2), dict(group=6, auto_pad="SAME_UPPER", strides=[2, 3])),
        (x2, f32(5, 6, 1, 1), dict(strides=[2, 2])),
        (x3, f32(4, 2, 2, 3, 2), dict(group=2, pads=[1, 1, 0, 0, 1, 1], strides=[1, 2, 1])),
    ]):
        case(f"conv_{i}", "Conv", [x, w, f32(w.shape[0])], **a)
    for i, (x, w, a) in enumerate([
        (x1, f32(6, 4, 3), dict(strides=[2])),
        (x1, f32(6, 2, 5), dict(strides=[3], group=2, dilations=[2], pads=[1, 2])),
        (x2, f32(6, 4, 2, 2), dict(strides=[2, 2])),
        (x2, f32(6, 4, 3, 3), dict(strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])),
        (x2, f32(6, 2, 4, 3), dict(strides=[1, 2], group=3, dilations=[2, 1], pads=[0, 1, 1, 0])),
        (x2, f32(6, 4, 3, 5), dict(strides=[2, 3], auto_pad="SAME_UPPER")),
        (x2, f32(6, 4, 3, 5), dict(strides=[2, 3], auto_pad="SAME_LOWER")),
        (x2, f32(6, 4, 3, 3), dict(strides=[3, 2], output_shape=[33, 26])),
        (x3, f32(4, 2, 2, 3, 2), dict(strides=[2, 1, 3], group=2)),
    ]):
        case(f"conv_transpose_{i}", "ConvTranspose", [x, w, f32(w.shape[1] * a.get("group", 1))], **a)


def pools():
    x1, x2, x3 = f32(2, 3, 17), f32(2, 3, 11, 13), f32(1, 2, 7, 8, 9)
    for i, (x, a) in enumerate([
        (x1, dict(kernel_shape=[3], strides=[2], ceil_mode=1)),
        (x2, dict(kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])),
        (x2, dict(kernel_shape=[3, 3], strides=[2, 3], pads=[1, 1, 1, 1], ceil_mode=1)),
        (x2, dict(kernel_shape=[4, 3], strides=[3, 2], auto_pad="SAME_UPPER")),
        (x2, dict(kernel_shape=[2, 3], dilations=[2, 3], strides=[1, 2])),
        (x3, dict(kernel_shape=[2, 3, 2], strides=[2, 1, 2], pads=[1, 1, 0, 0, 1, 1], ceil_mode=1)),
    ]):
        case(f"max_pool_{i}", "MaxPool", [x], outputs=2, **a)
        for pad in (0, 1):
            case(f"average_pool_{i}_{pad}", "AveragePool", [x], count_include_pad=pad, onnx_opset=19, **a)
        if "ceil_mode" not in a:
            case(f"lp_pool_{i}", "LpPool", [x], onnx_opset=18, p=1 + i % 3, **a)
    case("max_pool_storage_order", "MaxPool", [x2], outputs=2, kernel_shape=[3, 3], strides=[2, 2], storage_order=1)
    case("max_roi_pool", "MaxRoiPool", [x2, np.array([[0, 1, 1, 8, 9], [1, 0, 2, 12, 4], [0, 5, 5, 5, 5]], np.float32)], pooled_shape=[3, 2], spatial_scale=0.8)
    case("global_lp_pool", "GlobalLpPool", [x2], p=3)


def resizes():
    x = f32(1, 2, 7, 10)
    for mode in ("nearest", "linear", "cubic"):
        for c in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
            # onnxruntime's align_corners differs from ONNX's where the output's length is not a whole number.
            for k, s in enumerate(([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 3.0, 0.5] if c == "align_corners" else [1.0, 1.0, 0.6, 1.7])):
                case(f"resize_{mode}_{c}_{k}", "Resize", [x, None, np.array(s, np.float32)], const=(2,), onnx_opset=19, mode=mode, coordinate_transformation_mode=c,
                     nearest_mode=("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")[k + len(c) % 3])
    case("resize_sizes", "Resize", [x, None, None, np.array([1, 2, 14, 5], np.int64)], const=(3,), onnx_opset=13, mode="linear")
    case("resize_u8", "Resize", [ints(0, 256, 1, 3, 5, 6), None, None, np.array([1, 3, 11, 12], np.int64)], const=(3,), onnx_opset=13, mode="nearest")
    case("resize_10", "Resize", [x, np.array([1, 1, 2, 3], np.float32)], const=(1,), onnx_opset=10, mode="linear")
    case("upsample_9", "Upsample", [x, np.array([1, 1, 2, 3], np.float32)], const=(1,), onnx_opset=9, mode="nearest")


def norms():
    x = f32(2, 6, 5, 4)
    for const in ((), (1, 2, 3, 4)):
        case(f"batch_norm_{len(const)}", "BatchNormalization", [x, f32(6), f32(6), f32(6), np.abs(f32(6)) + 0.1], const=const, onnx_opset=15, epsilon=1e-3)
    case("instance_norm", "InstanceNormalization", [x, f32(6), f32(6)])
    case("group_norm_21", "GroupNormalization", [x, f32(6), f32(6)], num_groups=3)
    case("layer_norm_outputs", "LayerNormalization", [x, f32(5, 4), f32(5, 4)], outputs=3, axis=-2)
    case("layer_norm_f16", "LayerNormalization", [f32(3, 64).astype(np.float16), f32(64).astype(np.float16)], axis=-1)
    case("simplified_layer_norm", "SimplifiedLayerNormalization", [f32(3, 4, 32), f32(32)], axis=-1, epsilon=1e-6)
    sq = np.pad(x * x, ((0, 0), (1, 2), (0, 0), (0, 0)))
    case("lrn_even", "LRN", [x], size=4, alpha=0.3, beta=0.6, bias=2.0, expect=[x / (2 + 0.3 / 4 * sum(sq[:, i:i + 6] for i in range(4))) ** 0.6])
    case("lrn", "LRN", [x], size=3, alpha=0.3, beta=0.6, bias=2.0)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (0, 1, 2, 3):
            case(f"{op.lower()}_12_{axis}", op, [x], onnx_opset=12, axis=axis)
            case(f"{op.lower()}_13_{axis}", op, [x], onnx_opset=13, axis=axis)


def quantized():
    x, w = ints(0, 256, 2, 6, 9, 8), ints(-128, 128, 8, 3, 3, 3, dtype=np.int8)
    s, z = np.float32(0.05), np.uint8(120)
    scalar = np.float32
    for const in ((), (1, 2, 3, 4, 5, 6, 7, 8)):
        case(f"qlinear_conv_{len(const)}", "QLinearConv", [x, np.array(s), np.array(z), w, np.abs(f32(8)) * 0.01 + 0.001, np.zeros(8, np.int8), np.array(scalar(0.7)),
                                                          np.array(np.uint8(100)), ints(-500, 500, 8, dtype=np.int32)], const=const, group=2, pads=[1, 1, 1, 1], strides=[2, 1])
    case("conv_integer", "ConvInteger", [x, ints(0, 256, 4, 6, 3, 2), np.array(z), np.array(np.uint8(7))], pads=[1, 0, 1, 1], strides=[1, 2], onnx_opset=10)
    case("matmul_integer_rows", "MatMulInteger", [ints(0, 256, 3, 5), ints(0, 256, 5, 4), np.array(np.uint8(3)), ints(0, 256, 4)], onnx_opset=10)
    case("matmul_integer_i8", "MatMulInteger", [ints(0, 256, 2, 3, 5), ints(-128, 128, 5, 4, dtype=np.int8), np.array(np.uint8(3)), np.array(np.int8(-4))], onnx_opset=10)
    case("qlinear_matmul_columns", "QLinearMatMul", [ints(0, 256, 3, 5), np.array(s), np.array(z), ints(-128, 128, 5, 4, dtype=np.int8), np.abs(f32(4)) * 0.02 + 0.01,
                                                     np.zeros(4, np.int8), np.array(scalar(0.4)), np.array(np.uint8(128))])
    case("dynamic_quantize_linear", "DynamicQuantizeLinear", [f32(4, 7) * 3], outputs=3, onnx_opset=11)
    for d, lo in ((np.uint8, 0), (np.int8, -128), (np.uint16, 0), (np.int16, -32768)):
        q = np.dtype(d).name
        zero = np.array(d(5))
        case(f"quantize_{q}", "QuantizeLinear", [f32(6, 7) * 3, np.array(scalar(0.02)), zero])
        case(f"dequantize_{q}", "DequantizeLinear", [ints(lo, lo + 256, 6, 7, dtype=d), np.array(scalar(0.02)), zero])
    case("quantize_axis", "QuantizeLinear", [f32(3, 4, 5), np.abs(f32(4)) + 0.01, ints(0, 256, 4)], axis=1)
    case("dequantize_block", "DequantizeLinear", [ints(0, 256, 3, 8, 5), np.abs(f32(3, 2, 5)) + 0.01, ints(0, 256, 3, 2, 5)], axis=1, block_size=4)
    case("dequantize_i32", "DequantizeLinear", [ints(-1000, 1000, 3, 4, dtype=np.int32), np.abs(f32(4)) + 0.01], axis=1)

    one = [np.array(scalar(0.04)), np.array(np.uint8(130))]
    two = [np.array(scalar(0.03)), np.array(np.uint8(110))]
    out = [np.array(scalar(0.07)), np.array(np.uint8(125))]
    a, b = ints(0, 256, 2, 3, 6, 7), ints(0, 256, 2, 3, 6, 7)
    for op in ("QLinearAdd", "QLinearMul"):
        ms(op.lower(), op, [a, *one, b[:, :, :1], *two, *out])
    ms("qlinear_sigmoid", "QLinearSigmoid", [a, *one, np.array(scalar(1 / 256)), np.array(np.uint8(0))], const=(1, 2, 3, 4))
    ms("qlinear_leaky_relu", "QLinearLeakyRelu", [a, *one, *out], const=(1, 2, 3, 4), alpha=0.1)
    ms("qlinear_global_average_pool", "QLinearGlobalAveragePool", [a, *one, *out])
    ms("qlinear_global_average_pool_last", "QLinearGlobalAveragePool", [a, *one, *out], channels_last=1)
    ms("qlinear_average_pool", "QLinearAveragePool", [a, *one, *out], kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1])
    ms("qlinear_concat", "QLinearConcat", [*out, a, *one, b, *two], const=(0, 1, 3, 4, 6, 7), axis=1)
    ms("qlinear_softmax", "QLinearSoftmax", [a, *one, np.array(scalar(1 / 256)), np.array(np.uint8(0))], const=(1, 2, 3, 4), axis=-1, opset=13)
    ms("qlinear_where", "QLinearWhere", [ints(0, 2, 2, 3, 6, 7).astype(bool), a, *one, b, *two, *out], const=(2, 3, 5, 6, 7, 8))
    ms("qgemm", "QGemm", [ints(0, 256, 4, 5), *one, ints(-128, 128, 6, 5, dtype=np.int8), np.abs(f32(6)) * 0.02 + 0.01, np.zeros(6, np.int8),
                          ints(-100, 100, 6, dtype=np.int32), np.array(scalar(0.4)), np.array(np.uint8(128))], transB=1)
    ms("qgemm_float", "QGemm", [ints(0, 256, 4, 5), *one, ints(-128, 128, 5, 6, dtype=np.int8), np.array(scalar(0.02)), np.array(np.int8(3))])
    ms("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [f32(2, 3, 5), ints(0, 256, 5, 4), np.abs(f32(4)) + 0.01, ints(0, 256, 4), f32(4)])
    ms("matmul_integer_to_float", "MatMulIntegerToFloat", [ints(0, 256, 3, 5), ints(-128, 128, 5, 4, dtype=np.int8), np.array(scalar(0.02)), np.abs(f32(4)) + 0.01,
                                                           np.array(np.uint8(100)), ints(-128, 128, 4, dtype=np.int8), f32(4)])
    for bits in (4, 8):
        for zero in (False, True):
            n, k, block = 6, 40, 16
            blocks = -(-k // block)
            b4 = ints(0, 256, n, blocks, block * bits // 8)
            inputs = [f32(2, 3, k), b4, np.abs(f32(n, blocks)) + 0.01]
            if zero:
                inputs.append(ints(0, 256, n, -(-blocks * bits // 8)))
            ms(f"matmul_{bits}bits_{int(zero)}", "MatMulNBits", inputs, const=tuple(range(1, len(inputs))), K=k, N=n, bits=bits, block_size=block)
    ms("matmul_4bits_float_zero", "MatMulNBits", [f32(3, 32), ints(0, 256, 4, 2, 8), np.abs(f32(4, 2)) + 0.01, f32(4, 2) + 8], const=(1, 2, 3), K=32, N=4, bits=4, block_size=16)
    ms("gather_block_quantized", "GatherBlockQuantized", [ints(0, 256, 9, 16), ints(-9, 9, 2, 3, dtype=np.int64), np.abs(f32(9, 2)) + 0.01, ints(0, 256, 9, 1)],
       const=(0, 2, 3), bits=4, block_size=16, quantize_axis=1, gather_axis=0)


def fused():
    ms("fused_matmul", "FusedMatMul", [f32(2, 5, 3), f32(2, 4, 5)], alpha=0.5, transA=1, transB=1)
    ms("fused_matmul_batch", "FusedMatMul", [f32(3, 2, 5), f32(5, 2, 4)], transBatchA=1, transBatchB=1)
    ms("fused_gemm", "FusedGemm", [f32(3, 4), f32(5, 4), f32(5)], transB=1, alpha=0.7, beta=1.5, activation="LeakyRelu", activation_alpha=0.2)
    for act, params in (("Relu", None), ("Clip", [-0.5, 0.7]), ("LeakyRelu", [0.3]), ("Sigmoid", None), ("Tanh", None), ("HardSigmoid", [0.3, 0.4])):
        extra = dict(activation_params=params) if params else {}
        ms(f"fused_conv_{act.lower()}", "FusedConv", [f32(1, 4, 7, 7), f32(6, 4, 3, 3), f32(6)], const=(1, 2), activation=act, pads=[1, 1, 1, 1], **extra)
    ms("fused_conv_sum", "FusedConv", [f32(1, 4, 7, 7), f32(6, 4, 3, 3), f32(6), f32(1, 6, 7, 7)], const=(1, 2), activation="Relu", pads=[1, 1, 1, 1])
    ms("gelu", "Gelu", [f32(3, 9, scale=2)])
    ms("fast_gelu", "FastGelu", [f32(3, 9, scale=0.7), f32(9, scale=0.7)])
    ms("quick_gelu", "QuickGelu", [f32(3, 9, scale=2)], alpha=1.3)
    ms("bias_gelu", "BiasGelu", [f32(3, 9, scale=2), f32(9)])
    ms("skip_layer_norm", "SkipLayerNormalization", [f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)], outputs=["y", "", "", "s"], epsilon=1e-5)
    ms("skip_layer_norm_broadcast", "SkipLayerNormalization", [f32(2, 3, 8), f32(3, 8), f32(8)])
    ms("skip_rms_norm", "SkipSimplifiedLayerNormalization", [f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8)], outputs=["y", "", "", "s"], epsilon=1e-5)
    ids, segments = ints(0, 20, 2, 5, dtype=np.int32), ints(0, 2, 2, 5, dtype=np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    ms("embed_layer_norm", "EmbedLayerNormalization", [ids, segments, f32(20, 8), f32(6, 8), f32(2, 8), f32(8), f32(8), mask], outputs=2)
    ms("embed_layer_norm_plain", "EmbedLayerNormalization", [ids, None, f32(20, 8), f32(6, 8), None, f32(8), f32(8), None, ints(0, 6, 2, 5, dtype=np.int32)], outputs=["y", "m", "s"])
    x, bias = f32(2, 3, 4, 5), f32(2, 1, 1, 5)
    ms("bias_softmax", "BiasSoftmax", [x, bias], axis=3, is_inner_broadcast=1, expect=[softmax(x + bias, 3)])
    x, bias = f32(2, 3, 16), f32(16)
    left, right = np.split(x + bias, 2, axis=-1)
    ms("bias_split_gelu", "BiasSplitGelu", [x, bias], expect=[left * right * 0.5 * (1 + erf(right / np.sqrt(2)))])
    ms("bias_add", "BiasAdd", [x, bias, x * 2], expect=[x * 3 + bias])
    x, skip, gamma, beta, bias = f32(2, 4, 5, 8), f32(2, 4, 5, 8), f32(8), f32(8), f32(8)

    def group_norm(v, groups):
        g = v.reshape(2, 20, groups, -1).astype(np.float64)
        y = (g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + 1e-5)
        return (y.reshape(v.shape) * gamma + beta).astype(np.float32)

    y = group_norm(x, 4)
    ms("group_norm", "GroupNorm", [x, gamma, beta], groups=4, activation=1, expect=[y / (1 + np.exp(-y))])
    ms("skip_group_norm", "SkipGroupNorm", [x, gamma, beta, skip, bias], outputs=2, groups=2, activation=0, expect=[group_norm(x + skip + bias, 2), x + skip + bias])
    ms("skip_group_norm_broadcast", "SkipGroupNorm", [x, gamma, beta, skip[:, 0, 0]], outputs=2, groups=2, activation=0,
       expect=[group_norm(x + skip[:, :1, :1], 2), x + skip[:, :1, :1]])
    x, w = f32(1, 4, 5, 3), f32(6, 3, 1, 1)
    ms("nhwc_conv", "NhwcConv", [x, w, bias[:6]], expect=[x @ w[:, :, 0, 0].T + bias[:6]])
    ms("nhwc_fused_conv", "NhwcFusedConv", [x, w, bias[:6]], activation="Relu", expect=[np.maximum(x @ w[:, :, 0, 0].T + bias[:6], 0)])
    ms("cdist", "CDist", [f32(4, 3), f32(5, 3)], metric="euclidean")


def attentions():
    b, s, h, d = 2, 4, 2, 8
    hid = h * d
    x, w, bias = f32(b, s, hid), f32(hid, 3 * hid, scale=0.3), f32(3 * hid)
    past = f32(2, b, h, 3, d)
    lengths = np.array([2, 4], np.int32)
    two_d = np.array([[1, 1, 1, 0], [1, 1, 0, 1]], np.int32)
    ms("attention", "Attention", [x, w, bias], num_heads=h)
    ms("attention_scale", "Attention", [x, w, None], num_heads=h, scale=0.4)
    ms("attention_lengths", "Attention", [x, w, bias, lengths], num_heads=h)
    ms("attention_ends_starts", "Attention", [x, w, bias, np.array([4, 3, 1, 0], np.int32)], num_heads=h)
    ms("attention_mask", "Attention", [x, w, bias, two_d], num_heads=h)
    ms("attention_mask_3d", "Attention", [x, w, bias, ints(0, 2, b, s, s, dtype=np.int32) | np.eye(s, dtype=np.int32)], num_heads=h)
    ms("attention_causal_past", "Attention", [x, w, bias, None, past], outputs=2, num_heads=h, unidirectional=1)
    ms("attention_bias", "Attention", [x, w, bias, None, None, f32(1, h, s, s)], num_heads=h)
    ms("attention_sizes", "Attention", [x, f32(hid, 2 * hid + 24, scale=0.3), f32(2 * hid + 24)], num_heads=h, qkv_hidden_sizes=[hid, hid, 24])
    q, k, v = f32(b, s, hid), f32(b, 6, hid), f32(b, 6, hid)
    ms("mha", "MultiHeadAttention", [q, k, v], num_heads=h)
    ms("mha_bias", "MultiHeadAttention", [q, k, v, bias], num_heads=h)
    ms("mha_padding", "MultiHeadAttention", [q, k, v, None, np.array([[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 0]], np.int32)], num_heads=h)
    ms("mha_attention_bias", "MultiHeadAttention", [q, k, v, None, None, f32(1, h, s, 6)], num_heads=h)
    ms("mha_past", "MultiHeadAttention", [q, f32(b, s, hid), f32(b, s, hid), None, None, None, f32(b, h, 3, d), f32(b, h, 3, d)], outputs=3, num_heads=h, unidirectional=1)
    ms("mha_cross", "MultiHeadAttention", [q, f32(b, h, 6, d), f32(b, h, 6, d)], num_heads=h)
    cos, sin = f32(16, d // 2), f32(16, d // 2)
    rot_h = 16   # onnxruntime asks for head sizes that are multiples of 8
    ms("rotary", "RotaryEmbedding", [f32(b, s, hid), ints(0, 16, b, s, dtype=np.int64), cos, sin])
    ms("rotary_interleaved", "RotaryEmbedding", [f32(b, h, s, d), np.array([3], np.int64), cos, sin], interleaved=1)
    ms("rotary_partial", "RotaryEmbedding", [f32(b, s, 2 * rot_h), ints(0, 16, b, s, dtype=np.int64), cos, sin], num_heads=2, rotary_embedding_dim=d)
    heads, kv = 4, 2
    cos, sin = f32(20, 8), f32(20, 8)

    def gqa(name, steps, total, seqlens, cache, extra=(), **a):
        b = len(seqlens)
        inputs = [f32(b, steps, heads * 16), f32(b, steps, kv * 16), f32(b, steps, kv * 16), f32(b, kv, cache, 16), f32(b, kv, cache, 16), np.array(seqlens, np.int32), np.array(total, np.int32), *extra]
        ms(name, "GroupQueryAttention", inputs, outputs=3, const=(6,), num_heads=heads, kv_num_heads=kv, **a)

    gqa("gqa_prompt", 5, 5, [4, 4], 0)
    gqa("gqa_token", 1, 7, [6, 6], 6)
    gqa("gqa_rotary_prompt", 5, 5, [4, 4], 0, (cos, sin), do_rotary=1)
    gqa("gqa_rotary_token", 1, 7, [6, 6], 6, (cos, sin), do_rotary=1)
    gqa("gqa_rotary_interleaved", 1, 7, [6, 6], 6, (cos, sin), do_rotary=1, rotary_interleaved=1)
    gqa("gqa_window", 6, 6, [5, 5], 0, local_window_size=2)
    gqa("gqa_softcap", 5, 5, [4, 4], 0, softcap=5.0)
    gqa("gqa_smooth", 5, 5, [4, 4], 0, smooth_softmax=1)
    gqa("gqa_sink", 5, 5, [4, 4], 0, (None, None, None, None, f32(heads)))
    gqa("gqa_chunk", 3, 8, [7], 5, (cos, sin), do_rotary=1)
    packed = [f32(b, 5, (heads + 2 * kv) * 16), None, None, f32(b, kv, 0, 16), f32(b, kv, 0, 16), np.array([4, 4], np.int32), np.array(5, np.int32), cos, sin]
    ms("gqa_packed", "GroupQueryAttention", packed, outputs=3, const=(6,), num_heads=heads, kv_num_heads=kv, do_rotary=1)
    ms("q_attention", "QAttention", [ints(0, 256, b, s, hid), ints(-128, 128, hid, 3 * hid, dtype=np.int8), bias, np.array(np.float32(0.02)), np.array(np.float32(0.01)), lengths,
                                     np.array(np.uint8(120)), np.array(np.int8(2))], num_heads=h)


def tree(name, op, what, x, nodes, leaves, **a):
    """nodes: (tree, node, feature, mode, value, yes, no, missing); leaves: (tree, node, target, weight)"""
    cols = list(zip(*nodes))
    attrs = dict(zip(("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids", "nodes_falsenodeids",
                      "nodes_missing_value_tracks_true"), map(list, cols)))
    cols = list(zip(*leaves))
    attrs.update(zip((f"{what}_treeids", f"{what}_nodeids", f"{what}_ids", f"{what}_weights"), map(list, cols)))
    ml(name, op, [x], outputs=2 if what == "class" else 1, **attrs, **a)


def classic():
    x = f32(6, 4)
    ml("scaler", "Scaler", [x], offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5, 0.1, 2.0, 3.0])
    ml("scaler_one", "Scaler", [ints(-5, 5, 3, 4, dtype=np.int64)], offset=[1.0], scale=[0.5])
    for norm in ("MAX", "L1", "L2"):
        ml(f"normalizer_{norm.lower()}", "Normalizer", [np.abs(x)], norm=norm)
    ml("linear_regressor", "LinearRegressor", [x], coefficients=[float(v) for v in f32(8)], intercepts=[0.5, -0.5], targets=2)
    for post in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        ml(f"linear_classifier_{post.lower()}", "LinearClassifier", [x], outputs=2, coefficients=[float(v) for v in f32(12)], intercepts=[0.1, 0.2, 0.3],
           classlabels_ints=[10, 20, 30], post_transform=post)
        ml(f"linear_classifier_binary_{post.lower()}", "LinearClassifier", [x], outputs=2, coefficients=[float(v) for v in f32(4)], intercepts=[0.1],
           classlabels_ints=[10, 20], post_transform=post)
    sv = [float(v) for v in f32(5 * 4)]
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        ml(f"svm_regressor_{kernel.lower()}", "SVMRegressor", [x], coefficients=[float(v) for v in f32(5)], support_vectors=sv, rho=[0.3], n_supports=5, kernel_type=kernel,
           kernel_params=[0.2, 0.5, 3.0])
        ml(f"svm_classifier_{kernel.lower()}", "SVMClassifier", [x], outputs=2, coefficients=[float(v) for v in f32(2 * 5)], support_vectors=sv, rho=[0.3, -0.1, 0.2],
           vectors_per_class=[2, 1, 2], classlabels_ints=[4, 5, 6], kernel_type=kernel, kernel_params=[0.2, 0.5, 3.0])
    ml("svm_classifier_two", "SVMClassifier", [x], outputs=2, coefficients=[float(v) for v in f32(5)], support_vectors=sv, rho=[0.3], vectors_per_class=[2, 3],
       classlabels_ints=[4, 5], kernel_type="RBF", kernel_params=[0.2, 0.5, 3.0])
    ml("array_feature_extractor", "ArrayFeatureExtractor", [x, np.array([[2, 0, 3]], np.int64)])
    ml("binarizer", "Binarizer", [x], threshold=0.2)
    holes = x.copy()
    holes[1, 2] = np.nan
    ml("imputer", "Imputer", [holes], imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    ml("imputer_int", "Imputer", [ints(-1, 2, 3, 4, dtype=np.int64)], imputed_value_int64s=[7], replaced_value_int64=-1)
    ml("label_encoder", "LabelEncoder", [ints(0, 5, 7, dtype=np.int64)], keys_int64s=[0, 2, 3], values_floats=[0.5, 1.5, 2.5], default_float=-1.0)
    ml("one_hot_encoder", "OneHotEncoder", [ints(0, 4, 5, dtype=np.int64)], cats_int64s=[0, 1, 3], zeros=1)
    ml("feature_vectorizer", "FeatureVectorizer", [f32(3, 2), f32(3, 4)], inputdimensions=[2, 4])
    holes[4, 0] = np.nan
    nodes = [(0, 0, 0, "BRANCH_LEQ", 0.1, 1, 2, 1), (0, 1, 1, "BRANCH_LT", -0.2, 3, 4, 0), (0, 2, 0, "LEAF", 0.0, 0, 0, 0), (0, 3, 0, "LEAF", 0.0, 0, 0, 0),
             (0, 4, 0, "LEAF", 0.0, 0, 0, 0), (1, 0, 2, "BRANCH_GT", 0.3, 1, 2, 0), (1, 1, 0, "LEAF", 0.0, 0, 0, 0), (1, 2, 3, "BRANCH_GTE", 0.0, 3, 4, 1),
             (1, 3, 0, "LEAF", 0.0, 0, 0, 0), (1, 4, 0, "LEAF", 0.0, 0, 0, 0)]
    leaves = [(0, 2, 0, 0.5), (0, 3, 1, 0.25), (0, 3, 0, 0.125), (0, 4, 2, 0.75), (1, 1, 2, 0.5), (1, 3, 1, 1.5), (1, 4, 0, 0.3)]
    for post in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        tree(f"tree_classifier_{post.lower()}", "TreeEnsembleClassifier", "class", holes, nodes, leaves, classlabels_int64s=[7, 8, 9], post_transform=post)
    one = [(t, i, 0, w) for t, i, _, w in leaves if (t, i) != (0, 3)] + [(0, 3, 0, 0.2)]
    signed = [(t, i, k, -w if i == 3 else w) for t, i, k, w in one]
    for post in ("NONE", "LOGISTIC", "SOFTMAX"):
        for kind, ls in (("one", one), ("signed", signed), ("second", [(t, i, 1, w) for t, i, _, w in one]), ("second_signed", [(t, i, 1, w) for t, i, _, w in signed])):
            for base in ([], [0.2]) if "second" not in kind else ([],):
                extra = dict(base_values=base) if base else {}
                tree(f"tree_classifier_two_{kind}_{post.lower()}_{len(base)}", "TreeEnsembleClassifier", "class", holes, nodes, ls, classlabels_int64s=[7, 8],
                     post_transform=post, **extra)
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        tree(f"tree_regressor_{how.lower()}", "TreeEnsembleRegressor", "target", holes, nodes, [(t, i, 0, w) for t, i, _, w in one], n_targets=1, aggregate_function=how,
             base_values=[0.25])


def contrib():
    """com.microsoft operators that are neither attention nor products of bytes."""
    a = f32(2, 5, 5) + 3 * np.eye(5, dtype=np.float32)
    ms("inverse", "Inverse", [a])
    ms("inverse_pivots", "Inverse", [np.array([[0, 2, 0], [0, 0, 4], [1, 0, 0]], np.float32)])
    image, rois = f32(2, 3, 9, 11), np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.3, 1.3, 0.6], [0.8, 0.9, 0.2, 0.1]], np.float32)
    for mode in ("bilinear", "nearest"):
        ms(f"crop_and_resize_{mode}", "CropAndResize", [image, rois, np.array([0, 1, 1, 0], np.int32), np.array([4, 5], np.int32)], const=(3,), mode=mode,
           extrapolation_value=0.5)
    ms("crop_and_resize_one", "CropAndResize", [image, rois, np.array([0, 1, 1, 0], np.int32), np.array([1, 1], np.int32)], const=(3,))
    for size in (1, 2, 3):
        ms(f"ngram_repeat_block_{size}", "NGramRepeatBlock", [ints(0, 4, 3, 12, dtype=np.int64), f32(3, 6)], ngram_size=size)
    ms("nhwc_max_pool", "NhwcMaxPool", [ints(-128, 128, 2, 9, 8, 5, dtype=np.int8)], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    ms("ms_pad", "Pad", [f32(3, 4), np.array([0, 2, 1, 0], np.int64), np.array([0.5], np.float32)], const=(1, 2))
    ms("ms_range", "Range", [np.array([2.5], np.float32), np.array([7], np.float32)], const=(0, 1))
    ms("ms_range_by", "Range", [np.array(1, np.int64), np.array(9, np.int64), np.array(3, np.int64)], const=(0, 1, 2))
    ms("ms_gather_nd", "GatherND", [f32(2, 3, 4), np.array([[0, 1], [1, 2]], np.int64)])
    ms("unfold_tensor", "UnfoldTensor", [f32(2, 10, 3)], dim=1, size=4, step=3)
    ms("scaled_silu", "ScaledSiLU", [f32(4, 6)], alpha=1.7)
    for activation in ("silu", "sigmoid"):
        ms(f"gated_rms_norm_{activation}", "GatedRMSNorm", [f32(2, 3, 8), f32(8), f32(2, 3, 8)], activation=activation, epsilon=1e-4)
    ms("gated_rms_norm_heads", "GatedRMSNorm", [f32(2, 3, 12), f32(4), f32(2, 3, 12)])
    k, n, block = 48, 10, 16
    for kind in (0, 1):
        ms(f"matmul_bnb4_{kind}", "MatMulBnb4", [f32(3, k), ints(0, 256, n * k // 2), np.abs(f32(n * k // block))], const=(1, 2), K=k, N=n, block_size=block,
           quant_type=kind)
    groups = k // block
    for bits in (2, 4, 8):  # by numpy: onnxruntime takes g_idx for 4 bits only, and then without the zero points
        apart = lambda packed, count: np.stack([packed >> i & (1 << bits) - 1 for i in range(0, 8, bits)], -1).reshape(n, -1)[:, :count].astype(np.float32)
        for zeros in (False, True):
            q, z = ints(0, 256, n, groups, block * bits // 8), ints(0, 256, n, (groups * bits + 7) // 8) if zeros else None
            x, scale, g = f32(3, k), np.abs(f32(n, groups)), rng.permutation(np.repeat(np.arange(groups), block)).astype(np.int32)
            zero = apart(z, groups)[:, g] if zeros else 1 << bits - 1
            case(f"matmul_nbits_g_idx_{bits}_{zeros}", "MatMulNBits", [x, q, scale.reshape(-1), None if z is None else z.reshape(-1), g], 1, MS, (1, 2, 3, 4),
                 expect=[x @ ((apart(q.reshape(n, -1), k) - zero) * scale[:, g]).T], K=k, N=n, block_size=block, bits=bits)
    ids, h = ints(0, 7, 2, 5, dtype=np.int32), 8
    byte = lambda *s: ints(0, 256, *s)
    scales = [np.array(s, np.float32) for s in (0.1, 0.2, 0.05, 0.02, 0.01)]
    for segments in (True, False):
        seg = [ints(0, 2, 2, 5, dtype=np.int32)] if segments else [None]
        third = lambda x: x if segments else None
        ms(f"q_embed_layer_norm_{segments}", "QEmbedLayerNormalization",
           [ids, *seg, byte(7, h), byte(6, h), third(byte(2, h)), byte(h), byte(h), ints(0, 2, 2, 5, dtype=np.int32) if segments else None, scales[0], scales[1], third(scales[2]), scales[3], scales[4],
            *[np.array(z, np.uint8) for z in (128, 120)], third(np.array(110, np.uint8)), np.array(3, np.uint8), np.array(99, np.uint8)],
           outputs=2, const=tuple(range(2, 18)))
    # Without a kernel for CPUs in onnxruntime: numpy.
    x, y = f32(3, 4, 2), f32(3, 4, 2)
    cx, cy = x[..., 0] + 1j * x[..., 1], y[..., 0] + 1j * y[..., 1]
    ms_np = lambda name, op, inputs, expect, const=(), **attrs: case(name, op, inputs, len(expect), MS, const, expect=expect, **attrs)
    ms_np("complex_mul", "ComplexMul", [x, y], [complex_pairs(cx * cy)])
    ms_np("complex_mul_conj", "ComplexMulConj", [x, y], [complex_pairs(cx * np.conj(cy))])
    a8, b8 = byte(3, 4), byte(4)
    ms_np("mul_integer", "MulInteger", [a8, np.array(7, np.uint8), b8, np.array(200, np.uint8)], [(a8.astype(np.int32) - 7) * (b8.astype(np.int32) - 200)])
    ms_np("reduce_sum_integer", "ReduceSumInteger", [a8], [a8.astype(np.int32).sum(1, keepdims=True, dtype=np.int32)], axes=[1])
    gate, up = f32(3, 6, scale=3), f32(3, 6, scale=3)
    ms_np("swiglu", "SwiGLU", [gate, up], [np.minimum(gate, 2) / (1 + np.exp(-1.5 * np.minimum(gate, 2))) * (np.clip(up, -2, 2) + 1)], limit=2.0, activation_alpha=1.5,
          activation_beta=1.0)
    table = f32(8, 2)
    both = [[(4 if k > q else 0) + min(abs(q - k), 2 if abs(q - k) < 4 else 3) for k in range(6)] for q in range(5)]  # 2 + int(log(d/2)/log(4)*2) from 2 on
    ms_np("relative_position_bias", "RelativePositionBias", [table, np.array([5], np.int64), np.array([6], np.int64)], [table[np.array(both)].transpose(2, 0, 1)[None]],
          const=(1, 2), is_bidirectional=1, max_distance=8)
    heads, s, d, b = 2, 4, 6, 2
    q, qb, rel, w, wb, eco = f32(b, s, heads * d), f32(heads * d), f32(1, heads, s, s), f32(d, 8), f32(8), f32(1, heads, 1, 1)
    ql = (q + qb).reshape(b, s, heads, d).transpose(0, 2, 1, 3)
    u, r = np.split(1 / (1 + np.exp(-(ql @ w + wb).reshape(b, heads, s, 2, 4).sum(-1))), 2, -1)
    ms_np("gated_relative_position_bias", "GatedRelativePositionBias", [q, qb, rel, w, wb, eco], [(u * (r * eco - 1) + 2) * rel], num_heads=heads)


def older():
    """What operators meant in opsets 7 to 12: attributes that became inputs, axes that were coerced."""
    x, m = f32(2, 3, 4, 5), f32(3, 4)
    seven = lambda name, op, inputs, opset=7, **a: case(f"opset{opset}_{name}", op, inputs, onnx_opset=opset, **a)
    for axis in (0, 1, 2):
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            seven(f"{op.lower()}_{axis}", op, [x], 11, axis=axis)
    seven("slice", "Slice", [x], starts=[0, 1, -3], ends=[1, 100, -1], axes=[0, 1, 3])
    seven("slice_no_axes", "Slice", [x], starts=[1, 0], ends=[2, -1])
    seven("slice_steps", "Slice", [x, np.array([-1, 3], np.int64), np.array([-100, 0], np.int64), np.array([1, 3], np.int64), np.array([-1, -2], np.int64)], 10, const=(1, 2, 3, 4))
    for mode in ("constant", "reflect", "edge"):
        seven(f"pad_{mode}", "Pad", [x], pads=[0, 1, 2, 0, 1, 0, 1, 3], mode=mode, **(dict(value=1.5) if mode == "constant" else {}))
    seven("pad_negative", "Pad", [m], pads=[-1, 0, 1, -2])
    seven("topk", "TopK", [x], k=2, axis=2, outputs=2)
    seven("topk", "TopK", [x, np.array([2], np.int64)], 10, axis=1, outputs=2, const=(1,))
    seven("split", "Split", [x], axis=3, split=[2, 3], outputs=2)
    seven("split_even", "Split", [x], axis=2, outputs=2)
    seven("clip", "Clip", [x], min=-0.5, max=0.7)
    seven("clip_one_side", "Clip", [x], 10, max=0.1)
    seven("squeeze", "Squeeze", [f32(1, 3, 1, 2)], axes=[0, 2])
    seven("squeeze_all", "Squeeze", [f32(1, 3, 1, 2)], 11)
    seven("unsqueeze", "Unsqueeze", [m], axes=[0, 3])
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"):
        seven(op.lower(), op, [x], axes=[1, 3], keepdims=0)
    seven("reducemax_all", "ReduceMax", [x], 12)
    seven("dropout", "Dropout", [x], ratio=0.3)
    seven("dropout", "Dropout", [x], 12, outputs=2)
    seven("upsample", "Upsample", [f32(1, 2, 3, 4)], scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")
    seven("upsample_linear", "Upsample", [f32(1, 2, 3, 4), np.array([1, 1, 2, 2], np.float32)], 9, mode="linear", const=(1,))
    seven("resize_nearest", "Resize", [f32(1, 2, 6, 4), np.array([1, 1, 0.5, 2], np.float32)], 10, mode="nearest", const=(1,))
    seven("resize_linear", "Resize", [f32(1, 2, 6, 4), np.array([1, 1, 1.5, 2], np.float32)], 10, mode="linear", const=(1,))
    seven("batchnorm", "BatchNormalization", [x, f32(3), f32(3), f32(3), np.abs(f32(3))], epsilon=1e-3)
    seven("batchnorm", "BatchNormalization", [x, f32(3), f32(3), f32(3), np.abs(f32(3))], 9)
    seven("averagepool", "AveragePool", [x], kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1)
    seven("scatter", "Scatter", [m, np.array([[1, 0, 3], [2, 1, 0]], np.int64), f32(2, 3)], 9, axis=1)
    seven("gemm", "Gemm", [m, f32(5, 4), f32(5)], transB=1, alpha=0.5, beta=2.0)
    seven("argmax", "ArgMax", [x], axis=2, keepdims=0)
    seven("cast", "Cast", [x * 3], to=TensorProto.INT32)
    seven("gather_negative", "Gather", [x, np.array([[-1, 0], [1, -2]], np.int64)], 11, axis=2)
    seven("flatten", "Flatten", [x], axis=2)
    seven("onehot", "OneHot", [np.array([1, -2, 7], np.int64), np.array([4], np.int64), np.array([-1, 2], np.float32)], 9, axis=0, const=(1,))
    seven("cumsum", "CumSum", [m, np.array(1, np.int32)], 11, exclusive=1, reverse=1, const=(1,))
    seven("prelu", "PRelu", [x, f32(3, 1, 1)])
    seven("instancenorm", "InstanceNormalization", [x, f32(3), f32(3)])
    seven("lrn", "LRN", [f32(1, 6, 3, 3)], size=3, alpha=0.1, beta=0.7, bias=1.5)
    seven("equal", "Equal", [ints(0, 3, 3, 4, dtype=np.int32), ints(0, 3, 4, dtype=np.int32)])
    seven("mvn", "MeanVarianceNormalization", [x], 9, axes=[0, 2, 3])
    seven("depth_to_space", "DepthToSpace", [f32(1, 8, 2, 3)], blocksize=2)
    seven("maxpool", "MaxPool", [x], 8, kernel_shape=[2, 3], strides=[1, 2], outputs=2)
    seven("quantize", "QuantizeLinear", [m, np.array(0.05, np.float32), np.array(120, np.uint8)], 10, const=(1, 2))
    seven("where", "Where", [ints(0, 2, 3, 4, dtype=np.int8).astype(bool), m, f32(4)], 9)
    seven("range", "Range", [np.array(3, np.int32), np.array(-5, np.int32), np.array(-2, np.int32)], 11, const=(0, 1, 2))


def selections():
    for k, (batches, classes, count, most, iou, least, center) in enumerate([
            (1, 1, 40, 10, 0.3, None, 0), (2, 3, 25, 25, 0.5, 0.2, 0), (1, 2, 30, 4, 0.0, 0.4, 1), (2, 1, 17, 100, 0.7, None, 1), (1, 1, 12, 5, 0.4, 2.0, 0)]):
        boxes = (rng.random((batches, count, 4)) + ([0, 0, 0.5, 0.5] if center else 0)).astype(np.float32)
        scores = np.round(rng.random((batches, classes, count)), 1).astype(np.float32)  # many are equal: the first one counts
        rest = [np.array([iou], np.float32)] + ([] if least is None else [np.array([least], np.float32)])
        inputs = [boxes, scores, np.array([most], np.int64), *rest]
        case(f"nms_{k}", "NonMaxSuppression", inputs, center_point_box=center)
        case(f"nms_{k}_constant", "NonMaxSuppression", inputs, const=(2, 3, 4), center_point_box=center)
    for dtype in (np.int64, np.float32, np.int8):
        for ordered in (0, 1):
            case(f"unique_{dtype.__name__}_{ordered}", "Unique", [ints(-3, 4, 5, 6, dtype=dtype)], outputs=4, sorted=ordered)
            case(f"unique_rows_{dtype.__name__}_{ordered}", "Unique", [ints(0, 2, 12, 3, dtype=dtype)], outputs=4, sorted=ordered, axis=0)
    case("unique_middle", "Unique", [ints(0, 2, 2, 9, 2, dtype=np.float32)], outputs=4, axis=-2)
    ms("ms_unique", "Unique", [ints(0, 5, 20, dtype=np.int64).astype(np.float32)], outputs=3)


def text():
    pool = dict(ngram_counts=[0, 3, 9], pool_int64s=[2, 3, 5, 5, 4, 5, 6, 7, 2], min_gram_length=1, max_gram_length=2)
    for dtype in (np.int64, np.int32):
        for mode in ("TF", "IDF", "TFIDF"):
            for skips in (0, 2):
                case(f"tfidf_{mode.lower()}_{skips}_{dtype.__name__}", "TfIdfVectorizer", [ints(2, 8, 3, 12, dtype=dtype)], mode=mode, max_skip_count=skips,
                     weights=[0.5, 2.0, 3.0, 0.25, 7.0, 1.5],
                     ngram_indexes=[3, 0, 5, 1, 4 if mode == "IDF" else 1, 2], **pool)
    case("tfidf_row_trigrams", "TfIdfVectorizer", [ints(1, 3, 9, dtype=np.int64)], mode="TF", max_skip_count=1, min_gram_length=2, max_gram_length=3,
         ngram_counts=[0, 0, 4], pool_int64s=[1, 2, 2, 2, 1, 1, 2, 2, 1, 1], ngram_indexes=[0, 1, 2, 3])


def recurrent():
    T, B, I, H = 5, 3, 4, 6
    ops = {"LSTM": 4, "GRU": 3, "RNN": 1}
    lens = np.array([5, 2, 4], np.int32)

    def layer(name, op, steps=T, batch=B, hidden=H, d=1, const=(1, 2, 3), bias=True, lens=None, state=False, holes=False, outputs=None, inputs=I, **a):
        g = ops[op]
        ins = [f32(steps, batch, inputs), f32(d, g * hidden, inputs, scale=0.4), f32(d, g * hidden, hidden, scale=0.4),
               f32(d, 2 * g * hidden, scale=0.3) if bias else None, lens, f32(d, batch, hidden) if state else None]
        if op == "LSTM":
            ins += [f32(d, batch, hidden) if state else None, f32(d, 3 * hidden, scale=0.3) if holes else None]
        while ins[-1] is None:
            ins.pop()
        direction = {} if "direction" in a or d == 1 else {"direction": "bidirectional"}
        case(f"{op.lower()}_{name}", op, ins, outputs or (3 if op == "LSTM" else 2), const=[c for c in const if c < len(ins) and ins[c] is not None], hidden_size=hidden, **direction, **a)

    for op in ops:
        layer("forward", op)
        layer("weights_as_inputs", op, const=())
        layer("no_bias", op, bias=False)
        layer("reverse", op, direction="reverse", state=True)
        layer("bidirectional", op, d=2, state=True)
        layer("one_step", op, steps=1, state=True)
        layer("one_step_bidirectional", op, steps=1, d=2, state=True)
        layer("two_steps_wide", op, steps=2, batch=1, hidden=40, inputs=17, state=True)
        layer("one_row_bidirectional", op, steps=9, batch=1, hidden=33, d=2)
        layer("hidden_one", op, hidden=1, d=2)
        for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            layer(f"lengths_{direction}", op, d=d, lens=lens, state=True, direction=direction)
        layer("lengths_some_zero", op, d=2, lens=np.array([0, 3, 5], np.int32), state=True)
        layer("lengths_constant", op, d=2, lens=np.full(3, T, np.int32), const=(1, 2, 3, 4))
        layer("clip", op, clip=0.25, state=True)
        layer("last_only", op, outputs=["", "y1"], d=2)
        layer("all_only", op, outputs=["y0"], d=2)
        n = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        for act, alpha, beta in (("Relu", [], []), ("Affine", [0.7], [0.1]), ("LeakyRelu", [0.2], []), ("ThresholdedRelu", [0.3], []),
                                 ("ScaledTanh", [0.8], [0.6]), ("HardSigmoid", [0.3], [0.4]), ("Elu", [0.6], []), ("Softsign", [], []), ("Softplus", [], [])):
            extra = {}
            if alpha:
                extra["activation_alpha"] = alpha * n
            if beta:
                extra["activation_beta"] = beta * n
            layer(f"act_{act.lower()}", op, steps=2, activations=[act] * n, **extra)  # which may grow without bound
        layer("act_each_direction", op, d=2, activations=["Sigmoid", "Tanh", "Softsign", "HardSigmoid", "Relu", "LeakyRelu"][:2 * n], activation_alpha=[0.3, 0.1], activation_beta=[0.45])
    layer("linear_before_reset", "GRU", linear_before_reset=1, state=True)
    layer("linear_before_reset_bidirectional", "GRU", d=2, linear_before_reset=1, lens=lens, state=True)
    layer("linear_before_reset_no_bias", "GRU", bias=False, linear_before_reset=1)
    layer("linear_before_reset_clip", "GRU", clip=0.25, linear_before_reset=1)
    layer("peepholes", "LSTM", holes=True, state=True, const=(1, 2, 3, 7))
    layer("peepholes_bidirectional", "LSTM", holes=True, d=2, lens=lens, const=())
    layer("input_forget", "LSTM", input_forget=1)
    layer("cell_only", "LSTM", outputs=["", "", "y2"], state=True)
    for d in (1, 2):
        for batch in (1, 3):
            for signed in (False, True):
                for column in (False, True):
                    g, size = (d, 4 * H) if column else (d,), 4 * H
                    dtype = np.int8 if signed else np.uint8
                    w = ints(-100, 100, d, I, size, dtype=np.int8) if signed else ints(0, 255, d, I, size)
                    r = ints(-100, 100, d, H, size, dtype=np.int8) if signed else ints(0, 255, d, H, size)
                    zero = np.zeros(g, dtype) if signed else np.full(g, 128, dtype)
                    scale = [(rng.random(g) * 0.01 + 0.002).astype(np.float32) for _ in range(2)]
                    ms(f"dynamic_quantize_lstm_{d}_{batch}_{'i8' if signed else 'u8'}_{'column' if column else 'tensor'}", "DynamicQuantizeLSTM",
                       [f32(T, batch, I), w, r, f32(d, 8 * H, scale=0.2), None, f32(d, batch, H), f32(d, batch, H), None, scale[0], zero, scale[1], zero], 3,
                       const=(1, 2, 3, 8, 9, 10, 11), hidden_size=H, direction="bidirectional" if d == 2 else "forward")


def model(inputs, outputs, body, opset=17):
    return f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'


def control():
    yes, no = np.array(True), np.array(False)
    count = lambda n: np.array(n, np.int64)
    branches = """y = If (c) <
        then_branch = t () => (float[4,6] a) { m = MatMul (x, w) a = Relu (m) },
        else_branch = e () => (float[4,6] b) { s = ReduceSum <keepdims = 1> (x) b0 = Mul (s, x) b = Identity (b0) }>
        z = Add (y, x)"""
    x, w = f32(4, 6), f32(6, 6)
    for name, c in (("true", yes), ("false", no)):
        whole(f"if_{name}", model("bool c, float[4,6] x, float[6,6] w", "float[4,6] z, float[4,6] y", branches), c, x, w)
    deep = """v = Exp (x) y = If (c) <
        then_branch = t () => (float[4,6] a) { a = If (d) <
            then_branch = tt () => (float[4,6] aa) { aa = Add (v, v) },
            else_branch = te () => (float[4,6] ab) { u = Exp (v) ab = Tanh (u) }> },
        else_branch = e () => (float[4,6] b) { b = Identity (x) }>"""
    for c in (yes, no):
        for d in (yes, no):
            whole(f"if_in_if_{int(c)}{int(d)}", model("bool c, bool d, float[4,6] x", "float[4,6] y", deep), c, d, x)
    # The index of the other side is out of range.
    whole("if_other_side_is_illegal", model("int64[1] i, float[5,3] x", "float[1,3] y", """n = Constant <value = int64[1] {5}> ()
        l = Less (i, n) s = Constant <value = int64[1] {0}> () c = Squeeze (l, s) y = If (c) <
        then_branch = t () => (float[1,3] a) { a = Gather (x, i) },
        else_branch = e () => (float[1,3] b) { j = Sub (i, n) g = Gather (x, j) b = Neg (g) }>"""), np.array([7], np.int64), f32(5, 3))

    layers = """h, all = Loop (m, , x) <body = b (int64 i, bool ci, float[4,6] p) => (bool co, float[4,6] q, float[4,6] r)
        { t = MatMul (p, w) q = Tanh (t) r = Add (q, x) co = Identity (ci) }>"""
    fixed = "m = Constant <value = int64 {%d}> () "
    for n in (0, 1, 2, 40):
        whole(f"loop_layers_{n}", model("float[4,6] x, float[6,6] w", f"float[4,6] h, float[{n},4,6] all", fixed % n + layers), x, w)
    carried = """h, g = Loop (m, c, x, x) <body = b (int64 i, bool ci, float[4,6] p, float[4,6] o) => (bool co, float[4,6] q, float[4,6] r)
        { t = MatMul (p, w) q = Tanh (t) r = Sub (q, o) co = Identity (ci) }>"""
    for n in (0, 1, 7):
        for c in (yes, no):
            whole(f"loop_of_run_time_rounds_{n}_{int(c)}", model("int64 m, bool c, float[4,6] x, float[6,6] w", "float[4,6] h, float[4,6] g", carried), count(n), c, x, w)
    whole("loop_until_large", model("float[1] x", "float[1] y, int64 n", """zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
        c = Constant <value = bool {1}> () most = Constant <value = float {1000}> () y, n = Loop (, c, x, zero) <
        body = b (int64 i, bool ci, float[1] p, int64 k) => (bool co, float[1] q, int64 l)
        { q = Add (p, p) l = Add (k, one) s = ReduceSum <keepdims = 0> (q) co = Less (s, most) }>"""), np.array([3], np.float32))
    # Counters, as exporters write while loops: the rounds are known.
    whole("loop_with_a_counter", model("float[6,3] x", "float[3] y, float[6,3] all, int32 last", """n = Constant <value = int32 {6}> () zero = Constant <value = int32 {0}> ()
        one = Constant <value = int32 {1}> () big = Constant <value = int64 {1000000}> () c = Constant <value = bool {1}> () h = Constant <value = float[3] {0, 0, 0}> ()
        last, y, all = Loop (big, c, zero, h) <body = b (int64 i, bool ci, int32 k, float[3] p) => (bool co, int32 l, float[3] q, float[3] r)
        { e = Gather (x, k) q0 = Add (e, p) q = Sin (q0) r = Identity (q) l = Add (k, one) fl = Cast <to = 1> (l) fn = Cast <to = 1> (n) co = Less (fl, fn) }>"""), f32(6, 3))
    whole("loop_swaps", model("float[3] x, float[3] y", "float[3] a, float[3] b, float[3] k", """m = Constant <value = int64 {9}> ()
        a, b, k = Loop (m, , x, y, x) <body = l (int64 i, bool ci, float[3] p, float[3] q, float[3] same) => (bool co, float[3] q2, float[3] s, float[3] keep)
        { q2 = Identity (q) s0 = Add (p, q) s1 = Add (s0, same) s = Sin (s1) keep = Identity (same) co = Identity (ci) }>"""), f32(3), f32(3))
    whole("loop_in_loop", model("float[3,4] x, float[4,4] w", "float[3,4] y, float[5,3,4] all", """m = Constant <value = int64 {5}> () k = Constant <value = int64 {17}> ()
        y, all = Loop (m, , x) <body = o (int64 i, bool ci, float[3,4] p) => (bool co, float[3,4] q, float[3,4] r)
        { fi = Cast <to = 1> (i) q = Loop (k, , p) <body = n (int64 j, bool cj, float[3,4] u) => (bool cn, float[3,4] v)
            { fj = Cast <to = 1> (j) t = MatMul (u, w) t1 = Add (t, fj) t2 = Add (t1, fi) v = Sin (t2) cn = Identity (cj) }>
          r = Mul (q, p) co = Identity (ci) }>"""), f32(3, 4), f32(4, 4, scale=0.2))
    whole("if_in_loop", model("float[3,4] x, float[4,4] w", "float[3,4] y, float[20,3,4] all", """m = Constant <value = int64 {20}> () two = Constant <value = int64 {2}> ()
        zero = Constant <value = int64 {0}> () y, all = Loop (m, , x) <body = o (int64 i, bool ci, float[3,4] p) => (bool co, float[3,4] q, float[3,4] r)
        { k = Mod (i, two) even = Equal (k, zero) q = If (even) <
            then_branch = t () => (float[3,4] a) { a0 = MatMul (p, w) a = Sin (a0) },
            else_branch = e () => (float[3,4] b) { b0 = Softmax (p) b = Sub (b0, x) }>
          r = Add (q, p) co = Identity (ci) }>"""), f32(3, 4), f32(4, 4))
    loop_in_if = """y = If (c) <then_branch = t () => (float[3,4] a) { m = Constant <value = int64 {30}> () a = Loop (m, , x) <
          body = o (int64 i, bool ci, float[3,4] p) => (bool co, float[3,4] q) { t = Sin (p) q = Add (t, x) co = Identity (ci) }> },
        else_branch = e () => (float[3,4] b) { b = Neg (x) }>"""
    for c in (yes, no):
        whole(f"loop_in_if_{int(c)}", model("bool c, float[3,4] x", "float[3,4] y", loop_in_if), c, f32(3, 4))
    # A cache that each round fills a row of.
    whole("loop_fills_rows", model("float[8,3] x, float[3,3] w", "float[8,3] y", """m = Constant <value = int64 {8}> () one = Constant <value = int64[1] {1}> ()
        zero = Constant <value = int64[1] {0}> () y = Loop (m, , x) <body = o (int64 i, bool ci, float[8,3] p) => (bool co, float[8,3] q)
        { j = Unsqueeze (i, zero) row = Gather (p, j) r0 = MatMul (row, w) s = ReduceSum <keepdims = 1> (p, zero) r = Add (r0, s) ij = Unsqueeze (j, one)
          q = ScatterND (p, ij, r) co = Identity (ci) }>"""), f32(8, 3, scale=0.3), f32(3, 3, scale=0.3))
    whole("loop_of_convolutions", model("float[1,2,7,7] x, float[2,2,3,3] w", "float[1,2,7,7] y, float[12,1,2,7,7] all", """m = Constant <value = int64 {12}> ()
        y, all = Loop (m, , x) <body = o (int64 i, bool ci, float[1,2,7,7] p) => (bool co, float[1,2,7,7] q, float[1,2,7,7] r)
        { a = Conv <pads = [1, 1, 1, 1]> (p, w) a1 = Tanh (a) q0 = Conv <pads = [1, 1, 1, 1]> (a1, w) q = Add (q0, p) r = Identity (a1) co = Identity (ci) }>"""),
        f32(1, 2, 7, 7), f32(2, 2, 3, 3, scale=0.2))

    scan = """h, ys, zs = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1], scan_output_axes = [1, 0], scan_output_directions = [1, 0],
        body = b (float[4] p, float[4] e, float[2] f) => (float[4] q, float[4] r, float[2] s) { t = Add (p, e) q = Sin (t) r = Mul (q, e) s = Exp (f) }> (h0, x, y)"""
    whole("scan_axes_and_directions", model("float[4] h0, float[4,5] x, float[5,2] y", "float[4] h, float[4,5] ys, float[5,2] zs", scan), f32(4), f32(4, 5), f32(5, 2))
    batch = """h, ys = Scan <num_scan_inputs = 1, directions = [1], body = b (float[4] p, float[4] e) => (float[4] q, float[4] r)
        { t = Add (p, e) q = Sin (t) r = Mul (q, e) }> (, h0, x)"""
    whole("scan_8_rows", model("float[3,4] h0, float[3,5,4] x", "float[3,4] h, float[3,5,4] ys", batch, opset=8), f32(3, 4), f32(3, 5, 4))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--filter", default="")
    a = p.parse_args()
    shutil.rmtree(os.path.join(a.out, "node"), ignore_errors=True)
    for make in (signals, convolutions, pools, resizes, norms, quantized, fused, attentions, classic, text, contrib, recurrent, selections, older, control):
        make()
    made = 0
    for c in cases:
        if a.filter not in c[0]:
            continue
        try:
            (build_whole if len(c) == 3 else build)(*c, out=a.out)
            made += 1
        except Exception as e:  # an operator that this onnxruntime has no CPU kernel for
            print(f"left out {c[0]}: {str(e).splitlines()[0][:160]}")
    print(f"made {made} of {len(cases)}")


if __name__ == "__main__":
    main()
