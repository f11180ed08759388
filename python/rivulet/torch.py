"""rivulet.torch: PyTorch's modules as models, and their training loops as clients, or as scenarios that the program trains.

Names and axes are PyTorch's on one side (``fc1.weight``, [out, in]) and Rivulet's on the other (``dense1/kernel``,
[in, out]). A variable's name decides its transposition, never its shape. An ambiguous layer is refused without
``names=``.
"""

import numbers
import os
from types import MappingProxyType
from typing import Any, Callable, Dict, Mapping, Optional, Union

import torch

from rivulet._arrays import Array
from rivulet._client import Client, Context, Evaluation, Params
from rivulet._errors import RivuletError
from rivulet._files import PathLike, replaced
from rivulet._torch_export import EXPORTERS, Inputs, inputs_of, written
from rivulet._torch_layout import Flattened, Names, Place, places, stored_axes

__all__ = ["client", "load", "params", "scenario"]


def _state(module: Any, model: Mapping[str, Array] = MappingProxyType({})) -> Dict[str, Any]:
    """The shared tensors of a module. Integer buffers, such as batch normalisation's count, are left out. A tensor with
    several names has the one that `model` knows, else its first."""
    state: Dict[str, Any] = {}
    seen: Dict[Any, str] = {}
    by_names = any(name in model for name, _ in module.named_parameters())
    for name, tensor in module.state_dict(keep_vars=True).items():
        if not tensor.is_floating_point():
            continue
        # A buffer that is no running statistic, such as a mask, is a constant of the graph and no variable.
        if by_names and name not in model and not tensor.requires_grad:
            continue
        # A parameter under two names is one: tied weights stay tied.
        place = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        first = seen.setdefault(place, name) if tensor.numel() > 0 else name
        if first != name:
            if name not in model or first in model:
                continue
            del state[first]
            seen[place] = name
        state[name] = tensor.detach()
    for name, tensor in state.items():
        if tensor.dtype != torch.float32:
            raise RivuletError(f"the module's '{name}' is {tensor.dtype}; models are float32: say module.float()")
    return state


def _places(
    model: Mapping[str, Array], state: Mapping[str, Any], names: Optional[Names], flattened: Optional[Flattened]
) -> Dict[str, Place]:
    ours = {name: tuple(array.shape) for name, array in model.items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in state.items()}
    return places(ours, theirs, names, flattened, stored_axes(model))


def params(
    module: Any,
    like: Optional[Mapping[str, Array]] = None,
    *,
    names: Optional[Names] = None,
    flattened: Optional[Flattened] = None,
) -> Dict[str, Array]:
    """Copies of a module's parameters and floating-point buffers.

    Parameters
    ----------
    module : torch.nn.Module
        Of float32, on any device.
    like : mapping of str to array, optional
        A model such as `Client.fit` is given: the arrays have its names and its layout, which are Rivulet's, or the
        module's own where the model was made of `params`. Default: they have the names of ``state_dict`` and PyTorch's
        layout.
    names, flattened
        As of `load`.

    Returns
    -------
    dict of str to array
    """
    state = _state(module, like or {})
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in state.items()}
    if like is None:
        return {name: array.copy() for name, array in arrays.items()}
    found = _places(like, state, names, flattened)
    return {name: found[name].way.back(arrays[found[name].theirs]).copy() for name in like}


def load(
    module: Any,
    params: Mapping[str, Array],
    *,
    names: Optional[Names] = None,
    flattened: Optional[Flattened] = None,
) -> None:
    """Put a model into a module, in place.

    Parameters
    ----------
    module : torch.nn.Module
        Of float32. Each of its parameters and floating-point buffers gets a value.
    params : mapping of str to array
        A model of Rivulet's (a run's, or the input of `Client.fit`), or arrays by the names of ``state_dict`` in
        PyTorch's layout, as `rivulet.torch.params` gives them. A model that came from PyTorch by ONNX has those names
        too, in Rivulet's layout. Its ``metadata`` say so: pass the object of `Run.model` or `fit`, not a copy.
    names : mapping of str to str, optional
        Rivulet's layer by the module's, for those that neither equal names nor shapes decide: ``{"fc1": "dense1"}``.
    flattened : mapping of str to tuple, optional
        Of a dense layer of Rivulet's that takes flattened images, their height, width and channels:
        ``{"dense1": (7, 7, 64)}``. PyTorch flattens in another order.

    Raises
    ------
    RivuletError
        Names the parameters that do not fit or could be of two layers. The module is then as it was.
    """
    state = _state(module, params)
    found = _places(params, state, names, flattened)
    arrays = {found[name].theirs: found[name].way.there(array) for name, array in params.items()}
    for name, array in arrays.items():
        if array.dtype != "float32" or array.shape != tuple(state[name].shape):
            wanted = tuple(state[name].shape)
            raise RivuletError(
                f"'{name}' is {array.dtype} of shape {array.shape}, and the module's float32 of {wanted}"
            )
    with torch.no_grad():
        for name, array in arrays.items():
            state[name].copy_(torch.tensor(array))


