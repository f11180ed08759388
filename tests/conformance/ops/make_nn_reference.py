"""Writes nn_reference.json: activations, normalisations, losses and elementwise mathematics, with gradients, as TensorFlow has
them.

Run by hand (python3 make_nn_reference.py) when a case is added; needs TensorFlow. Inputs of float32 are computed on in float64
and the results rounded, so that the peer's own rounding is not part of the comparison.
"""
import json
import pathlib

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(20260301)
cases = []


def number(x, digits):
    if np.isnan(x):
        return "nan"
    if np.isinf(x):
        return "inf" if x > 0 else "-inf"
    return float(f"{x:.{digits}g}")


def tensor(value, constant=False):
    value = np.asarray(value)
    flat = value.reshape(-1).tolist()
    if value.dtype.kind == "f":
        flat = [number(x, 9 if value.dtype == np.float32 else 17) for x in flat]
    entry = {"dtype": value.dtype.name, "shape": list(value.shape), "values": flat}
    if constant:
        entry["constant"] = True
    return entry


def rounded(value, like):
    value = np.asarray(value)
    return value.astype(like) if value.dtype == np.float64 and like == np.float32 else value


def case(name, op, inputs, function, attrs=None, by=None, rtol=None, any_of=(), constant=()):
    """`function` of the inputs as float64 tensors gives the outputs; `by`: inputs with a gradient (all floating ones)."""
    inputs = [np.asarray(x) for x in inputs]
    wide = [tf.constant(x.astype(np.float64) if x.dtype == np.float32 else x) for x in inputs]
    like = np.float32 if any(x.dtype == np.float32 for x in inputs) else np.float64
    with tf.GradientTape() as tape:
        for x in wide:
            if x.dtype.is_floating:
                tape.watch(x)
        outputs = function(*wide)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        differentiable = by != [] and outputs[0].dtype.is_floating
        if differentiable:
            weight = rng.uniform(-1, 1, outputs[0].shape).astype(like)
            loss = tf.reduce_sum(outputs[0] * weight.astype(np.float64))
    entry = {"name": name, "op": op, "attrs": attrs or {},
             "inputs": [tensor(x, i in constant) for i, x in enumerate(inputs)],
             "outputs": [tensor(rounded(o, like)) for o in outputs]}
    if differentiable:
        by = [i for i, x in enumerate(wide) if x.dtype.is_floating] if by is None else by
        gradients = tape.gradient(loss, [wide[i] for i in by], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        entry["output_gradients"] = [tensor(weight)] + [None] * (len(outputs) - 1)
        entry["input_gradients"] = [None] * len(inputs)
        for i, gradient in zip(by, gradients):
            entry["input_gradients"][i] = tensor(rounded(gradient, like))
    if rtol is not None:
        entry["rtol"] = rtol
    if any_of:
        entry["any"] = list(any_of)
    cases.append(entry)


def floats(*shape, low=-3.0, high=3.0, dtype=np.float32):
    return rng.uniform(low, high, shape).astype(dtype)


BOTH = (("", np.float32), ("_double", np.float64))
EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30, -1e-30, 88.0, -88.0, 20.0, -20.0, 6.0, 3.0, -3.0]



def gelu(x, approximate):
    """As tf.nn.gelu, whose own constants are rounded to float32 on the way."""
    if approximate:
        return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + np.float64(0.044715) * x ** 3)))
    return 0.5 * x * tf.math.erfc(x * -np.sqrt(0.5))


