"""TFRecord files: framing and checksums (docs/internals/formats.md)."""

import contextlib
import io
import os
import stat
import struct
import zlib
from typing import BinaryIO, Iterable, Iterator, List, Tuple

from rivulet._crc32c import masked_crc32c
from rivulet._errors import RivuletError
from rivulet._files import PathLike, replaced

_AT_ONCE_BYTES = 4 << 20  # records whose checksums are computed together
_AT_ONCE_RECORDS = 4096
_UNPACKED_BYTES = 1 << 30  # a packed file may always be as large as this unpacked,
_UNPACKED_TIMES = 64  # and as many times its own size


def write_records(path: PathLike, records: Iterable[bytes]) -> int:
    """Write a TFRecord file, as TensorFlow writes it.

    The file is written under a temporary name and renamed when complete: an error leaves the earlier file.

    Parameters
    ----------
    path : path
        The file.
    records : iterable of bytes
        May be a generator: no more than four megabytes of it are held at once.

    Returns
    -------
    int
        How many records there are.
    """
    count = 0
    with replaced(path) as file:
        for batch in _batches(records):
            lengths = [struct.pack("<Q", len(record)) for record in batch]
            for length, length_crc, record, data_crc in zip(
                lengths, masked_crc32c(lengths).tolist(), batch, masked_crc32c(batch).tolist()
            ):
                file.write(length + struct.pack("<I", length_crc) + record + struct.pack("<I", data_crc))
            count += len(batch)
    return count


def _batches(records: Iterable[bytes]) -> Iterator[List[bytes]]:
    batch: List[bytes] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record)
        if size >= _AT_ONCE_BYTES or len(batch) >= _AT_ONCE_RECORDS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_records(path: PathLike) -> Iterator[bytes]:
    """Read a TFRecord file, plain or packed with GZIP or ZLIB, record by record.

    Parameters
    ----------
    path : path
        The file.

    Yields
    ------
    bytes
        A record whose checksums are right.

    Raises
    ------
    RivuletError
        Where a file is damaged, cut off or none of records: ``FILE: record N at byte B: what``. Nothing is skipped.
    """
    name = os.fspath(path)
    with _records_of(name) as (stream, size):
        at = index = 0
        while at < size:
            begins, lengths, records, stored, why = _frames(stream, at, size)
            length_crcs, data_crcs = masked_crc32c(lengths).tolist(), masked_crc32c(records).tolist()
            for number, record in enumerate(records):
                where = f"{name}: record {index} at byte {begins[number]}: "
                if stored[number][0] != length_crcs[number]:
                    raise RivuletError(where + _wrong_length(stored[number][0], length_crcs[number]))
                if stored[number][1] != data_crcs[number]:
                    raise RivuletError(
                        f"{where}the data's checksum is wrong (stored 0x{stored[number][1]:08x}, computed "
                        f"0x{data_crcs[number]:08x}): the record is damaged"
                    )
                yield record
                index += 1
                at = begins[number] + 16 + len(record)
            if why:
                raise RivuletError(f"{name}: record {index} at byte {at}: {why}")


@contextlib.contextmanager
def _records_of(name: str) -> Iterator[Tuple[BinaryIO, int]]:
    """The stream of records of a file, and its bytes."""
    try:
        file = open(name, "rb")
        mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise RivuletError(f"cannot open '{name}': {error.strerror}") from error
    with file:
        if not stat.S_ISREG(mode):
            raise RivuletError(f"cannot read '{name}': not a regular file; write its content to a file first")
        kind = _packing(file.read(12))
        file.seek(0)
        if kind:
            unpacked = _unpack(name, file.read(), kind)
            yield io.BytesIO(unpacked), len(unpacked)
        else:
            yield file, os.fstat(file.fileno()).st_size


def _wrong_length(stored: int, computed: int) -> str:
    return (
        f"the length's checksum is wrong (stored 0x{stored:08x}, computed 0x{computed:08x}): damaged, or not a "
        "TFRecord file"
    )


def _frames(
    stream: BinaryIO, at: int, size: int
) -> Tuple[List[int], List[bytes], List[bytes], List[Tuple[int, int]], str]:
    """The offsets of the next records, their lengths as stored, their data, the two checksums stored with them.

    The last value is the reason why the record after them cannot be read, if so.

    Lengths are trusted here within the file. Their checksums are checked afterwards and in order, so that records after
    a wrong one are never returned.
    """
    begins: List[int] = []
    lengths: List[bytes] = []
    records: List[bytes] = []
    stored: List[Tuple[int, int]] = []
    end = at + _AT_ONCE_BYTES
    why = ""
    while at < size and at < end and len(begins) < _AT_ONCE_RECORDS:
        left = size - at
        if left < 12:
            why = f"cut off: {left} of the header's 12 bytes are there"
            break
        header = stream.read(12)
        length, length_crc = struct.unpack("<QI", header)
        if length > left - 16:
            (computed,) = masked_crc32c([header[:8]]).tolist()
            why = (
                _wrong_length(length_crc, computed)
                if computed != length_crc
                else (
                    f"the record says it has {length} bytes of data, but the file ends {left - 12} bytes after its "
                    "header: cut off or damaged"
                )
            )
            break
        begins.append(at)
        lengths.append(header[:8])
        records.append(stream.read(length))
        stored.append((length_crc, struct.unpack("<I", stream.read(4))[0]))
        at += 16 + length
    return begins, lengths, records, stored, why


def _packing(head: bytes) -> str:
    """The compression of a file, by its first bytes. A file with a valid record header is always plain."""
    if len(head) == 12 and masked_crc32c([head[:8]])[0] == struct.unpack_from("<I", head, 8)[0]:
        return ""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if len(head) >= 2 and head[0] & 0x0F == 8 and head[0] >> 4 <= 7 and (head[0] << 8 | head[1]) % 31 == 0:
        return "zlib"
    return ""


def _unpack(name: str, packed: bytes, kind: str) -> bytes:
    allowed = max(_UNPACKED_BYTES, _UNPACKED_TIMES * len(packed))
    parts: List[bytes] = []
    size = 0
    rest = packed
    while rest:
        stream = zlib.decompressobj(wbits=31 if kind == "gzip" else 15)
        while not stream.eof:
            try:
                part = stream.decompress(rest, min(allowed - size + 1, 16 << 20))
            except zlib.error as error:
                at = len(packed) - len(rest)
                raise RivuletError(
                    f"{name}: the {kind} stream is damaged near byte {at} of the file ({error})"
                ) from error
            rest = stream.unconsumed_tail if not stream.eof else stream.unused_data
            size += len(part)
            parts.append(part)
            if size > allowed:
                raise RivuletError(
                    f"{name}: the {kind} stream unpacks to more than the {allowed} bytes allowed; unpack "
                    "it by hand if it is meant"
                )
            if not stream.eof and not rest and not part:
                raise RivuletError(f"{name}: the {kind} stream is cut off: copy the file again")
        if kind == "zlib" and rest:
            raise RivuletError(f"{name}: the zlib stream ends {len(rest)} bytes before the file does: damaged")
    return b"".join(parts)
