"""Malformed models: good small ones with something wrong in them, the same ones each time. all_models() gives (name, write) for each, where
write(folder) makes the model's file, and what lies beside it, and returns its path."""
import glob
import os
import random
import zlib

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

DATA = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
# Cases of ONNX's data that are mutated: one for each kind of operator, with attributes, shapes as inputs, subgraphs, functions.
BASES = """
node/test_basic_conv_with_padding node/test_convtranspose_output_shape node/test_averagepool_2d_pads node/test_maxpool_2d_dilations
node/test_batchnorm_example node/test_layer_normalization_3d_axis1_epsilon node/test_softmax_axis_1 node/test_gemm_all_attributes
node/test_matmul_3d node/test_einsum_batch_matmul node/test_reshape_extended_dims node/test_transpose_all_permutations_3
node/test_slice_neg_steps node/test_reflect_pad node/test_tile_precomputed node/test_expand_dim_changed node/test_concat_3d_axis_1
node/test_split_variable_parts_2d_opset18 node/test_gather_elements_1 node/test_gathernd_example_int32_batch_dim1
node/test_scatternd_add node/test_scatter_elements_with_axis node/test_top_k node/test_onehot_with_axis node/test_cumsum_2d_axis_1
node/test_resize_upsample_sizes_nearest_axes_2_3 node/test_resize_downsample_scales_cubic node/test_gridsample_bicubic
node/test_roialign_aligned_true node/test_col2im_dilations node/test_deform_conv_with_mask_bias node/test_quantizelinear_blocked_asymmetric
node/test_dequantizelinear_axis node/test_qlinearconv node/test_lstm_with_peepholes node/test_gru_batchwise node/test_loop11
node/test_scan9_sum node/test_if node/test_range_float_type_positive_delta_expanded node/test_reduce_sum_default_axes_keepdims_random
node/test_attention_4d_gqa_causal node/test_rotary_embedding_interleaved node/test_nonmaxsuppression_two_classes
node/test_unique_sorted_with_axis node/test_cast_FLOAT_to_INT4 node/test_constant node/test_constantofshape_int_shape_zero
node/test_depthtospace_crd_mode_example node/test_dft_axis node/test_stft node/test_melweightmatrix node/test_spacetodepth_example
node/test_nllloss_NCd1d2_with_weight node/test_adam node/test_ai_onnx_ml_tree_ensemble_set_membership
node/test_tfidfvectorizer_tf_batch_onlybigrams_skip0 node/test_center_crop_pad_crop_and_pad_expanded node/test_gelu_tanh_1_expanded
node/test_sequence_map_add_2_sequences_expanded simple/test_sequence_model4 simple/test_expand_shape_model1 node/test_group_normalization_epsilon
pytorch-converted/test_Conv2d_depthwise_with_multiplier pytorch-converted/test_BatchNorm2d_eval pytorch-operator/test_operator_pad
""".split()
EXTREMES = [0, -1, 1, 2, 7, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -2**31, -2**63]


def base(name):
    """A case's model; its integer inputs, which are shapes, axes and the like, become constants."""
    folder = os.path.join(DATA, name)
    model = onnx.load(os.path.join(folder, "model.onnx"))
    given = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in given]
    for i, v in enumerate(inputs):
        path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        if not v.type.HasField("tensor_type") or not os.path.exists(path):
            continue
        t = TensorProto()
        with open(path, "rb") as f:
            t.ParseFromString(f.read())
        if t.data_type in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL) or (i and len(t.dims) <= 1):
            t.name = v.name
            model.graph.input.remove(v)
            model.graph.initializer.append(t)
    return model


def nodes(model):
    found, graphs = [], [model.graph]
    while graphs:
        g = graphs.pop()
        for n in g.node:
            found.append(n)
            for a in n.attribute:
                graphs += [a.g] if a.HasField("g") else []
    for f in model.functions:
        found += list(f.node)
    return found


def attributes(model, *types):
    return [(n, a) for n in nodes(model) for a in n.attribute if not types or a.type in types]


# --- mutations of a model: change it in place, and return False if there is nothing to change
def input_dtype(m, r):
    if not m.graph.input:
        return False
    r.choice(m.graph.input).type.tensor_type.elem_type = r.choice([0, 2, 6, 7, 8, 9, 10, 11, 14, 16, 17, 22, 23, 99, -1])


