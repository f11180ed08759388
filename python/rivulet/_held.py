"""Finished work of one client, on its disk from before it is sent until its outcome is durable.

A client that dies after its training, or a coordinator that dies with updates that it has acknowledged, costs no
training. The task is offered again under its name, and its stored update is sent.

    trained ──→ keep ──→ sent ──→ acknowledged ──→ settle: durable ──→ removed
                 ↑________ offered again: find ________│

The promises are those of client/agent/persisted_updates.h, and the files are called as there:
FOLDER/<24 digits of the run's id>-r<round>-a<attempt>-update-<ordinal>, mode 0600. Two processes of one name may share
a folder.
"""

import hashlib
import os
import re
import struct
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from rivulet._client_state import FOLDED
from rivulet._errors import RivuletError
from rivulet._files import TEMPORARY, read_sealed, write_sealed
from rivulet._logging import log as _log
from rivulet._update import Message

# What stands before the update in its file. The program's own clients begin theirs otherwise: nobody sends what the
# other one has trained.
_HEAD = struct.Struct("<8s32sd?7x")
_MAGIC = b"RVHELDPY"
_FILE = re.compile(r"([0-9a-f]{24})-r(\d{1,19})-a\d+-update-\d+")
_HALF = re.compile(_FILE.pattern + TEMPORARY.pattern)


class Finished(NamedTuple):
    """The result of training.

    Attributes
    ----------
    message : Message
        The update as it is sent.
    seconds : float
        The duration of training.
    proposes : bool
        Whether the task has left something to keep (rivulet._client_state), without which it may not be sent.
    """

    message: Message
    seconds: float
    proposes: bool


def digits(text: str) -> str:
    """A name in a file's name."""
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def work_of(task: Any) -> bytes:
    """Everything that decides a task's result, except for the client's data: the same digest is the same work."""
    hashed = hashlib.sha256()

    def text(value: bytes) -> None:
        hashed.update(struct.pack("<Q", len(value)) + value)

    for value in (task.id, task.run_id, task.client_id, task.state_of):
        text(value.encode())
    text(task.plan)
    hashed.update(struct.pack("<BqqIQ", task.kind, task.step, task.base_version, task.ordinal, task.stream_key))
    for blob in task.inputs:
        text(blob.name.encode())
        hashed.update(struct.pack("<B", blob.id.form & 0xFF))
        text(blob.id.digest)
    return hashed.digest()


class _Place(NamedTuple):
    run: str  # its digits
    round: int
    path: str


