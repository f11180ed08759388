#!/usr/bin/env python3
"""Writes array_reference.json: ops on arrays as TensorFlow computes them, with gradients. Run with TensorFlow 2.21."""
import json
import os

import numpy as np
import tensorflow as tf

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
HERE = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(2026)
cases = []


def values(array):
    if array.dtype == np.bool_:
        return [bool(v) for v in array.ravel()]
    if array.dtype.kind in "iu":
        return [int(v) for v in array.ravel()]
    digits = 9 if array.dtype == np.float32 else 17
    text = {np.inf: "inf", -np.inf: "-inf"}
    return ["nan" if np.isnan(v) else text.get(v, float(f"{v:.{digits}g}")) for v in array.ravel().tolist()]


def tensor(array, constant=False):
    array = np.asarray(array)
    entry = {"dtype": array.dtype.name, "shape": list(array.shape), "values": values(array)}
    if constant:
        entry["constant"] = True
    return entry


def attribute(value):
    if isinstance(value, tf.DType):
        return {"type": value.name}
    if isinstance(value, list) and value and isinstance(value[0], float):
        return {"floats": value}
    return value


class Const:
    """An input that is known when a program is compiled."""

    def __init__(self, value, dtype=np.int32):
        self.value = np.asarray(value, dtype)


def f32(*shape, low=-2.0, high=2.0):
    return random.uniform(low, high, shape).astype(np.float32)


def f64(*shape, low=-2.0, high=2.0):
    return random.uniform(low, high, shape)


def i32(*shape, low=-9, high=10):
    return random.integers(low, high, shape).astype(np.int32)


def i64(*shape, low=-9, high=10):
    return random.integers(low, high, shape).astype(np.int64)


def case(name, op, inputs, run, attrs=None, gradients=True, rtol=None, any_output=None, gradient_of=None):
    """`run` takes tensors and gives the outputs. Gradients by the floating inputs that are not Const."""
    arrays = [x.value if isinstance(x, Const) else np.asarray(x) for x in inputs]
    tensors = [tf.constant(x) for x in arrays]
    wanted = [gradients and not isinstance(x, Const) and a.dtype.kind == "f" for x, a in zip(inputs, arrays)]
    if gradient_of is not None:
        wanted = [w and i in gradient_of for i, w in enumerate(wanted)]
    with tf.GradientTape(persistent=True) as tape:
        for x, w in zip(tensors, wanted):
            if w:
                tape.watch(x)
        outputs = run(*tensors)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        floating = [o.dtype.is_floating for o in outputs]
        weights = [tf.constant(random.uniform(-1, 1, o.shape), o.dtype) if f else None
                   for o, f in zip(outputs, floating)]
        loss = sum(tf.reduce_sum(o * w) for o, w in zip(outputs, weights) if w is not None) if any(floating) else None
    entry = {"name": "array_" + name, "op": op, "attrs": {k: attribute(v) for k, v in (attrs or {}).items()},
             "inputs": [tensor(a, isinstance(x, Const)) for x, a in zip(inputs, arrays)],
             "outputs": [tensor(o.numpy()) for o in outputs]}
    if any(wanted) and loss is not None:
        entry["output_gradients"] = [None if w is None else tensor(w.numpy()) for w in weights]
        entry["input_gradients"] = []
        for x, w in zip(tensors, wanted):
            gradient = tape.gradient(loss, x, unconnected_gradients="zero") if w else None
            entry["input_gradients"].append(
                None if gradient is None else tensor(tf.convert_to_tensor(gradient).numpy()))
    if rtol:
        entry["rtol"] = rtol
    if any_output:
        entry["any"] = any_output
    cases.append(entry)


raw = tf.raw_ops


def einsum_cases():
    both = [("ij,jk->ik", (3, 4), (4, 5)), ("ij,kj->ik", (3, 4), (5, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
            ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)), ("bsd,dhk->bshk", (2, 3, 4), (4, 2, 3)),
            ("...ij,...jk->...ik", (2, 1, 3, 4), (3, 4, 5)), ("i,j->ij", (3,), (4,)), ("iij,jk->ik", (3, 3, 4), (4, 2)),
            ("ij,jk->k", (3, 4), (4, 5)), ("ab,ab->", (3, 2), (3, 2))]
    for n, (equation, a, b) in enumerate(both):
        for make in (f32, f64):
            case(f"Einsum_{make.__name__}_{n}", "Einsum", [make(*a), make(*b)],
                 lambda x, y: raw.Einsum(inputs=[x, y], equation=equation), {"equation": equation})
    case("Einsum_int32", "Einsum", [i32(3, 4), i32(4, 2)],
         lambda x, y: raw.Einsum(inputs=[x, y], equation="ij,jk->ki"), {"equation": "ij,jk->ki"})
    for n, (equation, a) in enumerate([("ij->ji", (3, 4)), ("ii->i", (4, 4)), ("i->ii", (4,)), ("...i->...", (2, 3, 4)),
                                       ("iji->j", (3, 2, 3))]):
        case(f"Einsum_one_{n}", "Einsum", [f32(*a)], lambda x: raw.Einsum(inputs=[x], equation=equation),
             {"equation": equation})
    for n, (equation, shapes) in enumerate([("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
                                            ("i,ij,j->", [(3,), (3, 4), (4,)]),
                                            ("ab,bc,cd,de->ae", [(2, 3), (3, 2), (2, 4), (4, 2)])]):
        case(f"Einsum_many_{n}", "Einsum", [f64(*s) for s in shapes], lambda *x: tf.einsum(equation, *x),
             {"equation": equation})


def product_cases():
    n = 0
    for adj_x in (False, True):
        for adj_y in (False, True):
            for batch_x, batch_y in [((), ()), ((3,), (3,)), ((2, 1), (3,)), ((4,), ()), ((), (2,))]:
                x = f32(*batch_x, *((5, 6) if adj_x else (6, 5)))
                y = f32(*batch_y, *((7, 5) if adj_y else (5, 7)))
                case(f"BatchMatMulV2_{n}", "BatchMatMulV2", [x, y],
                     lambda a, b: raw.BatchMatMulV2(x=a, y=b, adj_x=adj_x, adj_y=adj_y),
                     {"adj_x": adj_x, "adj_y": adj_y}, rtol=2e-6)
                n += 1
    case("BatchMatMulV2_long", "BatchMatMulV2", [f64(2, 3, 40), f64(2, 21, 40)],
         lambda a, b: raw.BatchMatMulV2(x=a, y=b, adj_x=False, adj_y=True), {"adj_y": True})
    case("BatchMatMulV2_int64", "BatchMatMulV2", [i64(2, 3, 4), i64(2, 4, 2)], lambda a, b: raw.BatchMatMulV2(x=a, y=b))


einsum_cases()
product_cases()

names = [c["name"] for c in cases]
assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
with open(os.path.join(HERE, "array_reference.json"), "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases")
