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
    case("BatchMatMul", "BatchMatMul", [f32(2, 3, 5), f32(2, 4, 5)],
         lambda a, b: raw.BatchMatMul(x=a, y=b, adj_y=True), {"adj_y": True}, rtol=2e-6)
    case("BatchMatMulV2_long", "BatchMatMulV2", [f64(2, 3, 40), f64(2, 21, 40)],
         lambda a, b: raw.BatchMatMulV2(x=a, y=b, adj_x=False, adj_y=True), {"adj_y": True})
    case("BatchMatMulV2_int64", "BatchMatMulV2", [i64(2, 3, 4), i64(2, 4, 2)], lambda a, b: raw.BatchMatMulV2(x=a, y=b))


def moving_cases():
    for name, make in (("float32", f32), ("float64", f64), ("int64", i64)):
        x = make(2, 5)
        case(f"SplitV_{name}", "SplitV", [x, Const([2, 0, 3]), Const(1)],
             lambda v, sizes, axis: raw.SplitV(value=v, size_splits=sizes, axis=axis, num_split=3), {"num_split": 3})
    for name, dtype in (("int8", np.int8), ("uint16", np.uint16), ("uint64", np.uint64), ("bool", np.bool_), ("float16", np.float16)):
        x = random.integers(0, 2, (2, 3)).astype(dtype)
        case(f"PadV2_{name}", "PadV2", [x, Const([[1, 0], [2, 1]]), np.asarray(1, dtype)],
             lambda v, p, c: raw.PadV2(input=v, paddings=p, constant_values=c), gradients=False)
        case(f"Transpose_{name}", "Transpose", [x, Const([1, 0])], lambda v, p: raw.Transpose(x=v, perm=p),
             gradients=False)
        case(f"ReverseV2_{name}", "ReverseV2", [x, Const([1])], lambda v, a: raw.ReverseV2(tensor=v, axis=a),
             gradients=False)
        case(f"Select_{name}", "SelectV2", [np.array([[True], [False]]), x, x[::-1].copy()],
             lambda c, a, b: raw.SelectV2(condition=c, t=a, e=b), gradients=False)
        case(f"Fill_{name}", "Fill", [Const([2, 3]), np.asarray(1, dtype)], lambda d, v: raw.Fill(dims=d, value=v),
             gradients=False)
        case(f"OnesLike_{name}", "OnesLike", [x], lambda v: raw.OnesLike(x=v), gradients=False)
    case("PadV2", "PadV2", [f32(2, 3), Const([[1, 0], [2, 1]]), np.float32(7)],
         lambda v, p, c: raw.PadV2(input=v, paddings=p, constant_values=c), gradient_of=[0])
    for mode in ("REFLECT", "SYMMETRIC"):
        pads = [[1, 2], [3, 0], [0, 1]]
        case(f"MirrorPad_{mode}", "MirrorPad", [f32(3, 4, 2), Const(pads)],
             lambda v, p: raw.MirrorPad(input=v, paddings=p, mode=mode), {"mode": mode})
        case(f"MirrorPadGrad_{mode}", "MirrorPadGrad", [f32(6, 7, 3), Const(pads)],
             lambda v, p: raw.MirrorPadGrad(input=v, paddings=p, mode=mode), {"mode": mode})
    case("MirrorPad_int32", "MirrorPad", [i32(3), Const([[3, 2]], np.int64)],
         lambda v, p: raw.MirrorPad(input=v, paddings=p, mode="SYMMETRIC"), {"mode": "SYMMETRIC"})
    case("ReverseV2", "ReverseV2", [f32(2, 3, 4), Const([-1, 0])], lambda v, a: raw.ReverseV2(tensor=v, axis=a))
    for n, (seq, batch) in enumerate([(1, 0), (0, 1), (2, 0)]):
        case(f"ReverseSequence_{n}", "ReverseSequence", [f32(3, 3, 3, 2), np.array([2, 0, 3], np.int64)],
             lambda v, l: raw.ReverseSequence(input=v, seq_lengths=l, seq_dim=seq, batch_dim=batch),
             {"seq_dim": seq, "batch_dim": batch})
    case("Roll", "Roll", [f32(3, 4), Const([1, -6, 2]), Const([0, 1, 0])],
         lambda v, s, a: raw.Roll(input=v, shift=s, axis=a))
    for fmt in ("NHWC", "NCHW"):
        wide, deep = ((2, 3, 4, 2), (2, 12, 2, 1)) if fmt == "NCHW" else ((2, 4, 2, 3), (2, 2, 1, 12))
        to = (0, 3, 1, 2) if fmt == "NCHW" else (0, 1, 2, 3)
        back = (0, 2, 3, 1) if fmt == "NCHW" else (0, 1, 2, 3)
        case(f"SpaceToDepth_{fmt}", "SpaceToDepth", [f32(*wide)],
             lambda v: tf.transpose(tf.nn.space_to_depth(tf.transpose(v, back), 2), to),
             {"block_size": 2, "data_format": fmt})
        case(f"DepthToSpace_{fmt}", "DepthToSpace", [f32(*deep)],
             lambda v: tf.transpose(tf.nn.depth_to_space(tf.transpose(v, back), 2), to),
             {"block_size": 2, "data_format": fmt})
    case("SpaceToBatchND", "SpaceToBatchND", [f32(2, 3, 4, 2), Const([2, 3]), Const([[1, 0], [0, 2]])],
         lambda v, b, p: raw.SpaceToBatchND(input=v, block_shape=b, paddings=p))
    case("BatchToSpaceND", "BatchToSpaceND", [f32(6, 2, 2, 2), Const([2, 3]), Const([[1, 0], [1, 2]])],
         lambda v, b, p: raw.BatchToSpaceND(input=v, block_shape=b, crops=p))
    case("SpaceToBatchND_one", "SpaceToBatchND", [f32(2, 5), Const([3]), Const([[1, 3]])],
         lambda v, b, p: raw.SpaceToBatchND(input=v, block_shape=b, paddings=p))
    for n, (lower, upper) in enumerate([(0, -1), (-1, 0), (1, 1), (0, 0)]):
        case(f"MatrixBandPart_{n}", "MatrixBandPart", [f32(2, 3, 4), np.int64(lower), np.int64(upper)],
             lambda v, l, u: raw.MatrixBandPart(input=v, num_lower=l, num_upper=u))
    case("MatrixDiag", "MatrixDiag", [f32(2, 3)], lambda v: raw.MatrixDiag(diagonal=v))
    case("MatrixDiagPart", "MatrixDiagPart", [f32(2, 3, 4)], lambda v: raw.MatrixDiagPart(input=v))
    case("MatrixSetDiag", "MatrixSetDiag", [f32(2, 4, 3), f32(2, 3)],
         lambda v, d: raw.MatrixSetDiag(input=v, diagonal=d))
    for n, (k, shape) in enumerate([(0, (2, 3, 4)), (1, (2, 3, 4)), (-2, (4, 3)), ([-1, 2], (2, 3, 4)), ([-2, -1], (4, 3)),
                                    ([1, 2], (3, 3))]):
        for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
            part = raw.MatrixDiagPartV3(input=np.zeros(shape, np.float32), k=k, padding_value=0.0, align=align).shape
            name = f"{n}_{align}"
            case(f"MatrixDiagPartV3_{name}", "MatrixDiagPartV3", [f32(*shape), Const(k), Const(7, np.float32)],
                 lambda v, d, p: raw.MatrixDiagPartV3(input=v, k=d, padding_value=p, align=align), {"align": align})
            case(f"MatrixSetDiagV3_{name}", "MatrixSetDiagV3", [f32(*shape), f32(*part), Const(k)],
                 lambda v, d, i: raw.MatrixSetDiagV3(input=v, diagonal=d, k=i, align=align), {"align": align})
            case(f"MatrixDiagV3_{name}", "MatrixDiagV3",
                 [f32(*part), Const(k), Const(-1), Const(shape[-1] if n % 2 else -1), Const(9, np.float32)],
                 lambda d, i, r, c, p: raw.MatrixDiagV3(diagonal=d, k=i, num_rows=r, num_cols=c, padding_value=p,
                                                        align=align), {"align": align})
    case("EnsureShape", "EnsureShape", [f32(2, 3)], lambda v: tf.identity(v), {"shape": {"shape": [2, -1]}})
    case("Snapshot", "Snapshot", [f32(2, 3)], lambda v: tf.identity(v))
    case("PreventGradient", "PreventGradient", [f32(2, 3)], lambda v: tf.identity(v), gradients=False)
    for name, shape in (("vector", (2,)), ("scalar", ()), ("same", (2, 3))):
        condition = random.integers(0, 2, shape) > 0
        case(f"Select_{name}", "Select", [condition, f32(2, 3), f32(2, 3)],
             lambda c, a, b: raw.Select(condition=c, x=a, y=b))
    for num in (1, 2, 7):
        case(f"LinSpace_{num}", "LinSpace", [np.float32(-1.5), np.float32(2.25), Const(num)],
             lambda a, b, n: raw.LinSpace(start=a, stop=b, num=n), gradients=False)
    case("Where_bool", "Where", [Const(random.integers(0, 2, (3, 4)), np.bool_)], lambda v: raw.Where(condition=v))
    case("Where_float32", "Where", [Const([0, 1.5, -0.0, -2], np.float32)], lambda v: raw.Where(condition=v),
         gradients=False)
    begin, end, strides = Const([0, 3, -1]), Const([2, 0, 0]), Const([1, -2, 1])
    for n, attrs in enumerate([{}, {"begin_mask": 2, "end_mask": 2}, {"ellipsis_mask": 2}, {"new_axis_mask": 1},
                               {"shrink_axis_mask": 4, "end_mask": 2}]):
        case(f"StridedSlice_{n}", "StridedSlice", [f32(3, 4, 3, 2), begin, end, strides],
             lambda v, b, e, s: raw.StridedSlice(input=v, begin=b, end=e, strides=s, **attrs), attrs)
    for axis in (-1, 0, 1):
        case(f"OneHot_{axis + 1}", "OneHot", [np.array([[0, 2], [3, -1]], np.int64), Const(3), np.float32(5), np.float32(-1)],
             lambda i, d, on, off: raw.OneHot(indices=i, depth=d, on_value=on, off_value=off, axis=axis),
             {"axis": axis}, gradients=False)


