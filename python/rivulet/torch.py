"""rivulet.torch: PyTorch's modules as models, and their training loops as clients.

Names and axes are PyTorch's on one side (``fc1.weight``, [out, in]) and Rivulet's on the other (``dense1/kernel``,
[in, out]). Every transposition is decided by what a variable is called, never by its shape, and a layer that could be
two is refused until ``names=`` says which it is.
"""

import numbers
from typing import Any, Callable, Dict, Mapping, Optional, Union

import torch

from rivulet._arrays import Array
from rivulet._client import Client, Context, Evaluation, Params
from rivulet._errors import RivuletError
from rivulet._torch_layout import Flattened, Names, Place, places

__all__ = ["client", "load", "params"]


def _state(module: Any) -> Dict[str, Any]:
    """What of a module is shared: integer buffers, such as batch normalisation's count, stay where they are."""
    state = {name: tensor for name, tensor in module.state_dict().items() if tensor.is_floating_point()}
    for name, tensor in state.items():
        if tensor.dtype != torch.float32:
            raise RivuletError(f"the module's '{name}' is {tensor.dtype}; models are float32: say module.float()")
    return state


def _places(
    model: Mapping[str, Array], state: Mapping[str, Any], names: Optional[Names], flattened: Optional[Flattened]
) -> Dict[str, Place]:
    ours = {name: tuple(array.shape) for name, array in model.items()}
    return places(ours, {name: tuple(tensor.shape) for name, tensor in state.items()}, names, flattened)


def params(
    module: Any,
    like: Optional[Mapping[str, Array]] = None,
    *,
    names: Optional[Names] = None,
    flattened: Optional[Flattened] = None,
) -> Dict[str, Array]:
    """A module's parameters and floating-point buffers as arrays of their own.

    Parameters
    ----------
    module : torch.nn.Module
        Of float32, on any device.
    like : mapping of str to array, optional
        A model of Rivulet's, such as `Client.fit` is given: the arrays have its names and its layout. Default: they
        have the names of ``state_dict`` and PyTorch's layout.
    names, flattened
        As of `load`.

    Returns
    -------
    dict of str to array
    """
    state = _state(module)
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
        A model of Rivulet's (a run's, or what `Client.fit` is given), or arrays by the names of ``state_dict`` in
        PyTorch's layout, as `rivulet.torch.params` gives them.
    names : mapping of str to str, optional
        Rivulet's layer by the module's, for those that neither equal names nor shapes tell: ``{"fc1": "dense1"}``.
    flattened : mapping of str to tuple, optional
        Of a dense layer of Rivulet's that takes flattened images, their height, width and channels:
        ``{"dense1": (7, 7, 64)}``. PyTorch flattens in another order.

    Raises
    ------
    RivuletError
        By name, what does not fit or could be two layers. The module is then as it was.
    """
    state = _state(module)
    if set(params) == set(state):
        arrays = {name: params[name] for name in state}
    else:
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
        What is trained. It keeps what is not shared, such as integer buffers, from task to task.
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
