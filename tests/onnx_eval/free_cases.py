"""Makes cases in the layout of ONNX's backend data whose sizes stay free: graphs as exporters write them, with the data of onnxruntime at several
sizes, smallest and largest included, and a file "vars" with the bounds. Run the result with onnx_eval.

free_cases.py OUT [--filter TEXT]
free_cases.py OUT --model FILE --var N=1..8 [--shape x=N,3] [--sizes N=1,3,8] [--ints HIGH]     a model of your own
"""
import argparse
import itertools
import os
import shutil

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, parser

rng = np.random.default_rng(11)


def session(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def save(path, array, name):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(np.asarray(array), name).SerializeToString())


def bounds(var):
    name, rest = var.rsplit("=", 1)
    span, _, multiple = rest.partition(":")
    lo, hi = (int(v) for v in span.split(".."))
    return name, lo, hi, int(multiple or 1)


def some_sizes(lo, hi, multiple):
    return sorted({lo, hi, *(v for v in (lo + multiple, (lo + hi) // 2 // multiple * multiple) if lo <= v <= hi)})


def value(dtype, shape, high):
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, high, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


NUMPY = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8,
         "tensor(float16)": np.float16, "tensor(double)": np.float64}


def write(out, name, model, variables, shapes=(), sizes=None, high=8, make=None):
    """model: a path or bytes; variables: "N=1..8:2"; shapes: "x=N,3"; sizes: a list of {name: size}; make: {input: f(shape)}."""
    named = {s.rsplit("=", 1)[0]: s.rsplit("=", 1)[1].split(",") for s in shapes}
    s = session(model)
    if sizes is None:
        choices = [(n, some_sizes(*b)) for n, *b in map(bounds, variables)]
        longest = max([3, *(len(c) for _, c in choices)])
        # Every size of every variable, not every combination; the variables are out of step.
        sizes = [{n: c[(k + i * (k // max(1, len(c)) + (k > 0))) % len(c)] for i, (n, c) in enumerate(choices)} for k in range(longest + 1)]
    folder = os.path.join(out, "node", name)
    os.makedirs(folder)
    if isinstance(model, bytes):
        with open(os.path.join(folder, "model.onnx"), "wb") as f:
            f.write(model)
    else:
        os.symlink(os.path.abspath(model), os.path.join(folder, "model.onnx"))
    with open(os.path.join(folder, "vars"), "w") as f:
        f.write("".join(line + "\n" for line in [*variables, *shapes]))
    for k, at in enumerate(sizes):
        data = os.path.join(folder, f"test_data_set_{k}")
        os.makedirs(data)
        feeds = {}
        for i in s.get_inputs():
            dims = [at.get(d, d) if isinstance(d, str) else d for d in named.get(i.name, i.shape)]
            dims = [int(d) for d in dims]
            f = (make or {}).get(i.name)
            feeds[i.name] = f(dims) if f else value(NUMPY[i.type], dims, high)
        for i, (n, v) in enumerate(feeds.items()):
            save(os.path.join(data, f"input_{i}.pb"), v, n)
        for i, (o, v) in enumerate(zip(s.get_outputs(), s.run(None, feeds))):
            save(os.path.join(data, f"output_{i}.pb"), v, o.name)


# name: (variables, text of the graph). Sizes of results are left to be inferred.
GRAPHS = {
    "flatten_by_reshape": (["N=1..6"], "(float[N, 4, 3] x) => (float[a, b] y) { s = Shape (x) i = Constant <value = int64 {0}> () "
                           "n = Gather <axis = 0> (s, i) m1 = Constant <value_ints = [-1]> () z = Constant <value_ints = [0]> () "
                           "u = Unsqueeze (n, z) t = Concat <axis = 0> (u, m1) y = Reshape (x, t) }"),
    "heads": (["B=1..3", "T=1..9"], "(float[B, T, 12] x) => (float[a, b, c] y) { s = Shape (x) b = Shape <start = 0, end = 1> (x) t = Shape <start = 1, end = 2> (x) "
              "h = Constant <value_ints = [3]> () d = Constant <value_ints = [4]> () t4 = Concat <axis = 0> (b, t, h, d) q = Reshape (x, t4) "
              "p = Transpose <perm = [0, 2, 1, 3]> (q) k = Transpose <perm = [0, 1, 3, 2]> (p) m = MatMul (p, k) a = Softmax <axis = -1> (m) o = MatMul (a, p) "
              "r = Transpose <perm = [0, 2, 1, 3]> (o) hd = Mul (h, d) t3 = Concat <axis = 0> (b, t, hd) y = Reshape (r, t3) }"),
    "zero_and_rest": (["N=1..5", "T=2..8:2"], "(float[N, T, 6] x) => (float[a, b, c] y) { t = Constant <value_ints = [0, -1, 3]> () y = Reshape (x, t) }"),
    "rest_of_a_multiple": (["T=4..16:4"], "(float[T, 6] x) => (float[a, b] y) { t = Constant <value_ints = [-1, 24]> () y = Reshape (x, t) }"),
    "slice_last": (["T=1..9"], "(float[2, T] x) => (float[a, b] y, float[c, d] z) { m1 = Constant <value_ints = [-1]> () big = Constant <value_ints = [9223372036854775807]> () "
                   "one = Constant <value_ints = [1]> () y = Slice (x, m1, big, one) low = Constant <value_ints = [-9223372036854775807]> () z = Slice (x, m1, low, one, m1) }"),
    "slice_by_size": (["T=1..9"], "(float[1, 16] x, float[T] w) => (float[a, b] y) { t = Shape (w) z = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> () "
                      "y = Slice (x, z, t, one) }"),
    "slice_reversed": (["T=2..9"], "(float[T, 2] x) => (float[a, b] y) { b = Constant <value_ints = [-1]> () e = Constant <value_ints = [-9223372036854775807]> () "
                       "ax = Constant <value_ints = [0]> () st = Constant <value_ints = [-1]> () y = Slice (x, b, e, ax, st) }"),
    "slice_step": (["T=1..9"], "(float[T, 2] x) => (float[a, b] y) { b = Constant <value_ints = [0]> () e = Constant <value_ints = [9223372036854775807]> () "
                   "st = Constant <value_ints = [2]> () y = Slice (x, b, e, b, st) }"),
    "slice_window": (["T=3..9"], "(float[T, 2] x) => (float[a, b] y) { b = Constant <value_ints = [1]> () e = Constant <value_ints = [-1]> () ax = Constant <value_ints = [0]> () "
                     "y = Slice (x, b, e, ax) }"),
    "slice_up_to": (["T=1..9"], "(float[T, 2] x) => (float[a, b] y) { b = Constant <value_ints = [0]> () e = Constant <value_ints = [4]> () y = Slice (x, b, e, b) }"),
    "positions": (["B=1..3", "T=1..9"], "(int64[B, T] ids) => (float[a, b, c] y) { s = Shape (ids) one = Constant <value = int64 {1}> () zero = Constant <value = int64 {0}> () "
                  "t = Gather <axis = 0> (s, one) r = Range (zero, t, one) z1 = Constant <value_ints = [0]> () u = Unsqueeze (r, z1) p = Expand (u, s) "
                  "f = Cast <to = 1> (p) g = Cast <to = 1> (ids) q = Add (f, g) m1 = Constant <value_ints = [-1]> () y = Unsqueeze (q, m1) }"),
    "causal_mask": (["T=1..9"], "(float[T, T] x) => (float[a, b] y) { s = Shape (x) c = ConstantOfShape <value = float[1] {1.0}> (s) l = Trilu <upper = 0> (c) y = Mul (x, l) }"),
    "expand_where": (["B=1..3", "T=1..5"], "(float[B, T] m) => (float[a, b, c, d] y) { s = Shape (m) z = Constant <value = int64 {0}> () o = Constant <value = int64 {1}> () "
                     "b = Gather (s, z) t = Gather (s, o) z1 = Constant <value_ints = [0]> () b1 = Unsqueeze (b, z1) t1 = Unsqueeze (t, z1) one = Constant <value_ints = [1]> () "
                     "w = Concat <axis = 0> (b1, one, t1, t1) m1 = Constant <value_ints = [-1]> () e = Equal (w, m1) ones = ConstantOfShape <value = int64[1] {1}> (q4) "
                     "q4 = Constant <value_ints = [4]> () v = Where (e, ones, w) ax = Constant <value_ints = [1, 2]> () u = Unsqueeze (m, ax) y = Expand (u, v) }"),
    "size_of_all": (["N=1..4", "M=1..5"], "(float[N, M] x) => (float[a] y, float[b] z) { n = Size (x) s = Shape (x) p = ReduceProd <keepdims = 1> (s) y = Reshape (x, p) f = Cast <to = 1> (n) "
                    "i = Constant <value_ints = [-1]> () r = Reshape (x, i) z = Div (r, f) }"),
    "mean_and_softmax": (["N=1..4", "M=1..33"], "(float[N, M] x) => (float[a, b] y, float[c] m) { y = Softmax <axis = 1> (x) m = ReduceMean <axes = [1], keepdims = 0> (x) }"),
    "norm_free_axis": (["N=1..4", "C=2..33"], "(float[N, C] x) => (float[a, b] y) { m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) two = Constant <value = float {2.0}> () "
                       "s = Pow (d, two) v = ReduceMean <axes = [-1]> (s) e = Constant <value = float {0.00001}> () ve = Add (v, e) r = Sqrt (ve) y = Div (d, r) }"),
    "matmul_all_free": (["M=1..7", "K=1..9", "N=1..8"], "(float[M, K] a, float[K, N] b) => (float[x, z] y) { y = MatMul (a, b) }"),
    "gemm_free_rows": (["M=1..7"], "(float[M, 5] a, float[5, 3] b, float[3] c) => (float[x, z] y) { y = Gemm (a, b, c) }"),
    "conv_image": (["N=1..2", "H=5..12", "W=5..11"], "(float[N, 3, H, W] x, float[4, 3, 3, 3] w) => (float[a, b, c, d] y) { y = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) }"),
    "conv_same": (["H=5..12", "W=5..11"], "(float[1, 3, H, W] x, float[4, 3, 3, 2] w) => (float[a, b, c, d] y, float[e, f, g, h] z) { y = Conv <auto_pad = \"SAME_UPPER\", strides = [2, 2]> (x, w) "
                  "z = Conv <auto_pad = \"SAME_LOWER\", strides = [1, 3]> (x, w) }"),
    "conv_transpose": (["H=1..6", "W=1..5"], "(float[1, 3, H, W] x, float[3, 4, 2, 2] w, float[3, 2, 3, 3] v) => (float[a, b, c, d] y, float[e, f, g, h] z) "
                       "{ y = ConvTranspose <strides = [2, 2]> (x, w) z = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]> (x, v) }"),
    "max_pool_ceil": (["H=3..12", "W=3..11"], "(float[1, 2, H, W] x) => (float[a, b, c, d] y, float[e, f, g, h] z) { y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x) "
                      "z = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1, pads = [1, 1, 1, 1]> (x) }"),
    "max_pool_same": (["H=3..12"], "(float[1, 2, H, 6] x) => (float[a, b, c, d] y) { y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = \"SAME_UPPER\"> (x) }"),
    "max_pool_indices": (["N=1..3", "H=3..9"], "(float[N, 2, H, 6] x) => (float[a, b, c, d] y, int64[e, f, g, h] i) { y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }"),
    "average_pool": (["H=4..12", "W=4..9"], "(float[1, 2, H, W] x) => (float[a, b, c, d] y, float[e, f, g, h] z, float[i, j, k, l] u) { y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x) "
                     "z = AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1, pads = [1, 1, 1, 1], count_include_pad = 1> (x) u = GlobalAveragePool (x) }"),
    "pads": (["H=3..9"], "(float[2, H] x) => (float[a, b] y, float[c, d] z, float[e, f] u, float[g, h] v) { p = Constant <value_ints = [0, 2, 1, 1]> () y = Pad (x, p) z = Pad <mode = \"reflect\"> (x, p) "
             "u = Pad <mode = \"edge\"> (x, p) n = Constant <value_ints = [0, -1, 0, 3]> () v = Pad (x, n) }"),
    "pad_to_multiple": (["T=1..17"], "(float[2, T] x) => (float[a, b] y) { s = Shape <start = 1> (x) e = Constant <value_ints = [8]> () n = Neg (s) r = Mod (n, e) z = Constant <value_ints = [0, 0, 0]> () "
                        "p = Concat <axis = 0> (z, r) y = Pad (x, p) }"),
    "tile_and_split": (["N=1..4", "T=2..8:2"], "(float[N, T] x) => (float[a, b] y, float[c, d] z, float[e, f] u) { s = Shape <start = 0, end = 1> (x) two = Constant <value_ints = [2]> () r = Concat <axis = 0> (s, two) "
                       "y = Tile (x, r) z, u = Split <axis = 1> (x) }"),
    "split_by_size": (["T=3..9"], "(float[T, 2] x) => (float[a, b] y, float[c, d] z) { s = Shape <start = 0, end = 1> (x) two = Constant <value_ints = [2]> () r = Sub (s, two) p = Concat <axis = 0> (two, r) "
                      "y, z = Split <axis = 0> (x, p) }"),
    "concat_free": (["A=1..4", "B=1..5"], "(float[A, 3] x, float[B, 3] w) => (float[a, b] y, float[c, d] z) { y = Concat <axis = 0> (x, w, x) s = Shape <start = 0, end = 1> (x) z0 = Constant <value_ints = [0]> () "
                    "z = Slice (y, s, m1, z0) m1 = Constant <value_ints = [-1]> () }"),
    "resize_nearest": (["H=2..9", "W=2..7"], "(float[1, 2, H, W] x) => (float[a, b, c, d] y, float[e, f, g, h] z) { sc = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () "
                       "y = Resize <mode = \"nearest\", nearest_mode = \"floor\", coordinate_transformation_mode = \"asymmetric\"> (x, , sc) z = Resize <mode = \"nearest\"> (x, , sc) }"),
    "resize_linear": (["H=2..9", "W=2..7"], "(float[1, 2, H, W] x) => (float[a, b, c, d] y, float[e, f, g, h] z, float[i, j, k, l] u) { sc = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () "
                      "y = Resize <mode = \"linear\"> (x, , sc) z = Resize <mode = \"linear\", coordinate_transformation_mode = \"align_corners\"> (x, , sc) "
                      "hf = Constant <value_floats = [1.0, 1.0, 0.5, 0.5]> () u = Resize <mode = \"linear\", coordinate_transformation_mode = \"asymmetric\"> (x, , hf) }"),
    "resize_to_a_shape": (["H=4..12:4", "W=4..8:4"], "(float[1, 2, H, W] x, float[2, 2, 3, 3] w) => (float[a, b, c, d] y) { c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) s = Shape (x) z = Constant <value_ints = [0]> () "
                          "two = Constant <value_ints = [2]> () four = Constant <value_ints = [4]> () cs = Shape (c) n = Slice (cs, z, two, z) hw = Slice (s, two, four, z) t = Concat <axis = 0> (n, hw) "
                          "r = Resize <mode = \"nearest\", nearest_mode = \"floor\", coordinate_transformation_mode = \"asymmetric\"> (c, , , t) y = Add (r, x) }"),
    "scaled_by_floats": (["H=2..9"], "(float[1, 2, H, 4] x) => (float[a, b, c, d] y) { s = Shape <start = 2, end = 3> (x) f = Cast <to = 1> (s) k = Constant <value = float {2.0}> () m = Mul (f, k) g = Floor (m) "
                         "i = Cast <to = 7> (g) h = Constant <value_ints = [1, 2]> () w = Constant <value_ints = [8]> () t = Concat <axis = 0> (h, i, w) "
                         "y = Resize <mode = \"nearest\", nearest_mode = \"floor\", coordinate_transformation_mode = \"asymmetric\"> (x, , , t) }"),
    "top_k": (["T=3..9"], "(float[2, T] x) => (float[a, b] y, int64[c, d] i, float[e, f] z, int64[g, h] j) { k = Constant <value_ints = [3]> () y, i = TopK (x, k) s = Shape <start = 1> (x) z, j = TopK (x, s) }"),
    "one_hot": (["N=1..5"], "(int64[N] x) => (float[a, b] y) { s = Shape (x) v = Constant <value_floats = [0.0, 1.0]> () y = OneHot (x, s, v) }"),
    "gather_and_scatter": (["T=2..9"], "(float[T, 3] x, int64[2] i, float[2, 3] u) => (float[a, b] y, float[c, d] z, float[e] w) { y = Gather (x, i) m1 = Constant <value_ints = [-1]> () j = Unsqueeze (i, m1) "
                           "z = ScatterND (x, j, u) l = Constant <value = int64 {-1}> () w = Gather (x, l) }"),
    "argmax_and_cumsum": (["T=1..9"], "(float[2, T] x) => (int64[a] y, float[b, c] z) { y = ArgMax <axis = 1, keepdims = 0> (x) o = Constant <value = int64 {1}> () z = CumSum (x, o) }"),
    "depth_to_space": (["N=1..2", "H=2..6:2"], "(float[N, 8, H, 4] x) => (float[a, b, c, d] y, float[e, f, g, h] z) { y = DepthToSpace <blocksize = 2> (x) z = SpaceToDepth <blocksize = 2> (x) }"),
    "instance_norm": (["N=1..2", "H=2..9"], "(float[N, 4, H] x, float[4] s, float[4] b) => (float[i, j, k] y) { y = InstanceNormalization (x, s, b) }"),
    "batch_norm": (["N=1..3"], "(float[N, 4, 5] x, float[4] s, float[4] b, float[4] m) => (float[i, j, k] y) { v = Abs (s) o = Constant <value_floats = [1.0]> () w = Add (v, o) y = BatchNormalization (x, s, b, m, w) }"),
    "einsum": (["B=1..3", "T=1..6"], "(float[B, T, 4] x, float[B, T, 4] w) => (float[a, b, c] y) { y = Einsum <equation = \"bid,bjd->bij\"> (x, w) }"),
    "relative_positions": (["T=1..6"], "(float[1, T, T] x, float[9, 2] table) => (float[a, b, c] y) { s = Shape <start = 1, end = 2> (x) z = Constant <value_ints = [0]> () sq = Squeeze (s, z) zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> () "
                           "r = Range (zero, sq, one) c1 = Constant <value_ints = [1]> () q = Unsqueeze (r, c1) k = Unsqueeze (r, z) d = Sub (k, q) lo = Constant <value = int64 {-4}> () hi = Constant <value = int64 {4}> () "
                           "e = Clip (d, lo, hi) f = Constant <value = int64 {4}> () i = Add (e, f) g = Gather (table, i) y = ReduceSum <keepdims = 0> (g, m1) m1 = Constant <value_ints = [-1]> () }"),
    "float_range": (["T=1..9"], "(float[T] x) => (float[a] y) { s = Shape (x) f = Cast <to = 1> (s) z1 = Constant <value_ints = [0]> () q = Squeeze (f, z1) z = Constant <value = float {0.0}> () o = Constant <value = float {1.0}> () r = Range (z, q, o) y = Add (x, r) }"),
    "ms_attention": (["B=1..3", "T=1..9"], "(float[B, T, 8] x, float[8, 24] w, float[24] b) => (float[a, c, d] y) { y = com.microsoft.Attention <num_heads = 2> (x, w, b) }"),
    "ms_multi_head": (["B=1..2", "T=1..9", "S=1..7"], "(float[B, T, 8] q, float[B, S, 8] k, float[B, S, 8] v) => (float[a, c, d] y) { y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v) }"),
    "ms_past": (["P=1..6", "T=1..3"], "(float[1, T, 8] q, float[1, T, 8] k, float[1, T, 8] v, float[1, 2, P, 4] pk, float[1, 2, P, 4] pv) => (float[a, c, d] y, float[e, f, g, h] nk, float[i, j, l, m] nv) "
               "{ y, nk, nv = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, , , , pk, pv) }"),
    "ms_skip_norm": (["B=1..2", "T=1..9"], "(float[B, T, 8] x, float[B, T, 8] s, float[8] g, float[8] b) => (float[a, c, d] y) { y = com.microsoft.SkipLayerNormalization (x, s, g, b) }"),
    "layer_norm": (["B=1..2", "T=1..9"], "(float[B, T, 8] x, float[8] g, float[8] b) => (float[a, c, d] y) { y = LayerNormalization (x, g, b) }"),
    "group_norm": (["N=1..2", "H=2..5"], "(float[N, 4, H, 3] x, float[4] g, float[4] b) => (float[a, c, d, e] y) { r = Constant <value_ints = [0, 2, -1]> () z = Reshape (x, r) o = Constant <value_floats = [1.0, 1.0]> () n = Constant <value_floats = [0.0, 0.0]> () "
                  "i = InstanceNormalization (z, o, n) s = Shape (x) y0 = Reshape (i, s) sh = Constant <value_ints = [1, 4, 1, 1]> () g4 = Reshape (g, sh) b4 = Reshape (b, sh) m = Mul (y0, g4) y = Add (m, b4) }"),
    "lstm": (["T=1..6", "B=1..3"], "(float[T, B, 3] x, float[1, 8, 3] w, float[1, 8, 2] r) => (float[a, b, c, d] y, float[e, f, g] h) { y, h = LSTM <hidden_size = 2> (x, w, r) }"),
    "gru_both": (["T=1..6"], "(float[T, 2, 3] x, float[2, 6, 3] w, float[2, 6, 2] r) => (float[a, b, c, d] y, float[e, f, g] h) { y, h = GRU <hidden_size = 2, direction = \"bidirectional\"> (x, w, r) }"),
    "grid_sample": (["N=1..2", "H=3..6"], "(float[N, 2, H, 5] x, float[N, 3, 4, 2] g) => (float[a, b, c, d] y) { y = GridSample (x, g) }"),
    "reverse_and_pad_wrap": (["T=2..8"], "(float[2, T] x) => (float[a, b] y) { p = Constant <value_ints = [0, 1, 0, 1]> () y = Pad <mode = \"wrap\"> (x, p) }"),
    "trilu_and_where": (["T=1..8"], "(float[1, 2, T, T] x) => (float[a, b, c, d] y) { s = Shape <start = 2> (x) o = ConstantOfShape <value = float[1] {1.0}> (s) m = Trilu <upper = 1> (o) k = Constant <value = int64 {1}> () u = Trilu <upper = 1> (o, k) "
                       "b = Cast <to = 9> (u) n = Constant <value = float {-1000.0}> () y = Where (b, n, x) }"),
    "quantized_product": (["M=1..9"], "(float[M, 8] x, int8[8, 4] w) => (float[a, b] y) { q, s, z = DynamicQuantizeLinear (x) wz = Constant <value = int8 {0}> () i = MatMulInteger (q, w, z, wz) f = Cast <to = 1> (i) y = Mul (f, s) }"),
    # Sizes that the data decides.
    "non_zero": ([], "(float[3, 5] x) => (int64[a, b] y) { z = Constant <value = float {0.5}> () m = Greater (x, z) y = NonZero (m) }"),
    "non_zero_of_free": (["N=1..4", "M=1..7"], "(float[N, M] x) => (int64[a, b] y, float[c] v) { z = Constant <value = float {0.5}> () m = Greater (x, z) y = NonZero (m) p = Transpose <perm = [1, 0]> (y) v = GatherND (x, p) }"),
    "compress": (["N=2..9"], "(float[N, 3] x) => (float[a, b] y, float[c] s) { ax = Constant <value_ints = [1]> () r = ReduceSum <keepdims = 0> (x, ax) z = Constant <value = float {0.0}> () m = Greater (r, z) y = Compress <axis = 0> (x, m) "
                 "e = Exp (y) s = ReduceSum <keepdims = 0> (e, ax) }"),
    "range_to_a_value": (["count=0..20"], "(int64[1] n) => (int64[count] y) { z1 = Constant <value_ints = [0]> () q = Squeeze (n, z1) z = Constant <value = int64 {0}> () o = Constant <value = int64 {2}> () y = Range (z, q, o) }"),
    "range_back": (["count=0..20"], "(float[1] n) => (float[count] y) { z1 = Constant <value_ints = [0]> () a = Abs (n) q = Squeeze (a, z1) z = Constant <value = float {0.0}> () o = Constant <value = float {-0.25}> () y = Range (q, z, o) }"),
    "slice_to_a_value": (["T=3..9"], "(float[2, T] x, int64[1] n) => (float[a, b] y, float[c, d] z) { z1 = Constant <value_ints = [0]> () o = Constant <value_ints = [1]> () e = Slice (x, z1, n, o) y = Exp (e) big = Constant <value_ints = [100]> () "
                         "m2 = Constant <value_ints = [-2]> () r = Slice (x, n, m5, o, m2) m5 = Constant <value_ints = [-100]> () z = Neg (r) }"),
    "top_k_of_a_value": (["T=8..9"], "(float[2, T] x, int64[1] n) => (float[a, b] y, int64[c, d] i) { y, i = TopK (x, n) }"),
    "zeros_of_a_value": (["c.size=0..8"], "(int64[1] n, float[3] x) => (float[a, b] y) { t = Constant <value_ints = [3]> () s = Concat <axis = 0> (n, t) c = ConstantOfShape (s) y = Add (c, x) }"),
    "boxes_above": ([], "(float[6, 4] boxes, float[6] scores) => (float[a, b] y, float[c] s) { z = Constant <value = float {0.0}> () m = Greater (scores, z) n = NonZero (m) ax = Constant <value_ints = [0]> () i = Squeeze (n, ax) y = Gather (boxes, i) s = Gather (scores, i) }"),
    "ragged_softmax": ([], "(float[9] x) => (float[a] y) { z = Constant <value = float {0.0}> () m = Less (x, z) v = Compress (x, m) w = Concat <axis = 0> (v, one) one = Constant <value_floats = [1.0]> () y = Softmax <axis = 0> (w) }"),
    "unique_of_free": (["T=1..9"], "(int64[T] x) => (int64[a] y, int64[b] first, int64[c] inverse, int64[d] counts) { y, first, inverse, counts = Unique <sorted = 0> (x) }"),
    "boxes_of_free": (["N=1..9"], "(float[1, N, 4] b, float[1, 2, N] s) => (int64[a, three] y) { k = Constant <value = int64 {3}> () i = Constant <value = float {0.4}> () t = Constant <value = float {0.1}> () y = NonMaxSuppression (b, s, k, i, t) }"),
    "unique_words": ([], "(int64[12] x) => (int64[a] y, int64[b] first, int64[c] inverse, int64[d] counts) { y, first, inverse, counts = Unique <sorted = 1> (x) }"),
}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--filter", default="")
    p.add_argument("--model")
    p.add_argument("--var", action="append", default=[])
    p.add_argument("--shape", action="append", default=[])
    p.add_argument("--sizes", action="append", default=[], help="N=1,T=5: one data set at these sizes")
    p.add_argument("--ints", type=int, default=8)
    a = p.parse_args()
    if a.model:
        name = os.path.basename(a.model)[:-5]
        shutil.rmtree(os.path.join(a.out, "node", name), ignore_errors=True)
        sizes = [{k: int(v) for k, v in (s.split("=") for s in t.split(","))} for t in a.sizes] or None
        return write(a.out, name, a.model, a.var, a.shape, sizes, a.ints)
    shutil.rmtree(os.path.join(a.out, "node"), ignore_errors=True)
    for name, (variables, text) in GRAPHS.items():
        if a.filter not in name:
            continue
        opset = 17 if "axes = [" in text else 18 if "auto_pad" in text else 20
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1]> {name} {text}')
        nodes = sorted(model.graph.node, key=lambda n: n.op_type != "Constant")
        ready, done = [], {i.name for i in model.graph.input} | {""}
        while nodes:
            n = next(n for n in nodes if all(i in done for i in n.input))
            nodes.remove(n), ready.append(n), done.update(n.output)
        del model.graph.node[:]
        model.graph.node.extend(ready)
        high = {"gather_and_scatter": 2, "one_hot": 1}.get(name, 8)
        write(a.out, name, model.SerializeToString(), variables, high=high,
              make={"i": lambda s: np.arange(int(np.prod(s))).reshape(s)} if name == "gather_and_scatter" else None)


if __name__ == "__main__":
    main()
