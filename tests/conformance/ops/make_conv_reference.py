"""Writes conv_reference.json: convolutions and pools, values and gradients, as PyTorch computes them in float64.

Run by hand (python3 make_conv_reference.py) when a case is added; needs PyTorch (1.13 wrote the file) and NumPy. Layouts
are TensorFlow's: images NHWC or NCHW, filters [height, width, in / groups, out] or [height, width, in, multiplier].
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(20260202)
cases = []


def tensor(value, dtype, constant=False):
    value = np.asarray(value)
    flat = value.reshape(-1).tolist()
    if dtype in ("float32", "float64"):
        digits = 9 if dtype == "float32" else 17
        flat = [float(f"{x:.{digits}g}") for x in flat]
    entry = {"dtype": dtype, "shape": list(value.shape), "values": flat}
    if constant:
        entry["constant"] = True
    return entry


def floats(*shape):
    """Short decimals that float32 and float64 read alike when rounded, and that differ from each other."""
    values = rng.permutation(np.prod(shape, dtype=int)) - np.prod(shape, dtype=int) // 2
    return torch.tensor((values / 64.0).reshape(shape), dtype=torch.float64)


def first(x, nchw):
    """Channels first, as PyTorch has them."""
    return x if nchw else x.permute(0, 3, 1, 2)


def last(x, nchw):
    return x if nchw else x.permute(0, 2, 3, 1)


def paddings(padding, size, window, stride, dilation, amounts):
    if padding == "EXPLICIT":
        return amounts
    if padding == "VALID":
        return 0, 0
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + (window - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def by_axis(pair, nchw):
    return [1, 1, *pair] if nchw else [1, *pair, 1]


def window_attrs(padding, strides, dilations, amounts, nchw):
    attrs = {"strides": by_axis(strides, nchw), "padding": padding, "data_format": "NCHW" if nchw else "NHWC"}
    if dilations is not None:
        attrs["dilations"] = by_axis(dilations, nchw)
    if padding == "EXPLICIT":
        flat = [*amounts[0], *amounts[1]]
        attrs["explicit_paddings"] = [0, 0, 0, 0, *flat] if nchw else [0, 0, *flat, 0, 0]
    return attrs


def case(name, op, attrs, inputs, outputs, dtype, output_gradients=None, input_gradients=None, rtol=None):
    """Inputs are float tensors, or lists of constants; gradients None where there is none."""
    entry = {"name": name, "op": op, "attrs": attrs,
             "inputs": [tensor(x, "int32", True) if isinstance(x, list) else tensor(x.detach().numpy(), dtype) for x in inputs],
             "outputs": [tensor(y.detach().numpy(), dtype) for y in outputs]}
    if output_gradients is not None:
        entry["output_gradients"] = [tensor(g.numpy(), dtype) for g in output_gradients]
        entry["input_gradients"] = [None if g is None else tensor(g.numpy(), dtype) for g in input_gradients]
    if rtol is not None:
        entry["rtol"] = rtol
    cases.append(entry)


def convolve(x, w, padding, strides, dilations, amounts, nchw, depthwise):
    """x and w in our layouts, the result too."""
    pads = [paddings(padding, x.shape[axis], w.shape[i], strides[i], dilations[i], amounts[i])
            for i, axis in enumerate((2, 3) if nchw else (1, 2))]
    images = F.pad(first(x, nchw), [*pads[1], *pads[0]])
    channels = images.shape[1]
    if depthwise:
        w = w.reshape(*w.shape[:2], 1, -1)
    y = F.conv2d(images, w.permute(3, 2, 0, 1), stride=strides, dilation=dilations, groups=channels // w.shape[2])
    return last(y, nchw)


def convolution(name, image, filters, padding, strides, dilations=(1, 1), amounts=((0, 0), (0, 0)), nchw=False,
                depthwise=False, dtype="float32"):
    """The convolution with both its gradients, and each of those as an op with its own gradients."""
    batch, height, width, channels = image
    shape = (batch, channels, height, width) if nchw else image
    x, w = floats(*shape).requires_grad_(), floats(*filters).requires_grad_()
    attrs = window_attrs(padding, strides, dilations, amounts, nchw)
    family = "DepthwiseConv2dNative" if depthwise else "Conv2D"
    y = convolve(x, w, padding, strides, dilations, amounts, nchw, depthwise)
    dy = floats(*y.shape).requires_grad_()
    dx, dw = torch.autograd.grad(y, (x, w), dy, create_graph=True)
    case(name, family, attrs, [x, w], [y], dtype, [dy.detach()], [dx.detach(), dw.detach()])
    ddx = floats(*x.shape)
    from_dx = torch.autograd.grad(dx, (w, dy), ddx, retain_graph=True)
    case(name + "_input", family + "BackpropInput", attrs, [list(x.shape), w, dy], [dx], dtype, [ddx], [None, *from_dx])
    ddw = floats(*w.shape)
    from_dw = torch.autograd.grad(dw, (x, dy), ddw)
    case(name + "_filter", family + "BackpropFilter", attrs, [x, list(w.shape), dy], [dw], dtype, [ddw],
         [from_dw[0], None, from_dw[1]])


one, two = (1, 1), (2, 2)
uneven = ((1, 2), (0, 1))
convolution("Conv2D_groups", (2, 5, 4, 4), (3, 3, 2, 6), "SAME", one)
convolution("Conv2D_groups_NCHW", (2, 5, 4, 4), (3, 3, 2, 6), "SAME", two, nchw=True)
convolution("Conv2D_groups_dilated", (1, 6, 5, 6), (2, 2, 2, 3), "VALID", one, (2, 1), dtype="float64")
convolution("Conv2D_groups_explicit_NCHW", (1, 5, 5, 4), (3, 2, 1, 4), "EXPLICIT", (2, 1), one, uneven, nchw=True)
convolution("Conv2D_dilated_NCHW", (1, 7, 6, 3), (3, 3, 3, 2), "SAME", one, (2, 2), nchw=True)
convolution("Conv2D_explicit", (2, 5, 4, 2), (3, 2, 2, 3), "EXPLICIT", one, (1, 2), uneven, dtype="float64")
convolution("Conv2D_explicit_strided", (1, 8, 7, 2), (3, 3, 2, 3), "EXPLICIT", (3, 2), one, ((0, 1), (2, 1)))
convolution("Conv2D_valid_rest", (1, 8, 6, 2), (3, 2, 2, 3), "VALID", (3, 3))  # the last rows and columns meet no window
convolution("Depthwise_same", (2, 5, 6, 3), (3, 3, 3, 1), "SAME", one, depthwise=True)
convolution("Depthwise_same_strided", (1, 7, 6, 4), (3, 3, 4, 1), "SAME", two, depthwise=True)
convolution("Depthwise_multiplier", (1, 5, 4, 3), (3, 2, 3, 2), "VALID", one, depthwise=True)
convolution("Depthwise_multiplier_NCHW", (1, 6, 5, 2), (2, 3, 2, 3), "SAME", two, nchw=True, depthwise=True)
convolution("Depthwise_NCHW", (2, 5, 6, 3), (3, 3, 3, 1), "SAME", one, nchw=True, depthwise=True)
convolution("Depthwise_NCHW_strided", (1, 7, 8, 3), (3, 3, 3, 1), "VALID", two, nchw=True, depthwise=True)
convolution("Depthwise_dilated", (1, 6, 7, 2), (3, 2, 2, 1), "SAME", one, (2, 3), depthwise=True, dtype="float64")
convolution("Depthwise_explicit_NCHW", (1, 5, 4, 2), (3, 2, 2, 1), "EXPLICIT", (2, 1), one, uneven, nchw=True, depthwise=True)
convolution("Depthwise_explicit", (1, 5, 4, 2), (3, 2, 2, 2), "EXPLICIT", one, (1, 2), uneven, depthwise=True, dtype="float64")

for nchw in (False, True):
    for fused in (["BiasAdd"], ["BiasAdd", "Relu"], ["Relu"], ["BiasAdd", "Relu6"]):
        x, w, bias = floats(*((1, 2, 5, 4) if nchw else (1, 5, 4, 2))), floats(3, 2, 2, 4), floats(4)
        y = first(convolve(x, w, "SAME", one, one, ((0, 0), (0, 0)), nchw, False), nchw)
        if "BiasAdd" in fused:
            y = y + bias.reshape(1, -1, 1, 1)
        y = F.relu(y) if "Relu" in fused else F.relu6(y) if "Relu6" in fused else y
        attrs = window_attrs("SAME", one, one, None, nchw)
        attrs.update({"fused_ops": {"strings": fused}, "num_args": int("BiasAdd" in fused)})
        case(f"FusedConv2D_{'_'.join(fused)}{'_NCHW' * nchw}", "_FusedConv2D", attrs,
             [x, w, bias] if "BiasAdd" in fused else [x, w], [last(y, nchw)], "float32")

path = pathlib.Path(__file__).with_name("conv_reference.json")
with path.open("w") as out:
    out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(f"{len(cases)} cases, {path.stat().st_size} bytes")
