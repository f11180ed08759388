"""tf.train.Example messages, in the encoding of Protocol Buffers.

    Example  { Features features = 1; }       Features { map<string, Feature> feature = 1; }
    Feature  { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
    BytesList { repeated bytes value = 1; }   FloatList { repeated float value = 1 [packed]; }
    Int64List { repeated int64 value = 1 [packed]; }

Twenty lines of encoding, so that neither protobuf nor TensorFlow is needed; and examples are written column by column,
so that a data set of sixty thousand takes a second.
"""

from typing import Any, Dict, Iterator, List, Mapping, Tuple, Union

import numpy as np
import numpy.typing as npt

from rivulet._arrays import Array, as_array
from rivulet._errors import RivuletError

Feature = Union[List[bytes], npt.NDArray[np.int64], npt.NDArray[np.float32]]

_BYTES, _FLOAT, _INT64 = 1, 2, 3


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint_rows(rows: npt.NDArray[np.int64]) -> List[bytes]:
    """The varints of each row, one after another; a negative number takes ten bytes, as Protocol Buffers has it."""
    values = rows.astype(np.uint64, casting="unsafe").reshape(-1)
    shifts = np.arange(0, 70, 7, dtype=np.uint64)
    digits = values[:, None] >> np.minimum(shifts, np.uint64(63))
    digits[:, 9] = values >> np.uint64(63)
    sizes = np.maximum(1, (digits != 0).sum(axis=1))
    out = (digits & np.uint64(0x7F)).astype(np.uint8)
    more = np.arange(10) < (sizes - 1)[:, None]
    out[more] |= 0x80
    flat = out[np.arange(10) < sizes[:, None]].tobytes()
    ends = np.cumsum(sizes.reshape(len(rows), -1).sum(axis=1)).tolist()
    return [flat[begin:end] for begin, end in zip([0, *ends], ends)]


def _strings(name: str, column: Array) -> List[bytes]:
    """A feature of one value per example: text, bytes, or arrays of bytes such as an image's pixels."""
    out = []
    for value in column.tolist():
        if isinstance(value, str):
            value = value.encode()
        if not isinstance(value, bytes):
            raise RivuletError(
                f"feature '{name}' holds a {type(value).__name__}: an example holds text, bytes, integers and float32"
            )
        out.append(value)
    return out


def column_kind(name: str, column: Array) -> int:
    """The kind of Feature list for a column, or a sentence with the reason against it."""
    if column.ndim == 0:
        raise RivuletError(f"feature '{name}' is one value and not one per example")
    kind = column.dtype.kind
    if kind in "OSU":
        if column.ndim != 1:
            raise RivuletError(
                f"feature '{name}' has {column.ndim - 1} dimensions of text or objects in each example: an "
                "example takes one"
            )
        return _BYTES
    if column.dtype == np.uint8 and column.ndim > 1:
        return _BYTES
    if kind in "iub":
        if column.size and int(column.max()) > 2**63 - 1:
            raise RivuletError(f"feature '{name}' has values beyond int64, the type that an example holds")
        return _INT64
    if column.dtype in (np.float32, np.float16):
        return _FLOAT
    raise RivuletError(
        f"feature '{name}' is {column.dtype}, which an example does not hold; convert it first, such as with "
        f".astype(np.float32)"
    )


def encode_columns(columns: Mapping[str, Array]) -> Iterator[bytes]:
    """An Example for each row of the columns, which have as many. Features stand in the order of their names."""
    entries: List[List[bytes]] = []
    for name in sorted(columns):
        column = columns[name]
        kind = column_kind(name, column)
        key = _field(1, name.encode())
        if kind == _BYTES:
            rows = _strings(name, column) if column.dtype != np.uint8 else [row.tobytes() for row in column]
            lists = [_field(1, value) for value in rows]
        elif kind == _FLOAT:
            flat = np.ascontiguousarray(column, "<f4").reshape(len(column), -1)
            lists = [_field(1, row.tobytes()) for row in flat]
        else:
            lists = [_field(1, row) for row in _varint_rows(column.astype(np.int64).reshape(len(column), -1))]
        entries.append([_field(1, key + _field(2, _field(kind, values))) for values in lists])
    for features in zip(*entries):
        yield _field(1, b"".join(features))


