"""Writes tensorflow_reference.json: ops that TensorFlow has and few others, as it computes them, with gradients.

Run by hand (python3 make_tensorflow_reference.py) when a case is added; needs TensorFlow.
"""
import inspect
import json
import os
import pathlib

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import numpy as np
import tensorflow as tf

HERE = pathlib.Path(__file__).parent
random = np.random.default_rng(20261128)
cases = []


def number(x):
    return float(f"{x:.17g}") if np.isfinite(x) else "nan" if np.isnan(x) else "inf" if x > 0 else "-inf"


def tensor(value, constant=False):
    value = np.asarray(value)
    flat = value.reshape(-1).tolist()
    if value.dtype.kind == "f":
        flat = [number(x) for x in flat]
    entry = {"dtype": value.dtype.name, "shape": list(value.shape), "values": flat}
    if constant:
        entry["constant"] = True
    return entry


class Const:
    """An input that is known when a program is compiled."""

    def __init__(self, value, dtype=np.int32):
        self.value = np.asarray(value, dtype)


def attribute(value):
    if isinstance(value, tf.DType):
        return {"type": value.name}
    if isinstance(value, list) and value and isinstance(value[0], float):
        return {"floats": value}
    return value


# Where TensorFlow's Python functions name an input otherwise than the op does.
RENAMED = {}


def case(name, op, inputs, attrs=None, gradient=True, rtol=None, any_of=()):
    attrs = attrs or {}
    values = [x.value if isinstance(x, Const) else np.asarray(x) for x in inputs]
    tensors = [tf.constant(x) for x in values]
    raw = getattr(tf.raw_ops, op)
    names = [n for n in inspect.signature(raw).parameters]
    lists = attrs.pop("_list", 0)  # so many leading inputs are one list
    arguments = dict(zip(names, ([tensors[:lists]] + tensors[lists:]) if lists else tensors))
    for key in [k for k in attrs if k in ("T", "N")]:
        if key not in names:
            attrs.pop(key)
    watched = [i for i, x in enumerate(inputs) if values[i].dtype.kind == "f" and not isinstance(x, Const)]
    with tf.GradientTape() as tape:
        tape.watch([tensors[i] for i in watched])
        outputs = raw(**arguments, **attrs)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        floating = [o for o in outputs if o.dtype.is_floating]
        weights = [random.uniform(-1, 1, o.shape).astype(o.dtype.as_numpy_dtype) if o.dtype.is_floating else None for o in outputs]
        total = sum(tf.reduce_sum(o * w) for o, w in zip(outputs, weights) if w is not None) if floating else None
    entry = {"name": name, "op": op, "attrs": {k: attribute(v) for k, v in attrs.items()},
             "inputs": [tensor(v, isinstance(x, Const)) for v, x in zip(values, inputs)],
             "outputs": [tensor(o.numpy()) for o in outputs]}
    if gradient and watched and floating:
        got = tape.gradient(total, [tensors[i] for i in watched])
        by = dict(zip(watched, got))
        entry["output_gradients"] = [None if w is None else tensor(w) for w in weights]
        entry["input_gradients"] = [None if by.get(i) is None else tensor(tf.convert_to_tensor(by[i]).numpy()) for i in range(len(inputs))]
    if rtol:
        entry["rtol"] = rtol
    if any_of:
        entry["any"] = list(any_of)
    cases.append(entry)


def u(*shape, low=-2.0, high=2.0, dtype=np.float64):
    return random.uniform(low, high, shape).astype(dtype)


def ints(*shape, low=0, high=9, dtype=np.int32):
    return random.integers(low, high + 1, shape).astype(dtype)


F = np.float32
# Special functions. TensorFlow's own have 1e-6 to 1e-13 of relative error.
for op, low, high in [("BesselI0e", -60, 60), ("BesselI1e", -60, 60), ("BesselJ0", -70, 70), ("BesselJ1", -70, 70),
                      ("BesselK0", 0.05, 60), ("BesselK1", 0.05, 60), ("Dawsn", -9, 9), ("Expint", 0.02, 45),
                      ("FresnelCos", -8, 8), ("FresnelSin", -8, 8), ("Spence", 0.02, 7)]:
    case(f"{op}_wide", op, [u(40, low=low, high=high)], rtol=1e-11)
    case(f"{op}_near", op, [u(12, low=max(low, -1.5), high=1.5)], rtol=1e-11)
