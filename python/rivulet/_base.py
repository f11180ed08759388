"""Bases: the tensors of a model that no task changes. A base is mapped, downloaded once, and kept under its digest.

Form and digest are those of federated/weights/base.h. The form is a safetensors file, or a folder with several and
Hugging Face's index. The digest is SHA-256 over a label and the tensors in the order of the names' bytes.
"""

import contextlib
import hashlib
import json
import mmap
import os
import threading
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from rivulet._arrays import Array
from rivulet._errors import RivuletError
from rivulet._files import PathLike
from rivulet._logging import log as _log
from rivulet._safetensors import hash_stored, stored_tensors, widened

try:
    import fcntl
except ImportError:  # pragma: no cover: another system, where several processes may fetch the same base
    fcntl = None  # type: ignore[assignment]

_LABEL = b"rivulet base\n"
_PADDING = "rivulet.padding."
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_MOST_INDEX_BYTES, _MOST_FILES = 4 << 20, 4096


def _mapped(path: str) -> memoryview:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise RivuletError(f"cannot read the base '{path}': {error.strerror}") from error


def _tensors_of(path: str) -> Dict[str, Tuple[Array, str]]:
    try:
        _, stored = stored_tensors(_mapped(path))
    except ValueError as error:
        raise RivuletError(f"the base '{path}' is no safetensors file, or damaged: {error}") from error
    return {name: tensor for name, tensor in stored.items() if not name.startswith(_PADDING)}