def input_dim(m, r):
    dims = [d for v in m.graph.input for d in v.type.tensor_type.shape.dim]
    if not dims:
        return False
    r.choice(dims).dim_value = r.choice(EXTREMES)


def input_rank(m, r):
    if not m.graph.input:
        return False
    dim = r.choice(m.graph.input).type.tensor_type.shape.dim
    if dim and r.random() < 0.5:
        del dim[r.randrange(len(dim))]
    else:
        for _ in range(r.choice([1, 3, 100])):
            dim.add().dim_value = r.choice([1, 2])


def input_type(m, r):
    if not m.graph.input:
        return False
    t = r.choice(m.graph.input).type
    r.choice([lambda: t.Clear(), lambda: t.sequence_type.elem_type.tensor_type.CopyFrom(onnx.TypeProto.Tensor(elem_type=1)),
              lambda: t.map_type.CopyFrom(onnx.TypeProto.Map(key_type=7)), lambda: t.optional_type.elem_type.optional_type.elem_type.Clear(),
              lambda: t.sparse_tensor_type.CopyFrom(onnx.TypeProto.SparseTensor(elem_type=1))])()


def attribute_integer(m, r):
    found = attributes(m, AttributeProto.INT)
    if not found:
        return False
    r.choice(found)[1].i = r.choice(EXTREMES)


def attribute_integers(m, r):
    found = attributes(m, AttributeProto.INTS)
    if not found:
        return False
    ints = r.choice(found)[1].ints
    what = r.randrange(4)
    if what == 0:
        ints.append(r.choice(EXTREMES))
    elif what == 1:
        del ints[:]
    elif ints:
        ints[r.randrange(len(ints))] = r.choice(EXTREMES)


def attribute_float(m, r):
    found = attributes(m, AttributeProto.FLOAT, AttributeProto.FLOATS)
    if not found:
        return False
    a, value = r.choice(found)[1], r.choice([float("nan"), float("inf"), -3.4e38, 0.0])
    if a.type == AttributeProto.FLOAT:
        a.f = value
    elif a.floats:
        a.floats[r.randrange(len(a.floats))] = value


def attribute_string(m, r):
    found = attributes(m, AttributeProto.STRING, AttributeProto.STRINGS)
    if not found:
        return False
    a, value = r.choice(found)[1], r.choice([b"", b"nonsense", b"\xff\xfe\x00", b"a" * 100000, b"ij,jk->", b"%s%n"])
    if a.type == AttributeProto.STRING:
        a.s = value
    elif a.strings:
        a.strings[r.randrange(len(a.strings))] = value


def attribute_type(m, r):
    found = attributes(m)
    if not found:
        return False
    a = r.choice(found)[1]
    if r.random() < 0.5:
        a.type = r.choice([t for t in range(15) if t != a.type])
    else:
        name = a.name
        other = r.choice([helper.make_attribute("x", 5), helper.make_attribute("x", 2.5), helper.make_attribute("x", "text"),
                          helper.make_attribute("x", [1, 2]), helper.make_attribute("x", numpy_helper.from_array(np.ones(3, np.float32)))])
        a.CopyFrom(other)
        a.name = name


def attribute_missing(m, r):
    found = attributes(m)
    if not found:
        return False
    n, a = r.choice(found)
    n.attribute.remove(a)


def attribute_reference(m, r):
    n = r.choice(nodes(m))
    a = n.attribute.add()
    a.name, a.ref_attr_name, a.type = "axis", r.choice(["", "nowhere", "axis"]), 2


def tensor_in_attribute(m, r):
    found = [a.t for _, a in attributes(m, AttributeProto.TENSOR)]
    return wrong_tensor(found, r)


def initializer(m, r):
    return wrong_tensor(list(m.graph.initializer), r)


def wrong_tensor(found, r):
    if not found:
        return False
    t, what = r.choice(found), r.randrange(8)
    if what == 0:
        t.raw_data = numpy_helper.to_array(t).tobytes()[:-1]
    elif what == 1:
        t.raw_data = numpy_helper.to_array(t).tobytes() + b"more"
    elif what == 2:
        t.dims.append(r.choice(EXTREMES))
    elif what == 3 and t.dims:
        t.dims[r.randrange(len(t.dims))] = r.choice(EXTREMES)
    elif what == 4:
        t.data_type = r.choice([0, 8, 14, 99, -5, 22, 10, 7, 1])
    elif what == 5:
        t.ClearField("raw_data")
        for field in ("float_data", "int64_data", "int32_data", "double_data"):
            t.ClearField(field)
    elif what == 6:
        t.segment.begin, t.segment.end = 0, 2**40
    else:
        t.dims.extend([1] * 70)


