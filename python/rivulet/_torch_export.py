"""PyTorch's modules as ONNX: by either of its exporters, with facts that ONNX cannot express as metadata."""

import contextlib
import copy
import inspect
import io
import json
import os
import tempfile
import warnings
from typing import Any, Dict, List, Mapping, Optional

import torch

from rivulet._errors import RivuletError

_OPSET = 17
_DYNAMO_OPSET = 18

Inputs = Mapping[str, Any]  # examples by the input's name in the file


def inputs_of(module: Any, example: Any) -> Inputs:
    """A batch of examples by the name of each input: "input" of one alone, else its parameter's."""
    if isinstance(example, torch.Tensor):
        named: Dict[str, Any] = {"input": example}
    elif isinstance(example, (tuple, Mapping)):
        taken = list(inspect.signature(module.forward).parameters)[: len(example)]
        given = set(example) if isinstance(example, Mapping) else set(taken)
        if len(taken) < len(example) or given != set(taken):
            raise RivuletError(f"example has {len(example)} tensors, and the module's first inputs are {', '.join(taken)}")
        named = {name: example[name] for name in taken} if isinstance(example, Mapping) else dict(zip(taken, example))
    else:
        named = {"example": example}
    for each in named.values():
        if not isinstance(each, torch.Tensor) or each.dim() < 2 or len(each) < 2:
            shown = f"of shape {tuple(each.shape)}" if isinstance(each, torch.Tensor) else f"a {type(each).__name__}"
            raise RivuletError(f"example is {shown}; give a tensor of at least two examples, the batch first")
    return named


def _bags_as_lookups(module: Any) -> None:
    """EmbeddingBag over equal bags, which PyTorch writes as a loop over the batch, as the lookup and reduction it is."""
    for layer in module.modules():
        if not isinstance(layer, torch.nn.EmbeddingBag) or layer.padding_idx is not None or layer.mode == "max":
            continue

        def forward(indices: Any, layer: Any = layer) -> Any:
            rows = torch.nn.functional.embedding(indices, layer.weight)
            return rows.mean(1) if layer.mode == "mean" else rows.sum(1)

        bag: Any = layer
        bag.forward = forward


