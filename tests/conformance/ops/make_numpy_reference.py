"""Writes numpy_reference.json: small inputs of ops and what NumPy makes of them.

Run by hand (python3 make_numpy_reference.py) when a case is added; needs NumPy alone. Values are printed with enough digits to
be read back exactly.
"""
import json
import pathlib

import numpy as np

rng = np.random.default_rng(20260101)
cases = []


def tensor(value, constant=False):
    value = np.asarray(value)
    flat = value.reshape(-1).tolist()
    if value.dtype.kind == "f":
        digits = 9 if value.dtype == np.float32 else 17
        flat = [float(f"{x:.{digits}g}") for x in flat]
    entry = {"dtype": value.dtype.name, "shape": list(value.shape), "values": flat}
    if constant:
        entry["constant"] = True
    return entry


def constant(value, dtype=np.int32):
    return ("constant", np.asarray(value, dtype))


def case(name, op, inputs, outputs, attrs=None):
    entries = []
    for value in inputs:
        if isinstance(value, tuple):
            entries.append(tensor(value[1], constant=True))
        else:
            entries.append(tensor(value))
    outputs = outputs if isinstance(outputs, list) else [outputs]
    cases.append({"name": name, "op": op, "attrs": attrs or {}, "inputs": entries, "outputs": [tensor(o) for o in outputs]})


def dtype_attr(name):
    return {"type": name}


def floats(*shape, dtype=np.float32, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype(dtype)


def ints(*shape, dtype=np.int32, low=-9, high=10):
    return rng.integers(low, high, shape).astype(dtype)


# Arithmetic, broadcast.
binary = {
    "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "Maximum": np.maximum, "Minimum": np.minimum,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
}
shapes = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 4), (3, 1)), ((), (2, 2)), ((5, 1), ())]
for op, function in binary.items():
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        for i, (a, b) in enumerate(shapes):
            make = floats if np.dtype(dtype).kind == "f" else ints
            x, y = make(*a, dtype=dtype), make(*b, dtype=dtype)
            case(f"{op}_{np.dtype(dtype).name}_{i}", op, [x, y], function(x, y).astype(dtype))
for dtype in (np.float32, np.float64):
    x, y = floats(2, 3, dtype=dtype), floats(3, dtype=dtype, low=0.5)
    case(f"RealDiv_{np.dtype(dtype).name}", "RealDiv", [x, y], x / y)
    case(f"Pow_{np.dtype(dtype).name}", "Pow", [np.abs(x), y], np.abs(x) ** y)
    case(f"FloorDiv_{np.dtype(dtype).name}", "FloorDiv", [x, y], np.floor(x / y))
