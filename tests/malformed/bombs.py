"""Models that are small in the file and large, deep or endless in what they say."""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
BOMBS = []


def bomb(f):
    def write(folder):
        made = f()
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as out:
            out.write(made if isinstance(made, bytes) else made.SerializeToString())
        return path
    BOMBS.append((f.__name__, write))
    return f


def model(nodes, inputs=(("x", F32, [4]),), outputs=("y",), constants=None, opset=20, functions=(), domains=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, t, d) for n, t, d in inputs], [onnx.ValueInfoProto(name=o) for o in outputs],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains], functions=list(functions))


def one(op, inputs=("x",), constants=None, shape=(4,), opset=20, **attrs):
    """A model of one node on x f32."""
    return model([helper.make_node(op, list(inputs), ["y"], **attrs)], [("x", F32, list(shape))], constants=constants, opset=opset)


def i64(*v):
    return np.array(v, np.int64)


@bomb
def empty_file():
    return b""


@bomb
def zeros():
    return bytes(100000)


@bomb
def text():
    return b"this is no model\n" * 50


@bomb
def endless_varint():
    return b"\xff" * 5000


@bomb
def length_beyond_the_file():
    return b"\x3a\xff\xff\xff\xff\x0f" + b"\x0a" * 100


@bomb
def no_graph():
    return helper.make_model(helper.make_graph([], "g", [], []), opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()[:4]


@bomb
def no_nodes():
    return model([], outputs=["x"])


def nested(depth, op="If"):
    name = f"v{depth}"
    graph = helper.make_graph([helper.make_node("Identity", ["x"], [name])], "g", [], [onnx.ValueInfoProto(name=name)])
    for d in range(depth - 1, -1, -1):
        other = helper.make_graph([helper.make_node("Identity", ["x"], [f"o{d}"])], "g", [], [onnx.ValueInfoProto(name=f"o{d}")])
        graph = helper.make_graph([helper.make_node(op, ["c"], [f"v{d}"], then_branch=graph, else_branch=other)], "g", [], [onnx.ValueInfoProto(name=f"v{d}")])
    return graph


@bomb
def deep_ifs():
    g = nested(30)
    return model(list(g.node), [("x", F32, [4]), ("c", BOOL, [])], ["v0"])


def wrap(b, depth, fields):
    """b inside `depth` messages of the given field numbers."""
    for k in range(depth):
        size, length = len(b), b""
        while size >= 128:
            length += bytes([size & 127 | 128])
            size >>= 7
        b = bytes([fields[k % len(fields)] << 3 | 2]) + length + bytes([size]) + b
    return b


@bomb
def messages_in_messages():  # node.attribute.g.node..: fields 1, 5, 6
    return b"\x08\x0a" + wrap(b"", 30000, [6, 5, 1]) + b"\x42\x02\x10\x14"


@bomb
def types_in_types():  # sequence_type.elem_type ..
    value = b"\x0a\x01x" + wrap(wrap(b"", 20000, [1, 4]), 1, [2])
    return b"\x08\x0a" + wrap(wrap(value, 1, [11]), 1, [7]) + b"\x42\x02\x10\x14"


def function(name, nodes, inputs=("a",), outputs=("b",)):
    return helper.make_function("f", name, list(inputs), list(outputs), nodes, [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)])


@bomb
def function_calls_itself():
    return model([helper.make_node("F", ["x"], ["y"], domain="f")], functions=[function("F", [helper.make_node("F", ["a"], ["b"], domain="f")])], domains=["f"])


@bomb
def functions_call_each_other():
    fs = [function("F", [helper.make_node("G", ["a"], ["b"], domain="f")]), function("G", [helper.make_node("F", ["a"], ["b"], domain="f")])]
    return model([helper.make_node("F", ["x"], ["y"], domain="f")], functions=fs, domains=["f"])


@bomb
def functions_that_double():  # 2^40 nodes
    fs = [function("F0", [helper.make_node("Relu", ["a"], ["b"])])]
    for k in range(1, 41):
        fs.append(function(f"F{k}", [helper.make_node(f"F{k - 1}", ["a"], ["m"], domain="f"), helper.make_node(f"F{k - 1}", ["m"], ["b"], domain="f")]))
    return model([helper.make_node("F40", ["x"], ["y"], domain="f")], functions=fs, domains=["f"])


