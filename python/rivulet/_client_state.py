"""What a client keeps from task to task.

What a task leaves is a proposal, until the coordinator says how the task ended: an update that was dropped, or is in an
attempt that was abandoned, changes nothing. With a file both are on disk, so that a process that is killed between the
two finds them again.
"""

import os
from typing import Any, Dict, Mapping, Optional

from rivulet._arrays import Array
from rivulet._files import PathLike
from rivulet._safetensors import Tensors, load_safetensors, save_safetensors
from rivulet._update import BadResult

FOLDED = 0  # federated/tasks/task.h, TaskEnd

_RUN, _TASK = "rivulet.run_id", "rivulet.task_id"


class ClientState:
    """Not thread-safe."""

    def __init__(self, path: Optional[PathLike]) -> None:
        self._path = None if path is None else os.fspath(path)
        self._kept = Tensors({}, {})
        self._proposed: Optional[Tensors] = None
        if self._path is None:
            return
        if os.path.exists(self._path):
            self._kept = load_safetensors(self._path)
        if os.path.exists(self._path_of_proposal()):
            self._proposed = load_safetensors(self._path_of_proposal())

    def _path_of_proposal(self) -> str:
        return f"{self._path}.proposed"

    def of(self, run: str) -> Dict[str, Array]:
        """What is kept of a run."""
        if self._kept.metadata.get(_RUN) != run:
            return {}
        for array in self._kept.values():
            array.flags.writeable = False  # or a task that comes to nothing would leave its traces
        return dict(self._kept)

    def propose(self, run: str, task: str, arrays: Mapping[str, Any]) -> None:
        """What a task has left."""
        metadata = {_RUN: run, _TASK: task}
        for name, array in arrays.items():
            if not hasattr(array, "dtype") or not hasattr(array, "tobytes"):
                given = type(array).__name__
                raise BadResult(
                    f"its state has a {given}", f"fit left context.state['{name}'] as a {given}; it keeps NumPy arrays"
                )
        if self._path is None:
            self._proposed = Tensors({name: array.copy() for name, array in arrays.items()}, metadata)
            return
        save_safetensors(self._path_of_proposal(), arrays, metadata)
        self._proposed = load_safetensors(self._path_of_proposal())

    def hear(self, task: str, end: int) -> None:
        """How a task ended."""
        if self._proposed is None or self._proposed.metadata.get(_TASK) != task:
            return
        if end == FOLDED:
            self._kept = self._proposed
        self._proposed = None
        if self._path is None:
            return
        if end == FOLDED:
            os.replace(self._path_of_proposal(), self._path)
        else:
            os.unlink(self._path_of_proposal())