x, y = ints(2, 4), np.array([3, -3, 7, -2], np.int32)
case("Div_int32", "Div", [x, y], np.trunc(x / y).astype(np.int32))
case("FloorDiv_int32", "FloorDiv", [x, y], x // y)
x = floats(2, 3)
case("DivNoNan", "DivNoNan", [x, np.array([0, 2, 0], np.float32)], np.where([False, True, False], x / 2, 0).astype(np.float32))
x = ints(2, 3, dtype=np.uint8, low=0, high=256)
case("AddV2_uint8", "AddV2", [x, x], x + x)
parts = [floats(3, 2) for _ in range(4)]
case("AddN", "AddN", parts, ((parts[0] + parts[1]) + parts[2]) + parts[3])

# Element by element.
unary = {
    "Neg": np.negative, "Abs": np.abs, "Sign": np.sign, "Square": np.square, "Exp": np.exp, "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Softplus": lambda x: np.log1p(np.exp(x)), "Relu": lambda x: np.maximum(x, 0),
    "Floor": np.floor,
}
for op, function in unary.items():
    for dtype in (np.float32, np.float64):
        x = floats(3, 5, dtype=dtype, low=-4, high=4)
        wide = x.astype(np.float64)
        case(f"{op}_{np.dtype(dtype).name}", op, [x], function(wide).astype(dtype))
for op, function in {"Sqrt": np.sqrt, "Rsqrt": lambda x: 1 / np.sqrt(x), "Log": np.log, "Log1p": np.log1p}.items():
    for dtype in (np.float32, np.float64):
        x = floats(3, 5, dtype=dtype, low=0.01, high=9)
        case(f"{op}_{np.dtype(dtype).name}", op, [x], function(x.astype(np.float64)).astype(dtype))
x = ints(7)
case("Abs_int32", "Abs", [x], np.abs(x))
case("Sign_int32", "Sign", [x], np.sign(x))
y, dy = floats(2, 3, low=-1, high=1), floats(2, 3)
case("TanhGrad", "TanhGrad", [y, dy], dy * (1 - y * y))
case("SigmoidGrad", "SigmoidGrad", [y, dy], dy * y * (1 - y))
case("SoftplusGrad", "SoftplusGrad", [dy, y], (dy / (1 + np.exp(-y.astype(np.float64)))).astype(np.float32))
case("Identity", "Identity", [y], y)
case("StopGradient", "StopGradient", [y], y)
case("ReluGrad", "ReluGrad", [dy, y], np.where(y > 0, dy, 0).astype(np.float32))

# Comparisons and choices.
x, y = ints(2, 3, low=0, high=3), ints(3, low=0, high=3)
for op, function in {"Equal": np.equal, "NotEqual": np.not_equal, "Less": np.less, "LessEqual": np.less_equal,
                     "Greater": np.greater, "GreaterEqual": np.greater_equal}.items():
    case(op, op, [x, y], function(x, y))
    case(op + "_float32", op, [x.astype(np.float32), y.astype(np.float32)], function(x, y))
p, q = ints(2, 3) > 0, ints(3) > 0
case("LogicalAnd", "LogicalAnd", [p, q], p & q)
case("LogicalOr", "LogicalOr", [p, q], p | q)
case("LogicalNot", "LogicalNot", [p], ~p)
a, b = floats(2, 3), floats(2, 1)
case("SelectV2", "SelectV2", [p, a, b], np.where(p, a, b))
case("SelectV2_rows", "SelectV2", [p[:, :1], a, a[0]], np.where(p[:, :1], a, a[0]))

# Casts.
x = np.array([-2.7, -0.5, 0.0, 0.5, 1.9, 100.2], np.float32)
case("Cast_float32_int32", "Cast", [x], np.trunc(x).astype(np.int32), {"DstT": dtype_attr("int32")})
case("Cast_float32_float64", "Cast", [x], x.astype(np.float64), {"DstT": dtype_attr("float64")})
case("Cast_float32_bool", "Cast", [x], x != 0, {"DstT": dtype_attr("bool")})
case("Cast_bool_float32", "Cast", [p], p.astype(np.float32), {"DstT": dtype_attr("float32")})
case("Cast_uint8_float32", "Cast", [np.arange(250, 256, dtype=np.uint8)], np.arange(250, 256, dtype=np.float32),
     {"DstT": dtype_attr("float32")})
case("Cast_int64_int32", "Cast", [np.array([-5, 7], np.int64)], np.array([-5, 7], np.int32), {"DstT": dtype_attr("int32")})

# Reductions.
reductions = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min, "Prod": np.prod}
for op, function in reductions.items():
    for axes in ([], [0], [1], [-1], [0, 2], [2, 1], [0, 1, 2]):
        for keep in (False, True):
            x = floats(3, 5, 2, dtype=np.float64, low=0.5, high=1.5)
            case(f"{op}_{'_'.join(map(str, axes)).replace('-', 'm')}_{'keep' if keep else 'drop'}", op, [x, constant(axes)],
                 function(x, axis=tuple(axes), keepdims=keep), {"keep_dims": keep})
x = floats(5, 37)
case("Sum_float32_rows", "Sum", [x, constant([1])], x.astype(np.float64).sum(1).astype(np.float32))
case("Sum_float32_columns", "Sum", [x, constant([0])], x.astype(np.float64).sum(0).astype(np.float32))
case("Mean_float32", "Mean", [x, constant([0, 1])], np.float32(x.astype(np.float64).mean()))
x = ints(4, 5)
case("Sum_int32", "Sum", [x, constant([0])], x.sum(0, dtype=np.int32))
case("Max_int32", "Max", [x, constant([1])], x.max(1))
case("All", "All", [p, constant([1])], p.all(1))
case("Any", "Any", [p, constant([0])], p.any(0))
x = floats(4, 6, 3)
for axis in (0, 1, -1):
    case(f"ArgMax_{axis % 3}", "ArgMax", [x, constant(axis)], x.argmax(axis).astype(np.int64))
    case(f"ArgMin_{axis % 3}", "ArgMin", [x, constant(axis)], x.argmin(axis).astype(np.int32),
         {"output_type": dtype_attr("int32")})