def _pair(value: Any) -> "tuple[int, int]":
    return (int(value), int(value)) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _folds_as_convolutions(module: Any) -> None:
    """Fold, which is an operator that the program does not have, as the transposed convolution by unit filters it is."""
    for layer in [each for each in module.modules() if isinstance(each, torch.nn.Fold)]:
        size, kernel, dilation = _pair(layer.output_size), _pair(layer.kernel_size), _pair(layer.dilation)
        padding, stride = _pair(layer.padding), _pair(layer.stride)
        reach = [size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1 for i in (0, 1)]
        blocks = [reach[i] // stride[i] + 1 for i in (0, 1)]
        rest = tuple(reach[i] % stride[i] for i in (0, 1))
        places = kernel[0] * kernel[1]
        layer.register_buffer("unit_filters", torch.eye(places).reshape(places, 1, *kernel), persistent=False)

        ways = {"stride": stride, "padding": padding, "output_padding": rest, "dilation": dilation}

        def forward(columns: Any, layer: Any = layer, blocks: Any = blocks, places: int = places, ways: Any = ways) -> Any:
            channels = int(columns.shape[1]) // places
            images = columns.reshape(columns.shape[0], channels * places, *blocks)
            filters = layer.unit_filters.repeat(channels, 1, 1, 1)
            return torch.nn.functional.conv_transpose2d(images, filters, groups=channels, **ways)

        folding: Any = layer
        folding.forward = forward


def _by_torchscript(module: Any, inputs: Inputs, content: Any) -> None:
    options: Dict[str, Any] = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(
        module,
        tuple(inputs.values()),
        content,
        opset_version=_OPSET,
        input_names=list(inputs),
        output_names=["scores"],
        dynamic_axes={name: {0: "batch"} for name in [*inputs, "scores"]},
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        **options,
    )


def _by_dynamo(module: Any, inputs: Inputs, content: Any) -> None:
    # A normalisation by the batch would be taken apart, and the program trains either form by the batch. What the
    # exporter optimises, it merges too: parameters of equal values would be one.
    for layer in module.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.eval()
    batch = torch.export.Dim("batch", min=2, max=1 << 20)
    program: Any = torch.onnx.export(
        module,
        tuple(inputs.values()),
        dynamo=True,
        opset_version=_DYNAMO_OPSET,
        input_names=list(inputs),
        output_names=["scores"],
        dynamic_shapes=tuple({0: batch} for _ in inputs),
        optimize=False,
        verbose=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, "model.onnx")
        program.save(written, external_data=False)
        with open(written, "rb") as file:
            content.write(file.read())


EXPORTERS = {"torchscript": _by_torchscript, "dynamo": _by_dynamo}


def _exported(module: Any, inputs: Inputs, exporter: str) -> bytes:
    content: Any = io.BytesIO()
    silent = io.StringIO()
    # To be written the module is run once, on a copy, and no draw of the caller's is used up.
    with torch.random.fork_rng(), warnings.catch_warnings(), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        warnings.simplefilter("ignore")
        written_one = copy.deepcopy(module).cpu()
        _bags_as_lookups(written_one)
        _folds_as_convolutions(written_one)
        EXPORTERS[exporter](written_one, inputs, content)
    exported: bytes = content.getvalue()
    return exported


def _describe(model: Any, module: Any) -> None:
    """Facts that ONNX cannot express, as the file's metadata: which of its tensors are parameters, one name of each,
    and the rows of embeddings that are never trained."""
    initializers = {value.name for value in model.graph.initializer}
    by_parameter: Dict[int, List[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and parameter.is_floating_point():
            by_parameter.setdefault(id(parameter), []).append(name)
    chosen = [next((name for name in names if name in initializers), names[0]) for names in by_parameter.values()]
    padding: Dict[str, int] = {}
    for layer in module.modules():
        row = getattr(layer, "padding_idx", None)
        if isinstance(layer, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and row is not None:
            padding.update({name: int(row) for name in by_parameter.get(id(layer.weight), [])})
    for key, value in (("rivulet.parameters", chosen), ("rivulet.padding_rows", padding)):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value)


def written(module: Any, inputs: Inputs, exporter: Optional[str]) -> bytes:
    """The module as ONNX, with every layer that training needs."""
    failed: Dict[str, Exception] = {}
    content = b""
    for each in [exporter] if exporter else list(EXPORTERS):
        try:
            import onnx
            import onnx.numpy_helper

            content = _exported(module, inputs, each)
            break
        except Exception as error:  # PyTorch's are of many kinds
            failed[each] = error
    if not content:
        first = next(iter(failed.values()))
        reasons = (str(each).strip().splitlines()[0] if str(each).strip() else type(each).__name__ for each in failed.values())
        why = "; ".join(f"{each}: {reason}" for each, reason in zip(failed, reasons))
        missing = next((each for each in failed.values() if isinstance(each, ImportError)), None)
        mend = "pip install onnx onnxscript" if missing else "or train it in Python (rivulet.torch.client)"
        raise RivuletError(f"PyTorch cannot write the module as ONNX ({why}); {mend}") from first
    model = onnx.load_from_string(content)
    _describe(model, module)
    # That run has moved the running statistics of batch normalisation, in the copy and in the file.
    buffers = dict(module.named_buffers())
    for value in model.graph.initializer:
        if value.name in buffers and list(value.dims) == list(buffers[value.name].shape):
            value.CopyFrom(onnx.numpy_helper.from_array(buffers[value.name].detach().cpu().numpy(), value.name))
    described: bytes = model.SerializeToString()
    return described
