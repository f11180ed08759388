#!/usr/bin/env python3
"""Draws models at random, an operator with random attributes and shapes or a short chain, and compares what `rivulet model
check` says of onnxruntime's results. Disagreements are kept as folders that `rivulet model check` runs again.

  fuzz_onnxruntime.py --rivulet build/release/rivulet --cases 3000 --seed 1

Needs the packages onnx, onnxruntime and numpy.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

F32 = np.float32


class Draw:
    """One model under construction: random choices, inputs and constants."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.np = np.random.default_rng(seed)
        self.inputs, self.constants, self.nodes = {}, {}, []
        self.opset = self.r.choice([13, 15, 17, 18, 19, 21])

    def shape(self, rank=None, low=1, high=5):
        rank = self.r.randint(1, 4) if rank is None else rank
        return [self.r.randint(low, high) for _ in range(rank)]

    def floats(self, *shape, scale=2.0):
        return (self.np.standard_normal(shape) * scale).astype(F32)

    def input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(array)
        return name

    def constant(self, array):
        if self.r.random() < 0.3:  # known only when the case runs
            return self.input(array)
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def ints(self, values):
        return self.constant(np.array(values, np.int64))

    def node(self, op, inputs, outputs=1, **attributes):
        names = [f"y{len(self.nodes)}_{i}" for i in range(outputs)]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def maybe(self, value, chance=0.5):
        return value() if self.r.random() < chance else None

    def axis(self, rank):
        return self.r.randint(-rank, rank - 1)

    def axes(self, rank):
        chosen = self.r.sample(range(rank), self.r.randint(1, rank))
        return [a - rank if self.r.random() < 0.3 else a for a in chosen]

    def broadcastable(self, shape):
        other = [1 if self.r.random() < 0.3 else s for s in shape]
        return other[self.r.randint(0, len(other)) :]


def any_array(d, shape):
    dtype = d.r.choice([np.float32, np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8])
    if np.issubdtype(dtype, np.floating):
        return (d.np.standard_normal(shape) * 3).astype(dtype)
    low = 0 if dtype == np.uint8 else -9
    return d.np.integers(low, 10, shape).astype(dtype)


def binary(d):
    shape = d.shape()
    a = any_array(d, shape)
    op = d.r.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"])
    b = any_array(d, d.broadcastable(shape)).astype(a.dtype)
    if op == "Div":
        b = np.where(b == 0, np.ones_like(b), b)
    pair = [d.input(a), d.input(b)]
    d.r.shuffle(pair) if op != "Div" else None
    d.node(op, pair)


def power(d):
    base = np.abs(d.floats(*d.shape())) + F32(0.1)
    exponent = d.r.choice([d.floats(1), np.array([2], np.int64), np.array(3, np.int32), np.array(0.5, F32)])
    d.node("Pow", [d.input(base), d.input(exponent)])


def modulo(d):
    fmod = d.r.randint(0, 1)
    dtype = d.r.choice([np.int32, np.int64, np.int8, np.uint8] + ([np.float32] if fmod else []))
    shape = d.shape()
    low = 0 if dtype == np.uint8 else -20
    a = d.np.integers(low, 21, shape).astype(dtype) + (dtype(0.25) if dtype == np.float32 else dtype(0))
    b = d.np.integers(1, 7, d.broadcastable(shape)).astype(dtype)
    if low < 0 and d.r.random() < 0.5:
        b = (-b).astype(dtype)
    d.node("Mod", [d.input(a), d.input(b)], fmod=fmod)


UNARY = ["Abs", "Neg", "Exp", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Atan", "Asinh",
         "Erf", "Relu", "Sigmoid", "Softplus", "Softsign", "HardSwish", "Reciprocal", "IsNaN", "IsInf"]


def unary(d):
    d.node(d.r.choice(UNARY), [d.input(d.floats(*d.shape()))])


def unary_positive(d):
    x = np.abs(d.floats(*d.shape())) + F32(0.01)
    d.node(d.r.choice(["Sqrt", "Log"]), [d.input(x)])


def unary_unit(d):
    x = d.np.uniform(-0.95, 0.95, d.shape()).astype(F32)
    op = d.r.choice(["Asin", "Acos", "Atanh", "Acosh"])
    d.node(op, [d.input(x + F32(2) if op == "Acosh" else x)])


def activation(d):
    u = lambda a, b: d.maybe(lambda: d.r.uniform(a, b))
    op, attributes = d.r.choice([
        ("LeakyRelu", {"alpha": u(0.01, 0.9)}), ("Elu", {"alpha": u(0.1, 2)}),
        ("Selu", {"alpha": u(0.5, 2), "gamma": u(0.5, 2)}), ("Celu", {"alpha": u(0.3, 2)}),
        ("HardSigmoid", {"alpha": u(0.1, 0.6), "beta": u(0, 1)}), ("ThresholdedRelu", {"alpha": u(-1, 1)}),
        ("Shrink", {"lambd": u(0, 1), "bias": u(-1, 1)})])
    d.node(op, [d.input(d.floats(*d.shape()))], **attributes)


