"""Families of one elementwise or reducing op: bin_*, un_*, red_*."""
import inspect

import numpy as np
import tensorflow as tf

from family import Drawn, family

RANGES = {"Acos": (-1, 1), "Acosh": (1, 4), "Asin": (-1, 1), "Atanh": (-0.95, 0.95), "Erfinv": (-0.95, 0.95),
          "Lgamma": (0.1, 5), "Digamma": (0.1, 5), "Log": (0.01, 4), "Log1p": (-0.9, 4), "Ndtri": (0.02, 0.98),
          "Rsqrt": (0.05, 4), "Sqrt": (0, 4), "Spence": (0.1, 4), "BesselK0": (0.1, 4), "BesselJ0": (-4, 4),
          "Inv": (0.2, 3), "Reciprocal": (0.2, 3), "Expint": (0.1, 4)}
FEATURES = "Elu LeakyRelu Relu Relu6 Selu Softplus Softsign"
UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e BesselJ0 BesselK0 Ceil Cos Cosh Dawsn Digamma Elu Erf Erfc
Erfinv Exp Expint Expm1 Floor FresnelCos Inv IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p Ndtri Neg Reciprocal Relu Relu6
Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Softsign Spence Sqrt Square Tan Tanh""".split()
FLOATS = """Atan2 Div DivNoNan Igamma Igammac MulNoNan NextAfter Polygamma RealDiv Xdivy Xlog1py Xlogy Zeta""".split()
NUMBERS = """Add AddV2 Equal FloorDiv FloorMod Greater GreaterEqual Less LessEqual Maximum Minimum Mod Mul NotEqual Pow
SquaredDifference Sub TruncateDiv TruncateMod""".split()
BITS = "BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift".split()
LOGICAL = "LogicalAnd LogicalOr".split()


def tolerance(dtype):
    return 5e-5 if dtype == np.float32 else 1e-9


def unary(op):
    def build(d):
        dtype = np.float32 if op.startswith("Bessel") or op in ("Expint", "Dawsn", "Spence", "FresnelCos") else d.dtype()
        x = d.floats(d.shape(), *RANGES.get(op, (-3, 3)), dtype=dtype)
        if op in ("IsFinite", "IsInf", "IsNan"):
            x.reshape(-1)[0] = d.choice([np.inf, np.nan, -np.inf])
        arg = "features" if op in FEATURES.split() else "x"
        attrs = {"alpha": d.choice([0.2, 0.01, 0.5])} if op == "LeakyRelu" else {}
        return Drawn(lambda x: getattr(tf.raw_ops, op)(**{arg: x}, **attrs), [x], tolerance(dtype))
    family("un_" + op)(build)


def shapes(d):
    full = d.shape()
    other = [n if d.bool() else 1 for n in full][d.int(0, len(full) - 1):]
    return (full, other) if d.bool() else (other, full)


def binary(op):
    def build(d):
        a, b = shapes(d)
        if op in LOGICAL:
            inputs = [d.bools(a), d.bools(b)]
        elif op in BITS:
            dtype = d.choice([np.int32, np.int64, np.int8, np.int16, np.uint8])
            shift = op.endswith("Shift")
            low = 0 if shift or dtype == np.uint8 else -9
            inputs = [d.ints(a, low, 9, dtype), d.ints(b, low, 4 if shift else 9, dtype)]
        elif op in FLOATS or op not in ("TruncateMod", "TruncateDiv", "Mod") and d.bool():
            dtype = np.float32 if op == "NextAfter" and d.bool() else d.dtype()
            low = {"Igamma": 0.2, "Igammac": 0.2, "Polygamma": 1, "Zeta": 1.2, "Pow": 0.2}.get(op, -3)
            inputs = [d.floats(a, low, 3, dtype), d.floats(b, 0.3 if op not in ("Sub", "Mul") else -3, 3, dtype)]
            if op == "Polygamma":
                inputs[0] = np.ceil(inputs[0])
            if op in ("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py"):
                inputs[0].reshape(-1)[0] = 0
                if op in ("DivNoNan", "MulNoNan"):
                    inputs[1].reshape(-1)[-1] = 0
        else:
            dtype = d.integer()
            inputs = [d.ints(a, dtype=dtype), d.ints(b, 1, 9, dtype)]
            if op == "Pow":
                inputs = [d.ints(a, -3, 3, dtype), d.ints(b, 0, 4, dtype)]
        raw = getattr(tf.raw_ops, op)
        names = [n for n in inspect.signature(raw).parameters][:2]
        if inputs[0].dtype.kind == "i" and op in ("DivNoNan", "RealDiv"):
            inputs = [i.astype(np.float32) for i in inputs]
        loose = 2e-4 if op in ("Igamma", "Igammac", "Polygamma", "Zeta") else 0
        return Drawn(lambda x, y: raw(**dict(zip(names, [x, y]))), inputs, max(loose, tolerance(inputs[0].dtype.type)))
    family("bin_" + op)(build)


def reduction(op):
    def build(d):
        shape = d.shape(1, 4)
        if op in ("All", "Any"):
            x = d.bools(shape)
        elif op != "EuclideanNorm" and d.bool():
            x = d.ints(shape, -3, 3, d.integer())
        else:
            x = d.floats(shape, dtype=d.dtype())
        axes, keep = d.axes(len(shape)), d.bool()
        scalar = len(axes) == 1 and d.bool()
        axes = np.array(axes[0] if scalar else axes, d.integer())
        return Drawn(lambda x: getattr(tf.raw_ops, op)(input=x, axis=axes, keep_dims=keep), [x])
    family("red_" + op)(build)


for name in UNARY:
    unary(name)
for name in FLOATS + NUMBERS + BITS + LOGICAL:
    binary(name)
for name in "All Any EuclideanNorm Max Mean Min Prod Sum".split():
    reduction(name)
