"""Writes qr_reference.json: Qr of TensorFlow (LAPACK's Householder reflections)."""
import json
import pathlib

import numpy as np
import tensorflow as tf


def tensor(array):
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": [float(x) for x in array.ravel()]}


cases = []
for dtype in (np.float32, np.float64):
    for shape in [(4, 3), (3, 4), (3, 3), (2, 5, 2)]:
        for full in (False, True):
            if full and shape[-2] <= shape[-1]:
                continue
            x = np.random.default_rng(3).standard_normal(shape).astype(dtype)
            q, r = tf.raw_ops.Qr(input=x, full_matrices=full)
            name = f"Qr_{'x'.join(map(str, shape))}{'_full' if full else ''}_{np.dtype(dtype).name}"
            cases.append({"name": name, "op": "Qr", "attrs": {"full_matrices": full}, "inputs": [tensor(x)],
                          "outputs": [tensor(q.numpy()), tensor(r.numpy())], "rtol": 2e-6 if dtype == np.float32 else 1e-14})
pathlib.Path(__file__).with_name("qr_reference.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
