"""Scenarios as dicts: written as TOML for the program, which alone knows the keys."""

import contextlib
import json
import os
import re
import tempfile
from typing import Any, Iterator, List, Mapping, Optional, Union

from rivulet._errors import RivuletError

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


def _text(value: str) -> str:
    # A JSON string is a basic string of TOML, but for DEL, which JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise RivuletError(f"{where} has the key {key!r}: keys of a scenario are text")
    return key if _BARE_KEY.match(key) else _text(key)


def toml_value(value: Any, where: str) -> str:
    """A value as TOML.

    Parameters
    ----------
    value : Any
        Text, paths, booleans, numbers (NumPy's too), and lists, tuples, arrays and mappings of them.
    where : str
        Names the value in the sentence that refuses it.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, os.PathLike):
        return _text(os.fspath(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value + 0)  # a subclass, such as an IntEnum, as its number
    if isinstance(value, Mapping):
        pairs = (f"{_key(key, where)} = {toml_value(item, f'{where}.{key}')}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item, f"{where}[{index}]") for index, item in enumerate(value)) + "]"
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return toml_value(value.tolist(), where)
    mend = "leave the key out" if value is None else "give text, a number, a list or a dict"
    raise RivuletError(
        f"{where} is {'None' if value is None else 'a ' + type(value).__name__}, which a scenario cannot hold; {mend}"
    )


def toml(scenario: Mapping[str, Any]) -> str:
    """A scenario as TOML: a table for each section."""
    lines: List[str] = []
    for section, keys in scenario.items():
        if not isinstance(keys, Mapping):
            raise RivuletError(
                f"the scenario's '{section}' is {keys!r}; a scenario is a dict of sections, such as "
                "{'run': {'rounds': 5}, 'model': {'preset': 'mlp'}}"
            )
        lines.append(f"[{_key(section, 'the scenario')}]")
        for key, value in keys.items():
            lines.append(f"{_key(key, section)} = {toml_value(value, f'{section}.{key}')}")
    return "\n".join(lines) + "\n"


def set_arguments(values: Optional[Mapping[str, Any]]) -> List[str]:
    """`--set` for each key."""
    arguments: List[str] = []
    for key, value in (values or {}).items():
        arguments += ["--set", f"{key}={toml_value(value, key)}"]
    return arguments


class ScenarioFile:
    """A scenario that the program can open: `path`, and how its sentences name it."""

    def __init__(self, path: str, temporary: bool) -> None:
        self.path = path
        self._temporary = temporary

    def named(self, sentence: str) -> str:
        """A sentence of the program, without the name of a temporary file."""
        if not self._temporary:
            return sentence
        return re.sub(re.escape(self.path) + r"(:\d+:\d+)?", "the scenario", sentence)


@contextlib.contextmanager
def scenario_file(scenario: Scenario) -> Iterator[ScenarioFile]:
    """The file of a scenario; of a dict, one that is there while the block runs.

    It is in the working directory: relative paths start at a scenario's folder, and generated data stay beside it.
    Where its `model.arrays` are arrays, so does a file of them.
    """
    if not isinstance(scenario, Mapping):
        yield ScenarioFile(os.fspath(scenario), False)
        return
    named = dict(scenario)
    if isinstance(named.get("run", {}), Mapping):
        named["run"] = {"name": "simulation", **named.get("run", {})}
    with contextlib.ExitStack() as stack:
        model = named.get("model", {})
        if isinstance(model, Mapping) and isinstance(model.get("arrays"), Mapping):
            from rivulet._safetensors import save_safetensors

            weights = stack.enter_context(_temporary(".safetensors"))
            save_safetensors(weights, model["arrays"])
            named["model"] = {**model, "arrays": weights}
        text = toml(named)
        path = stack.enter_context(_temporary(".toml"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        yield ScenarioFile(path, True)


@contextlib.contextmanager
def _temporary(suffix: str) -> Iterator[str]:
    try:
        handle, path = tempfile.mkstemp(prefix=".rivulet-", suffix=suffix, dir=os.getcwd())
    except OSError as error:
        raise RivuletError(
            f"cannot write a scenario in the working directory '{os.getcwd()}': {error.strerror}"
        ) from error
    os.close(handle)
    try:
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
