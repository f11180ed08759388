"""The upload of a client: the Update message (proto/federated/update.proto) and its name on the wire.

The message is written by hand around its numbers, a block at a time. A class of protobuf would hold them a second time,
and once more while it serializes them.
"""

import difflib
import hashlib
import numbers
import operator
import struct
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np

from rivulet._arrays import Array, as_array
from rivulet._client import Delta, Params
from rivulet._errors import RivuletError, clean
from rivulet._plan import TRAIN, Plan, Variable

BLOCK_BYTES = 1 << 20

_BYTES, _FIXED64 = 2, 1  # wire types
_PARTS, _SCALARS = 2, 3  # fields of Update
_NAME, _DATA = 1, 3  # of UpdatePart
_KEY, _VALUE = 1, 2  # of a map's entry


class BadResult(RivuletError):
    """A client's result cannot be sent: a local sentence, and a fact of it without values."""

    def __init__(self, fact: str, sentence: str) -> None:
        super().__init__(clean(sentence))
        self.fact = clean(fact)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def head(field: int, length: int) -> bytes:
    """The prefix of a field of so many bytes."""
    return _varint(field << 3 | _BYTES) + _varint(length)


def _text(field: int, text: str) -> bytes:
    content = text.encode()
    return head(field, len(content)) + content


def _checked(variable: Variable, given: Mapping[str, Any], base: Array) -> Array:
    name = variable.name
    try:
        array = as_array(f"'{name}', which fit gave,", given[name])
    except RivuletError as error:
        raise BadResult(f"'{name}' is no array", str(error)) from error
    if array.dtype != base.dtype:
        raise BadResult(
            f"'{name}' is {array.dtype}",
            f"fit gave '{name}' as {array.dtype}, and it is {base.dtype}; say astype(numpy.{base.dtype.name}) if "
            "nothing is lost by that",
        )
    if array.shape != base.shape:
        raise BadResult(
            f"'{name}' has shape {array.shape}",
            f"fit gave '{name}' with shape {array.shape}, and its shape is {base.shape}",
        )
    return array


def _check_names(given: Mapping[str, Any], base: Mapping[str, Array], needed: List[str]) -> None:
    for name in given:
        if name not in base:
            near = difflib.get_close_matches(str(name), list(base), 1)
            mend = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(base)}"
            raise BadResult(
                "it gave a variable that the model has not",
                f"fit gave '{name}', which is no variable of the model; {mend}",
            )
    for name in needed:
        if name not in given:
            raise BadResult(
                f"it gave no '{name}'",
                f"fit gave no '{name}'; give every variable of the model that is trained or shared",
            )


def _examples(given: Any, what: str) -> int:
    try:
        count = operator.index(given)
    except TypeError:
        count = 0
    if count < 1 or isinstance(given, bool):
        raise BadResult(
            "its examples are no whole number of at least 1",
            f"{what} gave examples={given!r}; it is how many there were, a whole number of at least 1",
        )
    return count


def _measured(name: str, value: float, examples: int, taken: Set[str]) -> Dict[str, float]:
    """A metric by the plan's name: in an evaluation a rate is the count of correct ones and of all."""
    full = f"evaluate/{name}"
    if name in taken or f"{full}/right" not in taken:
        return {full if full in taken else name: value}
    right = round(value * examples) if abs(value) <= 1 else -1
    if right < 0 or abs(right - value * examples) > 1e-3:
        raise BadResult(
            f"its metric '{name}' is no rate of its examples",
            f"evaluate gave the metric '{name}' as {value}, which is no share of {examples} examples; give "
            f"'{name}/right' and '{name}/total', how many are right and how many there are",
        )
    return {f"{full}/right": float(right), f"{full}/total": float(examples)}


def scalars_of(result: Any, what: str, plan: Plan, kind: int) -> Tuple[Dict[str, float], List[str]]:
    """The metrics of a result, in order of names, and those that the plan does not take."""
    examples = _examples(result.examples, what)
    declared: Dict[str, float] = {"examples": float(examples)}
    taken, dropped = plan.declared(kind), []
    for name, value in dict(result.metrics or {}).items():
        if not any(full in taken for full in (name, f"evaluate/{name}", f"evaluate/{name}/right")):
            dropped.append(str(name))
            continue
        if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # of NumPy or PyTorch
            value = value.item()
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise BadResult(
                f"its metric '{name}' is no number", f"{what} gave the metric '{name}' as {value!r}; it is a number"
            )
        declared.update(_measured(name, float(value), examples, taken))
    missing = sorted(plan.required(kind) - set(declared))
    if missing:
        asked = missing[0][len("evaluate/") :] if missing[0].startswith("evaluate/") else missing[0]
        raise BadResult(
            f"it gave no metric '{asked}'",
            f"{what} gave no metric '{asked}', which the plan sums over all updates; give it",
        )
    return dict(sorted(declared.items())), dropped


def _scalar_fields(scalars: Mapping[str, float]) -> bytes:
    out = b""
    for name, value in scalars.items():
        entry = _text(_KEY, name) + _varint(_VALUE << 3 | _FIXED64) + struct.pack("<d", value)
        out += head(_SCALARS, len(entry)) + entry
    return out


