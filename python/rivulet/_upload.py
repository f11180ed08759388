"""Sending an update: from the first block that the coordinator has not staged, until it reports the outcome."""

import contextlib
import threading
from typing import Any, Iterator, List, Optional

from rivulet import _protocol
from rivulet._connection import CallError, Connection
from rivulet._crc32c import crc32c
from rivulet._update import BLOCK_BYTES, Message, head, identity

_CHUNK_BYTES = 256 * 1024
_CHUNK_FIELD = _protocol.SubmitMessage.DESCRIPTOR.fields_by_name["chunk"].number


class _Try:
    """The offset that a try's messages wait for, on gRPC's thread. After its end no more messages are made, so that a
    block's memory belongs to the next try."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held while a block is looked at
        self.ended = False
        self._first = 0
        self._known = threading.Event()

    def go_on(self, first: int) -> None:
        self._first = first
        self._known.set()

    def first_block(self) -> Optional[int]:
        """Once it is known; None: there is none."""
        self._known.wait()
        return None if self.ended else self._first

    def end(self) -> None:
        with self.lock:
            self.ended = True
        self._known.set()


class Upload:
    """The upload of one update, over all tries.

    Attributes
    ----------
    offset : int
        The offset at which the last try resumed.
    furthest : int
        The furthest of these offsets.
    """

    def __init__(self, header: Any, message: Message, step: int) -> None:
        self._header: bytes = header.SerializeToString()
        self._message = message
        self._step = step
        self._crcs: List[int] = []  # of its first blocks
        self.offset = self.furthest = 0

    def _block(self, index: int) -> memoryview:
        block = self._message.block(index)
        if index == len(self._crcs):
            self._crcs.append(int(crc32c([block])[0]))
        return block

    def _chunks(self, index: int) -> List[bytes]:
        """The messages of a block: a copy each, which gRPC needs as bytes."""
        block = self._block(index)
        chunks = (block[begin : begin + _CHUNK_BYTES] for begin in range(0, len(block), _CHUNK_BYTES))
        return [b"".join((head(_CHUNK_FIELD, len(chunk)), chunk)) for chunk in chunks]

    def _resume(self, first: int) -> bytes:
        resume: bytes = _protocol.SubmitMessage(resume=first * BLOCK_BYTES).SerializeToString()
        return resume

    def _finish(self) -> bytes:
        named = identity(self._step, len(self._message), self._crcs)
        finish: bytes = _protocol.SubmitMessage(finish=named).SerializeToString()
        return finish

    def _messages(self, attempt: _Try) -> Iterator[bytes]:
        yield self._header
        first = attempt.first_block()
        if first is None:
            return
        yield self._resume(first)
        for index in range(first, self._message.blocks):
            with attempt.lock:
                if attempt.ended:
                    return
                chunks = self._chunks(index)
            yield from chunks
        yield self._finish()

    def _resume_at(self, staged: Any) -> int:
        """The first block that differs from the staged ones."""
        for index, theirs in enumerate(staged.crcs[: len(self._message) // BLOCK_BYTES]):
            if index == len(self._crcs):
                self._block(index)
            if self._crcs[index] != theirs:
                return index
        return min(len(staged.crcs), len(self._message) // BLOCK_BYTES)

    def send(self, connection: Connection) -> Any:
        """One try: the coordinator's result. CallError: UNAVAILABLE and DATA_LOSS say that it may be sent again."""
        if self.small:
            with connection.submit(self._all()) as replies:
                return self._result(replies, connection)
        attempt = _Try()
        try:
            with connection.submit(self._messages(attempt)) as replies:
                reply = self._reply(replies, connection)
                if reply.HasField("staged"):
                    first = self._resume_at(reply.staged)
                    self.offset = first * BLOCK_BYTES
                    self.furthest = max(self.furthest, self.offset)
                    attempt.go_on(first)
                    reply = self._reply(replies, connection)
                else:
                    attempt.end()
                return self._ended(replies, reply)
        finally:
            attempt.end()

    @property
    def small(self) -> bool:
        """The messages of an update below a block's size, which is never staged: all of it is sent at once."""
        return len(self._message) < BLOCK_BYTES

    def _all(self) -> List[bytes]:
        chunks = [chunk for index in range(self._message.blocks) for chunk in self._chunks(index)]
        return [self._header, self._resume(0), *chunks, self._finish()]

    def begin(self, connection: Connection) -> "Begun":
        """A try of a small one, whose result is read later. CallError as `send`."""
        with contextlib.ExitStack() as stack:
            replies = stack.enter_context(connection.submit(self._all()))
            return Begun(self, replies, connection, stack.pop_all())

    def _result(self, replies: Iterator[bytes], connection: Connection) -> Any:
        """Of one of which all is said."""
        reply = self._reply(replies, connection)
        return self._ended(replies, self._reply(replies, connection) if reply.HasField("staged") else reply)

    def _ended(self, replies: Iterator[bytes], reply: Any) -> Any:
        """The result, and that the call ended well after it."""
        if not reply.HasField("result") or next(replies, None) is not None:
            raise CallError("INTERNAL", "the coordinator did not end an upload with its result")
        return reply.result

    def _reply(self, replies: Iterator[bytes], connection: Connection) -> Any:
        reply = next(replies, None)
        if reply is None:
            raise CallError("UNAVAILABLE", f"the coordinator at {connection.address} ended an upload early")
        return connection.parsed(_protocol.SubmitReply, reply)


class Begun:
    """An upload whose bytes are under way."""

    def __init__(
        self, upload: Upload, replies: Iterator[bytes], connection: Connection, ends: contextlib.ExitStack
    ) -> None:
        self._upload, self._replies, self._connection, self._ends = upload, replies, connection, ends

    def result(self) -> Any:
        """Once. CallError as `Upload.send`."""
        with self._ends:
            return self._upload._result(self._replies, self._connection)

    def close(self) -> None:
        """Cancels the call: its result is not needed."""
        self._ends.close()
