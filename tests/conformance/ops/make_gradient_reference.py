"""Writes gradient_reference.json: TensorFlow's gradients of the ops whose forward cases are NumPy's.

Run by hand (python3 make_gradient_reference.py) when numpy_reference.json has a new case; needs TensorFlow. The inputs are those of
numpy_reference.json, in float64.
"""
import json
import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

OPS = """Abs AddN AddV2 AvgPool AvgPoolGrad BatchMatMulV2 BiasAdd BiasAddGrad BroadcastTo Cast ConcatV2 DivNoNan Exp ExpandDims
Fill GatherV2 Identity L2Loss Log Log1p LogSoftmax MatMul Max MaxPool Maximum Mean Min Minimum Mul Neg Pack Pad Pow
RealDiv Relu ReluGrad Reshape Rsqrt SelectV2 Sigmoid SigmoidGrad Slice Softmax Softplus SoftplusGrad
SparseSoftmaxCrossEntropyWithLogits Split Sqrt Square SquaredDifference Squeeze StridedSlice StridedSliceGrad Sub Sum Tanh TanhGrad Tile
Transpose Unpack UnsortedSegmentSum""".split()
PER_OP = 3
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod")
# Where TensorFlow's Python functions name an input or attribute otherwise than the op does.
PYTHON_NAMES = {("ExpandDims", "dim"): "axis", ("Split", "split_dim"): "axis", ("Squeeze", "squeeze_dims"): "axis"}
PYTHON_NAMES.update({(op, "reduction_indices"): "axis" for op in REDUCTIONS})

rng = np.random.default_rng(20260402)
folder = pathlib.Path(__file__).parent


def tensor(value, constant=False):
    value = np.asarray(value)
    flat = value.reshape(-1).tolist()
    if value.dtype.kind == "f":
        flat = [float(f"{x:.17g}") for x in flat]
    entry = {"dtype": value.dtype.name, "shape": list(value.shape), "values": flat}
    if constant:
        entry["constant"] = True
    return entry


def wide(entry):
    dtype = "float64" if entry["dtype"] == "float32" else entry["dtype"]
    return np.array(entry["values"], dtype).reshape(entry["shape"])


def finite(case):
    return all(isinstance(v, (int, float, bool)) for t in case["inputs"] for v in t["values"])


def attribute(value):
    return tf.as_dtype(value["type"]) if isinstance(value, dict) and "type" in value else value


def run(case):
    definition = op_def_registry.get(case["op"])
    inputs = [wide(t) for t in case["inputs"]]
    tensors = [tf.constant(x) for x in inputs]
    attrs = {PYTHON_NAMES.get((case["op"], name), name): attribute(value) for name, value in case["attrs"].items()}
    if case["op"] == "Cast" and attrs["DstT"] == tf.float32:
        attrs["DstT"] = tf.float64
    arguments, rest = {}, list(tensors)
    lists = sum(1 for argument in definition.input_arg if argument.number_attr)
    count = (len(rest) - len(definition.input_arg) + lists) // max(lists, 1)
    for argument in definition.input_arg:
        name = PYTHON_NAMES.get((case["op"], argument.name), argument.name)
        arguments[name] = [rest.pop(0) for _ in range(count)] if argument.number_attr else rest.pop(0)
    for argument in definition.input_arg:
        attrs.pop(argument.number_attr, None)
        attrs.pop(argument.type_attr, None)
    with tf.GradientTape() as tape:
        floating = [x for x in tensors if x.dtype.is_floating]
        tape.watch(floating)
        outputs = getattr(tf.raw_ops, case["op"])(**arguments, **attrs)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        if not floating or not outputs[0].dtype.is_floating or any(o.dtype != tf.float64 for o in outputs if o.dtype.is_floating):
            return None
        weights = [rng.uniform(-1, 1, o.shape) for o in outputs]
        if case["op"].endswith("CrossEntropyWithLogits"):
            weights = weights[:1]
        loss = tf.add_n([tf.reduce_sum(o * w) for o, w in zip(outputs, weights)])
    gradients = tape.gradient(loss, floating)
    entry = {"name": "Gradient_" + case["name"], "op": case["op"], "attrs": dict(case["attrs"]),
             "inputs": [tensor(x, "constant" in t) for x, t in zip(inputs, case["inputs"])],
             "outputs": [tensor(o.numpy()) for o in outputs],
             "output_gradients": [tensor(w) for w in weights] + [None] * (len(outputs) - len(weights)), "input_gradients": []}
    if "DstT" in entry["attrs"]:
        entry["attrs"]["DstT"] = {"type": "float64"}
    for name, value in entry["attrs"].items():
        if isinstance(value, dict) and value.get("type") == "float32":
            entry["attrs"][name] = {"type": "float64"}
    remaining = list(gradients)
    for x in tensors:
        gradient = remaining.pop(0) if x.dtype.is_floating else None
        if isinstance(gradient, tf.IndexedSlices):
            gradient = tf.convert_to_tensor(gradient)
        entry["input_gradients"].append(None if gradient is None else tensor(gradient.numpy()))
    return entry if any(g is not None for g in entry["input_gradients"]) else None


cases = []
forward = json.loads((folder / "numpy_reference.json").read_text())
for op in OPS:
    made = 0
    for case in forward:
        if case["op"] != op or made == PER_OP or not finite(case):
            continue
        try:
            entry = run(case)
        except (LookupError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, TypeError, ValueError) as error:
            print(case["name"], "left out:", str(error).splitlines()[0])
            continue
        if entry is not None:
            cases.append(entry)
            made += 1
    if made == 0:
        print(op, "has no case")
(folder / "gradient_reference.json").write_text(
    "[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(len(cases), "cases")