# Activations. Gradients are only compared away from kinks and infinities.
activations = {
    "Relu6": (tf.nn.relu6, {}), "LeakyRelu": (lambda x: tf.nn.leaky_relu(x, np.float64(np.float32(0.2))), {}),
    "LeakyRelu_alpha": (lambda x: tf.nn.leaky_relu(x, np.float64(np.float32(0.01))), {"alpha": 0.01}),
    "Elu": (tf.nn.elu, {}), "Selu": (tf.nn.selu, {}), "Softsign": (tf.nn.softsign, {}),
    "Gelu": (lambda x: gelu(x, approximate=False), {}),
    "Gelu_approximate": (lambda x: gelu(x, approximate=True), {"approximate": True}),
    "Erf": (tf.math.erf, {}), "Erfc": (tf.math.erfc, {}),
}
for name, (function, attrs) in activations.items():
    op = name.split("_")[0]
    for suffix, dtype in BOTH:
        x = np.concatenate([floats(37, dtype=dtype), floats(20, low=-9, high=9, dtype=dtype)])
        case(name + suffix, op, [x], function, attrs, rtol=2e-14 if suffix else 1e-6)
    edges = np.array(EDGES, np.float32)
    limits = {"Gelu": lambda x: tf.where(x < -50, tf.zeros_like(x), gelu(x, approximate=False)),
              "Gelu_approximate": lambda x: tf.where(x < -50, tf.zeros_like(x), gelu(x, approximate=True)),
              "Erf": lambda x: tf.where(tf.math.is_inf(x), tf.sign(x), tf.math.erf(x))}
    case(name + "_edges", op, [edges], limits.get(name, function), attrs, by=[])

# Gradient ops by themselves, at their other input's kinks too.
g, x = floats(24), np.concatenate([floats(19), np.array([0, 6, -1.5, 1e30, -1e30], np.float32)])
case("Relu6Grad", "Relu6Grad", [g, x], lambda g, x: tf.raw_ops.Relu6Grad(gradients=g, features=x), by=[0])
case("LeakyReluGrad", "LeakyReluGrad", [g, x],
     lambda g, x: tf.raw_ops.LeakyReluGrad(gradients=g, features=x, alpha=0.25), {"alpha": 0.25}, by=[0])
case("EluGrad", "EluGrad", [g, x], lambda g, y: tf.raw_ops.EluGrad(gradients=g, outputs=y), by=[0])
case("SeluGrad", "SeluGrad", [g, x], lambda g, y: tf.raw_ops.SeluGrad(gradients=g, outputs=y), by=[0])
case("SoftsignGrad", "SoftsignGrad", [g[:19], x[:19]], lambda g, x: g / (1 + tf.abs(x)) ** 2)


def gelu_grad(approximate):
    def function(g, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(g * gelu(x, approximate=approximate))
        return tape.gradient(y, x)
    return function


for approximate in (False, True):
    case("GeluGrad" + "_approximate" * approximate, "GeluGrad", [floats(21), floats(21)], gelu_grad(approximate),
         {"approximate": approximate})


# Batch normalisation: the op itself in float32, whose statistics TensorFlow has only in float32.
def batch_norm(x, scale, offset, mean, variance, attrs):
    return list(tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=mean, variance=variance, **attrs))


def batch_norm_case(name, x, attrs, empty=False):
    channels = x.shape[1] if attrs.get("data_format", "NHWC")[1] == "C" else x.shape[-1]
    scale, offset = floats(channels, low=0.5, high=2), floats(channels)
    mean, variance = (floats(0), floats(0)) if empty else (floats(channels), floats(channels, low=0.5, high=2))
    inputs = [x, scale, offset, mean, variance]
    values = [tf.constant(v) for v in inputs]
    with tf.GradientTape() as tape:
        tape.watch(values)
        outputs = batch_norm(*values, attrs)
        weight = floats(*x.shape, low=-1, high=1)
        loss = tf.reduce_sum(outputs[0] * weight)
    gradients = tape.gradient(loss, values[:3])
    cases.append({"name": name, "op": "FusedBatchNormV3", "attrs": attrs, "inputs": [tensor(v) for v in inputs],
                  "outputs": [tensor(o) for o in outputs], "output_gradients": [tensor(weight)] + [None] * 5,
                  "input_gradients": [tensor(g) for g in gradients] + [None] * 2, "rtol": 4e-6,
                  # TensorFlow's empty outputs have other shapes with five axes.
                  "any": [5] if x.ndim == 5 else []})
    backward_attrs = {k: v for k, v in attrs.items() if k != "exponential_avg_factor"}
    backward = [weight, x, scale, outputs[3].numpy(), outputs[4].numpy(), outputs[5].numpy()]
    values = [tf.constant(v) for v in backward]
    with tf.GradientTape() as tape:
        tape.watch(values[:3])
        results = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=values[0], x=values[1], scale=values[2], reserve_space_1=values[3], reserve_space_2=values[4],
            reserve_space_3=values[5], **backward_attrs)
        weights = [floats(*v.shape, low=-1, high=1) for v in results[:3]]
        second = tf.add_n([tf.reduce_sum(g * w) for g, w in zip(results[:3], weights)])
    # TensorFlow's second derivatives want four axes.
    seconds = [None] * 3 if x.ndim == 5 else [tensor(g) for g in tape.gradient(second, values[:3])]
    cases.append({"name": name.replace("V3", "GradV3"), "op": "FusedBatchNormGradV3", "attrs": backward_attrs,
                  "inputs": [tensor(v) for v in backward], "outputs": [tensor(o) for o in results],
                  "output_gradients": [tensor(w) for w in weights] + [None] * 2, "input_gradients": seconds + [None] * 3,
                  "rtol": 1e-5,
                  "any": [3, 4] if x.ndim == 5 else []})


