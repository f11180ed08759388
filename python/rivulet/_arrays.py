"""What counts as an array: NumPy's own, and all that NumPy takes, such as PyTorch's tensors on the CPU. And memory for
large ones."""

import mmap
from typing import Any

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


def pages(size: int) -> memoryview:
    """Memory that costs nothing before it is written and goes back to the system with its last view, which the heap's
    need not."""
    return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
