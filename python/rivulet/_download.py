"""Fetching a blob: received bytes are kept over lost connections, and only the rest is requested."""

import os
from typing import Any, BinaryIO, Callable, Iterator, Optional, Tuple

from rivulet._arrays import Pages
from rivulet._connection import CallError, Connection
from rivulet._crc32c import crc32c
from rivulet._example import fields


def _chunk(message: memoryview) -> Tuple[int, memoryview, int]:
    """total_bytes, data and crc of a ChunkProto, whose data stay where they are: its class would copy them twice."""
    total, data, crc = 0, message[:0], 0
    try:
        for number, wire, value in fields(message):
            if (number, wire) == (1, 0):
                total = value
            elif (number, wire) == (2, 2):
                data = value
            elif (number, wire) == (3, 5):
                crc = int.from_bytes(value, "little")
    except ValueError as error:
        raise CallError("DATA_LOSS", f"a chunk of a download that is none: {error}") from None
    return total, data, crc


def _arriving(connection: Connection, request: Any, offset: int, announce: Callable[[int], None]) -> Iterator[memoryview]:
    """The data of each chunk from `offset` on, whose CRC was compared. `announce` is called with the whole size first."""
    begun = False
    with connection.fetch(request) as chunks:
        for chunk in chunks:
            total, data, crc = _chunk(memoryview(chunk))
            if not begun:
                announce(total)
                begun = True
            if data and int(crc32c([data])[0]) != crc:
                raise CallError("DATA_LOSS", f"{len(data)} bytes from byte {offset} of a download came damaged")
            offset += len(data)
            yield data


class FileDownload:
    """The download of one blob of at most `most` bytes, over all tries and processes, to the end of a file that is open
    for appending.

    Attributes
    ----------
    size : int
        How much of it is here.
    """

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self._most = most
        self.size = file.seek(0, os.SEEK_END)

    def forget(self) -> None:
        """Begins anew: the places of wrong bytes are unknown."""
        self._file.truncate(0)
        self.size = 0

    def receive(self, connection: Connection, request: Any) -> None:
        """One try, from `size` on, to the end. CallError as of `Download.receive`."""
        whole: Optional[int] = None

        def announce(total: int) -> None:
            nonlocal whole
            if not 0 < total <= self._most:
                raise CallError("OUT_OF_RANGE", f"a base of {total} bytes was announced, and at most {self._most} are taken")
            whole = total

        for data in _arriving(connection, request, self.size, announce):
            assert whole is not None
            if self.size + len(data) > whole:
                self.forget()
                raise CallError("DATA_LOSS", f"more than the {whole} bytes that were announced of a base came")
            self._file.write(data)
            self.size += len(data)
        if whole is None or self.size < whole:
            self._file.flush()
            raise CallError("UNAVAILABLE", f"a download ended at byte {self.size}, before its end")


class Download:
    """The download of one blob of at most `most` bytes, over all tries, into memory of `pages`.

    Attributes
    ----------
    size : int
        How much of it is here.
    """

    def __init__(self, pages: Pages, most: int) -> None:
        self._pages = pages
        self._most = most
        self._room: Optional[memoryview] = None
        self.size = 0

    def forget(self) -> None:
        """Begins anew: the places of wrong bytes are unknown."""
        self._room = None
        self.size = 0

    def _announced(self, total: int) -> memoryview:
        if self._room is not None and len(self._room) == total:
            return self._room
        if self._room is not None:
            self.forget()
            raise CallError("DATA_LOSS", "a blob has another size than when its download began")
        if not 0 < total <= self._most:
            raise CallError("OUT_OF_RANGE", f"a blob of {total} bytes was announced, and at most {self._most} are taken")
        try:
            self._room = room = self._pages.of(total)
        except (OSError, OverflowError, ValueError) as error:
            raise CallError("OUT_OF_RANGE", f"a blob of {total} bytes was announced: {error}") from error
        return room

    def receive(self, connection: Connection, request: Any) -> memoryview:
        """One try, from `size` on: the whole blob. CallError: UNAVAILABLE and DATA_LOSS say that it may be tried again."""
        room: Optional[memoryview] = None

        def announce(total: int) -> None:
            nonlocal room
            room = self._announced(total)

        for data in _arriving(connection, request, self.size, announce):
            assert room is not None
            end = self.size + len(data)
            if end > len(room):
                self.forget()
                raise CallError("DATA_LOSS", f"more than the {len(room)} bytes that were announced of a blob came")
            room[self.size : end] = data
            self.size = end
        if room is None or self.size < len(room):
            raise CallError("UNAVAILABLE", f"a download ended at byte {self.size}, before its end")
        return room
