"""safetensors files: models and checkpoints (docs/internals/formats.md)."""

import hashlib
import json
import math
import os
import struct
from typing import Any, BinaryIO, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from rivulet._arrays import Array, as_array
from rivulet._errors import RivuletError
from rivulet._files import PathLike, replaced

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1",
    "BOOL": "?",
}  # fmt: skip
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_HEADER_BYTES = 100_000_000
_MOST_DIMENSIONS = 32  # NumPy's bound before 2.0
_MOST_BYTES = (1 << 63) - 1  # of an array, its dimensions of 0 taken as 1: NumPy's bound
_ALIGNMENT = 64
_OVER_A_BASE = b"rivulet model over a base\n"  # as HashBase of federated/weights/layout.h


class Tensors(Dict[str, Array]):
    """Arrays by name, in the order of the file, and the file's metadata.

    Attributes
    ----------
    metadata : dict of str
        The file's ``__metadata__``.
    """

    def __init__(self, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
        super().__init__(arrays)
        self.metadata = dict(metadata)


class _Entry(NamedTuple):
    name: str
    dtype: str
    shape: Tuple[int, ...]
    begin: int
    end: int


def load_safetensors(path: PathLike, *, widen_bfloat16: bool = False) -> Tensors:
    """Read a safetensors file.

    Parameters
    ----------
    path : path
        The file.
    widen_bfloat16 : bool
        NumPy has no bfloat16. True reads such tensors as float32, which holds each of their values; False refuses
        them by name.

    Returns
    -------
    Tensors
        A dict of arrays that own their memory, with the file's ``metadata``.

    Raises
    ------
    RivuletError
        Where the file is damaged: a name given twice, sizes that do not fit, an overlap, a hole, anything beyond the
        last tensor.
    """
    return read_safetensors(path, widen_bfloat16)[0]


def read_safetensors(path: PathLike, widen_bfloat16: bool) -> Tuple[Tensors, Dict[str, Tuple[Array, str]]]:
    """As `load_safetensors`; and each tensor as it is stored, with its type's name."""
    name = os.fspath(path)
    try:
        file = open(name, "rb")
    except OSError as error:
        raise RivuletError(f"cannot open '{name}': {error.strerror}") from error
    with file:
        try:
            entries, metadata = _read_header(file)
        except ValueError as error:
            raise RivuletError(f"{name} is no safetensors file, or damaged: {error}") from error
        arrays: Dict[str, Array] = {}
        stored: Dict[str, Tuple[Array, str]] = {}
        for entry in entries:
            widened = entry.dtype == "BF16" and widen_bfloat16
            if entry.dtype not in _DTYPES and not widened:
                mend = "; widen_bfloat16=True reads it as float32" if entry.dtype == "BF16" else ""
                raise RivuletError(f"{name}: tensor '{entry.name}' is {entry.dtype}, which NumPy does not have{mend}")
            array = np.empty(entry.shape, "<u2" if widened else _DTYPES[entry.dtype])
            if array.nbytes and file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
                raise RivuletError(f"{name}: the file shrank while it was being read; read it again")
            stored[entry.name] = array, entry.dtype
            arrays[entry.name] = _widen(array) if widened else array
    return Tensors(arrays, metadata), stored


def view_safetensors(content: memoryview) -> Tuple[Tensors, Dict[str, Tuple[Array, str]]]:
    """The tensors of a file that is in memory, as read-only views of it. Values of bfloat16, which NumPy does not have,
    become float32. Each is also given as stored, with its type's name.

    Raises
    ------
    ValueError
        Names the fault of the file.
    """
    metadata, stored = stored_tensors(content)
    return Tensors({name: widened(array, dtype) for name, (array, dtype) in stored.items()}, metadata), stored


def stored_tensors(content: memoryview) -> Tuple[Dict[str, str], Dict[str, Tuple[Array, str]]]:
    """The metadata of a file that is in memory, and its tensors as they are stored: read-only views of it, with their
    types' names. Errors as of `view_safetensors`."""
    content = content.toreadonly()
    length = _header_length(bytes(content[:8]), len(content))
    data = content[8 + length :]
    entries, metadata = _parse_header(bytes(content[8 : 8 + length]), len(data))
    stored: Dict[str, Tuple[Array, str]] = {}
    for entry in entries:
        if entry.dtype not in _DTYPES and entry.dtype != "BF16":
            raise ValueError(f"tensor '{entry.name}' is {entry.dtype}, which NumPy does not have")
        dtype = _DTYPES.get(entry.dtype, "<u2")
        stored[entry.name] = np.frombuffer(data[entry.begin : entry.end], dtype).reshape(entry.shape), entry.dtype
    return metadata, stored


def widened(array: Array, dtype: str) -> Array:
    """A stored tensor as it is given to a program: of bfloat16 a read-only array of float32, of others itself."""
    if dtype != "BF16":
        return array
    array = _widen(array)
    array.flags.writeable = False
    return array


def _widen(halves: Array) -> Array:
    """A bfloat16 is the upper half of a float32."""
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _no_duplicates(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' is given twice")
    return found


def _read_header(file: BinaryIO) -> Tuple[List[_Entry], Dict[str, str]]:
    size = os.fstat(file.fileno()).st_size
    begin = file.read(8)
    length = _header_length(begin, size)
    return _parse_header(file.read(length), size - 8 - length)


def _header_length(begin: bytes, size: int) -> int:
    if size < 8 or len(begin) < 8:
        raise ValueError(f"it has {size} bytes, and its header's length takes 8")
    (length,) = struct.unpack("<Q", begin)
    if length > min(_HEADER_BYTES, size - 8):
        raise ValueError(f"its header says it has {length} bytes, the file has {size}")
    return int(length)


def _parse_header(text: bytes, data_bytes: int) -> Tuple[List[_Entry], Dict[str, str]]:
    try:
        header = json.loads(text.decode(), object_pairs_hook=_no_duplicates)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its __metadata__ are not texts by name")
    entries = sorted(
        (_entry(name, value) for name, value in header.items()), key=lambda entry: (entry.begin, entry.end)
    )
    at = 0
    for entry in entries:
        if entry.begin != at:
            raise ValueError(f"tensor '{entry.name}' begins at byte {entry.begin} of the data and not at {at}")
        at = entry.end
    if at != data_bytes:
        raise ValueError(f"its tensors take {at} bytes, and {data_bytes} are there")
    return entries, metadata


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _entry(name: str, value: Any) -> _Entry:
    try:
        dtype, shape, (begin, end) = value["dtype"], value["shape"], value["data_offsets"]
        if not (isinstance(dtype, str) and isinstance(shape, list) and all(map(_is_count, [*shape, begin, end]))):
            raise TypeError
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"tensor '{name}' has no dtype, shape and data_offsets") from None
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"tensor '{name}' has {len(shape)} dimensions, and at most {_MOST_DIMENSIONS} are read")
    if math.prod((size for size in shape if size), start=8) > _MOST_BYTES:
        raise ValueError(f"tensor '{name}' has the dimensions {shape}, which no memory holds")
    needed = end - begin  # of a type that is not known here, and is refused by name when the tensor is read
    if dtype in _DTYPES or dtype == "BF16":
        needed = math.prod(shape, start=np.dtype(_DTYPES.get(dtype, "<u2")).itemsize)
    if end < begin or needed != end - begin:
        raise ValueError(f"tensor '{name}' of {dtype}{shape} takes {needed} bytes and has those from {begin} to {end}")
    return _Entry(name, dtype, tuple(shape), begin, end)