images = floats(3, 2, 3, 5) + floats(5)
batch_norm_case("FusedBatchNormV3", images, {})
batch_norm_case("FusedBatchNormV3_empty", images, {"epsilon": 0.01}, empty=True)
batch_norm_case("FusedBatchNormV3_average", images, {"exponential_avg_factor": 0.25, "epsilon": 0.001})
batch_norm_case("FusedBatchNormV3_inference", images, {"is_training": False})
batch_norm_case("FusedBatchNormV3_NCHW", images.transpose(0, 3, 1, 2).copy(), {"data_format": "NCHW"})
batch_norm_case("FusedBatchNormV3_NCHW_inference", images.transpose(0, 3, 1, 2).copy(),
                {"data_format": "NCHW", "is_training": False})
batch_norm_case("FusedBatchNormV3_NDHWC", floats(2, 2, 3, 2, 3), {"data_format": "NDHWC"})
batch_norm_case("FusedBatchNormV3_one_value", floats(1, 1, 1, 3), {})


# Normalisations that TensorFlow composes.
def moments(x, axes):
    """As tf.nn.moments, which holds back gradients inside the variance: second derivatives need them."""
    mean = tf.reduce_mean(x, axes, keepdims=True)
    return mean, tf.reduce_mean((x - mean) ** 2, axes, keepdims=True)


def layer_norm(axis, epsilon=np.float64(np.float32(1e-5))):
    def function(x, scale, offset):
        axes = list(range(axis % x.shape.rank, x.shape.rank))
        mean, variance = moments(x, axes)
        inverse = tf.math.rsqrt(variance + epsilon)
        return [(x - mean) * inverse * scale + offset, mean, inverse]
    return function


def rms_norm(axis, epsilon=np.float64(np.float32(1e-5))):
    def function(x, scale):
        axes = list(range(axis % x.shape.rank, x.shape.rank))
        inverse = tf.math.rsqrt(tf.reduce_mean(x * x, axes, keepdims=True) + epsilon)
        return [x * inverse * scale, inverse]
    return function


def group_norm(groups, channels_last, epsilon=np.float64(np.float32(1e-5))):
    def function(x, scale, offset):
        rank = x.shape.rank
        if channels_last:
            x = tf.transpose(x, [0, rank - 1] + list(range(1, rank - 1)))
        count, channels = x.shape[0], x.shape[1]
        number = groups or channels
        grouped = tf.reshape(x, [count, number, -1])
        mean, variance = moments(grouped, [2])
        inverse = tf.math.rsqrt(variance + epsilon)
        per_channel = [1, channels] + [1] * (rank - 2)
        y = tf.reshape((grouped - mean) * inverse, x.shape) * tf.reshape(scale, per_channel) + tf.reshape(offset, per_channel)
        if channels_last:
            y = tf.transpose(y, [0] + list(range(2, rank)) + [1])
        return [y, mean[:, :, 0], inverse[:, :, 0]]
    return function


