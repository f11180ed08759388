"""CRC-32C (Castagnoli, RFC 3720) of many records at once.

The standard library has no CRC-32C, and a loop over bytes in Python takes a second for eight megabytes. Where the
package crc32c is installed it computes them. Else NumPy does: a CRC is linear over bits, which gives four ways out of
the loop, and all are taken; for a large record a fifth one, before them:

- zeros in front of the data change nothing while the register begins at 0, so records of several lengths are padded on
  the left to rows of one length;
- a row is cut into chunks of 64 bytes. Where they are many, their registers advance side by side, four bytes a step;
- where they are few, each byte is looked up by its place in the chunk. Its share in the register depends on no other
  byte, and the shares are summed up (xor);
- the register after ``a + b`` is that of ``a``, advanced over as many zeros as ``b`` has bytes, xor that of ``b``. So
  sixteen registers side by side are 64 bytes that are looked up by their places in turn. The same advance accounts for
  the register's true beginning, which is all ones;
- the polynomial has a multiple of four terms. By it a bit may be xored into three bits far behind instead. As squares
  of sums are sums of squares, so may a byte into three bytes that are as many bytes away, and a word of 64 bits. That
  leaves a large record's last 5,685 bytes.
"""

import functools
from typing import Any, Callable, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt


def _installed() -> Optional[Callable[[Union[bytes, memoryview]], int]]:
    try:
        import crc32c
    except ImportError:
        return None
    of_one: Callable[[Union[bytes, memoryview]], int] = crc32c.crc32c
    return of_one


_of_one = _installed()

Words = npt.NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # reversed
_CHUNK_WORDS, _CHUNK_BYTES, _CHUNK_POWER = 16, 64, 6
_GROUP, _GROUP_POWER = 16, 4  # registers that are joined at once: as many bytes as a chunk has
_SLAB_CHUNKS = 4096  # with the tables half a megabyte: stays in the second cache
_FEW_CHUNKS = 256
_BATCH_BYTES = 8 << 20
# x**c + x**b + x**a + 1: of those below 6000 the one with the largest c - b, which can be folded at once.
_FOLD_A, _FOLD_B, _FOLD_C = 426, 1362, 5685
_FOLDED_BYTES = 4 * _FOLD_C  # of less, folding takes as long as it saves


@functools.lru_cache(maxsize=None)
def _zeros(power: int) -> Words:
    """[4, 256]: each byte of a register after 2**power zero bytes."""
    if power == 0:
        one_byte: Words = np.arange(256, dtype=np.uint32)
        for _ in range(8):
            one_byte = (one_byte >> np.uint32(1)) ^ (one_byte & np.uint32(1)) * np.uint32(_POLYNOMIAL)
        table = np.zeros((4, 256), np.uint32)
        table[0] = one_byte
        for byte in range(1, 4):  # the byte only moves down
            table[byte] = np.arange(256, dtype=np.uint32) << np.uint32(8 * (byte - 1))
        return table
    half = _zeros(power - 1)
    return _advance(half, half)


def _advance(table: Words, registers: Words) -> Words:
    advanced: Words = table[0][registers & 0xFF]
    for byte in range(1, 4):
        advanced ^= table[byte][(registers >> np.uint32(8 * byte)) & 0xFF]
    return advanced


@functools.lru_cache(maxsize=None)
def _word_tables() -> Tuple[Words, Words]:
    """The lower and the upper half of a register after four zero bytes."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    return _advance(_zeros(2), halves), _advance(_zeros(2), halves << np.uint32(16))


@functools.lru_cache(maxsize=4096)
def _beginning(length: int) -> int:
    """The register that begins as all ones, after `length` zero bytes."""
    register = np.array([0xFFFFFFFF], np.uint32)
    for power in range(length.bit_length()):
        if length >> power & 1:
            register = _advance(_zeros(power), register)
    return int(register[0])


@functools.lru_cache(maxsize=None)
def _places(power: int) -> Words:
    """[64 * 256]: each byte of a group of registers at the group's end, if each register stands for 2**power bytes. Of
    power -1 the bytes are a chunk's own."""
    if power < 0:
        shares = _advance(_zeros(0), np.arange(256, dtype=np.uint32))[None]
        powers = range(_CHUNK_POWER)
    else:
        shares = np.arange(256, dtype=np.uint32) << 8 * np.arange(4, dtype=np.uint32)[:, None]
        powers = range(power, power + _GROUP_POWER)
    for each in powers:  # twice as many places: those to the left have so many more bytes behind them
        shares = np.concatenate([_advance(_zeros(each), shares), shares])
    return shares.reshape(-1)


_OFFSETS = np.arange(0, _CHUNK_BYTES * 256, 256)


def _summed(power: int, rows: npt.NDArray[np.uint8]) -> Words:
    """Each row's 64 bytes, looked up by their places."""
    shares = _places(power).take(np.add(rows, _OFFSETS, dtype=np.intp), mode="clip")  # which checks nothing twice
    summed: Words = np.bitwise_xor.reduce(shares, axis=1)
    return summed