case("Polygamma_orders", "Polygamma", [np.array([1.0, 2, 3, 0, 5, 1]), u(6, low=0.3, high=6)], rtol=1e-11)
case("Polygamma_broadcast", "Polygamma", [np.array([[1.0], [2.0]]), u(3, low=0.3, high=6)], rtol=1e-11)
case("Zeta_wide", "Zeta", [u(12, low=1.2, high=6), u(12, low=0.3, high=6)], rtol=1e-11)
case("Igamma_wide", "Igamma", [u(20, low=0.1, high=9), u(20, low=0.01, high=14)], gradient=False, rtol=1e-11)
case("Igammac_wide", "Igammac", [u(20, low=0.1, high=9), u(20, low=0.01, high=14)], gradient=False, rtol=1e-11)
case("Betainc_wide", "Betainc", [u(20, low=0.2, high=9), u(20, low=0.2, high=9), u(20, low=0.001, high=0.999)], gradient=False, rtol=1e-11)
case("Betainc_scalars", "Betainc", [np.float64(2.5), np.float64(0.7), u(7, low=0.01, high=0.99)], gradient=False, rtol=1e-11)
case("NextAfter_float", "NextAfter", [u(7, dtype=F), u(7, dtype=F)], gradient=False)
case("NextAfter_double", "NextAfter", [u(7), u(7)], gradient=False)


# Matrices.
def definite(*shape):
    x = u(*shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])


case("Cholesky_batch", "Cholesky", [definite(2, 4, 4)], gradient=False, rtol=1e-12)
case("MatrixDeterminant_batch", "MatrixDeterminant", [u(3, 3, 3)], rtol=1e-11)
case("LogMatrixDeterminant_batch", "LogMatrixDeterminant", [u(3, 4, 4)], rtol=1e-11)
for adjoint in (False, True):
    case(f"MatrixInverse_{adjoint}", "MatrixInverse", [definite(2, 3, 3)], {"adjoint": adjoint}, rtol=1e-10)
    case(f"MatrixSolve_{adjoint}", "MatrixSolve", [u(2, 3, 3) + 3 * np.eye(3), u(2, 3, 2)], {"adjoint": adjoint}, rtol=1e-10)
    for lower in (False, True):
        case(f"MatrixTriangularSolve_{adjoint}_{lower}", "MatrixTriangularSolve", [u(2, 3, 3) + 3 * np.eye(3), u(2, 3, 2)],
             {"adjoint": adjoint, "lower": lower}, rtol=1e-10)
# Vectors are known up to their signs; those that are not computed are memory that nobody wrote in TensorFlow.
case("SelfAdjointEigV2_values", "SelfAdjointEigV2", [definite(2, 4, 4)], {"compute_v": False}, gradient=False, rtol=1e-11, any_of=[1])
case("SelfAdjointEigV2_vectors", "SelfAdjointEigV2", [definite(5, 5)], gradient=False, rtol=1e-11, any_of=[1])
case("Svd_values", "Svd", [u(2, 5, 3)], {"compute_uv": False}, gradient=False, rtol=1e-11, any_of=[1, 2])
case("Svd_flat", "Svd", [u(3, 5)], gradient=False, rtol=1e-11, any_of=[1, 2])
case("Svd_full", "Svd", [u(5, 3)], {"full_matrices": True}, gradient=False, rtol=1e-11, any_of=[1, 2])
case("Lu_rows", "Lu", [u(2, 4, 4)], gradient=False, rtol=1e-11)
case("Cross_batch", "Cross", [u(2, 3), u(2, 3)])

# Counts, places and segments.
case("DenseBincount_weights", "DenseBincount", [ints(9, high=5), Const(7), u(9, dtype=F)], gradient=False)
case("DenseBincount_rows", "DenseBincount", [ints(2, 6, high=7), Const(5), np.zeros([0], F)], {"binary_output": True}, gradient=False)
case("Bincount_some", "Bincount", [ints(9, high=5), Const(4), np.zeros([0], np.int64)], gradient=False)
case("HistogramFixedWidth_some", "HistogramFixedWidth", [u(20), Const([-1.0, 1.5], np.float64), Const(6)], gradient=False)
case("Bucketize_some", "Bucketize", [u(9, dtype=F)], {"boundaries": [-1.0, 0.0, 0.75]}, gradient=False)
for op in ("LowerBound", "UpperBound"):
    case(f"{op}_rows", op, [np.sort(ints(2, 6), axis=1), ints(2, 4)], gradient=False)
case("InTopKV2_some", "InTopKV2", [u(5, 4, dtype=F), ints(5, high=3), np.int32(2)], gradient=False)
case("NthElement_rows", "NthElement", [u(3, 5, dtype=F), np.int32(1)], gradient=False)
case("NthElement_reverse", "NthElement", [u(3, 5, dtype=F), np.int32(1)], {"reverse": True}, gradient=False)
for op in ("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd"):
    case(f"{op}_rows", op, [u(6, 3), Const([0, 0, 1, 3, 3, 3])], gradient=op != "SegmentProd")
for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
    case(f"{op}_rows", op, [u(5, 3), ints(6, high=4), Const([0, 0, 1, 3, 3, 3])])
