"""The state of a client from task to task.

A task's result is a proposal, until the coordinator reports the task's outcome. An update that was dropped, or is in an
abandoned attempt, changes nothing. A coordinator that crashes may lose versions that it had not written yet, and
repeats their rounds. So a client keeps its earlier states until the newest is in a durable version. With a file all of
it is on disk, and a killed process finds it again.
"""

import contextlib
import glob
import os
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from rivulet._arrays import Array
from rivulet._errors import RivuletError
from rivulet._files import PathLike
from rivulet._safetensors import Tensors, keep_safetensors, load_safetensors
from rivulet._update import BadResult

FOLDED = 0  # federated/tasks/task.h, TaskEnd

_RUN, _ROUND, _TASK = "rivulet.run_id", "rivulet.round", "rivulet.task_id"
_PROPOSED, _EARLIER = ".proposed", ".round-"  # endings of the files: the newest has none
# A coordinator that writes nothing before its end (run.durability = "end") would let them grow for ever.
_MOST_EARLIER = 64


def checked(arrays: Mapping[str, Any]) -> Dict[str, Array]:
    """Copies of the arrays that `fit` stored. BadResult: names an entry that is no array."""
    for name, array in arrays.items():
        if not hasattr(array, "dtype") or not hasattr(array, "tobytes"):
            given = type(array).__name__
            raise BadResult(
                f"its state has a {given}", f"fit left context.state['{name}'] as a {given}; it keeps NumPy arrays"
            )
    return {name: np.array(array) for name, array in arrays.items()}


def guarded(state: Tensors) -> Dict[str, Array]:
    """A task's input, read-only, so that a failed task leaves no traces."""
    for array in state.values():
        array.flags.writeable = False
    return dict(state)


def _loaded(file: str) -> Tensors:
    state = load_safetensors(file)
    said = state.metadata.get(_ROUND, "")
    if not (said.isascii() and said.isdigit() and len(said) < 20) or not {_RUN, _TASK} <= set(state.metadata):
        raise RivuletError(f"{file} is no state of a client: its run, round and task are missing; remove it")
    return state


def _round(state: Tensors) -> int:
    return int(state.metadata[_ROUND])


class ClientState:
    """Not thread-safe."""

    def __init__(self, path: Optional[PathLike], most_earlier: int = _MOST_EARLIER) -> None:
        self._most_earlier = most_earlier
        self._path = None if path is None else os.fspath(path)
        self._kept: List[Tensors] = []  # of rounds that were folded, in their order
        self._proposed: Optional[Tensors] = None
        if self._path is not None:
            files = glob.glob(f"{glob.escape(self._path)}{_EARLIER}*") + [self._path]
            self._kept = sorted((_loaded(file) for file in files if os.path.exists(file)), key=_round)
            if os.path.exists(self._path + _PROPOSED):
                self._proposed = _loaded(self._path + _PROPOSED)

    def of(self, run: str, round: int) -> Dict[str, Array]:
        """The state of a run from the rounds before a round."""
        for state in reversed(self._kept):
            if state.metadata.get(_RUN) == run and _round(state) < round:
                return guarded(state)
        return {}

    def propose(self, run: str, round: int, task: str, arrays: Mapping[str, Any]) -> None:
        """A task's proposed state. It is on disk before the update is sent."""
        metadata = {_RUN: run, _ROUND: str(round), _TASK: task}
        left = checked(arrays)
        self._unlink(_PROPOSED)
        self._proposed = None
        if not left and not self._kept:
            return
        self._proposed = Tensors(left, metadata)
        if self._path is not None:
            os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
            keep_safetensors(self._path + _PROPOSED, self._proposed, metadata)

    def has(self, task: str) -> bool:
        """Whether a task's state is here: proposed, or of a version lost in a crash."""
        left = [*self._kept, *([self._proposed] if self._proposed is not None else [])]
        return any(state.metadata.get(_TASK) == task for state in left)

    def hear(self, task: str, end: int, durable: bool = False) -> None:
        """A task's outcome. durable: its version is written, so no crash repeats the task."""
        proposed = self._proposed
        if proposed is not None and proposed.metadata.get(_TASK) == task:
            self._proposed = None
            if end == FOLDED:
                self._keep(proposed)
            else:
                self._unlink(_PROPOSED)
        elif end != FOLDED:  # it was in a version that a crash has lost, and is in none by now: nor is what came of it
            places = [at for at, state in enumerate(self._kept) if state.metadata.get(_TASK) == task]
            self._forget([state for at in places for state in self._kept[at:]])
        if durable and self._kept and self._kept[-1].metadata.get(_TASK) == task:
            self._forget(self._kept[:-1])

    def _keep(self, proposed: Tensors) -> None:
        # What is of this round or a later one was in versions that a crash has lost, and another run needs none of it.
        run, round = proposed.metadata[_RUN], _round(proposed)
        self._forget([state for state in self._kept if state.metadata.get(_RUN) != run or _round(state) >= round])
        if self._path is not None:
            if self._kept and os.path.exists(self._path):
                os.replace(self._path, f"{self._path}{_EARLIER}{_round(self._kept[-1])}")
            os.replace(self._path + _PROPOSED, self._path)
        self._kept.append(proposed)
        self._forget(self._kept[: -1 - self._most_earlier])

    def _forget(self, states: List[Tensors]) -> None:
        for state in states:
            self._unlink(f"{_EARLIER}{_round(state)}")
            if state is self._kept[-1]:
                self._unlink("")
        gone = set(map(id, states))
        self._kept = [state for state in self._kept if id(state) not in gone]

    def _unlink(self, ending: str) -> None:
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path + ending)
