"""Rivulet from Python: run federations, look into their history, exchange data sets and models.

>>> import rivulet
>>> run = rivulet.simulate("simulations/scenarios/quickstart.toml", rounds=5)
>>> run.rounds()                                # a DataFrame, or a list of dicts without pandas
>>> rivulet.open("rivulet.sqlite").run("latest").model()["conv1/kernel"].shape

docs/guide/python.md is the guide.
"""

from __future__ import annotations

# Checkers take this name as true wherever it stands. To load `typing` would be most of what an import costs.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from rivulet._client import Client, Context, Delta, Evaluation, Params, run_client
    from rivulet._datasets import partition, read_examples, write_examples
    from rivulet._errors import Interrupted, RivuletError
    from rivulet._example import decode_example, encode_example
    from rivulet._history import History, Run, open
    from rivulet._safetensors import Tensors, load_safetensors, model_digest, save_safetensors
    from rivulet._simulation import simulate
    from rivulet._tfrecord import read_records, write_records

__all__ = [
    "Client",
    "Context",
    "Delta",
    "Evaluation",
    "History",
    "Interrupted",
    "Params",
    "RivuletError",
    "Run",
    "Tensors",
    "decode_example",
    "encode_example",
    "load_safetensors",
    "model_digest",
    "open",
    "partition",
    "read_examples",
    "read_records",
    "run_client",
    "save_safetensors",
    "simulate",
    "write_examples",
    "write_records",
]

# Where each name lives: modules are loaded when a name of theirs is first used, so that importing the package costs
# milliseconds, and NumPy is not loaded before it is needed.
_MODULES = {
    "_client": ("Client", "Context", "Delta", "Evaluation", "Params", "run_client"),
    "_datasets": ("partition", "read_examples", "write_examples"),
    "_errors": ("Interrupted", "RivuletError"),
    "_example": ("decode_example", "encode_example"),
    "_history": ("History", "Run", "open"),
    "_safetensors": ("Tensors", "load_safetensors", "model_digest", "save_safetensors"),
    "_simulation": ("simulate",),
    "_tfrecord": ("read_records", "write_records"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("analytics", "flower", "hf", "keras", "torch"):
        return importlib.import_module(f"rivulet.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rivulet' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"rivulet.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