case("SparseToDense_matrix", "SparseToDense", [Const([[0, 1], [2, 0], [2, 3]]), Const([3, 4]), u(3), np.float64(-1.5)], gradient=False)
case("SparseToDense_vector", "SparseToDense", [Const([1, 3]), Const([5]), np.int64(7), np.int64(0)], gradient=False)
places = np.array([[0, 1], [1, 0], [2, 2], [0, 3]], np.int64)
for a in (False, True):
    for b in (False, True):
        dense = u(3, 2) if a else u(4, 2)
        case(f"SparseTensorDenseMatMul_{a}_{b}", "SparseTensorDenseMatMul",
             [Const(places, np.int64), u(4), Const([3, 4], np.int64), dense.T.copy() if b else dense], {"adjoint_a": a, "adjoint_b": b})
case("SparseSoftmax_rows", "SparseSoftmax", [Const([[0, 0], [0, 2], [1, 1], [1, 2]], np.int64), u(4), Const([2, 3], np.int64)], gradient=False, rtol=1e-13)

# Shapes, bits and movement.
case("ShapeN_two", "ShapeN", [u(2, 3), u(4)], {"_list": 2, "N": 2, "T": tf.float64}, gradient=False)
case("IdentityN_two", "IdentityN", [u(2, 3), u(4)], {"_list": 2})
case("BroadcastArgs_some", "BroadcastArgs", [Const([3, 1, 2]), Const([4, 1])], gradient=False)
case("UnravelIndex_vector", "UnravelIndex", [ints(5, high=11), Const([3, 4])], gradient=False)
case("UnravelIndex_scalar", "UnravelIndex", [np.int64(7), Const([3, 4], np.int64)], gradient=False)
case("Bitcast_same", "Bitcast", [u(3, dtype=F)], {"type": tf.int32}, gradient=False)
case("Bitcast_smaller", "Bitcast", [u(3, dtype=F)], {"type": tf.uint8}, gradient=False)
case("Bitcast_larger", "Bitcast", [ints(3, 2)], {"type": tf.int64}, gradient=False)
case("PopulationCount_some", "PopulationCount", [ints(9, low=-100, high=100)], gradient=False)
case("Diag_matrix", "Diag", [u(2, 3)])
case("DiagPart_matrix", "DiagPart", [u(2, 3, 2, 3)])
case("CheckNumerics_passes", "CheckNumerics", [u(4)], {"message": "bad"})
case("TensorStridedSliceUpdate_some", "TensorStridedSliceUpdate", [u(4, 5), Const([1, 4]), Const([3, 0]), Const([1, -2]), u(2, 2)])
case("TensorStridedSliceUpdate_shrunk", "TensorStridedSliceUpdate", [u(4, 5), Const([1, 1]), Const([2, 4]), Const([1, 1]), u(3)], {"shrink_axis_mask": 1})

# Quantisation and images.
for narrow in (False, True):
    case(f"FakeQuantWithMinMaxArgs_{narrow}", "FakeQuantWithMinMaxArgs", [u(3, 7, dtype=F)], {"min": -1.25, "max": 1.0, "num_bits": 5, "narrow_range": narrow})
    case(f"FakeQuantWithMinMaxVars_{narrow}", "FakeQuantWithMinMaxVars", [u(3, 7, dtype=F), np.float32(-0.8), np.float32(1.1)], {"narrow_range": narrow})
    case(f"FakeQuantPerChannel_{narrow}", "FakeQuantWithMinMaxVarsPerChannel", [u(5, 3, dtype=F), np.array([-0.8, -1, 0.0], F), np.array([1.1, 0.5, 1.5], F)], {"num_bits": 4, "narrow_range": narrow})
case("FakeQuantGradient_args", "FakeQuantWithMinMaxArgsGradient", [u(9, dtype=F), u(9, dtype=F)], {"min": -1.25, "max": 1.0}, gradient=False)
case("FakeQuantGradient_vars", "FakeQuantWithMinMaxVarsGradient", [u(9, dtype=F), u(9, dtype=F), np.float32(-1), np.float32(1)], gradient=False)
case("FakeQuantGradient_channels", "FakeQuantWithMinMaxVarsPerChannelGradient", [u(5, 2, dtype=F), u(5, 2, dtype=F), np.array([-1, -0.5], F), np.array([1, 1.5], F)], gradient=False)
for op in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"):
    case(f"{op}_given", op, [u(3, 5, dtype=F), np.float32(-1.2), np.float32(0.9)], {"range_given": True, "num_bits": 6})
    case(f"{op}_found", op, [u(3, 5, dtype=F), np.float32(0), np.float32(0)], {"round_mode": "HALF_UP", "narrow_range": True}, gradient=op.endswith("V2"))