def backward_case(name, op, inputs, forward, attrs):
    """The gradient op of a normalisation: y_backprop, x, scale and the statistics, to the gradients."""
    x, scale = inputs[0], inputs[1]
    y, *statistics = forward(*[tf.constant(v.astype(np.float64)) for v in inputs])
    statistics = [rounded(s.numpy(), x.dtype) for s in statistics]
    weight = floats(*x.shape, low=-1, high=1, dtype=x.dtype)
    values = [tf.constant(v.astype(np.float64)) for v in inputs]
    dy = tf.constant(weight.astype(np.float64))
    with tf.GradientTape() as outer:
        outer.watch([dy, *values])
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = tf.reduce_sum(forward(*values)[0] * dy)
        gradients = tape.gradient(loss, values)
        weights = [rng.uniform(-1, 1, v.shape).astype(x.dtype) for v in inputs]
        second = tf.add_n([tf.reduce_sum(g * w) for g, w in zip(gradients, weights)])
    seconds = outer.gradient(second, [dy, *values[:2]])
    cases.append({"name": name, "op": op, "attrs": attrs,
                  "inputs": [tensor(v) for v in [weight, x, scale, *statistics]],
                  "outputs": [tensor(rounded(g.numpy(), x.dtype)) for g in gradients],
                  "output_gradients": [tensor(w) for w in weights],
                  "input_gradients": [tensor(rounded(g.numpy(), x.dtype)) for g in seconds] + [None] * len(statistics), "rtol": 2e-14 if x.dtype == np.float64 else 4e-6})


for suffix, dtype in BOTH:
    rtol = 8e-15 if suffix else 2e-6
    for axis, shape in ((-1, (4, 37)), (-1, (2, 3, 16)), (1, (3, 2, 5)), (2, (2, 2, 3, 2)), (0, (11,))):
        x, rest = floats(*shape, dtype=dtype) + dtype(5), shape[axis:] if axis >= 0 else shape[-1:]
        scale, offset = floats(*rest, dtype=dtype), floats(*rest, dtype=dtype)
        name = f"_{len(shape)}_axis_{axis % len(shape)}{suffix}"
        attrs = {} if axis == -1 else {"begin_norm_axis": axis}
        case("LayerNorm" + name, "LayerNorm", [x, scale, offset], layer_norm(axis), attrs, rtol=4 * rtol)
        case("RmsNorm" + name, "RmsNorm", [x, scale], rms_norm(axis), attrs, rtol=rtol)
        backward_case("LayerNormGrad" + name, "LayerNormGrad", [x, scale, offset], layer_norm(axis), attrs)
        backward_case("RmsNormGrad" + name, "RmsNormGrad", [x, scale], rms_norm(axis), attrs)
    for name, shape, groups, last in (("NHWC", (2, 3, 2, 6), 3, True), ("NCHW", (2, 6, 3, 5), 2, False),
                                      ("matrix", (3, 10), 2, True), ("one_group", (2, 2, 2, 4), 1, True),
                                      ("NCHW_wide", (1, 2, 5, 9), 1, False)):
        channels = shape[-1] if last else shape[1]
        x = floats(*shape, dtype=dtype) + dtype(2)
        inputs = [x, floats(channels, dtype=dtype), floats(channels, dtype=dtype)]
        attrs = {"num_groups": groups, "data_format": "NHWC" if last else "NCHW"}
        case(f"GroupNorm_{name}{suffix}", "GroupNorm", inputs, group_norm(groups, last), attrs, rtol=rtol)
        backward_case(f"GroupNormGrad_{name}{suffix}", "GroupNormGrad", inputs, group_norm(groups, last), attrs)
    for name, shape, last in (("NHWC", (2, 3, 4, 5), True), ("NCHW", (2, 3, 4, 5), False)):
        channels = shape[-1] if last else shape[1]
        inputs = [floats(*shape, dtype=dtype), floats(channels, dtype=dtype), floats(channels, dtype=dtype)]
        attrs = {"data_format": name}
        case(f"InstanceNorm_{name}{suffix}", "InstanceNorm", inputs, group_norm(0, last), attrs, rtol=rtol)
        backward_case(f"InstanceNormGrad_{name}{suffix}", "InstanceNormGrad", inputs, group_norm(0, last), attrs)

# Clipping, where nothing lies on a bound.
for suffix, dtype in BOTH:
    t = floats(3, 5, dtype=dtype)
    case("ClipByValue" + suffix, "ClipByValue", [t, dtype(-1), dtype(1.5)],
         lambda t, low, high: tf.raw_ops.ClipByValue(t=t, clip_value_min=low, clip_value_max=high))
    case("ClipByValue_bounds" + suffix, "ClipByValue", [t, floats(3, 5, low=-2, high=0, dtype=dtype), floats(3, 5, low=0, high=2, dtype=dtype)],
         lambda t, low, high: tf.raw_ops.ClipByValue(t=t, clip_value_min=low, clip_value_max=high))