case("ArgMax_ties", "ArgMax", [np.array([[1, 3, 3], [2, 2, 1]], np.float32), constant(1)], np.array([1, 0], np.int64))
case("L2Loss", "L2Loss", [x], np.float32((x.astype(np.float64) ** 2).sum() / 2))

# Shapes and movement.
x = floats(2, 3, 4)
case("Shape", "Shape", [x], np.array([2, 3, 4], np.int32))
case("Size", "Size", [x], np.int64(24), {"out_type": dtype_attr("int64")})
case("Rank", "Rank", [x], np.int32(3))
case("Reshape", "Reshape", [x, constant([4, -1])], x.reshape(4, -1))
case("ExpandDims", "ExpandDims", [x, constant(-2)], np.expand_dims(x, -2))
case("Squeeze", "Squeeze", [x[:1, :, :1]], x[0, :, 0], {"squeeze_dims": []})
case("Transpose", "Transpose", [x, constant([2, 0, 1])], x.transpose(2, 0, 1))
case("Transpose_bool", "Transpose", [p, constant([1, 0])], p.T)
case("BroadcastTo", "BroadcastTo", [x[:, :1], constant([5, 2, 3, 4])], np.broadcast_to(x[:, :1], (5, 2, 3, 4)))
case("Fill", "Fill", [constant([2, 3]), np.float32(1.5)], np.full((2, 3), 1.5, np.float32))
case("ZerosLike", "ZerosLike", [x], np.zeros_like(x))
case("OnesLike", "OnesLike", [ints(2, 2)], np.ones((2, 2), np.int32))
case("Range", "Range", [constant(3), constant(18), constant(4)], np.arange(3, 18, 4, dtype=np.int32))
case("Range_down", "Range", [constant(3), constant(-4), constant(-3)], np.arange(3, -4, -3, dtype=np.int32))
case("ConcatV2", "ConcatV2", [x, x[:, :1], constant(1)], np.concatenate([x, x[:, :1]], 1))
case("Split", "Split", [constant(2), x], np.split(x, 2, 2), {"num_split": 2})
case("Pack", "Pack", [x[0], x[1]], np.stack([x[0], x[1]], 1), {"axis": 1})
case("Unpack", "Unpack", [x], [x[:, i] for i in range(3)], {"num": 3, "axis": 1})
case("Slice", "Slice", [x, constant([0, 1, 2]), constant([-1, 2, 1])], x[:, 1:3, 2:3])
case("StridedSlice", "StridedSlice", [x, constant([0, 2, 3]), constant([2, 0, 0]), constant([1, -1, -2])], x[0:2, 2:0:-1, 3:0:-2])
case("StridedSlice_masks", "StridedSlice", [x, constant([0, 0, 1]), constant([0, 0, 0]), constant([1, 1, 1])],
     x[..., None, 1], {"ellipsis_mask": 1, "new_axis_mask": 2, "shrink_axis_mask": 4})
dy = floats(1, 2)
grad = np.zeros((3, 4), np.float32)
grad[2:, 0:4:2] = dy
case("StridedSliceGrad", "StridedSliceGrad", [constant([3, 4]), constant([2, 0]), constant([3, 4]), constant([1, 2]), dy], grad)
case("Pad", "Pad", [x[0], constant([[1, 0], [2, 1]])], np.pad(x[0], [(1, 0), (2, 1)]))
case("Tile", "Tile", [x[0], constant([2, 3])], np.tile(x[0], (2, 3)))
index = ints(2, 2, low=0, high=3)
case("GatherV2", "GatherV2", [x, index, constant(1)], np.take(x, index, 1))
ids = np.array([2, -1, 0, 2], np.int32)
data = floats(4, 3)
segments = np.zeros((3, 3), np.float32)
for i, segment in enumerate(ids):
    if segment >= 0:
        segments[segment] += data[i]
case("UnsortedSegmentSum", "UnsortedSegmentSum", [data, ids, constant(3)], segments)
hot = np.full((2, 4, 2), -1, np.float32)
for i in range(2):
    for j in range(2):
        if index[i, j] < 4:
            hot[i, index[i, j], j] = 5
case("OneHot", "OneHot", [index, constant(4), np.float32(5), np.float32(-1)], hot, {"axis": 1})
case("DynamicStitch", "DynamicStitch", [constant([0, 2]), constant([1]), data[:2], data[2:3]],
     np.stack([data[0], data[2], data[1]]))
