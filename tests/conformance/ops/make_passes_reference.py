#!/usr/bin/env python3
"""Writes passes_reference.json: the ops that only passes make, against TensorFlow's ops one after the other. Run with TensorFlow 2.21."""
import json
import os

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(4)
cases = []


def tensor(value):
    value = np.asarray(value)
    digits = 9 if value.dtype == np.float32 else 17
    return {"dtype": value.dtype.name, "shape": list(value.shape),
            "values": [float(f"{x:.{digits}g}") for x in value.reshape(-1).tolist()]}


def case(name, op, inputs, output, attrs):
    cases.append({"name": name, "op": op, "attrs": attrs, "inputs": [tensor(x) for x in inputs], "outputs": [tensor(output)]})


def draw(*shape, dtype=np.float32):
    return random.uniform(-2, 2, shape).astype(dtype)


ACTIVATIONS = {"": lambda x: x, "Relu": tf.nn.relu, "Relu6": tf.nn.relu6}
for dtype in (np.float32, np.float64):
    for activation, function in ACTIVATIONS.items():
        for (m, k, n), ta, tb in (((3, 5, 7), False, False), ((18, 9, 6), False, False), ((3, 36, 9), False, True),
                                  ((5, 4, 17), True, False), ((2, 3, 4), True, True)):
            if activation != "Relu" and (m, ta, tb) != (3, False, False):
                continue
            a = draw(*((k, m) if ta else (m, k)), dtype=dtype)
            b = draw(*((n, k) if tb else (k, n)), dtype=dtype)
            bias = 3 * draw(n, dtype=dtype)
            result = function(tf.linalg.matmul(a, b, transpose_a=ta, transpose_b=tb) + bias)
            fused = ["BiasAdd"] + ([activation] if activation else [])
            case(f"_FusedMatMul_{'_'.join(fused)}_{m}_{k}_{n}_{'t' if ta else 'n'}{'t' if tb else 'n'}_{a.dtype}",
                 "_FusedMatMul", [a, b, bias], result,
                 {"transpose_a": ta, "transpose_b": tb, "num_args": 1, "fused_ops": {"strings": fused}})
    for name, shape, size, stride, padding in (("tiles", (2, 4, 4, 3), 2, 2, "VALID"), ("overlaps", (1, 5, 5, 2), 3, 2, "SAME"),
                                               ("skips", (1, 5, 6, 1), 2, 3, "VALID")):
        x = tf.constant(draw(*shape, dtype=dtype))
        with tf.GradientTape() as tape:
            tape.watch(x)
            relu = tf.nn.relu(x)
            pool = tf.nn.max_pool2d(relu, size, stride, padding)
            grad = draw(*pool.shape, dtype=dtype)
            loss = tf.reduce_sum(pool * grad)
        case(f"_MaxPoolReluGrad_{name}_{relu.dtype.name}", "_MaxPoolReluGrad", [relu.numpy(), pool.numpy(), grad],
             tape.gradient(loss, x).numpy(),
             {"ksize": [1, size, size, 1], "strides": [1, stride, stride, 1], "padding": padding})

with open(os.path.join(HERE, "passes_reference.json"), "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