def prelu(d):
    shape = d.shape()
    slope = d.broadcastable(shape)
    d.node("PRelu", [d.input(d.floats(*shape)), d.constant(d.floats(*slope))])


def softmax(d):
    shape = d.shape()
    d.opset = d.r.choice([11, 13, 17])
    d.node(d.r.choice(["Softmax", "LogSoftmax", "Hardmax"]), [d.input(d.floats(*shape))], axis=d.maybe(lambda: d.axis(len(shape))))


def clip(d):
    x = d.input(any_array(d, d.shape()))
    low = d.constant(np.array(2, d.inputs[x].dtype)) if d.r.random() < 0.7 else ""
    high = d.constant(np.array(d.r.choice([1, 4]), d.inputs[x].dtype)) if d.r.random() < 0.7 else ""
    d.node("Clip", [x, low, high])


def where(d):
    shape = d.shape()
    c = d.np.random(d.broadcastable(shape)) < 0.5
    d.node("Where", [d.input(c), d.input(d.floats(*shape)), d.input(d.floats(*d.broadcastable(shape)))])


def cast(d):
    x = any_array(d, d.shape())
    if x.dtype.kind == "f":
        x = np.clip(x, 0, 100)
    to = d.r.choice([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64,
                     TensorProto.UINT8, TensorProto.INT8, TensorProto.BOOL])
    d.node("Cast", [d.input(x)], to=to)


def reshape(d):
    shape = d.shape()
    target = list(shape)
    d.r.shuffle(target)
    if d.r.random() < 0.5:
        target[d.r.randrange(len(target))] = -1
    if d.r.random() < 0.3 and len(shape) > 1:
        target = [0, -1]
    d.node("Reshape", [d.input(any_array(d, shape)), d.ints(target)])


def transpose(d):
    shape = d.shape()
    perm = list(range(len(shape)))
    d.r.shuffle(perm)
    d.node("Transpose", [d.input(any_array(d, shape))], perm=d.maybe(lambda: perm, 0.8))


def squeezes(d):
    shape = d.shape()
    for _ in range(2):
        shape.insert(d.r.randint(0, len(shape)), 1)
    if d.r.random() < 0.5:
        d.node("Squeeze", [d.input(d.floats(*shape))] + ([d.ints([shape.index(1)])] if d.r.random() < 0.7 else []))
    else:
        d.node("Unsqueeze", [d.input(d.floats(*shape)), d.ints(d.r.sample(range(len(shape) + 2), 2))])


def concat(d):
    shape = d.shape()
    axis = d.axis(len(shape))
    names = []
    for _ in range(d.r.randint(1, 4)):
        part = list(shape)
        part[axis] = d.r.randint(1, 4)
        names.append(d.input(d.floats(*part)))
    d.node("Concat", names, axis=axis)


def split(d):
    shape = d.shape()
    axis = d.axis(len(shape))
    sizes = [d.r.randint(0, 3) for _ in range(d.r.randint(1, 3))]
    sizes[0] += 1
    shape[axis] = sum(sizes)
    d.node("Split", [d.input(d.floats(*shape)), d.ints(sizes)], outputs=len(sizes), axis=axis)


def slices(d):
    shape = d.shape(high=7)
    axes = d.axes(len(shape))
    bound = lambda: d.r.choice([d.r.randint(-9, 9), d.r.randint(-9, 9), 2**31, -(2**31)])
    steps = [d.r.choice([1, 1, 2, 3, -1, -2]) for _ in axes]
    arguments = [d.ints([bound() for _ in axes]), d.ints([bound() for _ in axes]), d.ints(axes), d.ints(steps)]
    d.node("Slice", [d.input(any_array(d, shape))] + arguments)


def pad(d):
    shape = d.shape(low=3)
    mode = d.r.choice(["constant", "reflect", "edge"])
    pads = [d.r.randint(-1 if mode == "constant" else 0, 2) for _ in range(2 * len(shape))]
    arguments = [d.input(d.floats(*shape)), d.ints(pads)]
    if mode == "constant" and d.r.random() < 0.5:
        arguments.append(d.constant(F32(1.5)))
    d.node("Pad", arguments, mode=mode)


