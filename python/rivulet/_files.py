"""Files that are whole or not there."""

import contextlib
import os
import secrets
from typing import BinaryIO, Iterator, Union

from rivulet._errors import RivuletError

PathLike = Union[str, "os.PathLike[str]"]


@contextlib.contextmanager
def replaced(path: PathLike) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends; where it raises, `path` stays as it was."""
    name = os.fspath(path)
    temporary = f"{name}.tmp-{secrets.token_hex(4)}"
    try:
        file = open(temporary, "xb")
    except OSError as error:
        raise RivuletError(f"cannot write '{name}': {error.strerror}") from error
    try:
        with file:
            yield file
        try:
            os.replace(temporary, name)
        except OSError as error:
            raise RivuletError(f"cannot write '{name}': {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
