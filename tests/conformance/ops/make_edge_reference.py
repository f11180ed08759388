"""Writes edge_reference.json: TensorFlow's gradients where a derivative is infinite or not defined.

Run by hand (python3 make_edge_reference.py); needs TensorFlow. Every op is asked for its gradient at zeros, bounds of its
range, infinities and NaN, once where nothing arrives from above (TensorFlow makes 0 of some of these and NaN of others)
and once where something does.
"""
import json
import pathlib

import numpy as np
import tensorflow as tf

UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Erfc Erfinv Exp Expm1 Inv Log Log1p Lgamma Ndtri Neg Reciprocal
Relu Relu6 Rsqrt Selu Sigmoid Sin Sinh Softplus Softsign Sqrt Square Tan Tanh""".split()
FEATURES = "Elu Relu Relu6 Selu Softplus Softsign".split()
BINARY = """Atan2 Div RealDiv DivNoNan Xdivy Xlogy Xlog1py Pow MulNoNan SquaredDifference Maximum Minimum Mul""".split()
BACKWARD = "InvGrad ReciprocalGrad RsqrtGrad SqrtGrad".split()
# TensorFlow's Lgamma has no derivative at its poles, and its Erf of float64 is NaN at infinities.
LEFT_OUT = {"Lgamma": [-1.0, np.inf, -np.inf], "Erf": [np.inf, -np.inf]}

points = [0.0, 1.0, -1.0, 2.0, -0.5, 0.25, np.inf, -np.inf, np.nan]
folder = pathlib.Path(__file__).parent


def number(x):
    return float(f"{x:.17g}") if np.isfinite(x) else "nan" if np.isnan(x) else "inf" if x > 0 else "-inf"


def tensor(value):
    value = np.asarray(value, np.float64)
    return {"dtype": "float64", "shape": list(value.shape), "values": [number(x) for x in value.reshape(-1)]}


def names_of(op):
    if op in BACKWARD:
        return ["y", "dy"]
    if op in FEATURES:
        return ["features"]
    return ["y", "x"] if op == "Atan2" else ["x", "y"] if op in BINARY else ["x"]


def case(op, inputs, above, what):
    tensors = [tf.constant(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        output = getattr(tf.raw_ops, op)(**dict(zip(names_of(op), tensors)))
    gradients = tape.gradient(output, tensors, output_gradients=tf.constant(above))
    return {"name": f"Edge_{op}_{what}", "op": op, "attrs": {}, "rtol": 1e-13, "inputs": [tensor(x) for x in inputs],
            "outputs": [tensor(output.numpy())], "output_gradients": [tensor(above)],
            "input_gradients": [None if g is None else tensor(g.numpy()) for g in gradients]}


cases = []
for op in UNARY:
    x = np.array([p for p in points if p not in LEFT_OUT.get(op, [])])
    for what, above in (("nothing_arrives", 0.0), ("something_arrives", -0.75)):
        cases.append(case(op, [x], np.full(x.shape, above), what))
for op in BINARY + BACKWARD:
    pairs = np.array([[a, b] for a in points for b in points if not (op in BACKWARD and np.isnan([a, b]).any())])
    for what, above in (("nothing_arrives", 0.0), ("something_arrives", -0.75)):
        cases.append(case(op, [pairs[:, 0], pairs[:, 1]], np.full(len(pairs), above), what))
(folder / "edge_reference.json").write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(len(cases), "cases")