def tile_expand(d):
    shape = d.shape(high=4)
    if d.r.random() < 0.5:
        d.node("Tile", [d.input(d.floats(*shape)), d.ints([d.r.randint(1, 3) for _ in shape])])
    else:
        start = [1 if d.r.random() < 0.5 else s for s in shape]
        d.node("Expand", [d.input(d.floats(*start)), d.ints(d.shape(rank=d.r.randint(0, 1)) + shape)])


def gather(d):
    shape = d.shape(low=2)
    axis = d.axis(len(shape))
    indices = d.np.integers(-shape[axis], shape[axis], d.shape(rank=d.r.randint(0, 2)))
    d.node("Gather", [d.input(any_array(d, shape)), d.constant(indices.astype(np.int64))], axis=axis)


def gather_elements(d):
    shape = d.shape(low=2)
    axis = d.axis(len(shape))
    rows = [d.r.randint(1, s) for s in shape]
    indices = d.np.integers(-shape[axis], shape[axis], rows).astype(np.int64)
    if d.r.random() < 0.5:
        d.node("GatherElements", [d.input(d.floats(*shape)), d.constant(indices)], axis=axis)
    else:
        d.opset = 18
        indices = np.stack([d.np.permutation(shape[axis])[: rows[axis]] for _ in range(int(np.prod(rows)) // rows[axis])])
        others = rows[:axis % len(shape)] + rows[axis % len(shape) + 1:]
        indices = np.moveaxis(indices.reshape(others + [rows[axis]]), -1, axis % len(shape)).astype(np.int64)
        d.node("ScatterElements", [d.input(d.floats(*shape)), d.constant(indices), d.input(d.floats(*rows))], axis=axis,
               reduction=d.r.choice(["none", "add", "mul", "max", "min"]))


def gather_nd(d):
    shape = d.shape(rank=d.r.randint(2, 4), low=2)
    depth = d.r.randint(1, len(shape))
    count = d.r.randint(1, 3)
    indices = np.stack([d.np.integers(0, s, count) for s in shape[:depth]], -1).astype(np.int64)
    if d.r.random() < 0.5:
        d.node("GatherND", [d.input(d.floats(*shape)), d.constant(indices)])
    else:
        d.opset = 18
        indices = np.unique(indices, axis=0)
        updates = d.floats(*([len(indices)] + shape[depth:]))
        d.node("ScatterND", [d.input(d.floats(*shape)), d.constant(indices), d.input(updates)],
               reduction=d.r.choice(["none", "add", "mul", "max", "min"]))


def arg(d):
    shape = d.shape()
    d.node(d.r.choice(["ArgMax", "ArgMin"]), [d.input(np.round(d.floats(*shape)))], axis=d.axis(len(shape)),
           keepdims=d.r.randint(0, 1), select_last_index=d.r.randint(0, 1))


def top_k(d):
    shape = d.shape(low=2)
    axis = d.axis(len(shape))
    d.node("TopK", [d.input(d.floats(*shape)), d.ints([d.r.randint(1, shape[axis])])], outputs=2, axis=axis,
           largest=d.r.randint(0, 1))


def cumulative(d):
    shape = d.shape()
    d.node("CumSum", [d.input(d.floats(*shape)), d.constant(np.int64(d.axis(len(shape))))], exclusive=d.r.randint(0, 1),
           reverse=d.r.randint(0, 1))


def one_hot(d):
    shape = d.shape(rank=d.r.randint(1, 3))
    indices = d.np.integers(-4, 6, shape).astype(np.int64)
    d.node("OneHot", [d.input(indices), d.constant(np.int64(4)), d.constant(np.array([-1, 2], F32))], axis=d.axis(len(shape) + 1))


def reduce(d):
    shape = d.shape()
    op = d.r.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                     "ReduceLogSumExp"])
    axes = d.maybe(lambda: d.axes(len(shape)), 0.8)
    keep = d.maybe(lambda: d.r.randint(0, 1))
    x = d.input(d.floats(*shape))
    if op == "ReduceSum" or d.opset >= 18:
        d.node(op, [x] + ([d.ints(axes)] if axes else []), keepdims=keep,
               noop_with_empty_axes=d.maybe(lambda: 1, 0.2))
    else:
        d.node(op, [x], axes=axes, keepdims=keep)


def matmul(d):
    n, k, m = d.shape(3)
    batch = d.shape(rank=d.r.randint(0, 2), high=3)
    a = d.floats(*(d.broadcastable(batch) + [n, k])) if d.r.random() < 0.8 else d.floats(k)
    b = d.floats(*(batch + [k, m])) if d.r.random() < 0.8 else d.floats(k)
    d.node("MatMul", [d.input(a), d.input(b)])


def gemm(d):
    n, k, m = d.shape(3)
    ta, tb = d.r.randint(0, 1), d.r.randint(0, 1)
    names = [d.input(d.floats(*((k, n) if ta else (n, k)))), d.constant(d.floats(*((m, k) if tb else (k, m))))]
    if d.r.random() < 0.7:
        names.append(d.constant(d.floats(*d.r.choice([[m], [1, m], [n, 1], [n, m], [1]]))))
    d.node("Gemm", names, transA=ta, transB=tb, alpha=d.maybe(lambda: 0.5), beta=d.maybe(lambda: 2.0))


def window(d, spatial, transposed=False):
    kernel = [d.r.randint(1, 3) for _ in range(spatial)]
    strides = d.maybe(lambda: [d.r.randint(1, 3) for _ in range(spatial)])
    dilations = d.maybe(lambda: [d.r.randint(1, 2) for _ in range(spatial)], 0.3)
    auto = d.r.choice(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if transposed:
        auto = "NOTSET"
    pads = None
    if auto == "NOTSET":
        pads = d.maybe(lambda: [d.r.randint(0, k - 1) for k in kernel] + [d.r.randint(0, k - 1) for k in kernel], 0.6)
    elif auto != "VALID" and dilations:
        dilations = None
    return kernel, dict(strides=strides, dilations=dilations, auto_pad=auto, pads=pads)


def conv(d):
    spatial = d.r.choice([1, 2, 2, 2, 3])
    kernel, attributes = window(d, spatial)
    groups = d.r.choice([1, 1, 2, 3])
    high = 2 if d.r.random() < 0.8 else 12  # wide ones meet other kernels
    channels, out = groups * d.r.randint(1, high), groups * d.r.randint(1, high)
    if d.r.random() < 0.15:
        groups = out = channels  # depthwise
    x = d.floats(d.r.randint(1, 2), channels, *d.shape(spatial, low=5, high=8 + high))
    names = [d.input(x), d.constant(d.floats(out, channels // groups, *kernel, scale=0.5))]
    if d.r.random() < 0.5:
        names.append(d.constant(d.floats(out)))
    d.node("Conv", names, group=groups, kernel_shape=d.maybe(lambda: kernel), **attributes)


def conv_transpose(d):
    spatial = d.r.choice([1, 2, 2, 2, 3])
    kernel, attributes = window(d, spatial, transposed=True)
    groups = d.r.choice([1, 1, 2])
    channels, out = groups * d.r.randint(1, 2), d.r.randint(1, 3)
    x = d.floats(d.r.randint(1, 2), channels, *d.shape(spatial, low=3, high=5))
    names = [d.input(x), d.constant(d.floats(channels, out, *kernel, scale=0.5))]
    if d.r.random() < 0.5:
        names.append(d.constant(d.floats(out * groups)))
    strides = attributes["strides"] or [1] * spatial
    extra = d.maybe(lambda: [d.r.randint(0, s - 1) for s in strides], 0.4)
    d.node("ConvTranspose", names, group=groups, kernel_shape=d.maybe(lambda: kernel), output_padding=extra, **attributes)


def pool(d):
    spatial = d.r.choice([1, 2, 2, 3])
    kernel, attributes = window(d, spatial)
    op = d.r.choice(["MaxPool", "AveragePool", "LpPool"])
    d.opset = 17 if op == "LpPool" else 19
    if op == "LpPool":
        attributes["dilations"] = None
        attributes["p"] = d.r.randint(1, 3)
    elif attributes["auto_pad"] == "NOTSET":
        attributes["ceil_mode"] = d.maybe(lambda: 1, 0.3)
    if op == "AveragePool":
        attributes["count_include_pad"] = d.maybe(lambda: 1)
    if attributes["auto_pad"].startswith("SAME") and attributes["strides"]:  # onnxruntime crops where a window is smaller
        attributes["strides"] = [min(pair) for pair in zip(kernel, attributes["strides"])]
    x = d.floats(d.r.randint(1, 2), d.r.randint(1, 3), *d.shape(spatial, low=5, high=8))
    d.node(op, [d.input(x)], outputs=2 if op == "MaxPool" and d.r.random() < 0.3 else 1, kernel_shape=kernel, **attributes)


def global_pool(d):
    x = d.floats(2, d.r.randint(1, 3), *d.shape(d.r.randint(1, 3)))
    d.node(d.r.choice(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"]), [d.input(x)])


def norm(d):
    c = d.r.choice([2, 4, 6])
    x = d.input(d.floats(d.r.randint(1, 3), c, *d.shape(d.r.randint(1, 3), low=2)))
    shape = d.inputs[x].shape
    epsilon = d.maybe(lambda: d.r.choice([1e-3, 1e-2]))
    vector = lambda: d.constant(d.floats(c))
    op = d.r.choice(["BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "LRN",
                     "LpNormalization", "MeanVarianceNormalization"])
    if op == "BatchNormalization":
        d.node(op, [x, vector(), vector(), vector(), d.constant(np.abs(d.floats(c)) + F32(0.1))], epsilon=epsilon)
    elif op == "InstanceNormalization":
        d.node(op, [x, vector(), vector()], epsilon=epsilon)
    elif op == "GroupNormalization":
        d.opset = 21
        d.node(op, [x, vector(), vector()], epsilon=epsilon, num_groups=d.r.choice([1, 2, c]))
    elif op == "LayerNormalization":
        d.opset = 17
        axis = d.axis(len(shape))
        names = [x, d.constant(d.floats(*shape[axis % len(shape):]))]
        if d.r.random() < 0.6:
            names.append(d.constant(d.floats(*shape[axis % len(shape):])))
        d.node(op, names, axis=axis, epsilon=epsilon)
    elif op == "LRN":
        d.node(op, [x], size=d.r.choice([1, 3, 5]), alpha=d.maybe(lambda: 0.1), beta=d.maybe(lambda: 0.5), bias=d.maybe(lambda: 2.0))
    elif op == "LpNormalization":
        d.node(op, [x], axis=d.axis(len(shape)), p=d.r.randint(1, 2))
    else:
        d.node(op, [x], axes=sorted({1} | {a % len(shape) for a in d.axes(len(shape))}))


def loss(d):
    c = d.r.randint(2, 5)
    rest = d.shape(d.r.randint(0, 2), high=3)
    n = d.r.randint(1, 4)
    ignore = d.maybe(lambda: d.r.randint(0, c - 1), 0.4)
    scores = d.floats(n, c, *rest)
    names = [d.input(scores), d.input(d.np.integers(0, c, [n] + rest).astype(np.int64))]
    if d.r.random() < 0.5:
        names.append(d.constant(np.abs(d.floats(c)) + F32(0.1)))
    reduction = d.r.choice(["none", "sum", "mean"])
    if d.r.random() < 0.5:
        d.node("NegativeLogLikelihoodLoss", names, reduction=reduction, ignore_index=ignore)
    else:
        d.node("SoftmaxCrossEntropyLoss", names, outputs=d.r.randint(1, 2), reduction=reduction, ignore_index=ignore)


def recurrent(d):
    op, gates = d.r.choice([("RNN", 1), ("GRU", 3), ("LSTM", 4)])
    direction = d.r.choice(["forward", "reverse", "bidirectional"])
    dirs = 2 if direction == "bidirectional" else 1
    time, batch, size, units = d.shape(4, high=4)
    c = lambda *s: d.constant(d.floats(*s, scale=0.7))
    names = [d.input(d.floats(time, batch, size)), c(dirs, gates * units, size), c(dirs, gates * units, units)]
    names.append(c(dirs, 2 * gates * units) if d.r.random() < 0.7 else "")
    names.append(d.constant(d.np.integers(1, time + 1, batch).astype(np.int32)) if d.r.random() < 0.4 else "")
    names.append(c(dirs, batch, units) if d.r.random() < 0.5 else "")
    attributes = dict(hidden_size=units, direction=direction, clip=d.maybe(lambda: 0.5, 0.2))
    if op == "LSTM":
        names.append(c(dirs, batch, units) if names[-1] else "")
        names.append(c(dirs, 3 * units) if d.r.random() < 0.3 else "")
    if op == "GRU":
        attributes["linear_before_reset"] = d.r.randint(0, 1)
    if d.r.random() < 0.3:
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op] * dirs
        attributes["activations"] = [d.r.choice(["Tanh", "Sigmoid", "Relu", "Softsign", "HardSigmoid"]) for _ in range(count)]
    d.opset = d.r.choice([7, 14])
    d.node(op, names, outputs=3 if op == "LSTM" else 2, **attributes)


def einsum(d):
    i, j, k, b = d.shape(4)
    equation, shapes = d.r.choice([
        ("ij,jk->ik", [(i, j), (j, k)]), ("bij,bjk->bik", [(b, i, j), (b, j, k)]), ("ij->ji", [(i, j)]), ("ij->", [(i, j)]),
        ("i,j->ij", [(i,), (j,)]), ("...ij,...jk->...ik", [(b, i, j), (b, j, k)]), ("bij,bij->b", [(b, i, j), (b, i, j)]),
        ("ij,jk,kb->ib", [(i, j), (j, k), (k, b)]), ("ij,jk", [(i, j), (j, k)])])
    d.node("Einsum", [d.input(d.floats(*s)) for s in shapes], equation=equation)


def attention(d):
    d.opset = d.r.choice([23, 24])
    batch, heads, time, keys, width = d.shape(5, high=4)
    shared = d.r.choice([h for h in range(1, heads + 1) if heads % h == 0])
    value = d.r.randint(1, 4)
    flat = d.r.random() < 0.4
    past = d.r.randint(1, 3) if d.r.random() < 0.3 else 0
    attributes = dict(is_causal=d.maybe(lambda: 1, 0.4), scale=d.maybe(lambda: 0.4, 0.3), softcap=d.maybe(lambda: 1.5, 0.2))
    if flat:
        attributes.update(q_num_heads=heads, kv_num_heads=shared)
        q, k, v = (batch, time, heads * width), (batch, keys, shared * width), (batch, keys, shared * value)
    else:
        q, k, v = (batch, heads, time, width), (batch, shared, keys, width), (batch, shared, keys, value)
    names = [d.input(d.floats(*q)), d.input(d.floats(*k)), d.input(d.floats(*v))]
    if past and attributes["is_causal"] and keys != time:  # onnxruntime aligns to the last key, ONNX's reference to the cache
        attributes["is_causal"] = None
    total = keys + past
    kind = d.r.choice(["", "bool", "float"])
    shape = d.r.choice([[time, total], [1, 1, time, total], [batch, heads, time, total], [batch, 1, time, total]])
    if kind == "bool":
        mask = d.np.random(shape) < 0.7
        mask[..., 0] = True
        names.append(d.input(mask))
    elif kind == "float":
        names.append(d.input(d.floats(*shape)))
    elif past:
        names.append("")
    if past:
        names += [d.input(d.floats(batch, shared, past, width)), d.input(d.floats(batch, shared, past, value))]
    d.node("Attention", names, outputs=3 if past else 1, **attributes)


def rms_rotary(d):
    d.opset = 23
    if d.r.random() < 0.5:
        shape = d.shape(low=2)
        axis = d.axis(len(shape))
        d.node("RMSNormalization", [d.input(d.floats(*shape)), d.constant(d.floats(*shape[axis % len(shape):]))], axis=axis,
               epsilon=d.maybe(lambda: 1e-2))
        return
    batch, heads, time = d.shape(3)
    width = d.r.choice([4, 8])
    rotary = d.maybe(lambda: width // 2, 0.3)
    shape = (batch, heads, time, width) if d.r.random() < 0.5 else (batch, time, heads * width)
    names = [d.input(d.floats(*shape))]
    half = (rotary or width) // 2
    if d.r.random() < 0.5:
        names += [d.input(d.floats(9, half)), d.input(d.floats(9, half)), d.input(d.np.integers(0, 9, (batch, time)).astype(np.int64))]
    else:
        names += [d.input(d.floats(batch, time, half)), d.input(d.floats(batch, time, half))]
    d.node("RotaryEmbedding", names, interleaved=d.maybe(lambda: 1), rotary_embedding_dim=rotary,
           num_heads=heads if len(shape) == 3 else None)


def gelu(d):
    d.opset = 20
    d.node("Gelu", [d.input(d.floats(*d.shape()))], approximate=d.maybe(lambda: d.r.choice(["none", "tanh"])))


def depth_space(d):
    block = d.r.randint(1, 3)
    n, c, h, w = d.shape(4, high=3)
    if d.r.random() < 0.5:
        d.node("DepthToSpace", [d.input(d.floats(n, c * block * block, h, w))], blocksize=block, mode=d.r.choice(["DCR", "CRD"]))
    else:
        d.node("SpaceToDepth", [d.input(d.floats(n, c, h * block, w * block))], blocksize=block)


def shapes(d):
    """Shapes that are computed in the model."""
    x = d.input(d.floats(*d.shape(rank=3)))
    s = d.node("Shape", [x])[0]
    last = d.node("Gather", [s, d.constant(np.array([2], np.int64))])[0]
    rest = d.node("Concat", [last, d.ints([-1])], axis=0)[0]
    y = d.node("Reshape", [x, rest])[0]
    op = d.r.choice(["ConstantOfShape", "Expand", "Range", "Trilu", "EyeLike"])
    if op == "ConstantOfShape":
        d.node(op, [d.node("Shape", [y])[0]])
    elif op == "Expand":
        one = d.node("Concat", [d.ints([d.r.randint(1, 3)]), d.node("Shape", [y])[0]], axis=0)[0]
        d.node(op, [y, one])
    elif op == "Range":
        n = d.node("Squeeze", [last])[0]
        d.node(op, [d.constant(np.int64(0)), n, d.constant(np.int64(1))])
    else:
        d.opset = 17
        if op == "Trilu":
            d.node(op, [y, d.constant(np.array(d.r.randint(-2, 2), np.int64))], upper=d.r.randint(0, 1))
        else:
            d.node(op, [y], k=d.r.randint(-1, 2))


def variadic(d):
    shape = d.shape()
    names = [d.input(d.floats(*shape))] + [d.input(d.floats(*d.broadcastable(shape))) for _ in range(d.r.randint(0, 2))]
    d.node(d.r.choice(["Sum", "Mean", "Max", "Min"]), names)


def logic(d):
    shape = d.shape()
    a, b = d.np.random(shape) < 0.5, d.np.random(d.broadcastable(shape)) < 0.5
    op = d.r.choice(["And", "Or", "Xor", "Not"])
    d.node(op, [d.input(a)] if op == "Not" else [d.input(a), d.input(b)])


def sequences(d):
    time, batch = d.r.randint(2, 5), d.r.randint(1, 4)
    first = d.r.randint(0, 1)
    shape = [time, batch] if first == 0 else [batch, time]
    lengths = d.np.integers(1, time + 1, batch).astype(np.int64)
    d.node("ReverseSequence", [d.input(d.floats(*shape, *d.shape(1))), d.constant(lengths)], time_axis=first, batch_axis=1 - first)


def chosen(d):
    shape = d.shape()
    x = np.where(d.np.random(shape) < 0.5, 0, d.floats(*shape)).astype(F32)
    if d.r.random() < 0.5:
        d.node("NonZero", [d.input(x)])
    else:
        axis = d.axis(len(shape))
        d.node("Compress", [d.input(x), d.constant(d.np.random(shape[axis]) < 0.6)], axis=axis)


def training_norm(d):
    c = d.r.randint(1, 4)
    x = d.floats(d.r.randint(2, 4), c, *d.shape(d.r.randint(1, 2), low=2))
    d.opset = 15
    d.node("BatchNormalization", [d.input(x)] + [d.constant(d.floats(c)) for _ in range(3)] + [d.constant(np.abs(d.floats(c)))],
           outputs=3, training_mode=1, momentum=d.maybe(lambda: 0.7))


def double(d):
    """float64 through the operators that onnxruntime has it for."""
    x = (d.np.standard_normal(d.shape(2, low=2)) * 2).astype(np.float64)
    op = d.r.choice(["MatMul", "Softmax", "ReduceMean", "Relu", "Sigmoid", "Tanh", "Gemm", "Exp"])
    if op in ("MatMul", "Gemm"):
        d.node(op, [d.input(x), d.input(d.np.standard_normal((x.shape[1], 3)))])
    else:
        d.node(op, [d.input(x)])


def resize(d):
    d.opset = d.r.choice([11, 13, 18, 19])
    shape = d.shape(2, high=2) + d.shape(2, low=2, high=6)
    mode = d.r.choice(["nearest", "linear", "cubic"])
    coordinates = d.r.choice(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
    names = [d.input(d.floats(*shape)), ""]
    if d.r.random() < 0.5 and coordinates != "align_corners":  # whose corners onnxruntime takes from the size, not the scale
        names.append(d.constant(np.array([1, 1] + [d.r.choice([0.5, 2, 3, 1.5]) for _ in range(2)], F32)))
    else:
        names += ["", d.ints(shape[:2] + [d.r.randint(1, 8) for _ in range(2)])]
    d.node("Resize", names, mode=mode, coordinate_transformation_mode=coordinates,
           nearest_mode=d.maybe(lambda: d.r.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])),
           exclude_outside=d.maybe(lambda: 1, 0.2) if mode == "cubic" else None,
           cubic_coeff_a=d.maybe(lambda: -0.5, 0.3) if mode == "cubic" else None)


def network(d):
    """A small chain: convolution, normalisation, activation, pool, product."""
    c, size = d.r.randint(1, 3), d.r.randint(6, 9)
    out = d.r.randint(2, 4)
    y = d.node("Conv", [d.input(d.floats(2, c, size, size)), d.constant(d.floats(out, c, 3, 3, scale=0.4)),
                        d.constant(d.floats(out))], pads=[1] * 4)[0]
    if d.r.random() < 0.5:
        y = d.node("BatchNormalization", [y, d.constant(d.floats(out)), d.constant(d.floats(out)), d.constant(d.floats(out)),
                                          d.constant(np.abs(d.floats(out)) + F32(0.1))])[0]
    y = d.node(d.r.choice(["Relu", "Tanh", "LeakyRelu", "Sigmoid"]), [y])[0]
    y = d.node(d.r.choice(["MaxPool", "AveragePool"]), [y], kernel_shape=[2, 2], strides=[2, 2])[0]
    y = d.node("Flatten", [y])[0]
    y = d.node("Gemm", [y, d.constant(d.floats(3, out * (size // 2) ** 2, scale=0.2)), d.constant(d.floats(3))], transB=1)[0]
    d.node(d.r.choice(["Softmax", "LogSoftmax", "Identity"]), [y])


GENERATORS = [binary, binary, power, modulo, unary, unary, unary_positive, unary_unit, activation, prelu, softmax, clip, where, cast,
              reshape, transpose, squeezes, concat, split, slices, slices, pad, tile_expand, gather, gather_elements, gather_nd, arg,
              top_k, cumulative, one_hot, reduce, reduce, matmul, gemm, conv, conv, conv, conv_transpose, conv_transpose, pool, pool,
              pool, global_pool, norm, norm, loss, recurrent, recurrent, einsum, network, attention, attention, rms_rotary, gelu, depth_space, shapes, shapes, variadic, logic,
              sequences, chosen, training_norm, double, resize]


def build(seed, folder):
    """Writes the case of `seed`; None when onnxruntime refuses it."""
    d = Draw(seed)
    generator = d.r.choice(GENERATORS)
    generator(d)
    info = lambda k, v: helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
    outputs = [o for o in d.nodes[-1].output]
    graph = helper.make_graph(d.nodes, "fuzz", [info(k, v) for k, v in d.inputs.items()],
                              [onnx.ValueInfoProto(name=o) for o in outputs],
                              [numpy_helper.from_array(v, k) for k, v in d.constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", d.opset)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(outputs, d.inputs)
    except Exception as error:  # a draw that ONNX does not allow, or a kernel that onnxruntime lacks
        return d.nodes[-1].op_type, str(error)
    case = folder / f"{seed}_{d.nodes[-1].op_type if generator is not network else 'network'}"
    data = case / "test_data_set_0"
    data.mkdir(parents=True)
    (case / "model.onnx").write_bytes(model.SerializeToString())
    for kind, arrays in (("input", d.inputs.values()), ("output", results)):
        for i, array in enumerate(arrays):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())
    return None


def imports_open(rivulet, case, target):
    """What `model import` says of the case with the first axis of every input open; "" where it takes it."""
    model = onnx.load(str(pathlib.Path(case) / "model.onnx"))
    given = {weight.name for weight in model.graph.initializer}
    command = [rivulet, "model", "import", str(pathlib.Path(case) / "model.onnx"), "--out", str(target), "--json"]
    for value in model.graph.input:
        dims = [str(dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        if value.name not in given and dims:
            command += ["--shape", f"{value.name}={','.join(['?', *dims[1:]])}"]
    run = subprocess.run(command, capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivulet", required=True)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--portable", action="store_true", help="portable kernels only")
    parser.add_argument("--open-batch", action="store_true", help="import with open batches, and ask model import for the same")
    parser.add_argument("--keep", help="folder for the cases that disagree")
    arguments = parser.parse_args()
    counts, refused, disagreements = collections.Counter(), collections.Counter(), []
    opened = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for i in range(arguments.cases):
            failure = build(arguments.seed * 1_000_000 + i, folder)
            if failure:
                refused[failure[0]] += 1
        cases = sorted(str(p) for p in folder.iterdir())
        for i in range(0, len(cases), 200):
            command = [arguments.rivulet, "model", "check", "--json", "--atol", "1e-5"]
            command += (["--portable"] if arguments.portable else []) + (["--open-batch"] if arguments.open_batch else []) + cases[i : i + 200]
            run = subprocess.run(command, capture_output=True, text=True)
            lines = run.stdout.splitlines()
            if run.returncode not in (0, 1) or len(lines) != len(cases[i : i + 200]):
                sys.exit(f"rivulet ended with {run.returncode} after {lines[-1:]}: {run.stderr[-500:]}")
            for line in lines:
                report = json.loads(line)
                name = pathlib.Path(report["case"]).name
                counts[name.split("_", 1)[1]] += 1
                if report["open_batch"]:
                    opened += 1
                    said = imports_open(arguments.rivulet, report["case"], folder.parent / f"{folder.name}.out")
                    if said:
                        disagreements.append((name, f"an open batch is reported, and model import says: {said}"))
                if not report["passed"] and "no portable kernel" not in report["message"]:
                    disagreements.append((name, report["message"]))
                    if arguments.keep:
                        shutil.copytree(report["case"], pathlib.Path(arguments.keep) / name, dirs_exist_ok=True)
    print(f"seed {arguments.seed}: {sum(counts.values())} models of {len(counts)} operators run, "
          f"{sum(refused.values())} draws refused by onnxruntime, {len(disagreements)} disagreements"
          + (f", {opened} with an open batch" if arguments.open_batch else ""))
    for name, message in disagreements:
        print(f"  {name}: {message}")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
