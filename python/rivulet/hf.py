"""rivulet.hf: models of Hugging Face's PEFT as clients. Their adapter is federated; their base stays where it is.

Tensors have the names under which PEFT saves them: ``base_model.model.<module>.lora_A.weight`` [r, in],
``lora_B.weight`` [out, r], and modules to save without their wrapper (``base_model.model.classifier.weight``). Neither
transformers nor peft is imported: a model is read by its ``state_dict``.
"""

import numbers
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np
import torch

from rivulet._arrays import Array
from rivulet._client import Client, Context, Evaluation, Params
from rivulet._errors import RivuletError
from rivulet._files import PathLike
from rivulet._safetensors import save_safetensors

__all__ = ["client", "load", "params", "scenario"]


def _adapter_name(model: Any) -> str:
    active = getattr(model, "active_adapter", None)
    name = active[0] if isinstance(active, (list, tuple)) and len(active) == 1 else active
    if not isinstance(name, str):
        raise RivuletError(
            "the model has no single active adapter; wrap it with peft.get_peft_model, or choose one with set_adapter"
        )
    return name


def _tensors(model: Any) -> Dict[str, Any]:
    """The adapter's tensors themselves, by the names under which PEFT saves them."""
    adapter = _adapter_name(model)
    found: Dict[str, Any] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        parts = name.split(".")
        if adapter not in parts:
            continue
        at = parts.index(adapter)
        kind = parts[at - 1]
        if kind == "modules_to_save":
            saved = parts[: at - 1] + parts[at + 1 :]
        elif kind.startswith("lora_"):
            saved = parts[:at] + parts[at + 1 :]
        else:
            continue
        if not tensor.is_floating_point():
            continue
        if tensor.dtype != torch.float32:
            raise RivuletError(
                f"the adapter's '{name}' is {tensor.dtype}, and updates are float32; call get_peft_model with "
                "autocast_adapter_dtype=True, which keeps adapters in float32 beside any base"
            )
        found[".".join(saved)] = tensor
    if not found:
        raise RivuletError(f"the model's adapter '{adapter}' has no LoRA tensors; only LoRA adapters are federated")
    return found


def params(model: Any) -> Dict[str, Array]:
    """Copies of a PEFT model's adapter.

    Parameters
    ----------
    model : peft.PeftModel
        With one active LoRA adapter of float32, on any device.

    Returns
    -------
    dict of str to array
        By the names of PEFT's ``adapter_model.safetensors``.
    """
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in _tensors(model).items()}


def load(model: Any, params: Mapping[str, Array]) -> None:
    """Put an adapter into a PEFT model, in place.

    Parameters
    ----------
    model : peft.PeftModel
        As of `params`.
    params : mapping of str to array
        By the names of `params`: a run's model, or the input of `Client.fit`.

    Raises
    ------
    RivuletError
        Names a tensor that only one side has, or whose shape differs. The model is then as it was.
    """
    _load(_tensors(model), params)


def _load(tensors: Mapping[str, Any], params: Mapping[str, Array], smaller: bool = False) -> None:
    """`load`; with `smaller`, a model of a smaller rank takes the first rows of A and columns of B."""
    for name in {**tensors, **params}:
        if name not in tensors or name not in params:
            side = "the model" if name not in tensors else "the run"
            raise RivuletError(f"'{name}' is missing in {side}; both sides need the same LoraConfig")
        mine, runs = tuple(tensors[name].shape), tuple(params[name].shape)
        if mine != runs and not (smaller and _is_first_part(name, mine, runs)):
            raise RivuletError(
                f"'{name}' is {runs} in the run and {mine} in the model; both sides need the same LoraConfig"
                + (", but for a smaller r at a client" if smaller else "")
            )
    with torch.no_grad():
        for name, array in params.items():
            tensors[name].copy_(torch.tensor(array[_part(tensors[name])]))


def _is_first_part(name: str, mine: Tuple[int, ...], runs: Tuple[int, ...]) -> bool:
    """Whether `mine` is the shape of the first ranks of a tensor of the shape `runs`."""
    kind = next((part for part in name.split(".") if part.startswith("lora_")), "")
    axis = 0 if kind.endswith("_A") else 1 if kind.endswith("_B") else None
    if axis is None or len(mine) != len(runs) or len(mine) <= axis:
        return False
    return mine[axis] < runs[axis] and all(a == b for at, (a, b) in enumerate(zip(mine, runs)) if at != axis)