case("InvertPermutation", "InvertPermutation", [constant([2, 0, 1])], np.array([1, 2, 0], np.int32))
case("ConcatOffset", "ConcatOffset", [constant(1), constant([2, 3]), constant([2, 5])],
     [np.array([0, 0], np.int32), np.array([0, 3], np.int32)])
case("BroadcastGradientArgs", "BroadcastGradientArgs", [constant([2, 3, 5]), constant([3, 1])],
     [np.array([], np.int32), np.array([0, 2], np.int32)])

# Layers.
for ta in (False, True):
    for tb in (False, True):
        a, b = floats(*((7, 5) if ta else (5, 7))), floats(*((4, 7) if tb else (7, 4)))
        product = (a.T if ta else a).astype(np.float64) @ (b.T if tb else b).astype(np.float64)
        case(f"MatMul_{int(ta)}{int(tb)}", "MatMul", [a, b], product.astype(np.float32), {"transpose_a": ta, "transpose_b": tb})
        x = floats(2, 1, *((3, 2) if ta else (2, 3)), dtype=np.float64)
        y = floats(3, *((4, 3) if tb else (3, 4)), dtype=np.float64)
        product = (np.swapaxes(x, -1, -2) if ta else x) @ (np.swapaxes(y, -1, -2) if tb else y)
        case(f"BatchMatMulV2_{int(ta)}{int(tb)}", "BatchMatMulV2", [x, y], product, {"adj_x": ta, "adj_y": tb})
x, bias = floats(2, 3, 3, 4), floats(4)
case("BiasAdd", "BiasAdd", [x, bias], x + bias)
case("BiasAddGrad", "BiasAddGrad", [x], x.astype(np.float64).sum((0, 1, 2)).astype(np.float32))


def padding_of(kind, size, window, stride, dilation=1):
    extent = (window - 1) * dilation + 1
    if kind == "VALID":
        return (size - extent) // stride + 1, 0, 0
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + extent - size)
    return out, total // 2, total - total // 2


def convolve(x, w, kind, strides, dilations):
    height, top, bottom = padding_of(kind, x.shape[1], w.shape[0], strides[0], dilations[0])
    width, left, right = padding_of(kind, x.shape[2], w.shape[1], strides[1], dilations[1])
    padded = np.pad(x.astype(np.float64), [(0, 0), (top, bottom), (left, right), (0, 0)])
    out = np.zeros((x.shape[0], height, width, w.shape[3]))
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            rows = padded[:, i * dilations[0]:i * dilations[0] + (height - 1) * strides[0] + 1:strides[0]]
            patch = rows[:, :, j * dilations[1]:j * dilations[1] + (width - 1) * strides[1] + 1:strides[1]]
            out += patch @ w[i, j].astype(np.float64)
    return out.astype(x.dtype)


for kind in ("SAME", "VALID"):
    for strides in ((1, 1), (2, 1), (2, 3)):
        for dilations in ((1, 1), (2, 1)):
            x, w = floats(2, 6, 5, 3), floats(3, 2, 3, 4)
            case(f"Conv2D_{kind}_{strides[0]}{strides[1]}_{dilations[0]}{dilations[1]}", "Conv2D", [x, w],
                 convolve(x, w, kind, strides, dilations),
                 {"strides": [1, *strides, 1], "dilations": [1, *dilations, 1], "padding": kind})


def convolution_gradients(x, w, dy, kind, strides, dilations):
    """Each product of the convolution handed back to both of its factors."""
    height, top, _ = padding_of(kind, x.shape[1], w.shape[0], strides[0], dilations[0])
    width, left, _ = padding_of(kind, x.shape[2], w.shape[1], strides[1], dilations[1])
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for row in range(height):
        for column in range(width):
            for i in range(w.shape[0]):
                for j in range(w.shape[1]):
                    y, z = row * strides[0] + i * dilations[0] - top, column * strides[1] + j * dilations[1] - left
                    if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
                        dx[:, y, z] += dy[:, row, column].astype(np.float64) @ w[i, j].T
                        dw[i, j] += x[:, y, z].T.astype(np.float64) @ dy[:, row, column]
    return dx.astype(x.dtype), dw.astype(w.dtype)