def resizing_cases():
    sizes = [((4, 3), (7, 5)), ((7, 5), (3, 4)), ((4, 4), (8, 8)), ((3, 3), (1, 1)), ((1, 2), (3, 5))]
    for n, (small, large) in enumerate(sizes):
        for align, half in ((False, False), (True, False), (False, True)):
            attrs = {"align_corners": align, "half_pixel_centers": half}
            x, size = f32(2, *small, 2), Const(large)
            suffix = f"{n}_{'align' if align else 'half' if half else 'legacy'}"
            case(f"ResizeNearestNeighbor_{suffix}", "ResizeNearestNeighbor", [x, size],
                 lambda v, s: raw.ResizeNearestNeighbor(images=v, size=s, **attrs), attrs)
            case(f"ResizeBilinear_{suffix}", "ResizeBilinear", [x, size],
                 lambda v, s: raw.ResizeBilinear(images=v, size=s, **attrs), attrs)
    case("ResizeBilinear_uint8", "ResizeBilinear", [random.integers(0, 255, (1, 3, 3, 1)).astype(np.uint8), Const([5, 4])],
         lambda v, s: raw.ResizeBilinear(images=v, size=s), gradients=False)
    case("ResizeNearestNeighbor_int64", "ResizeNearestNeighbor", [i64(1, 3, 3, 1), Const([5, 4])],
         lambda v, s: raw.ResizeNearestNeighbor(images=v, size=s), gradients=False)
    x = tf.constant(f32(1, 3, 4, 2))

    def bilinear_grad(d, image):
        with tf.GradientTape() as tape:
            tape.watch(image)
            y = tf.reduce_sum(raw.ResizeBilinear(images=image, size=[5, 6]) * d)
        return tape.gradient(y, image)

    # TensorFlow gives this gradient none of its own; it is linear, and resizing undoes it.
    dy, w = f32(1, 5, 6, 2), f32(1, 3, 4, 2)
    cases.append({"name": "array_ResizeBilinearGrad", "op": "ResizeBilinearGrad", "attrs": {},
                  "inputs": [tensor(dy), tensor(x.numpy())],
                  "outputs": [tensor(bilinear_grad(tf.constant(dy), x).numpy())], "output_gradients": [tensor(w)],
                  "input_gradients": [tensor(raw.ResizeBilinear(images=w, size=[5, 6]).numpy()), None]})
    image = f32(1, 3, 4, 2)
    resized = tf.constant(f32(1, 5, 6, 2))

    def nearest_grad(d):
        v = tf.constant(image)
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = tf.reduce_sum(raw.ResizeNearestNeighbor(images=v, size=[5, 6]) * d)
        return tape.gradient(y, v)

    cases.append({"name": "array_ResizeNearestNeighborGrad", "op": "ResizeNearestNeighborGrad", "attrs": {},
                  "inputs": [tensor(resized.numpy()), tensor(np.array([3, 4], np.int32), True)],
                  "outputs": [tensor(nearest_grad(resized).numpy())], "output_gradients": [tensor(image)],
                  "input_gradients": [tensor(raw.ResizeNearestNeighbor(images=image, size=[5, 6]).numpy()), None]})