case("ClipByValue_int32", "ClipByValue", [np.arange(-5, 6, dtype=np.int32), np.int32(-2), np.int32(3)],
     lambda t, low, high: tf.raw_ops.ClipByValue(t=t, clip_value_min=low, clip_value_max=high), by=[])
case("ClipByValue_edges", "ClipByValue", [np.array([np.nan, np.inf, -np.inf, 0.5], np.float32), np.float32(-1), np.float32(1)],
     lambda t, low, high: tf.where(tf.math.is_nan(t), t, tf.raw_ops.ClipByValue(t=t, clip_value_min=low, clip_value_max=high)), by=[])

# Softmax and cross-entropies: rows longer than a block of the sum, large logits, labels broadcast against features.
wide = floats(2, 531, low=-8, high=8)
case("Softmax_wide", "Softmax", [wide], tf.nn.softmax, by=[])
case("LogSoftmax_wide", "LogSoftmax", [wide], tf.nn.log_softmax, by=[])
for suffix, dtype in BOTH:
    large = (floats(3, 9) * 100).astype(dtype)
    case("Softmax_large" + suffix, "Softmax", [large], tf.nn.softmax)
    case("LogSoftmax_large" + suffix, "LogSoftmax", [large], tf.nn.log_softmax)


def cross_entropy(features, labels):
    shape = tf.broadcast_dynamic_shape(tf.shape(features), tf.shape(labels))
    features, labels = tf.broadcast_to(features, shape), tf.broadcast_to(labels, shape)
    return list(tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=features, labels=labels))


def probabilities(*shape):
    p = rng.uniform(0, 1, shape)
    return p / p.sum(-1, keepdims=True)


for name, features, labels in (("", (4, 19), (4, 19)), ("_one_label_row", (3, 5), (1, 5)), ("_one_feature_row", (1, 5), (3, 5)),
                               ("_label_column", (3, 4), (3, 1)), ("_outer", (1, 4), (3, 1))):
    for suffix, dtype in BOTH:
        f, p = floats(*features, low=-9, high=9, dtype=dtype), probabilities(*labels).astype(dtype)
        case("SoftmaxCrossEntropyWithLogits_of" + name + suffix, "SoftmaxCrossEntropyWithLogits", [f, p], cross_entropy,
             rtol=2e-14 if suffix else 1e-6)
hot = np.eye(6, dtype=np.float32)[[1, 5, 0]]
far = floats(3, 6) * np.float32(200)
far[0, 2] = -np.inf
case("SoftmaxCrossEntropyWithLogits_of_large", "SoftmaxCrossEntropyWithLogits", [far, hot],
     lambda f, p: [tf.where(tf.math.is_nan(f[:, 0]), 0.0, v) if i == 0 else v for i, v in enumerate(
         tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=f, labels=np.array([1, 5, 0])))], by=[])
case("SparseSoftmaxCrossEntropyWithLogits_wide", "SparseSoftmaxCrossEntropyWithLogits",
     [wide, np.array([530, 3], np.int64)],
     lambda f, l: list(tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=f, labels=l)), by=[])

# Elementwise mathematics.
unary = {
    "Sin": (tf.sin, -9, 9), "Cos": (tf.cos, -9, 9), "Tan": (tf.tan, -1.4, 1.4), "Asin": (tf.asin, -0.95, 0.95),
    "Acos": (tf.acos, -0.95, 0.95), "Atan": (tf.atan, -9, 9), "Sinh": (tf.sinh, -3, 3), "Cosh": (tf.cosh, -3, 3),
    "Asinh": (tf.asinh, -9, 9), "Acosh": (tf.acosh, 1.1, 9), "Atanh": (tf.atanh, -0.95, 0.95), "Expm1": (tf.math.expm1, -3, 3),
    "Lgamma": (tf.math.lgamma, 0.2, 9), "Erfinv": (tf.math.erfinv, -0.99, 0.99), "Ndtri": (tf.math.ndtri, 0.01, 0.99),
    "Reciprocal": (tf.math.reciprocal, 0.2, 3), "Inv": (tf.math.reciprocal, -3, -0.2),
}
edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 1e-30, -1e-30], np.float32)
for op, (function, low, high) in unary.items():
    for suffix, dtype in BOTH:
        case(f"{op}_math{suffix}", op, [floats(23, low=low, high=high, dtype=dtype)], function,
             rtol=2e-14 if suffix else 1e-6)
    # TensorFlow's NaN of some infinities is no mathematics.
    own = {"Tan": edges[[0, 3, 4, 5]], "Lgamma": edges[[0, 1, 3, 5]], "Erfinv": edges[[0, 3, 5, 6, 7]],
           "Ndtri": np.array([np.nan, 0, 1, 0.5, -0.5, 2], np.float32), "Expm1": edges, "Asinh": edges[[0, 1, 2, 3, 5]]}
    case(f"{op}_math_edges", op, [own.get(op, edges)], function, by=[])
