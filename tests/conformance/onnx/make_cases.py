#!/usr/bin/env python3
"""Writes the cases of `cases/`: small models and what onnxruntime computes with them, in the layout of ONNX's own tests.

Needs the packages onnx, onnxruntime and numpy; the tests need none of them.
"""
import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "cases"
RNG = np.random.default_rng(20)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def write(name, nodes, inputs, outputs, initializers=(), opset=17, functions=(), imports=(), ir_version=8, listed=False):
    """`inputs`: name → array; `outputs`: names; `initializers`: name → array. `listed`: initializers are inputs too."""
    values = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()]
    weights = [numpy_helper.from_array(v, k) for k, v in dict(initializers).items()]
    if listed:
        values += [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in weights]
    graph = helper.make_graph(nodes, name, values, [onnx.ValueInfoProto(name=o) for o in outputs], weights)
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, v) for d, v in imports]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=ir_version)
    model.producer_name = "make_cases.py"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(outputs, dict(inputs))
    case = FOLDER / name
    data = case / "test_data_set_0"
    data.mkdir(parents=True)
    (case / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    for kind, arrays in (("input", inputs.values()), ("output", results)):
        for i, array in enumerate(arrays):
            tensor = numpy_helper.from_array(np.asarray(array))
            (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString(deterministic=True))


def node(op, inputs, outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def one(name, op, inputs, outputs=("y",), initializers=(), opset=17, **attributes):
    """One node whose inputs are `inputs` and then `initializers`."""
    names = list(inputs) + list(dict(initializers))
    write(name, [node(op, names, outputs, **attributes)], inputs, list(outputs), initializers, opset)


def ints(*values):
    return np.array(values, np.int64)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    # Arithmetic and activations.
    one("add_broadcast", "Add", {"a": floats(2, 1, 3), "b": floats(4, 1)})
    one("div_int32", "Div", {"a": np.array([7, -7, 9], np.int32), "b": np.array([2, 2, -4], np.int32)})
    one("mod_negative", "Mod", {"a": np.array([-4, 7, 5], np.int64), "b": np.array([3, -3, 8], np.int64)})
    write("clip_max_only", [node("Clip", ["x", "", "high"])], {"x": floats(5)}, ["y"], {"high": np.float32(0.3)})
    one("where_broadcast", "Where", {"c": np.array([[True], [False]]), "a": floats(2, 3), "b": floats(3)})
    one("elu_alpha", "Elu", {"x": floats(7)}, alpha=0.7)
    one("selu_other", "Selu", {"x": floats(7)}, alpha=1.2, gamma=0.9)
    one("softmax_opset11", "Softmax", {"x": floats(2, 3, 4)}, opset=11, axis=1)
    one("softmax_first_axis", "Softmax", {"x": floats(4, 3)}, axis=0)
    one("prelu_channels", "PRelu", {"x": floats(2, 3, 4)}, initializers={"slope": floats(3, 1)})
    # Shapes.
    one("reshape_zero_and_rest", "Reshape", {"x": floats(2, 3, 4)}, initializers={"s": ints(0, -1)})
    one("slice_backwards", "Slice", {"x": floats(5, 6)},
        initializers={"b": ints(-1, 1), "e": ints(-100, 5), "a": ints(0, -1), "s": ints(-2, 2)})
    one("pad_reflect", "Pad", {"x": floats(3, 4)}, initializers={"p": ints(1, 2, 0, 1)}, mode="reflect")
    one("pad_constant_cut", "Pad", {"x": floats(3, 4)}, initializers={"p": ints(1, -1, 0, 2), "v": np.float32(2)})
    one("split_sizes", "Split", {"x": floats(2, 6)}, outputs=("a", "b"), initializers={"s": ints(4, 2)}, axis=-1)
    one("expand_both_ways", "Expand", {"x": floats(3, 1)}, initializers={"s": ints(2, 1, 4)})
    one("depth_to_space_crd", "DepthToSpace", {"x": floats(1, 8, 2, 3)}, blocksize=2, mode="CRD")
    write("shape_arithmetic",
          [node("Shape", ["x"], ["s"]), node("Gather", ["s", "first"], ["n"]), node("Unsqueeze", ["n", "zero"], ["v"]),
           node("Concat", ["v", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"])],
          {"x": floats(2, 3, 4)}, ["y"], {"first": np.int64(0), "zero": ints(0), "rest": ints(-1)})
    one("gather_negative", "Gather", {"x": floats(4, 3)}, initializers={"i": ints(-1, 0, 2)}, axis=0)
    one("one_hot_axis", "OneHot", {"i": np.array([[1, -1], [0, 5]], np.int64)},
        initializers={"d": np.int64(4), "v": np.array([2, 5], np.float32)}, axis=0)
    one("argmin_last", "ArgMin", {"x": np.array([[1, 0, 0], [2, 2, 2]], np.float32)}, axis=1, select_last_index=1)
    # Reductions and products.
    one("reduce_mean_two_axes", "ReduceMean", {"x": floats(2, 3, 4)}, axes=[0, -1], keepdims=0)
    one("reduce_l2_input_axes", "ReduceL2", {"x": floats(2, 3, 4)}, initializers={"a": ints(1)}, opset=18)
    one("reduce_log_sum_exp", "ReduceLogSumExp", {"x": floats(2, 3) * 50}, axes=[1], keepdims=0)
    one("matmul_vector", "MatMul", {"a": floats(4), "b": floats(2, 4, 3)})
    one("gemm_everything", "Gemm", {"a": floats(4, 3), "b": floats(5, 4), "c": floats(5)},
        transA=1, transB=1, alpha=0.5, beta=0.25)
    one("einsum_batched", "Einsum", {"a": floats(2, 3, 4), "b": floats(2, 4, 5)}, equation="bij,bjk->bki")
    # Convolutions and pools.
    w = {"w": floats(4, 2, 3, 3), "c": floats(4)}
    one("conv_groups_dilated", "Conv", {"x": floats(1, 4, 7, 6)}, initializers=w, group=2, dilations=[2, 1],
        pads=[1, 0, 2, 1], strides=[1, 2])
    one("conv_same_lower", "Conv", {"x": floats(1, 2, 6, 5)}, initializers=w, auto_pad="SAME_LOWER", strides=[2, 2])
    one("conv_1d", "Conv", {"x": floats(2, 3, 9)}, initializers={"w": floats(2, 3, 4)}, pads=[1, 2], strides=[2])
    one("conv_3d", "Conv", {"x": floats(1, 2, 4, 5, 4)}, initializers={"w": floats(3, 2, 2, 3, 2), "c": floats(3)},
        strides=[2, 1, 1], pads=[1, 0, 1, 0, 1, 0])
    one("conv_transpose_output_padding", "ConvTranspose", {"x": floats(1, 4, 3, 3)}, initializers={"w": floats(4, 1, 3, 2)},
        group=2, strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 2])
    one("conv_transpose_3d", "ConvTranspose", {"x": floats(1, 2, 2, 3, 2)}, initializers={"w": floats(2, 3, 2, 2, 3)},
        strides=[2, 1, 2], pads=[0, 1, 0, 1, 0, 0])
    one("max_pool_ceil_indices", "MaxPool", {"x": floats(1, 2, 6, 5)}, outputs=("y", "i"), kernel_shape=[3, 2],
        strides=[2, 2], ceil_mode=1, pads=[1, 0, 0, 1])
    one("max_pool_dilated", "MaxPool", {"x": floats(1, 1, 7, 7)}, kernel_shape=[2, 3], dilations=[3, 2])
    one("average_pool_pads", "AveragePool", {"x": floats(1, 2, 5, 5)}, kernel_shape=[3, 2], strides=[2, 1],
        pads=[1, 1, 1, 0])
    one("average_pool_3d", "AveragePool", {"x": floats(1, 1, 4, 4, 3)}, kernel_shape=[2, 2, 2], strides=[2, 1, 1],
        pads=[0, 1, 0, 0, 0, 1], count_include_pad=1)
    one("resize_cubic_half_pixel", "Resize", {"x": floats(1, 1, 4, 5)},
        initializers={"r": np.zeros(0, np.float32), "s": np.array([1, 1, 1.5, 0.8], np.float32)}, mode="cubic")
    # Normalisations and losses.
    one("batch_norm_1d", "BatchNormalization", {"x": floats(3, 4)},
        initializers={"s": floats(4), "b": floats(4), "m": floats(4), "v": floats(4) ** 2})
    one("instance_norm_1d", "InstanceNormalization", {"x": floats(2, 3, 5)}, initializers={"s": floats(3), "b": floats(3)})
    one("layer_norm_no_bias", "LayerNormalization", {"x": floats(2, 3, 4)}, initializers={"s": floats(3, 4)}, axis=1)
    one("lrn_even", "LRN", {"x": floats(1, 6, 2, 2)}, size=3, alpha=0.01, beta=0.6, bias=1.5)
    one("cross_entropy_ignored", "SoftmaxCrossEntropyLoss",
        {"x": floats(4, 5), "t": np.array([1, 4, 2, 2], np.int64)}, initializers={"w": np.abs(floats(5))}, ignore_index=2)
    # Recurrent layers.
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        outputs = ("y", "h", "c")[: 3 if op == "LSTM" else 2]
        one(f"{op.lower()}_bidirectional_lengths", op, {"x": floats(4, 3, 2)}, outputs=outputs, opset=14,
            initializers={"w": floats(2, gates * 3, 2), "r": floats(2, gates * 3, 3), "b": floats(2, gates * 6),
                          "l": np.array([4, 2, 1], np.int32)}, hidden_size=3, direction="bidirectional")
    write("lstm_peepholes", [node("LSTM", ["x", "w", "r", "", "", "", "", "p"], ["y"], hidden_size=2)],
          {"x": floats(3, 2, 3)}, ["y"], {"w": floats(1, 8, 3), "r": floats(1, 8, 2), "p": floats(1, 6)}, opset=14)
    one("gru_affine", "GRU", {"x": floats(3, 2, 3)}, initializers={"w": floats(1, 6, 3), "r": floats(1, 6, 2)}, opset=14,
        hidden_size=2, activations=["HardSigmoid", "Affine"], activation_alpha=[0.3, 0.9], activation_beta=[0.4, 0.1],
        linear_before_reset=1)
    # Types, functions, chains.
    one("cast_to_half", "Cast", {"x": floats(5)}, to=TensorProto.FLOAT16)
    one("add_int8", "Add", {"a": np.array([100, -100], np.int8), "b": np.array([100, 1], np.int8)})
    square = helper.make_function("local", "SquareAdd", ["a", "b"], ["c"],
                                  [node("Mul", ["a", "a"], ["s"]), node("Add", ["s", "b"], ["c"])],
                                  [helper.make_opsetid("", 17)])
    call = helper.make_node("SquareAdd", ["x", "x"], ["y"], domain="local")
    write("local_function", [call], {"x": floats(4)}, ["y"], functions=[square], imports=[("local", 1)])
    network = [node("Conv", ["x", "w", "wb"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
               node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["p"], ["f"]),
               node("Gemm", ["f", "d", "db"], ["g"], transB=1), node("LogSoftmax", ["g"], ["y"], axis=-1)]
    weights = {"w": floats(3, 1, 3, 3), "wb": floats(3), "d": floats(4, 27), "db": floats(4)}
    write("small_network", network, {"x": floats(2, 1, 6, 6)}, ["y"], weights)
    write("small_network_listed", network, {"x": floats(2, 1, 6, 6)}, ["y"], weights, listed=True)
    # An input decides the output's shape.
    one("pads_as_input", "Pad", {"x": floats(2, 3), "pads": ints(0, 1, 1, 0)})


if __name__ == "__main__":
    main()
