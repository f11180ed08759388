"""The process that aggregates updates by a function in Python: `rivulet … --aggregate MODULE:FUNCTION`.

    python3 -m rivulet._aggregate MODULE:FUNCTION | FILE.pickle

It reads a call as a line of JSON from standard input, maps the updates' files into memory and calls the function. Then
it writes the change of the model into a file of the caller and answers with a line. cli/run/python_aggregation.h is the
other side.
"""

import importlib
import json
import math
import os
import pathlib
import pickle
import sys
import traceback
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from rivulet._files import replaced
from rivulet._plan import MOST_PLAN_BYTES, Plan, Variable

AggregateFn = Callable[..., Any]

_STATES = 64  # versions whose states stay


class ClientUpdate(NamedTuple):
    """One client's update, as an aggregation function sees it."""

    client: str
    weight: float  # its examples, or 1 with server.weights "uniform"
    delta: Mapping[str, Any]  # the model's change, float32 by variable; read-only views of a file


class Refused(Exception):
    """A sentence about a fault of the function."""


def _function(target: str) -> AggregateFn:
    if target.endswith(".pickle"):
        with open(target, "rb") as file:
            unpacked: AggregateFn = pickle.load(file)
        return unpacked
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise Refused(f"'{target}' is not MODULE:FUNCTION, such as robust:trimmed")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise Refused(f"the module '{module}' cannot be imported: {error}") from error
    function = getattr(found, name, None)
    if not callable(function):
        raise Refused(f"the module '{module}' has no function '{name}'")
    named: AggregateFn = function
    return named


class _Layout:
    """The places of a part's variables among its values."""

    def __init__(self, plan: Plan, part: str) -> None:
        (whose,) = [one for one in plan.parts() if one.name == part]
        segments = ["trainable", "shared"] if whose.shared_too else ["trainable"]
        self.variables: List[Tuple[Variable, int]] = []
        self.elements = 0
        for segment in segments:
            for variable in plan.variables:
                if variable.segment == segment:
                    self.variables.append((variable, self.elements))
                    self.elements += math.prod(variable.shape)

    def views(self, flat: Any) -> Dict[str, Any]:
        return {
            variable.name: flat[at : at + math.prod(variable.shape)].reshape(variable.shape)
            for variable, at in self.variables
        }

    def write(self, change: Any, flat: Any) -> None:
        """The function's result, checked, into `flat`."""
        if not isinstance(change, Mapping):
            given = "nothing" if change is None else f"a {type(change).__name__}"
            raise Refused(f"it returned {given}; it has to return the model's change: a dict of arrays by variable")
        unknown = [name for name in change if name not in {variable.name for variable, _ in self.variables}]
        if unknown:
            raise Refused(f"it returned '{unknown[0]}', which is no variable of the model")
        views = self.views(flat)
        for variable, _ in self.variables:
            if variable.name not in change:
                raise Refused(f"it returned no '{variable.name}'")
            array = np.asarray(change[variable.name])
            if array.dtype.kind not in "fiu":
                raise Refused(f"its '{variable.name}' has the type {array.dtype}, not numbers")
            if array.shape != variable.shape:
                raise Refused(f"its '{variable.name}' has the shape {array.shape}, not {variable.shape}")
            with np.errstate(over="ignore"):
                views[variable.name][...] = array.astype(np.float32)
            if not np.isfinite(views[variable.name]).all():
                raise Refused(f"its '{variable.name}' has NaN or infinity")


class _States:
    """The function's state from version to version, a file each."""

    def __init__(self, folder: str) -> None:
        self._folder = pathlib.Path(folder)

    def _path(self, version: int) -> pathlib.Path:
        return self._folder / f"aggregate-{version}.pickle"

    def before(self, version: int) -> Any:
        """The state that the version before left; None for the first one."""
        if version <= 1:
            return None
        path = self._path(version - 1)
        try:
            return pickle.loads(path.read_bytes())
        except FileNotFoundError:
            raise Refused(
                f"its state of version {version - 1} is missing: there is no '{path}'; the last {_STATES} versions stay"
            ) from None

    def keep(self, version: int, state: Any) -> None:
        try:
            content = pickle.dumps(state)
        except Exception as error:  # of whatever the state holds
            raise Refused(f"its state cannot be stored ({error}); keep arrays, numbers and text in it") from error
        with replaced(self._path(version), private=True, durable=True) as file:
            file.write(content)
        self._path(version - _STATES).unlink(missing_ok=True)


def _place(error: BaseException) -> str:
    """"ValueError at robust.py:31"."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


class _Process:
    def __init__(self, function: AggregateFn) -> None:
        self._function = function
        self._plan: Optional[Tuple[str, Plan]] = None
        self._layouts: Dict[str, _Layout] = {}

    def _layout(self, folder: str, part: str) -> _Layout:
        if self._plan is None or self._plan[0] != folder:
            with open(os.path.join(folder, "plan"), "rb") as file:
                self._plan = (folder, Plan(file.read(MOST_PLAN_BYTES)))
            self._layouts = {}
        if part not in self._layouts:
            self._layouts[part] = _Layout(self._plan[1], part)
        return self._layouts[part]

    def call(self, call: Mapping[str, Any]) -> None:
        layout = self._layout(call["folder"], call["part"])
        if layout.elements != call["elements"]:
            raise Refused(f"the plan has {layout.elements} values, and updates {call['elements']}")
        updates = [self._update(each, layout, call["run_id"]) for each in call["updates"]]
        states = _States(call["folder"])
        state = states.before(call["version"])
        try:
            returned = self._function(updates, state)
        except Exception as error:
            traceback.print_exc()
            raise Refused(f"it raised {_place(error)}: {error}") from error
        change, state = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
        out = np.memmap(call["out"], np.float32, "r+", shape=(layout.elements,))
        layout.write(change, out)
        states.keep(call["version"], state)

    @staticmethod
    def _update(update: Mapping[str, Any], layout: _Layout, run_id: str) -> ClientUpdate:
        flat = np.memmap(update["file"], np.float32, "r", update["offset"], (layout.elements,))
        # <run_id>-r<round>-a<attempt>-<client_id>-<ordinal>
        client = update["task"][len(run_id) + 1 :].split("-", 2)[2].rpartition("-")[0]
        return ClientUpdate(client, update["weight"], layout.views(flat))


def _serve(target: str) -> None:
    # What the function prints is for people: standard output is the answers' own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(error: Optional[str] = None) -> None:
        answers.write(json.dumps({} if error is None else {"error": error}) + "\n")
        answers.flush()

    try:
        process = _Process(_function(target))
    except Exception as error:  # the module may raise anything
        if not isinstance(error, Refused):
            traceback.print_exc()
        answer(str(error) if isinstance(error, Refused) else f"it cannot be loaded: {_place(error)}: {error}")
        return
    answer()
    for line in sys.stdin:
        try:
            process.call(json.loads(line))
        except Refused as error:
            answer(str(error))
        except Exception as error:
            traceback.print_exc()
            answer(f"its process failed: {_place(error)}: {error}")
        else:
            answer()


def main(arguments: Sequence[str]) -> None:
    _serve(arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
