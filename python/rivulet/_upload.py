"""Sending an update: from where what the coordinator has staged of it differs, until it says what became of it."""

import contextlib
from typing import Any, Iterator, List

from rivulet import _protocol
from rivulet._connection import CallError, Connection
from rivulet._crc32c import crc32c
from rivulet._http2 import Buffer, Call
from rivulet._update import BLOCK_BYTES, Message, head, identity

_CHUNK_BYTES = 256 * 1024
_CHUNK_FIELD = _protocol.SubmitMessage.DESCRIPTOR.fields_by_name["chunk"].number


class Upload:
    """Of one update, for as many tries as it takes.

    Attributes
    ----------
    offset : int
        Where the last try went on.
    furthest : int
        Where the furthest one went on.
    """

    def __init__(self, header: Any, message: Message, step: int) -> None:
        self._header = [header.SerializeToString()]
        self._message = message
        self._step = step
        self._crcs: List[int] = []  # of its first blocks
        self.offset = self.furthest = 0

    def _block(self, index: int) -> memoryview:
        block = self._message.block(index)
        if index == len(self._crcs):
            self._crcs.append(int(crc32c([block])[0]))
        return block

    def _chunks(self, first: int) -> Iterator[List[Buffer]]:
        """The messages that follow the header, with the blocks from the first one on. A block is made when it is asked
        for, and holds until the next one is."""
        yield [_protocol.SubmitMessage(resume=first * BLOCK_BYTES).SerializeToString()]
        for index in range(first, self._message.blocks):
            block = self._block(index)
            for begin in range(0, len(block), _CHUNK_BYTES):
                chunk = block[begin : begin + _CHUNK_BYTES]
                yield [head(_CHUNK_FIELD, len(chunk)), chunk]
        named = identity(self._step, len(self._message), self._crcs)
        yield [_protocol.SubmitMessage(finish=named).SerializeToString()]

    def _resume_at(self, staged: Any) -> int:
        """The first block that differs from what is staged."""
        for index, theirs in enumerate(staged.crcs[: len(self._message) // BLOCK_BYTES]):
            if index == len(self._crcs):
                self._block(index)
            if self._crcs[index] != theirs:
                return index
        return min(len(staged.crcs), len(self._message) // BLOCK_BYTES)

    def send(self, connection: Connection) -> Any:
        """One try: the coordinator's result. CallError: UNAVAILABLE and DATA_LOSS say that it may be sent again."""
        with connection.submit() as call:
            if self.small:
                self._say_all(call)
                return self._result(call, connection)
            call.send([self._header], end=False)
            reply = self._reply(call, connection)
            if reply.HasField("staged"):
                first = self._resume_at(reply.staged)
                self.offset = first * BLOCK_BYTES
                self.furthest = max(self.furthest, self.offset)
                for message in self._chunks(first):
                    call.send([message], end=False)
                call.send([], end=True)
                reply = self._reply(call, connection)
            return self._ended(call, reply)

    @property
    def small(self) -> bool:
        """Of what is smaller than a block nothing is staged that could be gone on with: all of it is said at once."""
        return len(self._message) < BLOCK_BYTES

    def begin(self, connection: Connection) -> "Begun":
        """A try of a small one, whose result is read later. CallError as `send`."""
        with contextlib.ExitStack() as stack:
            call = stack.enter_context(connection.submit())
            self._say_all(call)
            return Begun(self, call, connection, stack.pop_all())

    def _say_all(self, call: Call) -> None:
        call.send([self._header, *self._chunks(0)], end=True)

    def _result(self, call: Call, connection: Connection) -> Any:
        """Of one of which all is said."""
        reply = self._reply(call, connection)
        return self._ended(call, self._reply(call, connection) if reply.HasField("staged") else reply)

    def _ended(self, call: Call, reply: Any) -> Any:
        if not reply.HasField("result"):
            raise CallError("INTERNAL", "the coordinator answered an upload without a result")
        call.finish()
        return reply.result

    def _reply(self, call: Call, connection: Connection) -> Any:
        reply = call.receive()
        if reply is None:
            raise CallError("UNAVAILABLE", f"the coordinator at {connection.address} ended an upload early")
        return _protocol.SubmitReply.FromString(bytes(reply))


class Begun:
    """An upload whose bytes are under way."""

    def __init__(self, upload: Upload, call: Call, connection: Connection, ends: contextlib.ExitStack) -> None:
        self._upload, self._call, self._connection, self._ends = upload, call, connection, ends

    def result(self) -> Any:
        """Once. CallError as `Upload.send`."""
        with self._ends:
            return self._upload._result(self._call, self._connection)

    def close(self) -> None:
        """Of who wants no result: the call is cut off."""
        self._ends.close()