def choosing_cases():
    def gather(name, shape, indices, axis, batch_dims, make=f32):
        case(f"GatherV2_{name}", "GatherV2", [make(*shape), indices, Const(axis)],
             lambda p, i, a: raw.GatherV2(params=p, indices=i, axis=a, batch_dims=batch_dims), {"batch_dims": batch_dims})

    gather("batch", (2, 4, 3), np.array([[3, 1], [1, 1]], np.int32), 1, 1)
    gather("batch_later", (2, 3, 4), np.array([[3, 1, 0], [1, 1, 2]], np.int64), 2, 1)
    gather("two_batches", (2, 2, 4), np.array([[[3], [1]], [[0], [2]]], np.int64), 2, 2)
    gather("middle", (2, 4, 3), np.array([[3, 1], [1, 1]], np.int32), 1, 0)
    gather("first", (4, 3), np.array([3, 1, 1, 0, 3], np.int32), 0, 0)
    gather("int32", (4, 3), np.array([3, 1], np.int32), 1 - 1, 0, make=i32)
    case("Gather", "Gather", [f32(4, 3), np.array([[3, 1], [1, 0]], np.int64)],
         lambda p, i: raw.GatherV2(params=p, indices=i, axis=0))
    x, indices = tf.constant(f32(2, 4, 3)), tf.constant([[3, 1], [1, 1]])
    dy = f32(2, 2, 3)

    def gather_grad(d, i):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(raw.GatherV2(params=x, indices=i, axis=1, batch_dims=1) * d)
        return tf.convert_to_tensor(tape.gradient(y, x))

    case("GatherGrad", "GatherGrad", [dy, indices.numpy(), Const([2, 4, 3])],
         lambda d, i, s: gather_grad(d, i), {"axis": 1, "batch_dims": 1})

    vectors = np.array([[1, 0], [0, 2], [1, 0]], np.int32)
    case("GatherNd", "GatherNd", [f32(2, 3, 2), vectors], lambda p, i: raw.GatherNd(params=p, indices=i))
    case("GatherNd_scalars", "GatherNd", [f64(2, 3), vectors.astype(np.int64)],
         lambda p, i: raw.GatherNd(params=p, indices=i))
    case("ScatterNd", "ScatterNd", [vectors, f32(3, 2), Const([2, 3, 2])],
         lambda i, u, s: raw.ScatterNd(indices=i, updates=u, shape=s))
    once = np.array([[1, 0], [0, 2]], np.int32)
    case("TensorScatterUpdate", "TensorScatterUpdate", [f32(2, 3, 2), once, f32(2, 2)],
         lambda t, i, u: raw.TensorScatterUpdate(tensor=t, indices=i, updates=u))
    for op in ("Add", "Sub", "Max", "Min"):
        for make in (f32, i32):
            case(f"TensorScatter{op}_{make.__name__}", f"TensorScatter{op}", [make(2, 3, 2), vectors, make(3, 2)],
                 lambda t, i, u: getattr(raw, f"TensorScatter{op}")(tensor=t, indices=i, updates=u))
    t, u = f32(2, 3), f32(3)
    product = t.copy()
    for (a, b), v in zip(vectors, u):
        product[a, b] *= v
    case("TensorScatterMul", "TensorScatterMul", [t, vectors, u], lambda *_: tf.constant(product), gradients=False)
    for op in ("Sum", "Max", "Min", "Prod"):
        for make in (f32, i64):
            case(f"UnsortedSegment{op}_{make.__name__}", f"UnsortedSegment{op}",
                 [make(5, 2), np.array([1, -1, 1, 0, 3], np.int32), Const(4)],
                 lambda d, i, n: getattr(raw, f"UnsortedSegment{op}")(data=d, segment_ids=i, num_segments=n))
    case("UnsortedSegmentProd_zeros", "UnsortedSegmentProd",
         [np.array([0, 2, 3, 0, 0, 4], np.float32), np.array([0, 0, 0, 1, 1, 1], np.int32), Const(2)],
         lambda d, i, n: raw.UnsortedSegmentProd(data=d, segment_ids=i, num_segments=n))

    along = np.array([[[0, 1], [-1, 0]], [[1, 1], [0, -2]]], np.int64)
    for axis in (0, 1, 2):
        shape = [2, 2, 2]
        shape[axis] = 3

        def vectors_of(i):
            grid = tf.meshgrid(*[tf.range(2, dtype=tf.int64)] * 3, indexing="ij")
            grid[axis] = tf.where(i < 0, i + 3, i)
            return tf.stack(grid, axis=-1)

        case(f"TakeAlongAxis_{axis}", "TakeAlongAxis", [f32(*shape), along],
             lambda p, i: tf.gather_nd(p, vectors_of(i)), {"axis": axis})
        for reduction, function in (("add", raw.TensorScatterAdd), ("max", raw.TensorScatterMax),
                                    ("min", raw.TensorScatterMin)):
            case(f"ScatterAlongAxis_{reduction}_{axis}", "ScatterAlongAxis", [f32(*shape), along, f32(2, 2, 2)],
                 lambda t, i, v: function(tensor=t, indices=vectors_of(i), updates=v),
                 {"axis": axis, "reduction": reduction})
    case("ScatterAlongAxis_none", "ScatterAlongAxis", [f32(3, 2), np.array([[2, -3], [0, 1]], np.int32), f32(2, 2)],
         lambda t, i, v: raw.TensorScatterUpdate(tensor=t, indices=[[[2, 0], [0, 1]], [[0, 0], [1, 1]]], updates=v))
    case("ScatterAlongAxis_mul", "ScatterAlongAxis", [np.array([2, 3, 4], np.float32), np.array([1, 1, 0], np.int32),
                                                      np.array([5, 6, 7], np.float32)],
         lambda t, i, v: tf.constant([14.0, 90.0, 4.0]), {"reduction": "mul"}, gradients=False)
    for make in (f32, f64, i32):
        case(f"TopKV2_{make.__name__}", "TopKV2", [make(3, 7), Const(4)], lambda v, k: raw.TopKV2(input=v, k=k))
    case("TopKV2_ties", "TopKV2", [np.array([1, 3, 1, 3, 2, 3], np.float32), Const(5)],
         lambda v, k: raw.TopKV2(input=v, k=k), gradients=False)
    case("TopKV2_uint8", "TopKV2", [random.integers(0, 255, (2, 5)).astype(np.uint8), Const(2)],
         lambda v, k: raw.TopKV2(input=v, k=k))