def _part(tensor: Any) -> Tuple[slice, ...]:
    return tuple(slice(0, length) for length in tensor.shape)


_Told = Union[None, float, Mapping[str, float]]


def _metrics(told: Any, name: str) -> Mapping[str, Any]:
    if told is None:
        return {}
    if isinstance(told, numbers.Real) or getattr(told, "ndim", None) == 0:
        return {name: told}
    return dict(told)


class _Adapter(Client):
    def __init__(self, model: Any, train: Any, evaluate: Any, examples: int) -> None:
        _tensors(model)
        self.model = model
        self.examples = examples
        self._train = train
        self._evaluate = evaluate

    def fit(self, params: Dict[str, Array], context: Context) -> Params:
        _load(_tensors(self.model), params, smaller=True)
        torch.manual_seed(context.seed & (1 << 63) - 1)
        told = self._train(self.model, context)
        return Params(self._trained(params), examples=self.examples, metrics=_metrics(told, "train_loss"))

    def _trained(self, params: Mapping[str, Array]) -> Dict[str, Array]:
        """The adapter, in the run's shapes: ranks beyond this model's are 0. Frozen tensors are as they came."""
        trained: Dict[str, Array] = {}
        for name, tensor in _tensors(self.model).items():
            values = tensor.detach().cpu().numpy()
            if values.shape == params[name].shape:
                trained[name] = values.copy()
            elif not tensor.requires_grad:
                trained[name] = params[name]
            else:
                trained[name] = np.zeros_like(params[name])
                trained[name][_part(tensor)] = values
        return trained

    def evaluate(self, params: Dict[str, Array], context: Context) -> Evaluation:
        if self._evaluate is None:
            raise NotImplementedError
        _load(_tensors(self.model), params, smaller=True)
        told = self._evaluate(self.model, context)
        return Evaluation(examples=self.examples, metrics=_metrics(told, "loss"))


def client(
    model: Any,
    train: Callable[[Any, Context], _Told],
    evaluate: Optional[Callable[[Any, Context], _Told]] = None,
    *,
    examples: int,
) -> Client:
    """A PEFT model and its training as a client.

    Parameters
    ----------
    model : peft.PeftModel
        The trained model. Only its adapter travels; its base, of any type and on any device, stays this client's own.
        Its rank may be smaller than the run's, with the same ``lora_alpha / r``: it takes the first ranks of each
        version, and the others of its update are 0. Under ``server.lora = "stack"`` the version is then still the
        mean of the clients' products.
    train : callable
        ``train(model, context)`` trains the model in place, by a `transformers.Trainer` or a loop of your own. It gives
        nothing, the training loss, or metrics by name. PyTorch's draws are seeded from ``context.seed`` before.
    evaluate : callable, optional
        ``evaluate(model, context)`` gives the loss, or metrics by name.
    examples : int
        The number of examples that `train` sees: the weight of this client's update.

    Returns
    -------
    rivulet.Client
        For `rivulet.run_client`.

    Raises
    ------
    RivuletError
        The model has no single active LoRA adapter, or one that is not float32.
    """
    return _Adapter(model, train, evaluate, examples)


def scenario(model: Any, *, path: PathLike = "adapter.safetensors", freeze_a: bool = False) -> Dict[str, Any]:
    """A PEFT model's adapter as the model of a scenario, which clients of `client` train.

    Parameters
    ----------
    model : peft.PeftModel
        As of `params`. Training begins with the values of its adapter.
    path : path
        Where these are written, as a safetensors file.
    freeze_a : bool
        Whether each lora_A keeps its first values (FFA-LoRA): then the mean of the updates is the mean of the products.
        Clients set ``requires_grad = False`` for their parameters of lora_A: a changed one is refused.

    Returns
    -------
    dict
        ``{"model": …}``, for ``{**scenario(model), "data": …, "server": …}``.
    """
    adapter = params(model)
    save_safetensors(path, adapter)
    section: Dict[str, Any] = {"arrays": os.fspath(path)}
    if freeze_a:
        frozen: List[str] = [name for name in adapter if ".lora_A." in name or name.endswith(".lora_embedding_A")]
        section["freeze"] = frozen
    return {"model": section}
