#!/usr/bin/env python3
"""Writes rows_reference.json: what TensorFlow's ops on rows of variables leave behind. Run with TensorFlow 2.21."""
import json
import os

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(19)
raw = tf.raw_ops
cases = []


def flat(array):
    array = np.asarray(array)
    return {"shape": list(array.shape), "values": [float(f"{v:.17g}") for v in array.ravel().tolist()]}


def case(name, dtype, attrs, slots, inputs, indices, run):
    """`inputs` by name of what stands around the indices; `run` takes (variables, inputs, indices)."""
    variables = [tf.Variable(random.uniform(0.5, 2, (6, 3)).astype(dtype)) for _ in range(1 + slots)]
    before = [flat(v.numpy()) for v in variables]
    run([v.handle for v in variables], [tf.constant(x) for x in inputs], tf.constant(indices))
    cases.append({"name": f"{name}_{np.dtype(dtype).name}", "op": name.split("_")[0], "dtype": np.dtype(dtype).name,
                  "attrs": attrs, "variables": before, "inputs": [flat(x) for x in inputs],
                  "indices": {"dtype": indices.dtype.name, **flat(indices)}, "after": [flat(v.numpy()) for v in variables]})


for dtype in (np.float32, np.float64):
    def rows(*shape):
        return random.uniform(-1, 1, shape).astype(dtype)

    def scalar(value):
        return np.asarray(value, dtype)

    twice = np.array([4, 0, 4], np.int32)
    for op in ("Update", "Add", "Sub", "Mul", "Max", "Min"):
        indices = np.array([4, 0], np.int64) if op == "Update" else twice
        case(f"ResourceScatter{op}", dtype, {}, 0, [rows(len(indices), 3)], indices,
             lambda v, x, i: getattr(raw, f"ResourceScatter{op}")(resource=v[0], indices=i, updates=x[0]))
    once = np.array([5, 1, 2], np.int64)
    case("ResourceSparseApplyAdagrad", dtype, {}, 1, [scalar(0.1), rows(3, 3)], once,
         lambda v, x, i: raw.ResourceSparseApplyAdagrad(var=v[0], accum=v[1], lr=x[0], grad=x[1], indices=i))
    case("ResourceSparseApplyAdagrad_still", dtype, {"update_slots": False}, 1, [scalar(0.1), rows(3, 3)], once,
         lambda v, x, i: raw.ResourceSparseApplyAdagrad(var=v[0], accum=v[1], lr=x[0], grad=x[1], indices=i,
                                                        update_slots=False))
    case("ResourceSparseApplyAdagradV2", dtype, {}, 1, [scalar(0.1), scalar(0.01), rows(3, 3)], once,
         lambda v, x, i: raw.ResourceSparseApplyAdagradV2(var=v[0], accum=v[1], lr=x[0], epsilon=x[1], grad=x[2],
                                                          indices=i))
    for nesterov in (False, True):
        case(f"ResourceSparseApplyMomentum_{nesterov}", dtype, {"use_nesterov": nesterov}, 1,
             [scalar(0.1), rows(3, 3), scalar(0.9)], once,
             lambda v, x, i: raw.ResourceSparseApplyMomentum(var=v[0], accum=v[1], lr=x[0], grad=x[1], indices=i,
                                                             momentum=x[2], use_nesterov=nesterov))
    # TensorFlow descends along a sparse gradient by a scatter of -alpha · gradient.
    case("ResourceSparseApplyGradientDescent", dtype, {}, 0, [scalar(0.1), rows(3, 3)], twice,
         lambda v, x, i: raw.ResourceScatterAdd(resource=v[0], indices=i, updates=-x[0] * x[1]))

with open(os.path.join(HERE, "rows_reference.json"), "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases")