def _stored(name: str, array: Any) -> Tuple[Array, str]:
    """The array as it is stored, row-major and little-endian, and its type's name. No value is cast."""
    array = as_array(f"tensor '{name}'", array)
    little = array.dtype.newbyteorder("<") if array.dtype.kind in "iuf" else array.dtype
    if little not in _NAMES:
        raise RivuletError(
            f"tensor '{name}' is {array.dtype}, which a safetensors file does not hold; convert it first"
        )
    return np.asarray(array, little, order="C"), _NAMES[little]


def save_safetensors(path: PathLike, tensors: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Write a safetensors file.

    It is written under a temporary name and renamed when complete, in the order given; the data begin at a multiple of
    64 bytes. The same tensors give the same bytes.

    Parameters
    ----------
    path : path
        The file.
    tensors : mapping
        Arrays by name, of any layout. Complex numbers, objects and text are refused by name.
    metadata : mapping of str, optional
        Becomes the file's ``__metadata__``. Default: the ``metadata`` of `tensors` where they came from a file.
    """
    _save(path, tensors, metadata, kept=False)


def keep_safetensors(path: PathLike, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """As `save_safetensors`, for the process after this one: the file is its owner's alone, and survives a crash."""
    _save(path, tensors, metadata, kept=True)


def _save(path: PathLike, tensors: Mapping[str, Any], metadata: Optional[Mapping[str, str]], kept: bool) -> None:
    if metadata is None and isinstance(tensors, Tensors):
        # A digest tells values, which may be others now.
        metadata = {key: value for key, value in tensors.metadata.items() if key != "rivulet.model_digest"}
    header: Dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays: List[Array] = []
    at = 0
    for name, given in tensors.items():
        array, dtype = _stored(name, given)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
        arrays.append(array)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    with replaced(path, private=kept, durable=kept) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays:
            file.write(array.reshape(-1).view(np.uint8).data)


def model_digest(tensors: Mapping[str, Any], *, base: Optional[str] = None) -> str:
    """The ``model_digest`` of tensors: SHA-256 over names, types, shapes and values, in their order.

    Parameters
    ----------
    tensors : mapping
        Arrays by name. Of a model on top of a base model those that are not the base's.
    base : str, optional
        The digest of the base, 64 hexadecimal digits, which is then hashed before them.

    Returns
    -------
    str
        64 hexadecimal digits, as in the history's views `rounds` and `models`.
    """
    return digest_of_stored(((name, *_stored(name, given)) for name, given in tensors.items()), base)


def digest_of_stored(tensors: Iterable[Tuple[str, Array, str]], base: Optional[str] = None) -> str:
    """The ``model_digest`` of names, arrays as they are stored, and the names of their types, on top of a base model."""
    hashed = hashlib.sha256()
    if base is not None:
        hashed.update(_OVER_A_BASE + bytes.fromhex(base))
    hash_stored(hashed, tensors)
    return hashed.hexdigest()


def hash_stored(hashed: Any, tensors: Iterable[Tuple[str, Array, str]]) -> None:
    """Feeds the names, types, shapes and values of tensors, as digests are made of them."""
    for name, array, dtype in tensors:
        text = name.encode()
        hashed.update(struct.pack("<I", len(text)) + text + struct.pack("<B", len(dtype)) + dtype.encode())
        hashed.update(struct.pack(f"<I{array.ndim}Q", array.ndim, *array.shape))
        hashed.update(array.reshape(-1).view(np.uint8).data)