@bomb
def ten_thousand_nodes():
    return model([helper.make_node("Tanh", [f"v{k}" if k else "x"], [f"v{k + 1}" if k < 9999 else "y"]) for k in range(10000)])


@bomb
def a_value_doubled_forty_times():
    return model([helper.make_node("Add", [f"v{k}" if k else "x"] * 2, [f"v{k + 1}" if k < 39 else "y"]) for k in range(40)])


@bomb
def concats_that_double():
    return model([helper.make_node("Concat", [f"v{k}" if k else "x"] * 2, [f"v{k + 1}" if k < 44 else "y"], axis=0) for k in range(45)])


@bomb
def constants_that_double():
    return model([helper.make_node("Concat", [f"v{k}" if k else "c"] * 2, [f"v{k + 1}" if k < 30 else "v31"], axis=0) for k in range(31)]
                 + [helper.make_node("ReduceSum", ["v31"], ["s"], keepdims=0), helper.make_node("Add", ["x", "s"], ["y"])], constants={"c": np.ones(8, np.float32)})


@bomb
def squares_of_squares():  # outer products: rank and size explode
    nodes = []
    for k in range(12):
        v = f"v{k}" if k else "x"
        nodes += [helper.make_node("Unsqueeze", [v, "last"], [f"l{k}"]), helper.make_node("Unsqueeze", [v, "first"], [f"f{k}"]), helper.make_node("Mul", [f"l{k}", f"f{k}"], [f"m{k}"]),
                  helper.make_node("Reshape", [f"m{k}", "flat"], [f"v{k + 1}" if k < 11 else "y"])]
    return model(nodes, constants={"last": i64(1), "first": i64(0), "flat": i64(-1)})


for n in (2**31, 2**45, 2**62):
    BOMBS_BEFORE = len(BOMBS)

    def expand(n=n):
        return one("Expand", ["x", "s"], {"s": i64(n, 4)})

    def constant_of_shape(n=n):
        return model([helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])], constants={"s": i64(n, 1)})

    def summed(n=n):
        return model([helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("ReduceSum", ["e", "a"], ["y"])], constants={"s": i64(n, 4), "a": i64(0)})

    for f in (expand, constant_of_shape, summed):
        f.__name__ = f"{f.__name__}_{n.bit_length() - 1}"
        bomb(f)


@bomb
def range_without_end():
    return model([helper.make_node("Range", ["a", "b", "d"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])],
                 constants={"a": np.float32(0), "b": np.float32(1e30), "d": np.float32(1e-30)})


@bomb
def range_of_nan():
    return model([helper.make_node("Range", ["a", "b", "d"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])],
                 constants={"a": np.float32(0), "b": np.float32("nan"), "d": np.float32(0)})


@bomb
def tile():
    return one("Tile", ["x", "r"], {"r": i64(2**50)})


@bomb
def pad():
    return one("Pad", ["x", "p"], {"p": i64(2**62, 2**62)})


@bomb
def reflect_pad():
    return one("Pad", ["x", "p"], {"p": i64(2**33, 2**33)}, mode="reflect")


@bomb
def one_hot():
    return model([helper.make_node("OneHot", ["i", "d", "v"], ["y"])], [("i", I64, [4])], constants={"d": i64(2**60), "v": np.array([0, 1], np.float32)})


@bomb
def resize():
    return one("Resize", ["x", "", "s"], {"s": np.array([1, 1, 1e9, 1e9], np.float32)}, (1, 1, 4, 4))


@bomb
def resize_to_nothing():
    return one("Resize", ["x", "", "s"], {"s": np.array([1, 1, np.nan, -1], np.float32)}, (1, 1, 4, 4), mode="cubic")


@bomb
def pool_with_a_kernel_of_2_31():
    return one("AveragePool", shape=(1, 1, 8, 8), kernel_shape=[2**31, 2**31], pads=[2**30, 2**30, 2**30, 2**30], count_include_pad=1)