x = np.concatenate([floats(21, low=0.1, high=12), floats(9, low=-5.8, high=-0.2)])
for suffix, dtype in BOTH:
    case("Digamma_math" + suffix, "Digamma", [x.astype(dtype)], tf.math.digamma, by=[], rtol=4e-14 if suffix else 1e-6)
case("Lgamma_negative", "Lgamma", [floats(20, low=-5.8, high=-0.2)], tf.math.lgamma, rtol=2e-6)
halves = np.concatenate([np.arange(-4, 4.25, 0.25), [np.nan, np.inf, -np.inf, 1e9, -0.2]]).astype(np.float32)
for op, function in (("Ceil", tf.math.ceil), ("Round", tf.round), ("Rint", tf.math.rint), ("IsNan", tf.math.is_nan),
                     ("IsInf", tf.math.is_inf), ("IsFinite", tf.math.is_finite)):
    case(op + "_math", op, [halves], function, by=[])
    case(op + "_math_double", op, [halves.astype(np.float64)], function, by=[])

binary = {
    "Atan2": tf.atan2, "FloorMod": tf.math.floormod, "TruncateMod": lambda x, y: tf.raw_ops.TruncateMod(x=x, y=y),
    "Mod": lambda x, y: tf.raw_ops.Mod(x=x, y=y), "Xdivy": tf.math.xdivy, "Xlogy": tf.math.xlogy, "Xlog1py": tf.math.xlog1py,
    "MulNoNan": lambda x, y: tf.raw_ops.MulNoNan(x=x, y=y),
}
for op, function in binary.items():
    for suffix, dtype in BOTH:
        x, y = floats(4, 1, 6, dtype=dtype), floats(3, 6, low=0.3, high=2, dtype=dtype)
        no_gradient = op in ("TruncateMod", "Mod")  # TensorFlow has none
        case(f"{op}_math{suffix}", op, [x, y], function, by=[] if no_gradient else None, rtol=2e-14 if suffix else 2e-6)
    zero = np.array([0, 0, 0, 2, np.nan], np.float32)
    if op in ("Xdivy", "Xlogy", "Xlog1py"):
        case(op + "_math_zero", op, [zero, np.array([0, np.inf, np.nan, 0, 1], np.float32)], function)
    if op == "MulNoNan":
        case(op + "_math_zero", op, [np.array([np.inf, np.nan, 1, np.inf], np.float32), np.array([0, 0, 0, 2], np.float32)], function, by=[])
    if op == "Atan2":
        y, x = (v.reshape(-1).astype(np.float32) for v in np.meshgrid([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan], [0.0, -0.0, 2, -2, np.inf, -np.inf]))
        case("Atan2_math_edges", op, [y, x], function, by=[])
    if op in ("FloorMod", "TruncateMod"):
        y, x = (v.reshape(-1).astype(np.float32) for v in np.meshgrid([5.5, -5.5, 6, -6, 0.0], [4, -4, 1.5, -1.5, 0.25]))
        case(op + "_math_signs", op, [y, x], function, by=[])
case("TruncateDiv_math", "TruncateDiv", [floats(20), floats(20, low=0.3, high=1)], lambda x, y: tf.sign(x / y) * tf.floor(tf.abs(x / y)), by=[])
case("ApproximateEqual_math", "ApproximateEqual", [np.array([1, 2, 3, np.nan, np.inf], np.float32), np.array([1.05, 2.2, 3, np.nan, np.inf], np.float32)],
     lambda x, y: tf.raw_ops.ApproximateEqual(x=x, y=y, tolerance=0.1), {"tolerance": 0.1}, by=[])