def integer_values(m, r):
    found = [t for t in m.graph.initializer if t.data_type in (TensorProto.INT64, TensorProto.INT32)]
    if not found:
        return False
    t = r.choice(found)
    a = numpy_helper.to_array(t).copy().reshape(-1)
    if not a.size:
        return False
    a[r.randrange(a.size)] = r.choice(EXTREMES) if a.dtype == np.int64 else r.choice([-1, 0, 2**31 - 1, -2**31, 1000])
    name, dims = t.name, list(t.dims)
    t.CopyFrom(numpy_helper.from_array(a.reshape(dims), name))


def external(m, r):
    if not m.graph.initializer:
        return False
    t = r.choice(m.graph.initializer)
    for field in ("raw_data", "float_data", "int64_data", "int32_data", "double_data"):
        t.ClearField(field)
    t.data_location = TensorProto.EXTERNAL
    for key, value in r.choice([
            {"location": "/etc/passwd"}, {"location": "../../../../../../etc/passwd"}, {"location": "outside.bin"}, {"location": "."}, {"location": "missing.bin"}, {},
            {"location": "near.bin", "offset": str(2**63)}, {"location": "near.bin", "offset": "-4"}, {"location": "near.bin", "length": "99999999999999999999"},
            {"location": "near.bin", "offset": "8", "length": "4"}, {"location": "near.bin", "offset": "five"}, {"location": "model.onnx"}, {"location": "pipe"},
            {"location": "a\x00b"}, {"location": "x" * 5000}]).items():
        e = t.external_data.add()
        e.key, e.value = key, value


def node_input(m, r):
    n, what = r.choice(nodes(m)), r.randrange(6)
    if what == 0:
        n.input.append(r.choice(["nowhere", n.output[0] if n.output else "", ""]))
    elif not n.input:
        return False
    elif what == 1:
        n.input[r.randrange(len(n.input))] = "nowhere"
    elif what == 2:
        del n.input[r.randrange(len(n.input)):]
    elif what == 3:
        n.input[r.randrange(len(n.input))] = ""
    elif what == 4:
        x = list(n.input)
        r.shuffle(x)
        n.input[:] = x
    else:
        n.input.extend([n.input[0]] * 50)


def cycle(m, r):
    found = [n for n in nodes(m) if n.input and n.output]
    if not found:
        return False
    n = r.choice(found)
    n.input[r.randrange(len(n.input))] = n.output[0]


def node_output(m, r):
    n, what = r.choice(nodes(m)), r.randrange(5)
    if what == 0:
        n.output.append("more")
    elif what == 1:
        del n.output[:]
    elif what == 2 and n.input:
        n.output[:] = [n.input[0]]
    elif what == 3 and n.output:
        n.output[:] = [n.output[0]] * 3
    else:
        n.output[:] = [""]


def node_kind(m, r):
    n = r.choice(nodes(m))
    if r.random() < 0.7:
        n.op_type = r.choice(["", "Nonsense", "Conv", "Add", "If", "Loop", "Scan", "LSTM", "Concat", "Resize", "Einsum", "TopK", "Constant", "QLinearConv", "SequenceAt", "a" * 10000])
    else:
        n.domain = r.choice(["com.example", "com.microsoft", "ai.onnx.ml", "\n"])


def opset(m, r):
    what = r.randrange(4)
    if what == 0:
        del m.opset_import[:]
    elif what == 1:
        m.opset_import.add().version = r.choice([1, 5, 99])
    else:
        for o in m.opset_import:
            o.version = r.choice([0, -1, 1, 5, 9, 99, 2**40, 2**63 - 1])


def graph_outputs(m, r):
    what, out = r.randrange(5), m.graph.output
    if what == 0:
        del out[:]
    elif what == 1:
        out[0].name = r.choice(["nowhere", "", m.graph.input[0].name if m.graph.input else "x"])
    elif what == 2:
        out.append(out[0])
    elif what == 3:
        out[0].type.tensor_type.elem_type = r.choice([0, 2, 7, 8, 99])
    else:
        out[0].type.tensor_type.shape.dim.add().dim_value = r.choice(EXTREMES)