class _Loop(Client):
    def __init__(self, module: Any, loader: Any, train: Any, evaluate: Any, ways: Dict[str, Any]) -> None:
        self.module = module
        self.loader = loader
        self.examples = len(loader.dataset)
        self._train = train
        self._evaluate = evaluate
        self._ways = ways

    def _metrics(self, told: Any, name: str) -> Mapping[str, Any]:
        if told is None:
            return {}
        if isinstance(told, numbers.Real) or getattr(told, "ndim", None) == 0:
            return {name: told}
        return dict(told)

    def fit(self, params: Dict[str, Array], context: Context) -> Params:
        load(self.module, params, **self._ways)
        torch.manual_seed(context.seed & (1 << 63) - 1)
        told = self._train(self.module, self.loader, context)
        trained = _params(self.module, params, **self._ways)
        return Params(trained, examples=self.examples, metrics=self._metrics(told, "train_loss"))

    def evaluate(self, params: Dict[str, Array], context: Context) -> Evaluation:
        if self._evaluate is None:
            raise NotImplementedError
        load(self.module, params, **self._ways)
        told = self._evaluate(self.module, self.loader, context)
        return Evaluation(examples=self.examples, metrics=self._metrics(told, "loss"))


_params = params  # whose name a parameter hides

_Told = Union[None, float, Mapping[str, float]]


def client(
    module: Any,
    loader: Any,
    train: Callable[[Any, Any, Context], _Told],
    *,
    evaluate: Optional[Callable[[Any, Any, Context], _Told]] = None,
    names: Optional[Names] = None,
    flattened: Optional[Flattened] = None,
) -> Client:
    """A training loop as a client.

    Parameters
    ----------
    module : torch.nn.Module
        The trained module. It keeps tensors that are not shared, such as integer buffers, from task to task.
    loader : torch.utils.data.DataLoader
        Its data; ``len(loader.dataset)`` are its examples.
    train : callable
        ``train(module, loader, context)`` trains the module in place. It gives nothing, the training loss, or metrics
        by name. PyTorch's draws are seeded from ``context.seed`` before.
    evaluate : callable, optional
        ``evaluate(module, loader, context)`` gives the loss, or metrics by name.
    names, flattened
        As of `load`.

    Returns
    -------
    rivulet.Client
        For `rivulet.run_client`.
    """
    return _Loop(module, loader, train, evaluate, {"names": names, "flattened": flattened})


_OBJECTIVES = {
    "CrossEntropyLoss": "sparse_softmax_cross_entropy",
    "cross_entropy": "sparse_softmax_cross_entropy",
    "BCEWithLogitsLoss": "sigmoid_cross_entropy",
    "binary_cross_entropy_with_logits": "sigmoid_cross_entropy",
    "MSELoss": "mse",
    "mse_loss": "mse",
    "L1Loss": "mae",
    "l1_loss": "mae",
    "HuberLoss": "huber",
    "huber_loss": "huber",
    "SmoothL1Loss": "huber",
    "smooth_l1_loss": "huber",
}
_TARGETS = {
    "class": ("sparse_softmax_cross_entropy", "sigmoid_cross_entropy", "mse"),
    "labels": ("sigmoid_cross_entropy",),
    "numbers": ("mse", "mae", "huber"),
}
_CHANGED = {
    "weight": None,
    "pos_weight": None,
    "reduction": "mean",
    "label_smoothing": 0.0,
    "ignore_index": -100,
    "delta": 1.0,
    "beta": 1.0,
}


def _objective(loss: Any) -> str:
    """The scenario's name of a loss."""
    called = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    if called in _OBJECTIVES.values():
        return str(called)
    if called not in _OBJECTIVES:
        raise RivuletError(
            f"loss={called!r} is none that the program trains with; give torch.nn.CrossEntropyLoss(), "
            "BCEWithLogitsLoss(), MSELoss(), L1Loss() or HuberLoss(), or train it in Python (rivulet.torch.client)"
        )
    for name, usual in _CHANGED.items():
        if getattr(loss, name, usual) != usual:
            raise RivuletError(
                f"loss={called} has {name}={getattr(loss, name)!r}, which the program does not know; leave it out, or "
                "train it in Python (rivulet.torch.client)"
            )
    return _OBJECTIVES[called]


