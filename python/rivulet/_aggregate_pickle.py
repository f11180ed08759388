"""An aggregation function on its way from `rivulet.simulate` to the process that calls it (`_aggregate.py`)."""

import contextlib
import os
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Tuple

from rivulet._errors import RivuletError
from rivulet._virtual import packed


@contextlib.contextmanager
def aggregate_arguments(function: Any) -> Iterator[Tuple[List[str], Dict[str, str]]]:
    """The program's arguments and variables by which it aggregates by this function, while the block runs."""
    if not callable(function):
        raise RivuletError(f"aggregate is a {type(function).__name__}; give a function of updates and state")
    content = packed(function, "aggregate", ", which calls it")
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', type(function).__name__)}"
    handle, path = tempfile.mkstemp(prefix="rivulet-aggregate-", suffix=".pickle")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        yield (
            ["--aggregate", path, "--set", "algorithm.name=external", "--set", f'algorithm.function="{name}"'],
            {"RIVULET_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join([package, *filter(None, sys.path)])},
        )
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
