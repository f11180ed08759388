"""Files that are whole or not there."""

import contextlib
import os
import re
import secrets
import struct
import zlib
from typing import BinaryIO, Iterable, Iterator, Union

from rivulet._errors import RivuletError

PathLike = Union[str, "os.PathLike[str]"]
TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{16}")  # the end of the name of what is not whole yet

_CRC = struct.Struct("<I")


@contextlib.contextmanager
def replaced(path: PathLike, *, private: bool = False, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends. If the block raises, `path` is unchanged.
    With private only its owner can read it (mode 0600). With durable this holds over a crash of the machine."""
    name = os.fspath(path)
    temporary = f"{name}.tmp-{secrets.token_hex(8)}"
    mode = 0o600 if private else 0o666
    try:
        file = open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, mode))
    except OSError as error:
        raise RivuletError(f"cannot write '{name}': {error.strerror}") from error
    try:
        with file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        try:
            os.replace(temporary, name)
            if durable:
                _sync_folder(os.path.dirname(name) or ".")
        except OSError as error:
            raise RivuletError(f"cannot write '{name}': {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_sealed(path: PathLike, pieces: "Iterable[Union[bytes, memoryview]]") -> None:
    """A private file of some pieces one behind the other, then their CRC-32: data that a process keeps for its
    successor. Its folder is made (mode 0700) where it is not there. OSError, RivuletError: it was not written."""
    os.makedirs(os.path.dirname(os.fspath(path)) or ".", mode=0o700, exist_ok=True)
    with replaced(path, private=True, durable=True) as file:
        crc = 0
        for piece in pieces:
            file.write(piece)
            crc = zlib.crc32(piece, crc)
        file.write(_CRC.pack(crc))


def read_sealed(path: PathLike) -> memoryview:
    """The pieces, joined. RivuletError: there are none, or they are damaged."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            content = memoryview(file.read())
    except OSError as error:
        raise RivuletError(f"cannot read '{name}': {error.strerror}") from error
    pieces, crc = content[: -_CRC.size], content[-_CRC.size :]
    if crc != _CRC.pack(zlib.crc32(pieces)):
        raise RivuletError(f"'{name}' is damaged: its bytes do not give the CRC at its end")
    return pieces
