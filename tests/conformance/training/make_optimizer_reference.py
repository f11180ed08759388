"""Writes optimizer_reference.json: what TensorFlow's ResourceApply ops make of small variables in three steps, AdamW from PyTorch,
Yogi from its paper's equations in NumPy. Run with an interpreter that has TensorFlow, NumPy and PyTorch's result of AdamW:
  python make_optimizer_reference.py             (TensorFlow; writes the file without AdamW)
  python make_optimizer_reference.py --adamw     (PyTorch; adds AdamW)
"""
import json
import pathlib
import sys

import numpy as np

FILE = pathlib.Path(__file__).with_name("optimizer_reference.json")
STEPS = 3
LENGTH = 19  # a vector of sixteen and a rest


def start(dtype, slots):
    i = np.arange(LENGTH)
    variables = [np.sin(i * 0.7).astype(dtype)]
    for k in range(slots):
        variables.append((0.1 + 0.05 * ((i + 3 * k) % 7)).astype(dtype))
    return variables


def gradients(dtype):
    i = np.arange(LENGTH)
    return [(np.cos(i * 1.3 + step) * 10.0 ** -(i % 4)).astype(dtype) for step in range(STEPS)]


def powers(step):
    return [0.9 ** (step + 1), 0.999 ** (step + 1)]


# op, slots, scalars of step s, attributes
ADAM = [0.01, 0.9, 0.999, 1e-8]
TENSORFLOW = [
    ("ResourceApplyGradientDescent", 0, lambda s: [0.1], {}),
    ("ResourceApplyMomentum", 1, lambda s: [0.1, 0.9], {"use_nesterov": False}),
    ("ResourceApplyMomentum", 1, lambda s: [0.1, 0.9], {"use_nesterov": True}),
    ("ResourceApplyAdagrad", 1, lambda s: [0.1], {"update_slots": True}),
    ("ResourceApplyAdagrad", 1, lambda s: [0.1], {"update_slots": False}),
    ("ResourceApplyAdagradV2", 1, lambda s: [0.1, 1e-3], {"update_slots": True}),
    ("ResourceApplyAdagradV2", 1, lambda s: [0.1, 1e-3], {"update_slots": False}),
    ("ResourceApplyAdadelta", 2, lambda s: [1.0, 0.9, 1e-6], {}),
    ("ResourceApplyRMSProp", 2, lambda s: [0.01, 0.9, 0.5, 1e-7], {}),
    ("ResourceApplyCenteredRMSProp", 3, lambda s: [0.01, 0.9, 0.5, 1.0], {}),
    ("ResourceApplyAdam", 2, lambda s: powers(s) + ADAM, {"use_nesterov": False}),
    ("ResourceApplyAdam", 2, lambda s: powers(s) + ADAM, {"use_nesterov": True}),
]
# Names of TensorFlow's arguments after the resources; the gradient is named grad (delta for plain descent).
ARGUMENTS = {
    "ResourceApplyGradientDescent": (["var"], ["alpha"], "delta"),
    "ResourceApplyMomentum": (["var", "accum"], ["lr", "momentum"], "grad"),
    "ResourceApplyAdagrad": (["var", "accum"], ["lr"], "grad"),
    "ResourceApplyAdagradV2": (["var", "accum"], ["lr", "epsilon"], "grad"),
    "ResourceApplyAdadelta": (["var", "accum", "accum_update"], ["lr", "rho", "epsilon"], "grad"),
    "ResourceApplyRMSProp": (["var", "ms", "mom"], ["lr", "rho", "momentum", "epsilon"], "grad"),
    "ResourceApplyCenteredRMSProp": (["var", "mg", "ms", "mom"], ["lr", "rho", "momentum", "epsilon"], "grad"),
    "ResourceApplyAdam": (["var", "m", "v"], ["beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"], "grad"),
}


def case(op, dtype, attrs, variables, scalars, after):
    name = op + "".join(f"_{key}" for key, value in attrs.items() if value) + "_" + np.dtype(dtype).name
    lists = lambda arrays: [[float(x) for x in array] for array in arrays]
    return {"name": name, "op": op, "dtype": np.dtype(dtype).name, "attrs": attrs, "variables": lists(variables), "scalars": scalars,
            "gradients": lists(gradients(dtype)), "after": lists(after)}


def from_tensorflow():
    import tensorflow as tf
    cases = []
    for op, slots, scalars, attrs in TENSORFLOW:
        for dtype in (np.float32, np.float64):
            before = start(dtype, slots)
            variables = [tf.Variable(value) for value in before]
            names, scalar_names, gradient_name = ARGUMENTS[op]
            for step, gradient in enumerate(gradients(dtype)):
                arguments = {name: variable.handle for name, variable in zip(names, variables)}
                arguments |= {name: tf.constant(value, dtype) for name, value in zip(scalar_names, scalars(step))}
                arguments[gradient_name] = tf.constant(gradient)
                getattr(tf.raw_ops, op)(**arguments, **attrs)
            cases.append(case(op, dtype, attrs, before, [scalars(s) for s in range(STEPS)], [v.numpy() for v in variables]))
    return cases


def yogi():
    cases = []
    for dtype in (np.float32, np.float64):
        before = start(dtype, 2)
        w, m, v = (x.astype(np.float64) for x in before)
        for step, g in enumerate(gradients(dtype)):
            g = g.astype(np.float64)
            b1, b2 = powers(step)
            m = 0.9 * m + 0.1 * g
            v = v - (1 - 0.999) * np.sign(v - g * g) * g * g
            w = w - 0.01 * np.sqrt(1 - b2) / (1 - b1) * m / (np.sqrt(v) + 1e-3)
        cases.append(case("ResourceApplyYogi", dtype, {}, before, [powers(s) + [0.01, 0.9, 0.999, 1e-3] for s in range(STEPS)], [w, m, v]))
    return cases


def adamw():
    import torch
    cases = []
    for dtype in (np.float32, np.float64):
        before = start(dtype, 0) + [np.zeros(LENGTH, dtype)] * 2
        w = torch.nn.Parameter(torch.from_numpy(before[0].copy()))
        optimizer = torch.optim.AdamW([w], lr=0.01, weight_decay=0.1, eps=1e-8)
        scalars = []
        for step, gradient in enumerate(gradients(dtype)):
            w.grad = torch.from_numpy(gradient)
            optimizer.step()
            # PyTorch's epsilon is added after the correction of v, this op's before it.
            b1, b2 = powers(step)
            scalars.append([b1, b2, 0.01, 0.9, 0.999, 1e-8 * (1 - b2) ** 0.5, 0.1])
        state = optimizer.state[w]
        after = [w.detach().numpy(), state["exp_avg"].numpy(), state["exp_avg_sq"].numpy()]
        cases.append(case("ResourceApplyAdamW", dtype, {}, before, scalars, after))
    return cases


def main():
    if "--adamw" in sys.argv:
        cases = [c for c in json.loads(FILE.read_text()) if c["op"] != "ResourceApplyAdamW"] + adamw()
    else:
        cases = from_tensorflow() + yogi()
    FILE.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