def _is_file_name(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _tensors_by_index(path: str) -> Dict[str, Tuple[Array, str]]:
    text = _mapped(path)
    if len(text) > _MOST_INDEX_BYTES:
        raise RivuletError(f"the base's index '{path}' has {len(text)} bytes, and at most {_MOST_INDEX_BYTES} are read")
    try:
        index = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise RivuletError(f"the base's index '{path}' is no JSON: {error}") from error
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not places:
        raise RivuletError(f"the base's index '{path}' has no \"weight_map\" of tensors and their files")
    listed: Dict[str, List[str]] = {}
    for name, file in places.items():
        if not _is_file_name(file):
            raise RivuletError(f"the base's index '{path}' gives no file of its folder for tensor '{name}'")
        listed.setdefault(file, []).append(name)
    if len(listed) > _MOST_FILES:
        raise RivuletError(f"the base's index '{path}' names {len(listed)} files, and at most {_MOST_FILES} are read")
    tensors: Dict[str, Tuple[Array, str]] = {}
    for file, names in listed.items():
        found = _tensors_of(os.path.join(os.path.dirname(path), file))
        for name in sorted(set(found) ^ set(names)):
            where = "not in the file" if name in names else "not in the index"
            raise RivuletError(
                f"the base's index '{path}' and its file '{file}' differ: tensor '{name}' is {where}; download both again"
            )
        tensors.update(found)
    return tensors


class Base:
    """The base at a path, mapped read-only.

    Attributes
    ----------
    path : str
        Its file or folder.
    digest : str
        64 hexadecimal digits, as a plan names it.

    Raises
    ------
    RivuletError
        There is none, or it is damaged; names the file.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = name = os.path.abspath(os.fspath(path))
        if os.path.isdir(name):
            index, single = (os.path.join(name, file) for file in (_INDEX, _SINGLE))
            if os.path.exists(index):
                stored = _tensors_by_index(index)
            elif os.path.exists(single):
                stored = _tensors_of(single)
            else:
                raise RivuletError(f"the folder '{name}' has neither {_INDEX} nor {_SINGLE}; name the safetensors file")
        elif name.endswith(".index.json"):
            stored = _tensors_by_index(name)
        else:
            stored = _tensors_of(name)
        if not stored:
            raise RivuletError(f"the base '{name}' has no tensors")
        self._stored = {tensor: stored[tensor] for tensor in sorted(stored, key=lambda text: text.encode())}
        hashed = hashlib.sha256(_LABEL)
        hash_stored(hashed, ((tensor, *self._stored[tensor]) for tensor in self._stored))
        self.digest = hashed.hexdigest()
        self._arrays: Optional[Dict[str, Array]] = None

    @property
    def arrays(self) -> Dict[str, Array]:
        """Its tensors by name, as read-only views of the files. Values of bfloat16 become float32, once."""
        if self._arrays is None:
            self._arrays = {name: widened(array, dtype) for name, (array, dtype) in self._stored.items()}
        return self._arrays


_opened: Dict[Tuple[str, int, int], Base] = {}
_opening = threading.Lock()


def _same(path: str) -> Tuple[str, int, int]:
    facts = os.stat(path)
    return os.path.realpath(path), facts.st_size, facts.st_mtime_ns


def _open_kept(path: str) -> Base:
    """A file of the store, opened and compared once for all clients of this process."""
    with _opening:
        key = _same(path)
        if key not in _opened:
            for other in [known for known in _opened if known[0] == key[0]]:
                del _opened[other]
            _opened[key] = Base(path)
        return _opened[key]


def store_folder() -> str:
    """Where bases are kept by default."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "rivulet", "bases")


class NoBase(Exception):
    """A base is not here and cannot be had: a local sentence, which says how to give it."""


class Bases:
    """The bases that a client has: those that it was given, and a folder of those that it fetched.

    Parameters
    ----------
    given : mapping of str to path
        Files or folders by digest. They are compared now: RivuletError says which is another base.
    folder : path, optional
        Keeps each fetched base under its digest, for all processes of this user. Default: `store_folder()`.
    megabytes : int
        Limit for that folder. The base that was not used for the longest time gives way.
    """

    def __init__(
        self, given: Optional[Mapping[str, PathLike]] = None, folder: Optional[PathLike] = None, megabytes: int = 100_000
    ) -> None:
        self._given: Dict[str, Base] = {}
        for digest, path in dict(given or {}).items():
            base = Base(path)
            if base.digest != str(digest).lower():
                raise RivuletError(f"the base '{base.path}' has digest {base.digest}, and not {digest}; give that file, unchanged")
            self._given[base.digest] = base
        self._folder = folder
        self._most = megabytes * 1_000_000

    def of(self, digest: str, most: int, fetch: Callable[[BinaryIO], None]) -> Base:
        """The base of a digest, which has at most so many bytes.

        `fetch` appends the bytes that are not in a file yet. It is called where no process has fetched this base, while
        others that want it wait.

        Raises
        ------
        NoBase
            The folder has no room for it, or cannot be written to; or the bytes that came are another base.
        """
        if digest in self._given:
            return self._given[digest]
        folder = os.fspath(self._folder) if self._folder is not None else store_folder()
        path = os.path.join(folder, f"{digest}.safetensors")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with self._locked(os.path.join(folder, f"{digest}.lock")):
                base = self._kept(path, digest)
                if base is None:
                    self._make_room(folder, digest, most)
                    base = self._fetched(path, digest, fetch)
                os.utime(path)
                return base
        except OSError as error:
            raise NoBase(f"cannot keep the base {digest} in '{folder}': {error.strerror}; {_give(digest)}") from error

    @staticmethod
    @contextlib.contextmanager
    def _locked(path: str) -> Iterator[None]:
        with open(path, "ab") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @staticmethod
    def _kept(path: str, digest: str) -> Optional[Base]:
        if not os.path.exists(path):
            return None
        try:
            base = _open_kept(path)
            if base.digest == digest:
                return base
            _log.warning("the kept base '%s' has digest %s; it is fetched again", path, base.digest)
        except RivuletError as error:
            _log.warning("%s; it is fetched again", error)
        os.unlink(path)
        return None

    def _make_room(self, folder: str, digest: str, most: int) -> None:
        """Room for a base of at most so many bytes, which is more than it has by the names of its tensors."""
        room = self._most - most
        if room < 0:
            raise NoBase(
                f"the base {digest} has up to {most} bytes, and {self._most} are kept in '{folder}'; raise "
                f"base_megabytes, or {_give(digest)}"
            )
        others = []
        for entry in os.scandir(folder):
            if not entry.name.startswith(digest) and entry.name.endswith((".safetensors", ".part")):
                facts = entry.stat()
                others.append((facts.st_mtime, facts.st_size, entry.path))
        used = sum(size for _, size, _ in others)
        for _, size, path in sorted(others):
            if used <= room:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                _log.info("the base '%s' was removed to make room", path)
                used -= size

    @staticmethod
    def _fetched(path: str, digest: str, fetch: Callable[[BinaryIO], None]) -> Base:
        part = f"{path[: -len('.safetensors')]}.part"
        with open(part, "ab") as file:
            fetch(file)
            file.flush()
            os.fsync(file.fileno())
        try:
            base = Base(part)
            found = base.digest
        except RivuletError as error:
            os.unlink(part)
            raise NoBase(f"the base {digest} came damaged: {error}") from error
        if found != digest:
            os.unlink(part)
            raise NoBase(
                f"the coordinator sent a base of digest {found} for {digest}; its file was changed or is damaged"
            )
        os.replace(part, path)
        base.path = os.path.abspath(path)
        with _opening:
            _opened[_same(path)] = base
        return base


def _give(digest: str) -> str:
    return f"give this client its own copy: rivulet.run_client(..., base={{'{digest}': FILE}})"


def refused(digest: str, why: str) -> NoBase:
    """A coordinator does not send a base."""
    return NoBase(f"the base {digest} is not here, and the coordinator does not send it: {why}; {_give(digest)}")


def base_of_config(config: str) -> Optional[str]:
    """`model.base` of a run's stored scenario; None where it has none."""
    section = ""
    for line in config.splitlines():
        if line.startswith("["):
            section = line.strip()
        elif section == "[model]" and line.startswith("base = "):
            with contextlib.suppress(ValueError):
                found: Any = json.loads(line[len("base = ") :])
                return found if isinstance(found, str) else None
    return None