def encode_example(features: Mapping[str, Any]) -> bytes:
    """Encode one ``tf.train.Example``.

    Parameters
    ----------
    features : mapping
        By name: text, bytes or a ``uint8`` array (one bytes value), integers, or ``float32`` and ``float16``; a number
        or an array of any shape, which is flattened. Anything else is refused by name, never cast.

    Returns
    -------
    bytes
        The message; the same features give the same bytes.
    """
    columns: Dict[str, Array] = {}
    for name, value in features.items():
        text = isinstance(value, (str, bytes))
        columns[name] = np.array([value], object) if text else as_array(f"feature '{name}'", value)[None]
    if not columns:
        return _field(1, b"")
    (record,) = encode_columns(columns)
    return record


def _read_varint(raw: Union[bytes, memoryview], at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise ValueError("cut off within a number")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at


def fields(raw: Union[bytes, memoryview]) -> Iterator[Tuple[int, int, Any]]:
    """Number, wire type and value of each field; the value of length-delimited and fixed fields is a piece of `raw`."""
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("a field with the number 0")
        if wire == 0:
            value, at = _read_varint(raw, at)
            yield number, wire, value
            continue
        if wire == 2:
            length, at = _read_varint(raw, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a field of the unknown wire type {wire}")
        if length > len(raw) - at:
            raise ValueError(f"a field of {length} bytes, of which {len(raw) - at} are there")
        yield number, wire, raw[at : at + length]
        at += length


def _feature(raw: bytes) -> Feature:
    value: Feature = []
    for kind, wire, message in fields(raw):
        if wire != 2 or kind not in (_BYTES, _FLOAT, _INT64):
            continue
        if kind == _BYTES:
            value = [item for number, item_wire, item in fields(message) if number == 1 and item_wire == 2]
        elif kind == _FLOAT:  # packed or one by one: the bytes are the same
            floats = b"".join(
                item for number, item_wire, item in fields(message) if number == 1 and item_wire in (2, 5)
            )
            value = np.frombuffer(floats, "<f4").astype(np.float32)
        else:
            numbers: List[int] = []
            for number, item_wire, item in fields(message):
                if number != 1:
                    continue
                if item_wire == 0:
                    numbers.append(item)
                at = 0
                while item_wire == 2 and at < len(item):
                    decoded, at = _read_varint(item, at)
                    numbers.append(decoded)
            value = np.array(numbers, np.uint64).astype(np.int64)
    return value


def decode_example(record: bytes) -> Dict[str, Feature]:
    """Decode one ``tf.train.Example``.

    It is read as Protocol Buffers reads it: packed and unpacked lists, the last of several entries of one name, unknown
    fields skipped.

    Parameters
    ----------
    record : bytes
        The message.

    Returns
    -------
    dict
        By name: a list of bytes, or a one-dimensional array of ``int64`` or ``float32``; an empty list for a feature
        without a kind.

    Raises
    ------
    RivuletError
        Where it is no such message.
    """
    features: Dict[str, Feature] = {}
    try:
        for number, wire, message in fields(record):
            if number != 1 or wire != 2:
                continue
            for entry_number, entry_wire, entry in fields(message):
                if entry_number != 1 or entry_wire != 2:
                    continue
                name, feature = b"", b""
                for part, part_wire, value in fields(entry):
                    if part == 1 and part_wire == 2:
                        name = value
                    elif part == 2 and part_wire == 2:
                        feature = value
                features[name.decode()] = _feature(feature)
    except ValueError as error:  # also of text that is not UTF-8, and of floats of three bytes
        raise RivuletError(f"no tf.train.Example: {error}") from error
    return features
