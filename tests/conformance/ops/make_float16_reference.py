#!/usr/bin/env python3
"""Writes float16_reference.json: what TensorFlow makes of ops in bfloat16 and half. Run with TensorFlow 2.21."""
import json
import os

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(16)
NAMES = {tf.bfloat16: "bfloat16", tf.float16: "float16", tf.float32: "float32", tf.float64: "float64",
         tf.int32: "int32", tf.int64: "int64", tf.uint8: "uint8", tf.bool: "bool"}
cases = []


def values(tensor):
    if tensor.dtype == tf.bool:
        return [bool(v) for v in tensor.numpy().ravel()]
    if tensor.dtype.is_integer:
        return [int(v) for v in tensor.numpy().ravel()]
    out = []
    for v in tf.cast(tensor, tf.float64).numpy().ravel():
        out.append("nan" if np.isnan(v) else "inf" if v == np.inf else "-inf" if v == -np.inf else float(v))
    return out


def tensor(t, constant=False):
    entry = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "values": values(t)}
    if constant:
        entry["constant"] = True
    return entry


def draw(shape, dtype, scale=2.0):
    return tf.cast(tf.constant(random.uniform(-scale, scale, shape)), dtype)


def case(op, dtype, inputs, attrs, run, constants=(), gradients=True, rtol=None, suffix=""):
    """`run` gives the outputs; gradients by the floating inputs that are not constants."""
    wanted = [x for i, x in enumerate(inputs) if i not in constants and x.dtype.is_floating]
    with tf.GradientTape(persistent=True) as tape:
        for x in wanted:
            tape.watch(x)
        outputs = run(*inputs)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        weights = [draw(o.shape, o.dtype, 1.0) for o in outputs] if gradients else []
        loss = sum(tf.reduce_sum(tf.cast(o, tf.float32) * tf.cast(w, tf.float32)) for o, w in zip(outputs, weights)) \
            if gradients else None
    entry = {"name": f"{op}{suffix}_{NAMES[dtype]}", "op": op, "attrs": attrs,
             "inputs": [tensor(x, i in constants) for i, x in enumerate(inputs)],
             "outputs": [tensor(o) for o in outputs]}
    if gradients:
        entry["output_gradients"] = [tensor(w) for w in weights]
        entry["input_gradients"] = [tensor(tape.gradient(loss, x)) if any(x is w for w in wanted) else None
                                    for x in inputs]
    if rtol:
        entry["rtol"] = rtol
    cases.append(entry)


for dtype in (tf.bfloat16, tf.float16):
    name = NAMES[dtype]
    # TensorFlow sums some of these in the 16-bit type itself: a few units in the last place.
    loose = 2.0 ** -6 if dtype == tf.bfloat16 else 2.0 ** -8
    a, b = draw([5, 7], dtype), draw([7, 3], dtype)
    case("MatMul", dtype, [a, b], {}, tf.matmul, rtol=loose)
    case("MatMul", dtype, [tf.transpose(a), b], {"transpose_a": True}, lambda x, y: tf.matmul(x, y, transpose_a=True),
         rtol=loose, suffix="_ta")
    case("AddV2", dtype, [draw([3, 4], dtype), draw([4], dtype)], {}, tf.add, rtol=loose)
    case("Mul", dtype, [draw([3, 4], dtype), draw([3, 1], dtype)], {}, tf.multiply, rtol=loose)
    case("BiasAdd", dtype, [draw([2, 3, 5], dtype), draw([5], dtype)], {}, tf.nn.bias_add, rtol=loose)
    case("Relu", dtype, [draw([3, 9], dtype)], {}, tf.nn.relu)
    case("Tanh", dtype, [draw([3, 9], dtype)], {}, tf.tanh, rtol=loose)
    case("Softmax", dtype, [draw([3, 9], dtype)], {}, tf.nn.softmax, rtol=loose)
    case("Transpose", dtype, [draw([3, 4], dtype), tf.constant([1, 0])], {}, tf.transpose, constants=(1,))
    case("Less", dtype, [draw([3, 4], dtype), draw([3, 4], dtype)], {}, tf.less, gradients=False)
    x, w = draw([2, 6, 6, 3], dtype, 1.0), draw([3, 3, 3, 4], dtype, 1.0)
    case("Conv2D", dtype, [x, w], {"strides": [1, 1, 1, 1], "padding": "SAME"},
         lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), rtol=loose)
    # Element 0 to 2 of this range are ties.
    wide = tf.constant([1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8, 1 + 2.0 ** -11, -0.1, 1e-7, 7e4, 3.4e38, np.inf, -np.inf,
                        np.nan, 2.0 ** -25, 2.0 ** -24 * 1.5], tf.float32)
    case("Cast", dtype, [wide], {"DstT": {"type": name}}, lambda x: tf.cast(x, dtype), gradients=False,
         suffix="_from_float32")
    some = tf.constant([1.5, -2.25, 300.0, 0.0, -0.5], dtype)
    for to in (tf.float32, tf.float64, tf.int32, tf.int64, tf.bool):
        case("Cast", dtype, [some], {"DstT": {"type": NAMES[to]}}, lambda x, to=to: tf.cast(x, to), gradients=False,
             suffix=f"_to_{NAMES[to]}")
    for source in (tf.int32, tf.int64, tf.uint8, tf.float64):
        numbers = tf.cast(tf.constant([0, 1, 77, 255]), source)
        case("Cast", dtype, [numbers], {"DstT": {"type": name}}, lambda x: tf.cast(x, dtype), gradients=False,
             suffix=f"_from_{NAMES[source]}")

for dtype in (tf.bfloat16, tf.float16, tf.float32, tf.float64):
    for suffix, last in (("_finite", 1.0), ("_inf", np.inf), ("_negative_inf", -np.inf), ("_nan", np.nan)):
        case("AllFinite", dtype, [tf.constant([[0.0, -1.5, 3.0], [2.0, 1e-4, last]], dtype)], {},
             lambda x: tf.reduce_all(tf.math.is_finite(x)), gradients=False, suffix=suffix)

with open(os.path.join(HERE, "float16_reference.json"), "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases")
