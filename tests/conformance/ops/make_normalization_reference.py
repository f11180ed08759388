#!/usr/bin/env python3
"""Writes normalization_reference.json: batch normalisation and an activation in one, and their gradient, as PyTorch computes
the two one after the other in float64. Run by hand when a case is added; needs PyTorch (2.15 wrote the file) and NumPy."""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(20261127)
cases = []
EPSILON = float(np.float32(0.001))  # the attribute is a float
ACTIVATIONS = {"Identity": lambda y: y, "Relu": F.relu, "Relu6": F.relu6}


def tensor(value, dtype):
    value = np.asarray(value)
    digits = 9 if dtype == "float32" else 17
    return {"dtype": dtype, "shape": list(value.shape),
            "values": [float(f"{x:.{digits}g}") for x in value.reshape(-1).tolist()]}


def case(op, name, dtype, attrs, inputs, outputs):
    cases.append({"name": f"{op}_{name}_{dtype}", "op": op, "attrs": attrs,
                  "inputs": [tensor(x, dtype) for x in inputs], "outputs": [tensor(y, dtype) for y in outputs]})


def batch_norm(activation, shape, data_format, dtype):
    channel = 1 if data_format == "NCHW" else len(shape) - 1
    axes = tuple(axis for axis in range(len(shape)) if axis != channel)
    per_channel = [-1 if axis == channel else 1 for axis in range(len(shape))]
    count = int(np.prod(shape)) // shape[channel]
    draw = lambda *sizes: torch.tensor(np.round(rng.uniform(-2, 2, sizes), 3), requires_grad=True)
    # Scales and offsets that put values below 0, between 0 and 6, and above 6.
    x, dy = draw(*shape), draw(*shape)
    scale, offset = draw(shape[channel]), draw(shape[channel])
    with torch.no_grad():
        scale *= 3
        offset += 2
    mean = x.mean(axes)
    variance = x.var(axes, unbiased=False)
    normal = (x - mean.reshape(per_channel)) / torch.sqrt(variance.reshape(per_channel) + EPSILON)
    y = ACTIVATIONS[activation](normal * scale.reshape(per_channel) + offset.reshape(per_channel))
    grads = torch.autograd.grad((y * dy.detach()).sum(), [x, scale, offset])
    attrs = {"activation_mode": activation, "data_format": data_format, "epsilon": EPSILON}
    name = f"{activation}_{data_format}_{len(shape)}"
    plain = lambda *tensors: [t.detach().numpy() for t in tensors]
    case("_FusedBatchNormEx", name, dtype, attrs, plain(x, scale, offset) + [np.zeros(0), np.zeros(0)],
         plain(y, mean, variance * count / (count - 1), mean, variance) + [np.zeros(0)])
    case("_FusedBatchNormGradEx", name, dtype, attrs,
         plain(dy, x, scale, mean, variance) + [np.zeros(0)] + plain(offset), plain(*grads) + [np.zeros(()), np.zeros(())])


def inference(activation, shape, dtype):
    x = np.round(rng.uniform(-2, 2, shape), 3)
    scale, offset = (np.round(rng.uniform(-6, 6, shape[-1]), 3) for _ in range(2))
    mean, variance = np.round(rng.uniform(-1, 1, shape[-1]), 3), np.round(rng.uniform(0.5, 2, shape[-1]), 3)
    y = F.batch_norm(torch.tensor(x.reshape(-1, shape[-1])), *map(torch.tensor, (mean, variance, scale, offset)), eps=EPSILON)
    case("_FusedBatchNormEx", f"{activation}_inference", dtype,
         {"activation_mode": activation, "epsilon": EPSILON, "is_training": False}, [x, scale, offset, mean, variance],
         [ACTIVATIONS[activation](y).numpy().reshape(shape), mean, variance, mean, variance, np.zeros(0)])


for dtype in ("float32", "float64"):
    for activation in ACTIVATIONS:
        batch_norm(activation, (2, 3, 4, 5), "NHWC", dtype)
    batch_norm("Relu6", (2, 5, 3, 4), "NCHW", dtype)
    batch_norm("Relu", (9, 17), "NHWC", dtype)
    for activation in ACTIVATIONS:
        inference(activation, (2, 3, 2, 4), dtype)

path = pathlib.Path(__file__).with_name("normalization_reference.json")
path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n", encoding="utf-8")