def names(m, r):
    what = r.randrange(4)
    if what == 0 and m.graph.initializer:
        m.graph.initializer.append(m.graph.initializer[0])
    elif what == 1 and m.graph.input:
        m.graph.input.append(m.graph.input[0])
    elif what == 2 and m.graph.input and m.graph.initializer:
        m.graph.initializer[0].name = m.graph.input[0].name
    else:
        m.graph.node.append(m.graph.node[0])


def order(m, r):
    if len(m.graph.node) < 2:
        return False
    n = m.graph.node[0]
    copy = onnx.NodeProto()
    copy.CopyFrom(n)
    m.graph.node.remove(n)
    m.graph.node.append(copy)


def functions(m, r):
    if not m.functions:
        return False
    f = r.choice(m.functions)
    what = r.randrange(4)
    if what == 0:
        f.node.add(op_type=f.name, domain=f.domain, input=list(f.input), output=["again"])
    elif what == 1:
        f.output.append("nowhere")
    elif what == 2:
        del f.input[:]
    else:
        del f.opset_import[:]


def subgraphs(m, r):
    found = attributes(m, AttributeProto.GRAPH)
    if not found:
        return False
    n, a = r.choice(found)
    what = r.randrange(5)
    if what == 0:
        a.ClearField("g")
    elif what == 1:
        del a.g.output[:]
    elif what == 2 and a.g.input:
        del a.g.input[0]
    elif what == 3:
        a.g.input.add().name = "one_more"
    else:
        copy = AttributeProto()
        copy.CopyFrom(a)
        a.g.node.add(op_type=n.op_type, input=list(n.input), output=["deeper"]).attribute.append(copy)


MUTATIONS = [input_dtype, input_dim, input_rank, input_type, attribute_integer, attribute_integers, attribute_float, attribute_string, attribute_type,
             attribute_missing, attribute_reference, tensor_in_attribute, initializer, integer_values, external, node_input, cycle, node_output, node_kind,
             opset, graph_outputs, names, order, functions, subgraphs]


# --- mutations of the file's bytes
def truncated(b, r):
    return b[:r.randrange(len(b))]


def flipped(b, r):
    b = bytearray(b)
    for _ in range(r.choice([1, 3, 20])):
        b[r.randrange(len(b))] ^= 1 << r.randrange(8)
    return bytes(b)


def inserted(b, r):
    at = r.randrange(len(b))
    return b[:at] + bytes(r.randrange(256) for _ in range(r.choice([1, 8, 100]))) + b[at:]


def removed(b, r):
    at = r.randrange(len(b))
    return b[:at] + b[at + r.choice([1, 2, 10]):]


def not_utf8(b, r):
    """The letters of some names become bytes that are no UTF-8."""
    places = [i for i in range(len(b) - 4) if all(97 <= c <= 122 for c in b[i:i + 4])]
    b = bytearray(b)
    for at in r.sample(places, min(3, len(places))):
        b[at:at + 3] = b"\xff\xc0\x80"
    return bytes(b)


def doubled(b, r):
    return b + b


BYTES = [truncated, flipped, flipped, flipped, inserted, removed, not_utf8, doubled]


def beside(folder):
    """What external data may name: near.bin, a link to a file outside, a pipe that nobody writes."""
    with open(os.path.join(folder, "near.bin"), "wb") as f:
        f.write(bytes(64))
    os.symlink("/etc/passwd", os.path.join(folder, "outside.bin"))
    os.mkfifo(os.path.join(folder, "pipe"))


def write_mutated(case, mutate, seed, as_bytes):
    def write(folder):
        r = random.Random(seed)
        model = base(case)
        data = model.SerializeToString()
        if as_bytes:
            data = mutate(data, r)
        else:
            mutate(model, r)
            data = model.SerializeToString()
        beside(folder)
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(data)
        return path
    return write


def all_models(count=300):
    from bombs import BOMBS
    made = [(f"bomb_{name}", write) for name, write in BOMBS]
    k = 0
    while len(made) < count:
        case = BASES[k % len(BASES)]
        seed = zlib.crc32(f"{case}{k}".encode())
        as_bytes = k % 4 == 3
        mutate = (BYTES if as_bytes else MUTATIONS)[(k // 4 if as_bytes else k - k // 4) % len(BYTES if as_bytes else MUTATIONS)]
        k += 1
        if not as_bytes and mutate(base(case), random.Random(seed)) is False:
            continue
        made.append((f"{os.path.basename(case)[5:]}_{mutate.__name__}_{k}", write_mutated(case, mutate, seed, as_bytes)))
    return made