# Integers of every width: by NumPy, which has all of them; TensorFlow's kernels lack some.
widths = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def integer_case(name, op, inputs, output):
    cases.append({"name": "Integers_" + name, "op": op, "attrs": {}, "inputs": [tensor(v) for v in inputs],
                  "outputs": [tensor(output)]})


def truncated(x, y):
    quotient = np.abs(x.astype(object)) // np.abs(y.astype(object))
    return (quotient * np.where((x < 0) != (y < 0), -1, 1)).astype(x.dtype)


with np.errstate(over="ignore"):
    for dtype in widths:
        info, kind = np.iinfo(dtype), np.dtype(dtype).name
        x = rng.integers(info.min, info.max, (3, 7), dtype=dtype, endpoint=True)
        x[0, :2] = [info.min, info.max]
        y = rng.integers(info.min, info.max, (7,), dtype=dtype, endpoint=True)
        small = rng.integers(1, 9, (7,)).astype(dtype)
        divisor = np.where(y == 0, dtype(1), np.where(np.arange(7) % 2 == 0, small, y)).astype(dtype)
        if info.min < 0:
            divisor[3] = -3
        for op, function in (("AddV2", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Maximum", np.maximum), ("Minimum", np.minimum),
                             ("Equal", np.equal), ("NotEqual", np.not_equal), ("Less", np.less), ("LessEqual", np.less_equal),
                             ("Greater", np.greater), ("GreaterEqual", np.greater_equal), ("BitwiseAnd", np.bitwise_and),
                             ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)):
            second = np.where(np.arange(7) < 2, x[1], y).astype(dtype)  # some equal
            integer_case(f"{op}_{kind}", op, [x, second], function(x, second))
        integer_case(f"Div_{kind}", "Div", [x, divisor], truncated(x, np.broadcast_to(divisor, x.shape)))
        integer_case(f"TruncateDiv_{kind}", "TruncateDiv", [x, divisor], truncated(x, np.broadcast_to(divisor, x.shape)))
        integer_case(f"FloorDiv_{kind}", "FloorDiv", [x, divisor], x // divisor)
        integer_case(f"FloorMod_{kind}", "FloorMod", [x, divisor], np.mod(x, divisor))
        integer_case(f"TruncateMod_{kind}", "TruncateMod", [x, divisor], np.fmod(x, divisor))
        integer_case(f"Mod_{kind}", "Mod", [x, divisor], np.fmod(x, divisor))
        integer_case(f"Invert_{kind}", "Invert", [x], np.invert(x))
        integer_case(f"Square_{kind}", "Square", [x], x * x)
        distance = rng.integers(0, info.bits, (7,)).astype(dtype)
        integer_case(f"LeftShift_{kind}", "LeftShift", [x, distance], np.left_shift(x, distance))
        integer_case(f"RightShift_{kind}", "RightShift", [x, distance], np.right_shift(x, distance))
        condition = rng.integers(0, 2, (3, 1)).astype(bool)
        integer_case(f"SelectV2_{kind}", "SelectV2", [condition, x, y], np.where(condition, x, y))
        low, high = sorted(x[2, :2])
        integer_case(f"ClipByValue_{kind}", "ClipByValue", [x, low, high], np.clip(x, low, high))
        if info.min < 0:
            integer_case(f"Neg_{kind}", "Neg", [x], np.negative(x))
            integer_case(f"Abs_{kind}", "Abs", [x], np.abs(x))
            integer_case(f"Sign_{kind}", "Sign", [x], np.sign(x))
            integer_case(f"Round_{kind}", "Round", [x], x)
            base, exponent = rng.integers(-7, 8, (3, 5)).astype(dtype), np.array([0, 1, 2, 3, 7], dtype)
            integer_case(f"Pow_{kind}", "Pow", [base, exponent], np.power(base, exponent))

folder = pathlib.Path(__file__).parent
(folder / "nn_reference.json").write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
names = [c["name"] for c in cases]
assert len(names) == len(set(names)), [n for n in names if names.count(n) > 1]
print(len(cases), "cases")