def reducing_cases():
    for op in ("Sum", "Prod", "Max", "Min"):
        for dtype in (np.int8, np.int16, np.uint8, np.uint16, np.uint32, np.uint64):
            x = random.integers(0, 3, (3, 4)).astype(dtype)
            case(f"{op}_{np.dtype(dtype).name}", op, [x, Const([0])],
                 lambda v, a: getattr(raw, op)(input=v, axis=a))
    for make in (i32, i64):
        case(f"Mean_{make.__name__}", "Mean", [make(3, 4), Const([1])], lambda v, a: raw.Mean(input=v, axis=a))
    for n, (shape, axes) in enumerate([((40, 3), [0]), ((3, 37), [1]), ((4, 5, 33), [0, 2]), ((2, 150), [0]), ((33,), [0]),
                                       ((2, 3, 4), [1]), ((2, 3), [])]):
        for op in ("Sum", "Mean", "Max", "Min", "EuclideanNorm"):
            case(f"{op}_shape_{n}", op, [f32(*shape), Const(np.array(axes, np.int32))],
                 lambda v, a: getattr(raw, op)(input=v, axis=a), gradients=n < 4 and np.prod(shape) < 200)
    for n, axes in enumerate([[0], [1], [0, 2], [0, 1, 2]]):
        case(f"Prod_{n}", "Prod", [f32(2, 3, 2), Const(axes)], lambda v, a: raw.Prod(input=v, axis=a, keep_dims=n == 1),
             {"keep_dims": n == 1})
    case("Prod_zeros", "Prod", [np.array([[0, 2, 3], [0, 0, 4]], np.float32), Const([1])],
         lambda v, a: raw.Prod(input=v, axis=a))
    for op in ("Cumsum", "Cumprod"):
        for axis in (0, 1, 2):
            for exclusive in (False, True):
                for reverse in (False, True):
                    attrs = {"exclusive": exclusive, "reverse": reverse}
                    case(f"{op}_{axis}_{exclusive}_{reverse}", op, [f32(2, 4, 3), Const(axis)],
                         lambda v, a: getattr(raw, op)(x=v, axis=a, **attrs), attrs, rtol=5e-6)
        case(f"{op}_int64", op, [i64(5), Const(0)], lambda v, a: getattr(raw, op)(x=v, axis=a))
    x, dy = f32(2, 4), f32(2, 4)

    def cumprod_grad(v, d):
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = tf.reduce_sum(tf.math.cumprod(v, 1) * d)
        return tape.gradient(y, v)

    case("CumprodGrad", "CumprodGrad", [x, Const(1), dy], lambda v, a, d: cumprod_grad(v, d), gradients=False, rtol=5e-6)
    for n, (shape, axis) in enumerate([((3, 40), 1), ((5, 3, 130), 1), ((20, 2), 0)]):
        for op in ("ArgMax", "ArgMin"):
            x = random.integers(0, 9, shape).astype(np.float32)  # with ties
            case(f"{op}_float32_{n}", op, [x, Const(axis)],
                 lambda v, a: getattr(raw, op)(input=v, dimension=a, output_type=tf.int32),
                 {"output_type": tf.int32}, gradients=False)
    for n, (shape, perm) in enumerate([((9, 21), (1, 0)), ((3, 7, 18), (0, 2, 1)), ((2, 5, 3, 6), (2, 0, 3, 1)),
                                       ((17, 2, 5), (2, 1, 0))]):
        for dtype in (np.uint8, np.int16, np.float32, np.int64):
            x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
            case(f"Transpose_{n}_{np.dtype(dtype).name}", "Transpose", [x, Const(perm)],
                 lambda v, p: raw.Transpose(x=v, perm=p), gradients=False)
    for op in ("Cumsum", "Cumprod"):
        for exclusive, reverse in ((False, False), (True, True)):
            case(f"{op}_rows_{exclusive}", op, [i32(19, 5), Const(1)],
                 lambda v, a: getattr(raw, op)(x=v, axis=a, exclusive=exclusive, reverse=reverse),
                 {"exclusive": exclusive, "reverse": reverse})
    for op in ("ArgMax", "ArgMin"):
        for dtype in (np.int8, np.int16, np.uint16, np.uint32, np.uint64):
            x = random.integers(0, 3, (3, 4)).astype(dtype)
            case(f"{op}_{np.dtype(dtype).name}", op, [x, Const(1)],
                 lambda v, a: getattr(raw, op)(input=v, dimension=a, output_type=tf.int64))


einsum_cases()
product_cases()
moving_cases()
resizing_cases()
choosing_cases()
reducing_cases()

names = [c["name"] for c in cases]
assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
with open(os.path.join(HERE, "array_reference.json"), "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases")
