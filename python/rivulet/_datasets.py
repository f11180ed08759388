"""Data sets: arrays to TFRecord files and back, one file or one for each client."""

import os
import pathlib
import tempfile
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

import numpy as np

from rivulet._arrays import Array, as_array
from rivulet._errors import RivuletError
from rivulet._example import column_kind, decode_example, encode_columns
from rivulet._files import PathLike
from rivulet._program import ask
from rivulet._scenario import toml
from rivulet._tfrecord import read_records, write_records

_ROWS = 4096  # encoded at once


def _array(name: str, values: Any) -> Array:
    """Values as an array, none of them cast."""
    values = values.to_numpy() if hasattr(values, "to_numpy") else values  # a column of a DataFrame
    array = as_array(f"feature '{name}'", values)
    if array.dtype.kind in "SU":  # NumPy's own texts are of one length, and drop zeros at their ends
        array = np.asarray(values, object)
    column_kind(name, array)
    return array


def _columns(data: Any) -> Optional[Dict[str, Array]]:
    """A mapping or a DataFrame as arrays with as many rows each; None for other data."""
    if isinstance(data, Mapping):
        named = {name: _array(name, values) for name, values in data.items()}
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):
        named = {str(name): _array(str(name), data[name]) for name in data.columns}
    else:
        return None
    lengths = {name: len(array) for name, array in named.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"'{name}' has {length}" for name, length in lengths.items())
        raise RivuletError(f"features differ in their number of examples: {told}")
    return named


def _items(data: Any) -> Iterator[Any]:
    """The examples of a data set: of one that is indexed, as PyTorch's are, or of anything that can be iterated."""
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return (data[index] for index in range(len(data)))
    return iter(data)


def _blocks(data: Any, names: Optional[Sequence[str]]) -> Iterator[Dict[str, Array]]:
    """Examples as blocks of columns, so that a data set larger than memory can be written."""
    columns = _columns(data)
    if columns is not None:
        if names is not None:
            raise RivuletError("names= is for examples that are tuples; these columns have names")
        count = len(next(iter(columns.values()))) if columns else 0
        for begin in range(0, count, _ROWS):
            yield {name: array[begin : begin + _ROWS] for name, array in columns.items()}
        return
    block: Dict[str, List[Any]] = {}
    held = 0
    for index, item in enumerate(_items(data)):
        if isinstance(item, Mapping):
            example: Dict[str, Any] = dict(item)
        elif names is None:
            raise RivuletError(
                f"example {index} is a {type(item).__name__}; name its parts, such as "
                "names=('image', 'label')"
            )
        else:
            parts = tuple(item)
            if len(parts) != len(names):
                raise RivuletError(f"example {index} has {len(parts)} parts, and names= has {len(names)}")
            example = dict(zip(names, parts))
        if block and set(example) != set(block):
            raise RivuletError(f"example {index} has the features {sorted(example)}, those before have {sorted(block)}")
        for name, value in example.items():
            text = isinstance(value, (str, bytes))
            block.setdefault(name, []).append(
                value if text else as_array(f"feature '{name}' of example {index}", value)
            )
        held += 1
        if held == _ROWS:
            yield _stacked(block, index + 1 - held)
            block, held = {}, 0
    if held:
        yield _stacked(block, 0)


def _stacked(block: Mapping[str, List[Any]], first: int) -> Dict[str, Array]:
    stacked = {}
    for name, values in block.items():
        for offset, value in enumerate(values):
            if isinstance(value, (str, bytes)) != isinstance(values[0], (str, bytes)) or (
                not isinstance(value, (str, bytes)) and (value.shape, value.dtype) != (values[0].shape, values[0].dtype)
            ):
                raise RivuletError(
                    f"feature '{name}' of example {first + offset} is {_told(value)}, those before are "
                    f"{_told(values[0])}"
                )
        stacked[name] = _array(name, values)
    return stacked


def _told(value: Any) -> str:
    return "text" if isinstance(value, (str, bytes)) else f"{value.dtype}{list(value.shape)}"


