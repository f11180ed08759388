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
    if "explicit_paddings" in attrs and op in ("AvgPool", "AvgPoolGrad", "MaxPoolGradGrad"):
        attrs = dict(attrs)  # TensorFlow's have none
        attrs["_explicit_paddings"] = attrs.pop("explicit_paddings")
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



def pool_attrs(size, padding, strides, dilations, amounts, nchw, ceil_mode, count_include_pad):
    attrs = window_attrs(padding, strides, None, amounts, nchw)
    attrs["ksize"] = by_axis(size, nchw)
    if dilations != (1, 1):
        attrs["_dilations"] = by_axis(dilations, nchw)
    if ceil_mode:
        attrs["_ceil_mode"] = True
    if count_include_pad:
        attrs["_count_include_pad"] = True
    return attrs


def pool(name, image, size, padding, strides, dilations=(1, 1), amounts=((0, 0), (0, 0)), nchw=False, ceil_mode=False,
         count_include_pad=False, dtype="float32", kinds=("MaxPool", "AvgPool")):
    """Pools of each kind with their gradients, and the gradients of those."""
    batch, height, width, channels = image
    shape = (batch, channels, height, width) if nchw else image
    attrs = pool_attrs(size, padding, strides, dilations, amounts, nchw, ceil_mode, count_include_pad)
    spatial = (2, 3) if nchw else (1, 2)
    pads = [paddings(padding, shape[axis], size[i], strides[i], dilations[i], amounts[i]) for i, axis in enumerate(spatial)]
    flat = [*pads[1], *pads[0]]
    symmetric = all(before == after for before, after in pads)
    for kind in kinds:
        x = floats(*shape).requires_grad_()
        images = first(x, nchw)
        if kind == "MaxPool":
            if ceil_mode:  # PyTorch's own, which knows equal paddings alone
                assert symmetric
                y = F.max_pool2d(images, size, strides, [p[0] for p in pads], dilations, ceil_mode=True)
            else:
                y = F.max_pool2d(F.pad(images, flat, value=-1e9), size, strides, 0, dilations)
        elif ceil_mode or count_include_pad:
            assert symmetric
            y = F.avg_pool2d(images, size, strides, [p[0] for p in pads], ceil_mode, count_include_pad)
        else:
            inside = F.avg_pool2d(F.pad(torch.ones_like(images), flat), size, strides)
            y = F.avg_pool2d(F.pad(images, flat), size, strides) / inside
        y = last(y, nchw)
        dy = floats(*y.shape).requires_grad_()
        (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
        case(f"{kind}_{name}", kind, attrs, [x], [y], dtype, [dy.detach()], [dx.detach()])
        ddx = floats(*x.shape)
        (picked,) = torch.autograd.grad(dx, dy, ddx)
        if kind == "AvgPool":
            case(f"AvgPool_{name}_grad", "AvgPoolGrad", attrs, [list(x.shape), dy], [dx], dtype, [ddx], [None, picked])
            continue
        inputs = [x, y, dy]
        case(f"MaxPool_{name}_grad", "MaxPoolGrad", attrs, inputs, [dx], dtype, [ddx], [None, None, picked])
        back = floats(*y.shape)
        (spread,) = torch.autograd.grad(y, x, back)
        case(f"MaxPool_{name}_gradgrad", "MaxPoolGradGrad", attrs, [x, y, ddx], [picked], dtype, [back], [None, None, spread])
        relu = F.relu(x.detach())
        largest = F.relu(y.detach())
        case(f"MaxPool_{name}_relu", "_MaxPoolReluGrad", attrs, [relu, largest, dy], [torch.where(x.detach() > 0, dx, 0.0)], dtype)


pool("same_NCHW", (2, 5, 7, 3), (3, 2), "SAME", (2, 1), nchw=True)
pool("valid", (2, 5, 6, 3), (2, 3), "VALID", (2, 2))
pool("tiles_NCHW", (1, 4, 6, 2), (2, 2), "VALID", (2, 2), nchw=True, dtype="float64")
pool("tiles", (1, 4, 6, 19), (2, 2), "VALID", (2, 2), kinds=("MaxPool",))
pool("explicit", (1, 5, 4, 3), (3, 2), "EXPLICIT", (2, 1), amounts=uneven, dtype="float64")
pool("explicit_NCHW", (1, 5, 4, 3), (3, 2), "EXPLICIT", (1, 2), amounts=uneven, nchw=True)
pool("ceil", (1, 6, 5, 2), (3, 2), "EXPLICIT", (2, 2), amounts=((1, 1), (0, 0)), ceil_mode=True)
pool("ceil_NCHW", (1, 6, 8, 2), (2, 3), "VALID", (3, 3), nchw=True, ceil_mode=True, dtype="float64")
pool("counted", (1, 5, 4, 2), (3, 2), "EXPLICIT", (1, 1), amounts=((1, 1), (1, 1)), count_include_pad=True, kinds=("AvgPool",))
pool("counted_ceil_NCHW", (1, 6, 5, 2), (3, 3), "EXPLICIT", (2, 2), amounts=((1, 1), (1, 1)), nchw=True, ceil_mode=True,
     count_include_pad=True, kinds=("AvgPool",), dtype="float64")
pool("dilated", (1, 6, 7, 2), (2, 3), "VALID", (1, 2), (3, 2), kinds=("MaxPool",))
pool("dilated_NCHW", (1, 6, 5, 2), (2, 2), "EXPLICIT", (2, 1), (2, 3), ((1, 0), (2, 1)), nchw=True, kinds=("MaxPool",))

integers = rng.permutation(40).reshape(1, 5, 4, 2)
for dtype in ("int8", "uint8", "int16", "uint16", "int32", "int64"):
    y = F.max_pool2d(first(torch.tensor(integers, dtype=torch.float64), False), (2, 2), (1, 2))
    attrs = pool_attrs((2, 2), "VALID", (1, 2), (1, 1), None, False, False, False)
    cases.append({"name": f"MaxPool_{dtype}", "op": "MaxPool", "attrs": attrs, "inputs": [tensor(integers, dtype)],
                  "outputs": [tensor(last(y, False).numpy().astype(int), dtype)]})

x = floats(2, 4, 5, 3).requires_grad_()
y, where = F.max_pool2d(first(x, False), (2, 2), (2, 1), return_indices=True)
dy = floats(*last(y, False).shape)
(dx,) = torch.autograd.grad(last(y, False), x, dy)
for batched in (False, True):
    channel = torch.arange(3).reshape(1, 3, 1, 1)
    index = last(where * 3 + channel + (torch.arange(2).reshape(2, 1, 1, 1) * 60 if batched else 0), False)
    cases.append({"name": f"MaxPoolWithArgmax{'_batch' * batched}", "op": "MaxPoolWithArgmax",
                  "attrs": {"ksize": [1, 2, 2, 1], "strides": [1, 2, 1, 1], "padding": "VALID", "include_batch_in_index": batched},
                  "inputs": [tensor(x.detach().numpy(), "float32")],
                  "outputs": [tensor(last(y, False).detach().numpy(), "float32"), tensor(index.numpy(), "int64")],
                  "output_gradients": [tensor(dy.numpy(), "float32"), None], "input_gradients": [tensor(dx.numpy(), "float32")]})

for radius, bias, alpha, beta, nchw in ((1, 1.0, 0.5, 0.5, False), (2, 2.0, 0.25, 0.75, False), (1, 1.5, 0.25, 1.0, True),
                                        (9, 1.0, 0.125, 0.75, True)):
    x = floats(*((1, 5, 2, 3) if nchw else (1, 2, 3, 5))).requires_grad_()
    size = 2 * radius + 1
    y = last(F.local_response_norm(first(x, nchw), size, alpha * size, beta, bias), nchw)
    dy = floats(*y.shape)
    (dx,) = torch.autograd.grad(y, x, dy)
    attrs = {"depth_radius": radius, "bias": bias, "alpha": alpha, "beta": beta}
    if nchw:
        attrs["_data_format"] = "NCHW"
    name = f"LRN_{radius}_{beta}".replace(".", "_")
    for dtype in ("float32", "float64"):
        case(f"{name}_{dtype}", "LRN", attrs, [x], [y], dtype, [dy], [dx])
        case(f"{name}_grad_{dtype}", "LRNGrad", attrs, [dy, x, y], [dx], dtype)



def volume(name, shape, filters, padding, strides, dilations=(1, 1, 1), first_channels=False, dtype="float32"):
    """Conv3D with its gradients, and each of those; shape is [batch, depth, height, width, channels]."""
    to_first = (lambda t: t) if first_channels else (lambda t: t.permute(0, 4, 1, 2, 3))
    to_last = (lambda t: t) if first_channels else (lambda t: t.permute(0, 2, 3, 4, 1))
    over = (lambda v: [1, 1, *v]) if first_channels else (lambda v: [1, *v, 1])
    dims = (shape[0], shape[4], *shape[1:4]) if first_channels else shape
    pads = [paddings(padding, shape[i + 1], filters[i], strides[i], dilations[i], (0, 0)) for i in range(3)]
    flat = [*pads[2], *pads[1], *pads[0]]
    attrs = {"strides": over(strides), "dilations": over(dilations), "padding": padding,
             "data_format": "NCDHW" if first_channels else "NDHWC"}
    x, w = floats(*dims).requires_grad_(), floats(*filters).requires_grad_()
    y = to_last(F.conv3d(F.pad(to_first(x), flat), w.permute(4, 3, 0, 1, 2), stride=strides, dilation=dilations,
                         groups=shape[4] // filters[3]))
    dy = floats(*y.shape).requires_grad_()
    dx, dw = torch.autograd.grad(y, (x, w), dy, create_graph=True)
    case(f"Conv3D_{name}", "Conv3D", attrs, [x, w], [y], dtype, [dy.detach()], [dx.detach(), dw.detach()])
    ddx, ddw = floats(*x.shape), floats(*w.shape)
    case(f"Conv3D_{name}_input", "Conv3DBackpropInputV2", attrs, [list(x.shape), w, dy], [dx], dtype, [ddx],
         [None, *torch.autograd.grad(dx, (w, dy), ddx, retain_graph=True)])
    from_dw = torch.autograd.grad(dw, (x, dy), ddw)
    case(f"Conv3D_{name}_filter", "Conv3DBackpropFilterV2", attrs, [x, list(w.shape), dy], [dw], dtype, [ddw],
         [from_dw[0], None, from_dw[1]])


def volume_pool(name, shape, size, padding, strides, first_channels=False, dtype="float32"):
    to_first = (lambda t: t) if first_channels else (lambda t: t.permute(0, 4, 1, 2, 3))
    to_last = (lambda t: t) if first_channels else (lambda t: t.permute(0, 2, 3, 4, 1))
    over = (lambda v: [1, 1, *v]) if first_channels else (lambda v: [1, *v, 1])
    dims = (shape[0], shape[4], *shape[1:4]) if first_channels else shape
    pads = [paddings(padding, shape[i + 1], size[i], strides[i], 1, (0, 0)) for i in range(3)]
    flat = [*pads[2], *pads[1], *pads[0]]
    attrs = {"ksize": over(size), "strides": over(strides), "padding": padding,
             "data_format": "NCDHW" if first_channels else "NDHWC"}
    x = floats(*dims).requires_grad_()
    for kind in ("MaxPool3D", "AvgPool3D"):
        if kind == "MaxPool3D":
            y = to_last(F.max_pool3d(F.pad(to_first(x), flat, value=-1e9), size, strides))
        else:
            inside = F.avg_pool3d(F.pad(torch.ones_like(to_first(x)), flat), size, strides)
            y = to_last(F.avg_pool3d(F.pad(to_first(x), flat), size, strides) / inside)
        dy, ddx = floats(*y.shape).requires_grad_(), floats(*x.shape)
        (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
        (picked,) = torch.autograd.grad(dx, dy, ddx)
        case(f"{kind}_{name}", kind, attrs, [x], [y], dtype, [dy.detach()], [dx.detach()])
        if kind == "AvgPool3D":
            case(f"{kind}_{name}_grad", "AvgPool3DGrad", attrs, [list(x.shape), dy], [dx], dtype, [ddx], [None, picked])
            continue
        typed = {**attrs, "TInput": {"type": dtype}}
        case(f"{kind}_{name}_grad", "MaxPool3DGrad", typed, [x, y, dy], [dx], dtype, [ddx], [None, None, picked])
        back = floats(*y.shape)
        (spread,) = torch.autograd.grad(y, x, back)
        case(f"{kind}_{name}_gradgrad", "MaxPool3DGradGrad", attrs, [x, y, ddx], [picked], dtype, [back], [None, None, spread])


volume("same", (1, 3, 4, 3, 2), (2, 3, 2, 2, 2), "SAME", (1, 2, 1))
volume("groups_NCDHW", (1, 3, 3, 4, 4), (2, 2, 2, 2, 2), "VALID", (1, 1, 2), first_channels=True, dtype="float64")
volume("dilated", (1, 4, 4, 3, 1), (2, 2, 2, 1, 2), "SAME", (1, 1, 1), (2, 1, 2))
volume_pool("same", (1, 3, 4, 3, 2), (2, 3, 2), "SAME", (1, 2, 2))
volume_pool("valid_NCDHW", (1, 4, 3, 4, 2), (2, 2, 3), "VALID", (2, 1, 1), first_channels=True, dtype="float64")

for size, filters, taps in ((5, 4, 3), (8, 5, 1)):  # the last row and column of five have no whole window
    x, w, bias = floats(2, size, size, 3), floats(taps, taps, 3, filters), floats(filters)
    y = F.relu(first(convolve(x, w, "SAME", one, one, ((0, 0), (0, 0)), False, False), False) + bias.reshape(1, -1, 1, 1))
    attrs = {**window_attrs("SAME", one, one, None, False), "fused_ops": {"strings": ["BiasAdd", "Relu"]}, "num_args": 1}
    case(f"FusedConv2DMaxPool_{size}", "_FusedConv2DMaxPool", attrs, [x, w, bias], [last(F.max_pool2d(y, 2), False)], "float32")

path = pathlib.Path(__file__).with_name("conv_reference.json")
with path.open("w") as out:
    out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(f"{len(cases)} cases, {path.stat().st_size} bytes")