case("RGBToHSV_pixels", "RGBToHSV", [u(4, 5, 3, low=0, high=1, dtype=F)], gradient=False)
case("HSVToRGB_pixels", "HSVToRGB", [u(4, 5, 3, low=0, high=1, dtype=F)], gradient=False)
case("AdjustContrastv2_images", "AdjustContrastv2", [u(2, 4, 5, 3, dtype=F), Const(1.7, F)], gradient=False)
box = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [0.9, 0.5, -0.3, 1.4]], F)
for method in ("bilinear", "nearest"):
    case(f"CropAndResize_{method}", "CropAndResize", [u(2, 6, 5, 2, dtype=F), box, np.array([0, 1, 1], np.int32), Const([3, 4])], {"method": method, "extrapolation_value": -1.0}, gradient=False, rtol=2e-6)
turn = np.array([[0.9, 0.2, -0.7, -0.1, 1.1, 0.4, 0.01, 0.02]], F)
far = np.array([[1.5, 0.3, -6.5, 0.2, 1.4, -5.5, 0, 0]], F)
for mode in ("CONSTANT", "NEAREST", "REFLECT", "WRAP"):
    for how in ("BILINEAR", "NEAREST"):
        for label, m in (("turn", turn), ("far", far)):
            case(f"ImageProjectiveTransformV3_{mode}_{how}_{label}", "ImageProjectiveTransformV3", [u(2, 5, 6, 2, dtype=F), m, Const([6, 5]), np.float32(0.25)],
                 {"interpolation": how, "fill_mode": mode}, gradient=False, rtol=1e-5)
for size in ([3, 4], [7, 9], [2, 13]):
    case(f"ResizeArea_{size[0]}_{size[1]}", "ResizeArea", [u(2, 5, 6, 2, dtype=F), Const(size)], gradient=False, rtol=2e-6)
    for kind in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"):
        scale = [size[0] / 5, size[1] / 6]
        case(f"ScaleAndTranslate_{kind}_{size[0]}", "ScaleAndTranslate", [u(1, 5, 6, 2, dtype=F), Const(size), Const(scale, F), Const([0.3, -0.2], F)],
             {"kernel_type": kind, "antialias": size[0] != 7}, gradient=False, rtol=4e-6)
for padding in ("SAME", "VALID"):
    case(f"ExtractImagePatches_{padding}", "ExtractImagePatches", [u(2, 6, 7, 2)], {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": padding}, gradient=False)
    case(f"Dilation2D_{padding}", "Dilation2D", [u(2, 6, 7, 2), u(2, 3, 2)], {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": padding}, gradient=False)

# Random numbers by seed.
for wide in (np.int32, np.int64):
    seed = Const([17, -5], wide)
    for op, rtol in (("StatelessRandomUniform", None), ("StatelessRandomNormal", 1e-6), ("StatelessTruncatedNormal", 1e-6)):
        for dtype in (tf.float32, tf.float64):
            case(f"{op}_{np.dtype(wide).name}_{dtype.name}", op, [Const([7, 3]), seed], {"dtype": dtype}, gradient=False, rtol=rtol if dtype == tf.float32 else 1e-13 if rtol else None)
    case(f"StatelessRandomUniformInt_{np.dtype(wide).name}", "StatelessRandomUniformInt", [Const([11]), seed, wide(-5), wide(1000)], gradient=False)
    case(f"StatelessRandomGetKeyCounter_{np.dtype(wide).name}", "StatelessRandomGetKeyCounter", [seed], gradient=False)
for dtype in (tf.int32, tf.int64, tf.uint32, tf.uint64):
    case(f"StatelessRandomUniformFullInt_{dtype.name}", "StatelessRandomUniformFullInt", [Const([7]), Const([3, 4], np.int64)], {"dtype": dtype}, gradient=False)
key, counter, alg = Const([12345678901], np.uint64), Const([2**64 - 2, 77], np.uint64), Const(1)
for op in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"):
    case(f"{op}_key", op, [Const([5, 3]), key, counter, alg], {"dtype": tf.float32}, gradient=False, rtol=1e-6)
case("StatelessRandomUniformIntV2_key", "StatelessRandomUniformIntV2", [Const([11]), key, counter, alg, np.int64(-5), np.int64(1000)], gradient=False)
case("StatelessRandomUniformFullIntV2_key", "StatelessRandomUniformFullIntV2", [Const([11]), key, counter, alg], {"dtype": tf.int32}, gradient=False)
case("StatelessRandomGetAlg_cpu", "StatelessRandomGetAlg", [], gradient=False)
for dtype in (np.float32, np.float64):
    case(f"StatelessMultinomial_{np.dtype(dtype).name}", "StatelessMultinomial", [u(3, 5, dtype=dtype), Const(7), Const([3, 99], np.int64)], gradient=False)

(HERE / "tensorflow_reference.json").write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(len(cases), "cases")