def write_examples(path: PathLike, data: Any, *, names: Optional[Sequence[str]] = None) -> int:
    """Write a data set as a TFRecord file of ``tf.train.Example``, which scenarios, clients and TensorFlow read.

    Nothing is cast silently: a type that an example does not hold, such as ``float64``, is refused by name.

    ==============================  ===========================================================================
    of each example                 becomes
    ==============================  ===========================================================================
    an array of ``uint8``           one bytes value, as images are kept: one byte a pixel, height × width × channels
    integers, booleans              an ``int64`` list
    ``float32``, ``float16``        a ``float`` list
    text, ``bytes``                 one bytes value
    ==============================  ===========================================================================

    Parameters
    ----------
    path : path
        The file. It is replaced when the new one is complete.
    data : mapping of arrays, DataFrame, or data set
        Columns with a row for each example; or a data set that gives one example after another, such as PyTorch's: each
        a mapping, or a tuple with `names`.
    names : sequence of str, optional
        The names of a tuple's parts. A scenario's own names are ``image`` (of text ``tokens``) and ``label``.

    Returns
    -------
    int
        How many examples there are.
    """
    return write_records(path, (record for block in _blocks(data, names) for record in encode_columns(block)))


def read_examples(path: PathLike, *, shapes: Optional[Mapping[str, Sequence[int]]] = None) -> Dict[str, Array]:
    """Read a TFRecord file of ``tf.train.Example`` into memory, as columns.

    Parameters
    ----------
    path : path
        The file.
    shapes : mapping, optional
        The shape of a feature in one example. Bytes features that are given one become ``uint8`` of that shape.

    Returns
    -------
    dict of ndarray
        By name, with a row for each example. A feature with one value in each example has the shape ``[examples]``,
        others ``[examples, values]``; bytes are objects.

    Raises
    ------
    RivuletError
        Where the file is damaged, or a feature is not in every example as often as in the first; `read_records` and
        `decode_example` read such files.
    """
    rows: Dict[str, List[Any]] = {}
    count = 0
    for count, record in enumerate(read_records(path), 1):
        try:
            features = decode_example(record)
        except RivuletError as error:
            raise RivuletError(f"{os.fspath(path)}: record {count - 1}: {error}") from error
        if count > 1 and set(features) != set(rows):
            raise RivuletError(
                f"{os.fspath(path)}: record {count - 1} has the features {sorted(features)}, those before "
                f"have {sorted(rows)}; read_records and decode_example read such files"
            )
        for name, value in features.items():
            rows.setdefault(name, []).append(value)
    given = dict(shapes or {})
    columns = {name: _column(os.fspath(path), name, values, given.pop(name, None)) for name, values in rows.items()}
    if given:
        raise RivuletError(f"{os.fspath(path)} has no feature '{next(iter(given))}'; it has {sorted(rows)}")
    return columns


def _column(path: str, name: str, rows: List[Any], shape: Optional[Sequence[int]]) -> Array:
    for index, row in enumerate(rows):
        if (
            len(row) != len(rows[0])
            or isinstance(row, list) != isinstance(rows[0], list)
            or (not isinstance(row, list) and row.dtype != rows[0].dtype)
        ):
            raise RivuletError(
                f"{path}: feature '{name}' of record {index} is not like those before; read_records and "
                "decode_example read such files"
            )
    if not isinstance(rows[0], list):
        numbers: Array = np.stack(rows)
        if shape is not None:
            return _shaped(path, name, numbers, shape)
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers
    if shape is not None:
        joined = [b"".join(row) for row in rows]
        for index, row in enumerate(joined):
            if len(row) != len(joined[0]):
                raise RivuletError(
                    f"{path}: feature '{name}' of record {index} has {len(row)} bytes, and {len(joined[0])} before"
                )
        return _shaped(path, name, np.frombuffer(b"".join(joined), np.uint8).reshape(len(rows), -1).copy(), shape)
    values = np.empty((len(rows), len(rows[0])), object)
    for index, row in enumerate(rows):
        values[index] = row
    return values[:, 0] if values.shape[1] == 1 else values