@bomb
def pool_with_a_padded_kernel():
    return one("MaxPool", shape=(1, 1, 8, 8), kernel_shape=[50000, 50000], pads=[49999] * 4, dilations=[1, 1])


@bomb
def conv_with_a_stride_of_2_62():
    return one("Conv", ["x", "w"], {"w": np.ones((1, 1, 3, 3), np.float32)}, (1, 1, 8, 8), strides=[2**62, 2**62], pads=[2**62] * 4)


@bomb
def conv_with_many_groups():
    return one("Conv", ["x", "w"], {"w": np.ones((4, 1, 3, 3), np.float32)}, (1, 4, 8, 8), group=2**40)


@bomb
def split_into_2_40():
    return model([helper.make_node("Split", ["x"], ["y", "z"], num_outputs=2**40)], outputs=["y"])


@bomb
def eye():
    return model([helper.make_node("EyeLike", ["x"], ["y"])], [("x", F32, [2**40, 2**40])])


@bomb
def dft():
    return model([helper.make_node("DFT", ["x", "n", "a"], ["y"])], [("x", F32, [1, 8, 1])], constants={"n": np.int64(2**40), "a": np.int64(1)})


@bomb
def window():
    return model([helper.make_node("HannWindow", ["n"], ["y"])], [("x", F32, [1])], constants={"n": np.int64(2**44)})


@bomb
def mel_weights():
    return model([helper.make_node("MelWeightMatrix", ["m", "d", "r", "l", "u"], ["y"])], [("x", F32, [1])],
                 constants={"m": np.int64(2**30), "d": np.int64(2**30), "r": np.int64(16000), "l": np.float32(0), "u": np.float32(8000)})


@bomb
def trips_of_2_62():
    body = helper.make_graph([helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])], "b",
                             [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("c", BOOL, []), helper.make_tensor_value_info("v", F32, [4])],
                             [helper.make_tensor_value_info("d", BOOL, []), helper.make_tensor_value_info("w", F32, [4])])
    return model([helper.make_node("Loop", ["m", "t", "x"], ["y"], body=body)], constants={"m": np.int64(2**62), "t": np.bool_(True)})


@bomb
def sequence_of_2_40():
    return model([helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("SplitToSequence", ["e"], ["q"], axis=0), helper.make_node("SequenceLength", ["q"], ["y"])],
                 constants={"s": i64(2**40, 4)})


@bomb
def a_million_dims():
    return one("Reshape", ["x", "s"], {"s": np.ones(1000000, np.int64)})


@bomb
def a_permutation_of_thousands():
    return model([helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Transpose", ["r"], ["y"], perm=list(range(2999, -1, -1)))], constants={"s": np.ones(3000, np.int64)})


@bomb
def tree_with_a_cycle():
    return model([helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", nodes_treeids=[0, 0], nodes_nodeids=[0, 1], nodes_featureids=[0, 0], nodes_values=[0.5, 0.5],
                                   nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ"], nodes_truenodeids=[1, 0], nodes_falsenodeids=[0, 1], target_treeids=[0], target_nodeids=[0],
                                   target_ids=[0], target_weights=[1.0], n_targets=1)], [("x", F32, [2, 1])], domains=["ai.onnx.ml"])


@bomb
def regressor_with_2_40_targets():
    return model([helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0], targets=2**40)], [("x", F32, [2, 1])], domains=["ai.onnx.ml"])


@bomb
def sum_over_2_40():
    return model([helper.make_node("ReduceSum", ["x"], ["y"])], [("x", F32, [2**20, 2**20])])


@bomb
def matmul_of_2_20():
    return model([helper.make_node("MatMul", ["x", "x"], ["y"])], [("x", F32, [2**20, 2**20])])


@bomb
def names_of_a_megabyte():
    return model([helper.make_node("Relu", ["x" * 1000000], ["y"])], [("x" * 1000000, F32, [4])])


@bomb
def hundred_thousand_inputs():
    return model([helper.make_node("Sum", ["x"] * 100000, ["y"])])


@bomb
def einsum_with_many_labels():
    return one("Einsum", ["x"] * 20, equation=",".join("abcdefghijklmnopqrst") + "->" + "abcdefghijklmnopqrst")