for kind, strides, dilations in (("SAME", (1, 1), (1, 1)), ("VALID", (1, 1), (1, 1)), ("SAME", (2, 1), (1, 1)),
                                 ("VALID", (2, 3), (1, 1)), ("SAME", (1, 1), (2, 1))):
    x, w = floats(2, 6, 5, 3), floats(3, 2, 3, 4)
    dy = floats(*convolve(x, w, kind, strides, dilations).shape)
    dx, dw = convolution_gradients(x, w, dy, kind, strides, dilations)
    attrs = {"strides": [1, *strides, 1], "dilations": [1, *dilations, 1], "padding": kind}
    name = f"{kind}_{strides[0]}{strides[1]}_{dilations[0]}{dilations[1]}"
    case("Conv2DBackpropInput_" + name, "Conv2DBackpropInput", [constant(x.shape), w, dy], dx, attrs)
    case("Conv2DBackpropFilter_" + name, "Conv2DBackpropFilter", [x, constant(w.shape), dy], dw, attrs)


def pool(x, kind, window, strides, largest):
    height, top, _ = padding_of(kind, x.shape[1], window[0], strides[0])
    width, left, _ = padding_of(kind, x.shape[2], window[1], strides[1])
    out = np.zeros((x.shape[0], height, width, x.shape[3]))
    for i in range(height):
        for j in range(width):
            rows = slice(max(0, i * strides[0] - top), i * strides[0] - top + window[0])
            columns = slice(max(0, j * strides[1] - left), j * strides[1] - left + window[1])
            patch = x[:, rows, columns].astype(np.float64)
            out[:, i, j] = patch.max((1, 2)) if largest else patch.mean((1, 2))
    return out.astype(x.dtype)


def pool_gradient(x, dy, kind, window, strides, largest):
    height, top, _ = padding_of(kind, x.shape[1], window[0], strides[0])
    width, left, _ = padding_of(kind, x.shape[2], window[1], strides[1])
    dx = np.zeros(x.shape)
    for n, i, j, c in np.ndindex(x.shape[0], height, width, x.shape[3]):
        first, start = max(0, i * strides[0] - top), max(0, j * strides[1] - left)
        patch = x[n, first:i * strides[0] - top + window[0], start:j * strides[1] - left + window[1], c]
        if largest:
            row, column = np.unravel_index(patch.argmax(), patch.shape)
            dx[n, first + row, start + column, c] += dy[n, i, j, c]
        else:
            dx[n, first:first + patch.shape[0], start:start + patch.shape[1], c] += dy[n, i, j, c] / patch.size
    return dx.astype(x.dtype)


for kind in ("SAME", "VALID"):
    for window, strides in (((2, 2), (2, 2)), ((3, 2), (1, 2)), ((3, 3), (2, 2))):
        x = floats(2, 7, 6, 3)
        attrs = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": kind}
        name = f"{kind}_{window[0]}{window[1]}_{strides[0]}{strides[1]}"
        case("MaxPool_" + name, "MaxPool", [x], pool(x, kind, window, strides, True), attrs)
        case("AvgPool_" + name, "AvgPool", [x], pool(x, kind, window, strides, False), attrs)
        dy = floats(*pool(x, kind, window, strides, True).shape)
        case("MaxPoolGrad_" + name, "MaxPoolGrad", [x, pool(x, kind, window, strides, True), dy],
             pool_gradient(x, dy, kind, window, strides, True), attrs)
        case("AvgPoolGrad_" + name, "AvgPoolGrad", [constant(x.shape), dy],
             pool_gradient(x, dy, kind, window, strides, False), attrs)

x = floats(3, 5, low=-30, high=30)
wide = x.astype(np.float64)
exps = np.exp(wide - wide.max(-1, keepdims=True))
softmax = exps / exps.sum(-1, keepdims=True)
log_softmax = wide - wide.max(-1, keepdims=True) - np.log(exps.sum(-1, keepdims=True))
case("Softmax", "Softmax", [x], softmax.astype(np.float32))
case("LogSoftmax", "LogSoftmax", [x], log_softmax.astype(np.float32))
labels = np.array([4, 0, 2], np.int64)
case("SparseSoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", [x, labels],
     [(-log_softmax[np.arange(3), labels]).astype(np.float32), (softmax - np.eye(5)[labels]).astype(np.float32)])
soft = floats(3, 5, low=0, high=1)
soft /= soft.sum(-1, keepdims=True)
case("SoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", [x, soft],
     [(-(soft * log_softmax).sum(-1)).astype(np.float32), (softmax - soft).astype(np.float32)])

path = pathlib.Path(__file__).with_name("numpy_reference.json")
with path.open("w") as out:
    out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(f"{len(cases)} cases, {path.stat().st_size} bytes")
