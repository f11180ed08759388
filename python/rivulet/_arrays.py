"""The arrays that the package takes: NumPy's, and all that NumPy converts, such as PyTorch's tensors on the CPU. And
memory for large ones."""

import mmap
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from rivulet._errors import RivuletError

Array = npt.NDArray[Any]


def as_array(what: str, values: Any) -> Array:
    """The values as an array, none of them cast; where they are none, a sentence that begins with `what` they are."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # PyTorch's, of a tensor that requires a gradient
        raise RivuletError(f"{what} is no array: {error}") from error


class Pages:
    """Memory for one large transfer after the other: the last one's, if it has no views any more. New pages cost as
    much as the transfer into them. They return to the system with this object and their last view, unlike the
    heap's."""

    def __init__(self) -> None:
        self._last: Optional[mmap.mmap] = None

    def of(self, size: int) -> memoryview:
        """Its content is undefined. OSError, OverflowError, ValueError: so much memory is not available."""
        last, self._last = self._last, None
        if last is not None:
            try:
                last.resize(size)
            except (BufferError, OSError, SystemError, ValueError):  # the first: somebody looks at it
                last = None
        self._last = last or mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return memoryview(self._last)