def _shaped(path: str, name: str, flat: Array, shape: Sequence[int]) -> Array:
    if int(np.prod(shape)) != flat.shape[1]:
        raise RivuletError(
            f"{path}: feature '{name}' has {flat.shape[1]} values in an example, which is no shape {list(shape)}"
        )
    return flat.reshape(len(flat), *shape)


def partition(
    folder: PathLike,
    data: Any,
    clients: Union[int, Sequence[str], Array],
    *,
    kind: str = "iid",
    seed: int = 1,
    label: str = "label",
    alpha: Optional[float] = None,
    shards_per_client: Optional[int] = None,
    key: Optional[str] = None,
    names: Optional[Sequence[str]] = None,
) -> Dict[str, str]:
    """Divide a data set into clients: one TFRecord file for each, ``FOLDER/<client>.tfrecord``.

    Parameters
    ----------
    folder : path
        Is made where it is missing.
    data
        As in `write_examples`.
    clients : int, or sequence of str
        How many clients there are: the program deals the examples, as a simulation with these settings would. Or the
        name of each example's client.
    kind : {"iid", "shards", "dirichlet", "by_key"}
        How they are dealt; ``data.partition.kind`` of docs/reference/scenario.md. The rest are its options, and for a number of
        clients alone.
    seed : int
        ``run.seed``.
    label : str
        The feature that ``shards`` and ``dirichlet`` go by.
    alpha, shards_per_client, key : optional
        Options of ``dirichlet``, ``shards`` and ``by_key``.
    names : sequence of str, optional
        As in `write_examples`.

    Returns
    -------
    dict of str
        The file of each client.
    """
    folder = os.fspath(folder)
    os.makedirs(folder, exist_ok=True)
    options = {"alpha": alpha, "shards_per_client": shards_per_client, "key": key}
    if not isinstance(clients, (int, np.integer)):
        if kind != "iid" or any(value is not None for value in options.values()):
            raise RivuletError("kind= and its options deal examples to a number of clients; these examples have theirs")
        return _by_name(folder, data, clients, names)
    dealt = {
        "kind": kind,
        "clients": int(clients),
        **{name: value for name, value in options.items() if value is not None},
    }
    with tempfile.TemporaryDirectory(prefix=".rivulet-", dir=folder) as temporary:
        write_examples(os.path.join(temporary, "train.tfrecord"), data, names=names)
        # Which model would train on them does not matter to how they are dealt, but a scenario has one.
        scenario = {
            "run": {"seed": seed},
            "model": {"preset": "logistic_regression"},
            "data": {"train": "train.tfrecord", "label_feature": label, "partition": dealt},
            "server": {"clients_per_round": 1},
        }
        path = pathlib.Path(temporary, "scenario.toml")
        path.write_text(toml(scenario), encoding="utf-8")
        try:
            ask(["data", "partition", str(path), "--out", temporary + "/clients"])
        except RivuletError as error:
            raise RivuletError(str(error).replace(temporary + "/", "")) from error
        files = {}
        for file in sorted(pathlib.Path(temporary, "clients").glob("*.tfrecord")):
            files[file.stem] = os.path.join(folder, file.name)
            os.replace(file, files[file.stem])
    return files


def _by_name(folder: str, data: Any, clients: Iterable[Any], names: Optional[Sequence[str]]) -> Dict[str, str]:
    clients = [str(client) for client in clients]
    records = [record for block in _blocks(data, names) for record in encode_columns(block)]
    if len(records) != len(clients):
        raise RivuletError(f"{len(records)} examples have {len(clients)} names of clients")
    of_client: Dict[str, List[bytes]] = {}
    for client, record in zip(clients, records):
        if client in ("", ".", "..") or "/" in client or "\0" in client:
            raise RivuletError(f"a client cannot be called {client!r}: its file has its name")
        of_client.setdefault(client, []).append(record)
    files = {client: os.path.join(folder, f"{client}.tfrecord") for client in sorted(of_client)}
    for client, file in files.items():
        write_records(file, of_client[client])
    return files
