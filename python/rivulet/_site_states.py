"""The states of the clients of a site of many names.

A client's next task may be another worker's, so a task's state is in a separate file, which all workers find. With each
task the coordinator names the client's current state (`state_of`, the newest in a version). An accepted update may
still miss every version, and a program that dies loses versions that it had not written. So no worker waits for a
task's outcome, and a state of no version is never read.
"""

import contextlib
import glob
import hashlib
import os
from typing import Any, Dict, Mapping

from rivulet._arrays import Array
from rivulet._client_state import checked, guarded
from rivulet._safetensors import load_safetensors, save_safetensors

# Of one client's, beside the one that it began with: so many of its tasks a program that dies may have in versions that
# it had not written.
_MOST_EARLIER = 8


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class SiteState:
    """The state of one task's client. In a run whose clients keep nothing it touches no file."""

    def __init__(self, folder: str, client_id: str, state_of: str) -> None:
        self._folder = folder
        self._client = _digits(client_id)
        self._state_of = state_of

    def _path(self, task: str) -> str:
        return os.path.join(self._folder, f"{self._client}-{_digits(task)}.safetensors")

    def kept(self) -> Dict[str, Array]:
        """The state at the task's begin. RivuletError: it is damaged."""
        if not self._state_of or not os.path.exists(self._path(self._state_of)):
            return {}
        return guarded(load_safetensors(self._path(self._state_of)))

    def propose(self, run: str, round: int, task: str, arrays: Mapping[str, Any]) -> None:
        """A task's proposed state. It is on disk before the update is sent."""
        left = checked(arrays)
        if not left:
            return
        os.makedirs(self._folder, exist_ok=True)
        save_safetensors(self._path(task), left)
        begun = self._path(self._state_of) if self._state_of else ""
        files = [file for file in glob.glob(os.path.join(glob.escape(self._folder), f"{self._client}-*")) if file != begun]
        for file in sorted(files, key=_age)[_MOST_EARLIER + 1 :]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file)


def _age(file: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return -os.stat(file).st_mtime_ns
    return 0