class HeldUpdates:
    """The finished work of the client `name`, in `folder`, which is made on first use. Half-written files are removed.
    Not thread-safe.

    A failure to keep work, or its removal, is a warning and no error: it is still sent, or trained again.
    """

    def __init__(self, folder: str, name: str, max_bytes: int) -> None:
        self._folder = folder
        self._name = name
        self._max_bytes = max_bytes
        # The run's id is what stands before the rest of a task's name; a client that is called like the rest of one
        # does no harm but to itself.
        self._id = re.compile(rf"(.+?)-r(\d{{1,19}})-a(\d{{1,19}})-{re.escape(name)}-(\d{{1,19}})", re.S)
        self._settled: Tuple[Any, ...] = ()  # the last one: it is told at every poll
        self._said_lost = False
        for file in self._files():
            if _HALF.fullmatch(file):
                self._remove(os.path.join(folder, file))

    def keep(self, task: Any, work: Finished) -> None:
        """Before it is sent."""
        place = self._place(task.id)
        if place is None:
            return
        size = len(work.message)
        try:
            if not self._make_room(size):
                limit = f"it has {size / 1e6:.1f} MB, and hold_megabytes allows {self._max_bytes / 1e6:.1f}"
                raise RivuletError(limit)
            head = _HEAD.pack(_MAGIC, work_of(task), work.seconds, work.proposes)
            write_sealed(place.path, self._pieces(head, work.message))
            self._said_lost = False
        except (OSError, RivuletError) as error:
            if not self._said_lost:
                self._said_lost = True
                _log.warning(
                    "%s: the finished update of round %d is not kept on disk: %s; it is sent from memory, and trained "
                    "again if this process ends before",
                    self._name, place.round, error,
                )  # fmt: skip

    def find(self, task: Any) -> Optional[Finished]:
        """The work of this very task. A file that is damaged, or of another task of this name, is removed."""
        place = self._place(task.id)
        if place is None or not os.path.exists(place.path):
            return None
        try:
            content = read_sealed(place.path)
        except RivuletError as error:
            self.drop(task.id, str(error))
            return None
        if len(content) < _HEAD.size or content[: len(_MAGIC)] != _MAGIC:
            self.drop(task.id, "it is of another program")
            return None
        _, work, seconds, proposes = _HEAD.unpack_from(content)
        if work != work_of(task):
            self.drop(task.id, "the task is another by now, from another model")
            return None
        return Finished(Message([content[_HEAD.size :]]), seconds, proposes)

    def drop(self, task: str, reason: str) -> None:
        """It will not be sent again."""
        place = self._place(task)
        if place is not None and os.path.exists(place.path):
            _log.warning("%s: the finished update of round %d is dropped: %s", self._name, place.round, reason)
            self._remove(place.path)

    def settle(self, outcome: Any) -> None:
        """Applies the outcome of an earlier task. If it was refused, dropped or failed, its file is removed. If it is
        in a durable version, so are all files of the run's earlier rounds."""
        said = (outcome.task, outcome.end, outcome.durable)
        if said == self._settled:
            return
        self._settled = said
        place = self._place(outcome.task)
        if outcome.end != FOLDED:
            self.drop(outcome.task, outcome.reason)
        elif place is not None and outcome.durable:
            self._remove_of(place.run, place.round)

    def run_is_over(self, run: str) -> None:
        """It has finished, so that all of it is durable."""
        self._remove_of(digits(run), None)

    def _place(self, task: str) -> Optional[_Place]:
        """None: no training of this client."""
        found = self._id.fullmatch(task)
        if found is None:
            return None
        run, round, attempt, ordinal = found.groups()
        name = f"{digits(run)}-r{round}-a{attempt}-update-{ordinal}"
        return _Place(digits(run), int(round), os.path.join(self._folder, name))

    def _files(self) -> List[str]:
        try:
            return os.listdir(self._folder)
        except OSError:
            return []

    def _remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:  # what cannot be removed now is removed with the next
            _log.warning("%s: cannot remove '%s': %s", self._name, path, error.strerror)

    def _remove_of(self, run: str, last: Optional[int]) -> None:
        for file in self._files():
            found = _FILE.fullmatch(file)
            if found is not None and found[1] == run and (last is None or int(found[2]) <= last):
                self._remove(os.path.join(self._folder, file))

    def _make_room(self, size: int) -> bool:
        """By age and not by round: the files may be of several runs, and of those that have ended some may be left."""
        if size > self._max_bytes:
            return False
        paths = [os.path.join(self._folder, file) for file in self._files() if _FILE.fullmatch(file)]
        held = sorted((found.st_mtime_ns, path, found.st_size) for path in paths for found in [os.stat(path)])
        total = size + sum(each for _, _, each in held)
        for _, path, each in held:
            if total <= self._max_bytes:
                break
            _log.warning(
                "%s: finished updates take %.1f MB, and hold_megabytes allows %.1f; the oldest is dropped, which is in "
                "no durable version yet",
                self._name, total / 1e6, self._max_bytes / 1e6,
            )  # fmt: skip
            os.unlink(path)
            total -= each
        return True

    @staticmethod
    def _pieces(head: bytes, message: Message) -> Iterator[Any]:
        yield head
        for index in range(message.blocks):
            yield message.block(index)
