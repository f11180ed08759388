"""Rows of the history as tables: DataFrames where pandas is installed, lists of dicts where it is not."""

import datetime
import re
from typing import Any, Dict, List, Sequence, Tuple

from rivulet._errors import RivuletError

# A pandas.DataFrame, or List[Dict[str, Any]]: which one depends on what is installed, so no checker can tell.
Table = Any

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")


def _is_time(name: str) -> bool:
    return name == "at" or name.endswith("_at")


def time(text: str) -> datetime.datetime:
    """A time of the history, aware of its zone, which is UTC."""
    return datetime.datetime.fromisoformat(text[:-1]).replace(tzinfo=datetime.timezone.utc)


def _holds_times(name: str, values: Sequence[Any]) -> bool:
    """Whether a column is one of times: by its name, and by its first value, since a query may call anything so."""
    first = next((value for value in values if value is not None), None)
    return _is_time(name) and isinstance(first, str) and _TIME.match(first) is not None


def _named_once(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise RivuletError(f"two columns are called '{name}'; give one of them another name with AS")


def table(names: Sequence[str], rows: List[Tuple[Any, ...]]) -> Table:
    """A table of rows, with times aware of their zone."""
    try:
        import pandas
    except ImportError:
        return dicts(names, rows)
    _named_once(names)
    columns = zip(*rows) if rows else (() for _ in names)
    return pandas.DataFrame({name: _series(pandas, name, column) for name, column in zip(names, columns)})


def dicts(names: Sequence[str], rows: List[Tuple[Any, ...]]) -> List[Dict[str, Any]]:
    """A dict for each row."""
    _named_once(names)
    columns: List[Sequence[Any]] = list(zip(*rows))
    for index, (name, column) in enumerate(zip(names, columns)):
        if _holds_times(name, column):
            columns[index] = [None if value is None else time(value) for value in column]
    return [dict(zip(names, row)) for row in zip(*columns)]


def _series(pandas: Any, name: str, values: Sequence[Any]) -> Any:
    """A column: integers stay integers where some are missing, a missing float is NaN, others that are missing None."""
    if _is_time(name) and (not values or _holds_times(name, values)):
        return pandas.to_datetime(pandas.Series(values, dtype=object), utc=True, format="%Y-%m-%dT%H:%M:%S.%fZ")
    import numpy as np

    types = {type(value) for value in values}
    if types == {int}:
        return np.fromiter(values, np.int64, len(values))
    if types == {int, type(None)}:
        return pandas.array(values, dtype="Int64")
    if types and types <= {int, float, type(None)} and float in types:
        return np.array(values, np.float64)
    return pandas.Series(values, dtype=object)