class _Values(NamedTuple):
    """Numbers of an update as float32: `array`, less or plus its former value `was`."""

    array: Array
    was: Optional[Array]
    combine: Any  # numpy.subtract or numpy.add: of `array` and `was`, in this order

    @property
    def size(self) -> int:
        return self.array.nbytes

    def write(self, begin: int, end: int, to: memoryview) -> None:
        """Its bytes from `begin` to `end`, which may be within a number. Sums are formed in place."""
        if self.was is None:
            to[:] = self.array.view(np.uint8).data[begin:end]
            return
        first, last = -(-begin // 4), end // 4  # the whole numbers
        if first > last:
            to[:] = self._number(self.was, last)[begin - 4 * last : end - 4 * last]
            return
        before, behind = 4 * first - begin, 4 * last - begin
        whole = np.frombuffer(to[before:behind], np.float32)
        self.combine(self.array[first:last], self.was[first:last], out=whole)
        if before > 0:
            to[:before] = self._number(self.was, first - 1)[4 - before :]
        if behind < len(to):
            to[behind:] = self._number(self.was, last)[: len(to) - behind]

    def _number(self, was: Array, index: int) -> bytes:
        number: Array = self.combine(*(array[index : index + 1] for array in (self.array, was)))
        return number.tobytes()


class Message:
    """An Update as the bytes that it is sent as, made block by block where they are sent: it is never there as a whole.
    Its inputs must not change meanwhile."""

    def __init__(self, pieces: Sequence[Union[bytes, memoryview, _Values]]) -> None:
        self._pieces = pieces
        self._begins = []
        self._size = 0
        for piece in pieces:
            self._begins.append(self._size)
            self._size += piece.size if isinstance(piece, _Values) else len(piece)
        # Numbers lie as far behind a multiple of four in each block as in the message: here on one, in memory.
        first = next((at for at, piece in zip(self._begins, pieces) if isinstance(piece, _Values)), 0)
        self._room = memoryview(bytearray(min(BLOCK_BYTES, self._size) + 3))[-first % 4 :]

    def __len__(self) -> int:
        return self._size

    @property
    def blocks(self) -> int:
        return -(-self._size // BLOCK_BYTES)

    def block(self, index: int) -> memoryview:
        """A MiB of it, the last one may be shorter; valid until the next one is asked for."""
        begin = index * BLOCK_BYTES
        end = min(begin + BLOCK_BYTES, self._size)
        for at, piece in zip(self._begins, self._pieces):
            size = piece.size if isinstance(piece, _Values) else len(piece)
            low, high = max(begin, at), min(end, at + size)
            if low >= high:
                continue
            to = self._room[low - begin : high - begin]
            if isinstance(piece, _Values):
                piece.write(low - at, high - at, to)
            else:
                to[:] = piece[low - at : high - at]
        return self._room[: end - begin]

    def __bytes__(self) -> bytes:
        return b"".join(bytes(self.block(index)) for index in range(self.blocks))


def write_evaluation(scalars: Mapping[str, float]) -> Message:
    """An Update of an evaluation, which has no parts."""
    return Message([_scalar_fields(scalars)])


def _check_unchanged(variable: Variable, result: Params, base: Array, what: str) -> None:
    if result.arrays[variable.name] is base and not isinstance(result, Delta):
        return  # as it was given, which may be gigabytes
    given = _checked(variable, result.arrays, base)
    unchanged = np.zeros_like(base) if isinstance(result, Delta) else base
    if not np.array_equal(given, unchanged, equal_nan=unchanged.dtype.kind == "f"):
        raise BadResult(
            f"it changed '{variable.name}', which is {what}",
            f"fit changed '{variable.name}', which is {what}; leave it as it is, or out",
        )


def write_update(result: Params, scalars: Mapping[str, float], plan: Plan, base: Mapping[str, Array]) -> Message:
    """An Update of a training that began with `base`, all that `fit` was given: differences are taken where they are
    sent.

    Raises
    ------
    BadResult
        Names of the missing and the unknown entries of `result`. Nothing is cast.
    """
    for variable in plan.base_variables:
        if variable.name in result.arrays:
            _check_unchanged(variable, result, base[variable.name], "of the base")
    trained = [variable for variable in plan.variables if variable.segment == "trainable"]
    shared = [variable for variable in plan.variables if variable.segment == "shared"]
    parts = plan.parts()
    wanted = [trained + (shared if part.shared_too else []) for part in parts]
    needed = [variable.name for variable in trained + shared if any(variable in each for each in wanted)]
    _check_names(result.arrays, base, needed)
    given = {
        variable.name: _checked(variable, result.arrays, base[variable.name])
        for variable in plan.variables
        if variable.name in result.arrays
    }
    changes = isinstance(result, Delta)
    for variable in plan.variables:
        if variable.segment == "frozen" and variable.name in given:
            _check_unchanged(variable, result, base[variable.name], "frozen")

    pieces: List[Union[bytes, _Values]] = []
    for part, each in zip(parts, wanted):
        size = sum(given[variable.name].nbytes for variable in each)
        inner = _text(_NAME, part.name) + head(_DATA, size)
        pieces.append(head(_PARTS, len(inner) + size) + inner)
        for variable in each:
            array = np.ascontiguousarray(given[variable.name]).reshape(-1)
            combined = part.whole == changes  # what is given is not what is sent
            was = np.ascontiguousarray(base[variable.name]).reshape(-1) if combined else None
            pieces.append(_Values(array, was, np.add if changes else np.subtract))
    return Message([*pieces, _scalar_fields(scalars)])


def identity(step: int, size: int, crcs: List[int]) -> bytes:
    """The name of an upload, as in docs/internals/formats.md."""
    return hashlib.sha256(b"RVUP" + struct.pack(f"<IQI{len(crcs)}I", step, size, len(crcs), *crcs)).digest()
