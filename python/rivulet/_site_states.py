"""What the clients of a site of many names keep from task to task.

A client's next task may be another worker's, so what a task leaves lies in a file of its own, where all workers find it.
Which of them is the client's state is the coordinator's to say, with each task (`state_of`, the newest that came into a
version): an update that was accepted may still come into none, and a program that dies loses versions that it had not
written. So nobody waits for anybody to hear how a task ended, and what is in no version is never read.
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
    """Of the client of one task. In a run whose clients keep nothing it touches no file."""

    def __init__(self, folder: str, client_id: str, state_of: str) -> None:
        self._folder = folder
        self._client = _digits(client_id)
        self._state_of = state_of

    def _path(self, task: str) -> str:
        return os.path.join(self._folder, f"{self._client}-{_digits(task)}.safetensors")

    def kept(self) -> Dict[str, Array]:
        """What the client begins with. RivuletError: it is damaged."""
        if not self._state_of or not os.path.exists(self._path(self._state_of)):
            return {}
        return guarded(load_safetensors(self._path(self._state_of)))

    def propose(self, run: str, round: int, task: str, arrays: Mapping[str, Any]) -> None:
        """What a task has left. It is on the disk before its update goes anywhere."""
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
