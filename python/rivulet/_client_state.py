"""What a client keeps from task to task.

What a task leaves is a proposal, until the coordinator says how the task ended: an update that was dropped, or is in an
attempt that was abandoned, changes nothing. A coordinator that crashes may lose the last version, and asks for its round
again: so what a client had before that round is kept beside what it has. With a file all three are on disk, and a process
that is killed finds them again.
"""

import os
from typing import Any, Dict, Mapping, Optional

import numpy as np

from rivulet._arrays import Array
from rivulet._files import PathLike
from rivulet._safetensors import Tensors, load_safetensors, save_safetensors
from rivulet._update import BadResult

FOLDED, DROPPED = 0, 2  # federated/tasks/task.h, TaskEnd

_RUN, _ROUND, _TASK = "rivulet.run_id", "rivulet.round", "rivulet.task_id"
_KEPT, _BEFORE, _PROPOSED = "", ".before", ".proposed"  # endings of the files


class ClientState:
    """Not thread-safe."""

    def __init__(self, path: Optional[PathLike]) -> None:
        self._path = None if path is None else os.fspath(path)
        self._states: Dict[str, Tensors] = {}  # by ending
        if self._path is not None:
            for ending in (_KEPT, _BEFORE, _PROPOSED):
                if os.path.exists(self._path + ending):
                    self._states[ending] = load_safetensors(self._path + ending)

    def of(self, run: str, round: int) -> Dict[str, Array]:
        """What is kept of a run from the rounds before a round."""
        for ending in (_KEPT, _BEFORE):
            state = self._states.get(ending)
            if state is not None and state.metadata.get(_RUN) == run and int(state.metadata[_ROUND]) < round:
                for array in state.values():
                    array.flags.writeable = False  # or a task that comes to nothing would leave its traces
                return dict(state)
        return {}

    def propose(self, run: str, round: int, task: str, arrays: Mapping[str, Any]) -> None:
        """What a task has left."""
        metadata = {_RUN: run, _ROUND: str(round), _TASK: task}
        for name, array in arrays.items():
            if not hasattr(array, "dtype") or not hasattr(array, "tobytes"):
                given = type(array).__name__
                raise BadResult(
                    f"its state has a {given}", f"fit left context.state['{name}'] as a {given}; it keeps NumPy arrays"
                )
        if self._path is not None:
            save_safetensors(self._path + _PROPOSED, arrays, metadata)
        self._states[_PROPOSED] = Tensors({name: np.array(array) for name, array in arrays.items()}, metadata)

    def keep_at(self, path: str) -> None:
        """From now on with a file, where there was none."""
        self._path = path
        proposed = self._states.get(_PROPOSED)
        if proposed is not None:
            save_safetensors(path + _PROPOSED, proposed, proposed.metadata)

    def hear(self, task: str, end: int) -> None:
        """How a task ended."""
        proposed = self._states.get(_PROPOSED)
        if proposed is None or proposed.metadata.get(_TASK) != task:
            return
        if end != FOLDED:
            del self._states[_PROPOSED]
            if self._path is not None:
                os.unlink(self._path + _PROPOSED)
            return
        if _KEPT in self._states:
            self._rename(_KEPT, _BEFORE)
        self._rename(_PROPOSED, _KEPT)

    def _rename(self, ending: str, to: str) -> None:
        self._states[to] = self._states.pop(ending)
        if self._path is not None:
            os.replace(self._path + ending, self._path + to)
