"""Sending an update: from where what the coordinator has staged of it differs, until it says what became of it."""

import queue
from typing import Any, Iterator, Optional

from rivulet import _protocol
from rivulet._connection import CallError, Connection
from rivulet._update import BLOCK_BYTES, block_crcs, head, identity

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

    def __init__(self, header: Any, message: memoryview, step: int) -> None:
        self._header = header
        self._message = message
        self._crcs = block_crcs(message)
        self._identity = identity(step, len(message), self._crcs)
        self.offset = self.furthest = 0

    def _messages(self, offsets: "queue.SimpleQueue[Optional[int]]") -> Iterator[Any]:
        """gRPC asks for them on a thread of its own, one at a time as the network takes them: nothing is sent ahead
        into memory."""
        yield self._header
        offset = offsets.get()
        if offset is None:
            return
        yield _protocol.SubmitMessage(resume=offset)
        for begin in range(offset, len(self._message), _CHUNK_BYTES):
            chunk = self._message[begin : begin + _CHUNK_BYTES]
            yield b"".join((head(_CHUNK_FIELD, len(chunk)), chunk))  # one copy, where a message makes three
        yield _protocol.SubmitMessage(finish=self._identity)

    def _resume_at(self, staged: Any) -> int:
        blocks = 0
        whole = len(self._message) // BLOCK_BYTES
        for ours, theirs in zip(self._crcs[:whole], staged.crcs):
            if ours != theirs:
                break
            blocks += 1
        return blocks * BLOCK_BYTES

    def send(self, connection: Connection) -> Any:
        """One try: the coordinator's result. CallError: UNAVAILABLE and DATA_LOSS say that it may be sent again."""
        offsets: "queue.SimpleQueue[Optional[int]]" = queue.SimpleQueue()
        ended = CallError("UNAVAILABLE", f"the coordinator at {connection.address} ended an upload early")
        try:
            with connection.submit(self._messages(offsets)) as replies:
                reply = next(replies, None)
                if reply is None:
                    raise ended
                if reply.HasField("staged"):
                    self.offset = self._resume_at(reply.staged)
                    self.furthest = max(self.furthest, self.offset)
                    offsets.put(self.offset)
                    reply = next(replies, None)
                    if reply is None:
                        raise ended
                if not reply.HasField("result"):
                    raise CallError("INTERNAL", "the coordinator answered an upload without a result")
                return reply.result
        finally:
            offsets.put(None)
