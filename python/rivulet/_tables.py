"""Rows of the history as tables: DataFrames where pandas is installed, lists of dicts where it is not."""

import contextlib
import datetime
import gc
import re
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set, Tuple

from rivulet._errors import RivuletError

# A pandas.DataFrame, or List[Dict[str, Any]]: which one depends on what is installed, so no checker can tell.
Table = Any

Row = Tuple[Any, ...]

_TIME_LETTERS = len("2026-01-31T23:59:59.999Z")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
# Rows that are held as rows: a million of them are a million objects for Python's garbage collector to look at, again
# and again, which took as long as reading them.
_ROWS = 8192


def _is_time(name: str) -> bool:
    return name == "at" or name.endswith("_at")


def time(text: str) -> datetime.datetime:
    """A time of the history, aware of its zone, which is UTC."""
    return datetime.datetime.fromisoformat(text[:-1]).replace(tzinfo=datetime.timezone.utc)


def _could_be_times(values: Sequence[Any]) -> bool:
    """Whether all have a time's length and zone, which a million show in no time; pandas looks at the rest."""
    texts = [value for value in values if value is not None]
    return set(map(len, texts)) <= {_TIME_LETTERS} and all(text[-1] == "Z" for text in texts)


def _all_times(values: Sequence[Any]) -> bool:
    return all(value is None or (isinstance(value, str) and _TIME.match(value)) for value in values)


def _named_once(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise RivuletError(f"two columns are called '{name}'; give one of them another name with AS")


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which would look at every row and find nothing: a third of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def table(names: Sequence[str], fetch: Callable[[int], List[Row]]) -> Table:
    """A table of the rows that `fetch` gives, so many at a time, with times aware of their zone."""
    _named_once(names)
    try:
        import pandas
    except ImportError:
        rows: List[Row] = []
        while more := fetch(_ROWS):
            rows += more
        return dicts(names, rows)
    columns = [_Column(name) for name in names]
    with _uncollected():
        while chunk := fetch(_ROWS):
            for column, values in zip(columns, zip(*chunk)):
                column.add(values)
    return pandas.DataFrame({column.name: column.series(pandas) for column in columns})


def dicts(names: Sequence[str], rows: Sequence[Row]) -> List[Dict[str, Any]]:
    """A dict for each row."""
    _named_once(names)
    columns: List[Sequence[Any]] = list(zip(*rows))
    for index, (name, column) in enumerate(zip(names, columns)):
        if _is_time(name) and _all_times(column):
            with contextlib.suppress(ValueError):  # no day that there is
                columns[index] = [None if value is None else time(value) for value in column]
    return [dict(zip(names, row)) for row in zip(*columns)]


class _Column:
    """A column of a DataFrame while its rows come in.

    Integers stay integers where some are missing; a missing float is NaN, other missing values are None. A column's
    type is known only with its last row, so each chunk is kept as narrow as it can be alone.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._chunks: List[Any] = []
        self._missing: List[Any] = []
        self._types: Set[type] = set()
        self._times = _is_time(name)  # whether all are, as far as they have come

    def add(self, values: Sequence[Any]) -> None:
        import numpy as np

        types = set(map(type, values))
        self._types |= types
        self._times = self._times and types <= {str, type(None)} and _could_be_times(values)
        missing = np.zeros(len(values), bool)
        if float in types and types <= {float, type(None)}:  # None is NaN, which says by itself what is missing
            chunk = np.array(values, np.float64)
        else:
            if type(None) in types:
                missing[:] = [value is None for value in values]
            if types == {int}:
                chunk = np.fromiter(values, np.int64, len(values))
            elif types == {int, type(None)}:
                chunk = np.array([0 if value is None else value for value in values], np.int64)
            else:
                chunk = np.fromiter(values, object, len(values))
        self._chunks.append(chunk)
        self._missing.append(missing)

    def series(self, pandas: Any) -> Any:
        """The column as `pandas.DataFrame` takes it."""
        import numpy as np

        types = self._types - {type(None)}
        if self._times:
            texts = np.concatenate([np.empty(0, object), *self._chunks])
            # The format is known, but to have it spelled takes pandas ten times as long as to be told its name.
            named = {"format": "ISO8601"} if int(pandas.__version__.split(".")[0]) >= 2 else {}
            with contextlib.suppress(ValueError):  # no day that there is
                return pandas.Series(pandas.to_datetime(texts, utc=True, **named))
        if types == {int}:  # a chunk of objects is one where all are missing
            numbers = [chunk if chunk.dtype != object else np.zeros(len(chunk), np.int64) for chunk in self._chunks]
            values = np.concatenate(numbers)
            missing = np.concatenate(self._missing)
            return pandas.arrays.IntegerArray(values, missing) if missing.any() else values
        if types and types <= {int, float}:
            floats = np.concatenate([chunk.astype(np.float64) for chunk in self._chunks])
            floats[np.concatenate(self._missing)] = np.nan
            return floats
        return pandas.Series(np.concatenate([np.empty(0, object), *self._chunks]), dtype=object)