def _target(objective: str, said: Optional[str]) -> str:
    """The target of each example, which follows from the loss if that has one kind of target."""
    target = said or ("class" if objective in _TARGETS["class"] else "numbers")
    if target not in _TARGETS:
        raise RivuletError(f"target={said!r} is none of 'class', 'labels' and 'numbers'")
    if objective not in _TARGETS[target]:
        losses = " or ".join(f"'{name}'" for name in _TARGETS[target])
        raise RivuletError(f"target={target!r} is trained with the loss {losses}, and not with '{objective}'")
    return target


def _kind(example: Any) -> str:
    return "tokens" if not example.is_floating_point() else "pixels" if example.dim() == 4 else "values"


def _table(name: str, example: Any) -> Dict[str, Any]:
    """One of several inputs; an image's channels are last in the data."""
    sizes = list(example.shape[1:])
    shape = [*sizes[1:], sizes[0]] if len(sizes) == 3 else sizes
    return {"name": name, "shape": shape, "kind": _kind(example)}


def scenario(
    module: Any,
    example: Any,
    *,
    loss: Any,
    path: PathLike = "model.onnx",
    kind: Optional[str] = None,
    target: Optional[str] = None,
    exporter: Optional[str] = None,
) -> Dict[str, Any]:
    """A module as the model of a scenario that the program's own clients train, without Python.

    The module is written as ONNX, with the weights that it has, from which training begins. The trained weights return
    by ``load(module, run.model())``.

    Parameters
    ----------
    module : torch.nn.Module
        Of float32: takes a batch and gives scores, [batch, classes], or predictions, [batch, numbers]. Layers are
        trained as they are, dropout and batch normalisation too. It stays as it is.
    example : torch.Tensor, or tuple of them, or dict of them by name
        A batch such as the module takes, of at least two, on the CPU. Its values do not matter. Of a module of several
        inputs a tuple or a dict: each is fed from the feature of its parameter's name.
    loss : torch.nn.Module, function or str
        ``torch.nn.CrossEntropyLoss()``, ``BCEWithLogitsLoss()``, ``MSELoss()``, ``L1Loss()``, ``HuberLoss()``, their
        functions, or a name of ``model.objective``. Of a class, the second and the third are of all scores against 1
        for the label's class and 0 for the others.
    path : path
        Where the ONNX file is written.
    kind : str, optional
        The kind of the data: ``"pixels"``, bytes of which the module sees byte / 255; ``"values"``, floats;
        ``"tokens"``, integers. Default: pixels for [batch, channels, height, width], tokens for integers, else values.
    target : str, optional
        The module's prediction for an example: ``"class"``, the number of one class; ``"labels"``, a 0 or a 1 for each
        of several labels; or ``"numbers"``, one float or several. Default: numbers for a loss that only they have
        (``L1Loss``, ``HuberLoss``), else a class. ``MSELoss`` is of either: say which.
    exporter : str, optional
        PyTorch's way to ONNX: ``"torchscript"`` or ``"dynamo"`` (needs onnxscript). Default: the first, and the second
        for a module that the first cannot write.

    Returns
    -------
    dict
        ``{"model": …}``, for `rivulet.simulate`: ``{**scenario(…), "data": …, "server": …}``.

    Raises
    ------
    RivuletError
        The program cannot train a part of the module, the example or the loss.
    """
    _state(module)
    objective = _objective(loss)
    target = _target(objective, target)
    inputs: Inputs = inputs_of(module, example)
    several = not isinstance(example, torch.Tensor)
    if several and kind is not None:
        raise RivuletError("kind= is of a module of one input; of several the kinds follow from their examples")
    if kind is not None and kind not in ("pixels", "values", "tokens"):
        raise RivuletError(f"kind={kind!r} is none of 'pixels', 'values' and 'tokens'")
    if exporter is not None and exporter not in EXPORTERS:
        raise RivuletError(f"exporter={exporter!r} is neither 'torchscript' nor 'dynamo'")
    content = written(module, inputs, exporter)
    with replaced(path) as file:
        file.write(content)
    model: Dict[str, Any] = {"onnx": os.fspath(path), "target": target, "objective": objective}
    if several:
        model["inputs"] = [_table(name, each) for name, each in inputs.items()]
    else:
        model["input"] = {"kind": kind or _kind(example)}
    return {"model": model}