def _side_by_side(chunks: Words) -> Words:
    """The register of each chunk, four bytes a step."""
    registers = np.zeros(len(chunks), "<u4")
    low, high = _word_tables()
    for begin in range(0, len(chunks), _SLAB_CHUNKS):
        slab = np.ascontiguousarray(chunks[begin : begin + _SLAB_CHUNKS].T)
        register = registers[begin : begin + _SLAB_CHUNKS]
        halves = register.view("<u2")
        lower, upper = np.empty(len(register), np.uint32), np.empty(len(register), np.uint32)
        for word in slab:
            np.bitwise_xor(register, word, out=register)
            low.take(halves[0::2], out=lower, mode="clip")
            high.take(halves[1::2], out=upper, mode="clip")
            np.bitwise_xor(lower, upper, out=register)
    return registers


def _registers(rows: Words) -> Words:
    """The register after each row of words, having begun at 0. The columns are whole chunks."""
    count, width = rows.shape
    chunks = rows.reshape(-1, _CHUNK_WORDS)
    few = len(chunks) < _FEW_CHUNKS
    registers = (_summed(-1, chunks.view(np.uint8)) if few else _side_by_side(chunks)).reshape(count, -1)
    power = _CHUNK_POWER
    while registers.shape[1] > 1:
        groups = -(-registers.shape[1] // _GROUP)
        padded = np.zeros((count, groups * _GROUP), "<u4")
        padded[:, groups * _GROUP - registers.shape[1] :] = registers
        registers = _summed(power, padded.view(np.uint8).reshape(-1, _CHUNK_BYTES)).reshape(count, groups)
        power += _GROUP_POWER
    return registers[:, 0]


def _folded(row: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A row of whole chunks as its last ones, to which all others are folded in place. The register is the same."""
    for unit in (np.uint64, np.uint8):
        words: npt.NDArray[Any] = row.view(unit)
        begin, count, most = 0, len(words), _FOLD_C - _FOLD_B
        while (at_once := min(most, count - begin - _FOLD_C)) > 0:
            folded = words[begin : begin + at_once]
            for distance in (_FOLD_C - _FOLD_B, _FOLD_C - _FOLD_A, _FOLD_C):
                behind = words[begin + distance : begin + distance + at_once]
                np.bitwise_xor(behind, folded, out=behind)
            begin += at_once
        kept = begin * words.itemsize // _CHUNK_BYTES * _CHUNK_BYTES
        row[kept : begin * words.itemsize] = 0
        row = row[kept:]
    return row


def _crc32c_of(record: Union[bytes, memoryview]) -> int:
    """Of one record of at least four bytes: a register that begins as all ones is one that begins at 0 before data whose
    first bits are turned around."""
    length = len(record)
    row = np.zeros(-(-length // _CHUNK_BYTES) * _CHUNK_BYTES, np.uint8)
    data = row[len(row) - length :]
    data[:] = np.frombuffer(record, np.uint8)
    data[:4] ^= 0xFF
    if length >= _FOLDED_BYTES:
        row = _folded(row)
    return int(_registers(row.view("<u4")[None])[0]) ^ 0xFFFFFFFF


def crc32c(records: Sequence[Union[bytes, memoryview]]) -> Words:
    """The CRC-32C of each record."""
    if _of_one is not None:
        return np.fromiter(map(_of_one, records), np.uint32, len(records))
    if min(map(len, records), default=0) >= (4 if len(records) == 1 else _FOLDED_BYTES):
        return np.array([_crc32c_of(record) for record in records], np.uint32)
    lengths = np.fromiter((len(record) for record in records), np.int64, len(records))
    result = np.zeros(len(records), np.uint32)
    # Rows as wide as the next power of two: at most twice the bytes, and few kinds of rows.
    chunks = -(-lengths // _CHUNK_BYTES)
    widths = np.array([_CHUNK_WORDS << max(0, int(count - 1).bit_length()) for count in chunks], np.int64)
    for width in np.unique(widths):
        of_width = np.flatnonzero(widths == width)
        at_once = max(1, _BATCH_BYTES // (4 * int(width)))
        for begin in range(0, len(of_width), at_once):
            which = of_width[begin : begin + at_once]
            rows = np.zeros((len(which), 4 * int(width)), np.uint8)
            length = int(lengths[which[0]])
            if length > 0 and (lengths[which] == length).all():
                together = b"".join(records[index] for index in which)
                rows[:, -length:] = np.frombuffer(together, np.uint8).reshape(-1, length)
            else:
                for row, index in zip(rows, which):
                    row[len(row) - lengths[index] :] = np.frombuffer(records[index], np.uint8)
            result[which] = _registers(rows.view("<u4"))
    distinct, which_length = np.unique(lengths, return_inverse=True)
    beginnings = np.array([_beginning(int(length)) for length in distinct], np.uint32)
    return result ^ beginnings[which_length] ^ np.uint32(0xFFFFFFFF)


def masked_crc32c(records: Sequence[bytes]) -> Words:
    """As TFRecord files store it, so that a CRC of data that hold CRCs is no weaker."""
    crc = crc32c(records)
    return (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)
