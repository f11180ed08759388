"""Writes factorization_reference.json: TensorFlow's factorisations of matrices with their gradients.

Run by hand (python3 make_factorization_reference.py) when a case is added; needs TensorFlow. Signs of eigenvectors and singular
vectors are free, so gradients reach only the values here; tests/engine/ops/factorization_gradient_test.cc has those of vectors.
"""
import json
import pathlib

import numpy as np
import tensorflow as tf

random = np.random.default_rng(20261130)
cases = []


def tensor(value):
    value = np.asarray(value)
    return {"dtype": value.dtype.name, "shape": list(value.shape), "values": [float(f"{x:.17g}") for x in value.reshape(-1)]}


def u(*shape):
    return random.uniform(-1, 1, shape)


def definite(*shape):
    a = u(*shape)
    return a @ np.swapaxes(a, -1, -2) + 0.5 * np.eye(shape[-1])


def case(name, op, x, attrs, reached):
    """`reached`: the outputs that a gradient reaches; values of the others are not compared."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = getattr(tf.raw_ops, op)(input=x, **attrs)
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        weights = [u(*o.shape) if i in reached else None for i, o in enumerate(outputs)]
        loss = tf.add_n([tf.reduce_sum(o * w) for o, w in zip(outputs, weights) if w is not None])
    gradient = tape.gradient(loss, x)
    cases.append({"name": f"Factorization_{name}", "op": op, "attrs": attrs, "rtol": 1e-10, "inputs": [tensor(x.numpy())],
                  "any": [i for i in range(len(outputs)) if i not in reached],
                  "outputs": [tensor(o.numpy()) for o in outputs],
                  "output_gradients": [None if w is None else tensor(w) for w in weights],
                  "input_gradients": [tensor(gradient.numpy())]})


case("Cholesky", "Cholesky", definite(5, 5), {}, [0])
case("Cholesky_batch", "Cholesky", definite(2, 3, 4, 4), {}, [0])
case("Qr_square", "Qr", u(4, 4), {"full_matrices": False}, [0, 1])
case("Qr_tall_batch", "Qr", u(2, 5, 3), {"full_matrices": False}, [0, 1])
case("Qr_wide", "Qr", u(3, 5), {"full_matrices": False}, [0, 1])
case("Qr_wide_full_batch", "Qr", u(2, 2, 4), {"full_matrices": True}, [0, 1])
case("Qr_only_r", "Qr", u(4, 3), {"full_matrices": False}, [1])
case("Eigh_values", "SelfAdjointEigV2", definite(2, 4, 4), {"compute_v": False}, [0])
case("Eigh_vectors_unused", "SelfAdjointEigV2", definite(5, 5), {"compute_v": True}, [0])
case("Svd_values", "Svd", u(2, 5, 3), {"compute_uv": False, "full_matrices": False}, [0])
case("Svd_flat", "Svd", u(3, 5), {"compute_uv": True, "full_matrices": False}, [0])
case("Svd_full", "Svd", u(4, 3), {"compute_uv": True, "full_matrices": True}, [0])
path = pathlib.Path(__file__).parent / "factorization_reference.json"
path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(len(cases), "cases")
