"""HTTP/2 (RFC 9113) as a client of gRPC speaks it, over one socket, one call at a time, on the caller's thread.

Why not grpcio: each of its messages crosses two threads and is copied four times, which made up most of what a task
cost a client in Python, and its buffers a third of its memory. One call at a time needs no threads: what is received
goes from the socket to where it is read, and waiting is a read. A call that ends before its end (cancelled, timed out,
cut off) takes its connection with it, which is then made anew.

    Channel ──→ Call: send* receive* (in any order) ──→ its end ──→ the next Call …
"""

import contextlib
import functools
import select
import socket
import struct
import time
import urllib.parse
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Sequence, Tuple, Union

from rivulet._hpack import BadHeaders, decode, encode

if TYPE_CHECKING:
    import ssl

Buffer = Union[bytes, bytearray, memoryview]

CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
    "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
    "UNAUTHENTICATED"
).split()

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 1, 1, 4, 8, 0x20
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE = 1, 2, 4, 5
_REFUSED_STREAM, _CANCEL, _ENHANCE_YOUR_CALM, _INADEQUATE_SECURITY = 7, 8, 11, 12

# What the other end may send ahead: all it has. One call at a time is read as it comes, so the socket holds it back.
_WINDOW = (1 << 31) - 1
_WINDOW_STEP = 1 << 29  # it hears of what was read in such steps
_FRAME_BYTES = 1 << 20
_MESSAGE_BYTES = 1 << 20  # federated/transport/grpc_options.h, kMaxMessageBytes
_HEADER_BYTES = 64 << 10
_READ_BYTES = 64 << 10
_BATCH_BYTES = 256 << 10  # what is handed to the socket at once
_MOST_PIECES = 1024  # of it: Linux's IOV_MAX
_AHEAD_BYTES = 128  # what is read with the rest of a frame: the next one's header, and that of a message in it
_CONNECT_SECONDS = 20
# As the coordinator's side: who was silent for so long is asked, and who does not answer is gone.
_SILENT_SECONDS, _PING_SECONDS, _SEND_SECONDS, _GLANCE_SECONDS = 30, 20, 60, 0.001
# Nobody answers the other end's pings on a connection that is not in use; before it takes offence, it is left.
IDLE_SECONDS = 25


class Lost(Exception):
    """The connection is gone, or of no use any more: in words."""


class Ended(Exception):
    """A call ended with another status than OK."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def tls_context(authority: bytes, certificate: str, key: str) -> "ssl.SSLContext":
    """TLS 1.3 with both certificates: the authority's as PEM, this client's and its key as files."""

    import ssl  # which takes as long as all else that a client without TLS loads

    def no_password() -> str:
        raise ValueError("the key is encrypted; a client that starts by itself needs one that is not")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority.decode("ascii"))
    context.load_cert_chain(certificate, key, no_password)
    context.set_alpn_protocols(["h2"])
    return context


class Channel:
    """A connection. Not thread-safe, save for `abort`."""

    def __init__(self, host: str, port: int, tls: "Optional[ssl.SSLContext]") -> None:
        self._authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._scheme = "http" if tls is None else "https"
        self._aborted = False
        try:
            self._socket: Any = socket.create_connection((host, port), _CONNECT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._gathers = tls is None  # TLS joins what it encrypts, and splits what it has decrypted
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
                if self._socket.selected_alpn_protocol() != "h2":
                    self._socket.close()
                    raise Lost("it speaks no HTTP/2")
        except (OSError, ValueError) as error:
            raise Lost(str(error)) from None
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._begin = self._end = 0  # what of it is read and not used
        self.message = memoryview(bytearray(_READ_BYTES))  # the one that comes
        self._next_id = 1
        self._call: Optional["Call"] = None
        self._send_window = self._their_initial_window = 65535
        self._their_frame_bytes = 16384
        self._owed = 0
        # Of a DATA frame that is being read: a message within it is taken before the next one comes.
        self._left = self._padding = self._data_flags = 0
        self._in_data = False
        self._data_call: Optional["Call"] = None
        self._leaving = False
        self.used = time.monotonic()
        settings = {_HEADER_TABLE_SIZE: 0, _ENABLE_PUSH: 0, _INITIAL_WINDOW_SIZE: _WINDOW, _MAX_FRAME_SIZE: _FRAME_BYTES}
        content = b"".join(struct.pack(">HI", key, value) for key, value in settings.items())
        window = struct.pack(">I", _WINDOW - 65535)
        self._write(_PREFACE + _framed(_SETTINGS, 0, 0, content) + _framed(_WINDOW_UPDATE, 0, 0, window))

    # The socket.

    def abort(self) -> None:
        """From any thread: whoever waits here is told that the connection is lost."""
        self._aborted = True
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self._aborted = True
        self._socket.close()

    def _write(self, *pieces: Buffer) -> None:
        try:
            self._socket.settimeout(_SEND_SECONDS)
            if len(pieces) > 1 and self._gathers:
                self._gather(pieces)
            else:
                self._socket.sendall(b"".join(pieces))
        except (OSError, ValueError) as error:
            raise Lost(str(error)) from None

    def _gather(self, pieces: Sequence[Buffer]) -> None:
        """Pieces as they lie, where the socket takes several: they are joined in no memory of this process."""
        first = sent = 0  # of the first piece that is not gone
        while first < len(pieces):
            rest = [memoryview(pieces[first])[sent:], *pieces[first + 1 : first + _MOST_PIECES]]
            sent += self._socket.sendmsg(rest)
            while first < len(pieces) and sent >= len(pieces[first]):
                sent -= len(pieces[first])
                first += 1

    def _read_into(self, room: memoryview, deadline: Optional[float], behind: Optional[memoryview] = None) -> int:
        """Some bytes, at least one; what `room` does not hold goes to `behind`."""
        pinged = False
        while True:
            patience = float(_PING_SECONDS if pinged else _SILENT_SECONDS)
            until = deadline is not None and deadline - time.monotonic() < patience
            if until and deadline is not None:
                patience = max(0.001, deadline - time.monotonic())
            try:
                self._socket.settimeout(patience)
                if behind is None or not self._gathers:
                    count = int(self._socket.recv_into(room))
                else:
                    count = int(self._socket.recvmsg_into([room, behind])[0])
            except socket.timeout:
                if until:
                    raise Ended("DEADLINE_EXCEEDED", "no answer came in time") from None
                if pinged:
                    raise Lost("it does not answer") from None
                self._write(_framed(_PING, 0, 0, bytes(8)))
                pinged = True
                continue
            except (OSError, ValueError) as error:
                raise Lost(str(error)) from None
            if self._aborted:
                raise Lost("the call was cancelled")
            if count == 0:
                raise Lost("it closed the connection")
            return count

    def _fill(self, count: int, deadline: Optional[float]) -> None:
        """At least so many bytes into the buffer."""
        if self._begin + count > len(self._buffer):
            self._buffer[: self._end - self._begin] = bytes(self._buffer[self._begin : self._end])
            self._begin, self._end = 0, self._end - self._begin
        while self._end - self._begin < count:
            self._end += self._read_into(self._buffer[self._end :], deadline)

    def _take(self, count: int, deadline: Optional[float]) -> bytes:
        out = bytearray()
        while len(out) < count:
            some = min(count - len(out), len(self._buffer))
            self._fill(some, deadline)
            out += self._buffer[self._begin : self._begin + some]
            self._begin += some
            if self._begin == self._end:
                self._begin = self._end = 0
        return bytes(out)

    def _take_into(self, room: memoryview, deadline: Optional[float]) -> None:
        """What is in the buffer, and the rest from the socket straight to its place."""
        have = min(len(room), self._end - self._begin)
        room[:have] = self._buffer[self._begin : self._begin + have]
        self._begin += have
        if self._begin == self._end:
            self._begin = self._end = 0
        while have < len(room):
            have += self._read_into(room[have:], deadline, self._buffer[:_AHEAD_BYTES])
        self._end += have - len(room)

    def _readable(self) -> bool:
        """Whether a frame may be there. Of TLS, which knows records and not frames, what is left of one counts too."""
        if self._end > self._begin or (self._scheme == "https" and self._socket.pending() > 0):
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    # Frames.

    def _frame(self, deadline: Optional[float]) -> None:
        """Reads one, and does what it says."""
        if self._in_data:
            self._data(deadline)
            return
        self._fill(9, deadline)
        head = bytes(self._buffer[self._begin : self._begin + 9])
        self._begin += 9
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        if length > _FRAME_BYTES:
            raise Lost(f"it sent a frame of {length} bytes")
        call = self._call if self._call is not None and self._call.id == stream else None
        if kind == _DATA:
            self._begin_data(call, length, flags, deadline)
            self._data(deadline)
            return
        content = self._take(length, deadline)
        if kind == _HEADERS:
            self._headers(call, content, flags, stream, deadline)
        elif kind == _RST_STREAM and call is not None and length == 4:
            call.was_reset(int.from_bytes(content, "big"))
        elif kind == _SETTINGS and not flags & _ACK:
            for at in range(0, length - length % 6, 6):
                key, value = struct.unpack_from(">HI", content, at)
                if key == _INITIAL_WINDOW_SIZE and value <= _WINDOW:
                    if self._call is not None:
                        self._call.window += value - self._their_initial_window
                    self._their_initial_window = value
                elif key == _MAX_FRAME_SIZE and 16384 <= value < 1 << 24:
                    self._their_frame_bytes = value
            self._write(_framed(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK and length == 8:
            self._write(_framed(_PING, _ACK, 0, content))
        elif kind == _GOAWAY and length >= 8:
            self._leaving = True
            if self._call is not None and self._call.id > int.from_bytes(content[:4], "big") & 0x7FFFFFFF:
                raise Lost("it takes no more calls")
        elif kind == _WINDOW_UPDATE and length == 4:
            more = int.from_bytes(content, "big") & 0x7FFFFFFF
            if stream == 0:
                self._send_window += more
            elif call is not None:
                call.window += more

    def _begin_data(self, call: Optional["Call"], length: int, flags: int, deadline: Optional[float]) -> None:
        self._owed += length
        if call is not None:
            call.owed += length
        self._padding = 0
        if flags & _PADDED and length > 0:
            self._padding = self._take(1, deadline)[0]
            length -= 1
            if self._padding > length:
                raise Lost("it sent a frame of padding alone")
        self._in_data, self._left, self._data_flags, self._data_call = True, length - self._padding, flags, call

    def _data(self, deadline: Optional[float]) -> None:
        """Goes on with a DATA frame, up to its end or that of a message."""
        call = self._data_call
        while self._left > 0:
            if call is None:
                self._left -= len(self._take(min(self._left, _READ_BYTES), deadline))
                continue
            if call.ready:
                return
            room = call.room(self._left)
            self._take_into(room, deadline)
            self._left -= len(room)
            call.filled(room)
        self._take(self._padding, deadline)
        self._in_data, self._data_call = False, None
        if self._owed >= _WINDOW_STEP:
            update = _framed(_WINDOW_UPDATE, 0, 0, struct.pack(">I", self._owed))
            self._owed = 0
            # Of the call's window what the call itself has used: the connection's counts what earlier ones did too.
            if call is not None:
                update += _framed(_WINDOW_UPDATE, 0, call.id, struct.pack(">I", call.owed))
                call.owed = 0
            self._write(update)
        if self._data_flags & _END_STREAM and call is not None:
            call.was_ended([])

    def _headers(
        self, call: Optional["Call"], content: bytes, flags: int, stream: int, deadline: Optional[float]
    ) -> None:
        if flags & _PADDED:
            content = content[1 : max(1, len(content) - content[0])] if content else b""
        if flags & _PRIORITY:
            content = content[5:]
        ended = flags & _END_STREAM
        while not flags & _END_HEADERS:
            self._fill(9, deadline)
            head = bytes(self._buffer[self._begin : self._begin + 9])
            self._begin += 9
            length, flags = int.from_bytes(head[:3], "big"), head[4]
            if head[3] != _CONTINUATION or int.from_bytes(head[5:], "big") != stream:
                raise Lost("it broke off a header")
            if len(content) + length > _HEADER_BYTES:
                raise Lost("it sent a header too large")
            content += self._take(length, deadline)
        if call is None:
            return
        try:
            headers = _decoded(content)
        except BadHeaders as error:
            raise Lost(f"it sent a header that is none: {error}") from None
        if ended:
            call.was_ended(headers)
        else:
            call.was_begun(headers)

    def hear(self) -> bool:
        """One frame, where one is there or has begun to come."""
        if not self._in_data:
            if not self._readable():
                return False
            try:  # what is readable of TLS may be its own
                self._fill(1, time.monotonic() + _GLANCE_SECONDS)
            except Ended:
                return False
        self._frame(time.monotonic() + _SILENT_SECONDS)
        return True

    # Calls.

    def usable(self) -> bool:
        """Before the next call: whether it is worth trying. Hears what the other end has said meanwhile."""
        if self._leaving or self._aborted or time.monotonic() - self.used > IDLE_SECONDS:
            return False
        try:
            while self.hear():
                pass
        except (Lost, Ended):
            return False
        return not self._leaving and self._next_id < 1 << 30

    def begin(self, path: str, seconds: float) -> "Call":
        headers = _request(self._scheme, self._authority, path, max(1, int(1000 * seconds)))
        call = Call(self, self._next_id, self._their_initial_window, time.monotonic() + seconds)
        call.waiting = _framed(_HEADERS, _END_HEADERS, call.id, headers)  # goes with the first message
        self._next_id += 2
        self._call = call
        return call


class Call:
    """One call of a Channel, which may not be used otherwise until it has ended."""

    def __init__(self, channel: Channel, id: int, window: int, deadline: float) -> None:
        self.id = id
        self.window = window
        self.owed = 0  # bytes of it that came and that the other end may send again
        self.waiting = b""
        self._channel = channel
        self._deadline = deadline
        self._head = bytearray()
        self._size: Optional[int] = None  # of the message that is coming
        self._have = 0
        self.ready = False  # it is there, and not taken yet
        self._kept: List[memoryview] = []  # those that came while this end was sending
        self._status: Optional[Tuple[str, str]] = None
        self._http = ""
        self._closed = False  # our half

    @property
    def clean(self) -> bool:
        """Both halves have ended: the channel may be used for the next call."""
        return self._closed and self._status is not None

    # What the channel hears of it.

    def room(self, most: int) -> memoryview:
        """Where the next bytes go, of which there are up to `most`."""
        if self._size is None:
            return memoryview(bytearray(min(most, 5 - len(self._head))))
        return self._channel.message[self._have : min(self._size, self._have + most)]

    def filled(self, room: memoryview) -> None:
        if self._size is None:
            self._head += room
            if len(self._head) < 5:
                return
            if self._head[0] != 0:
                raise Lost("it sent a compressed message")
            self._size, self._have = int.from_bytes(self._head[1:], "big"), 0
            self._head.clear()
            if self._size > _MESSAGE_BYTES:
                raise Ended("RESOURCE_EXHAUSTED", f"a message of {self._size} bytes came, and {_MESSAGE_BYTES} are taken")
            if self._size > len(self._channel.message):
                self._channel.message = memoryview(bytearray(self._size))
        else:
            self._have += len(room)
        self.ready = self._have == self._size

    def was_begun(self, headers: List[Tuple[str, str]]) -> None:
        self._http = self._http or dict(headers).get(":status", "")

    def was_ended(self, headers: List[Tuple[str, str]]) -> None:
        found = dict(headers)
        http = self._http or found.get(":status", "")
        number = found.get("grpc-status", "")
        if number.isdigit():
            code = CODES[int(number)] if int(number) < len(CODES) else "UNKNOWN"
            self._status = code, urllib.parse.unquote(found.get("grpc-message", ""))
        else:  # by something that is no gRPC server, as gRPC's http-grpc-status-mapping.md has it
            code = {"401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "404": "UNIMPLEMENTED"}.get(http, "UNAVAILABLE")
            self._status = code, f"the call ended without a status (HTTP {http or '?'})"

    def was_reset(self, error: int) -> None:
        code = {
            _REFUSED_STREAM: "UNAVAILABLE",
            _CANCEL: "CANCELLED",
            _ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED",
            _INADEQUATE_SECURITY: "PERMISSION_DENIED",
        }.get(error, "UNAVAILABLE")
        self._status = self._status or (code, f"the call was cut off (HTTP/2 error {error})")

    # What the caller does.

    def send(self, messages: Iterable[Iterable[Buffer]], end: bool) -> None:
        """Sends messages, each of which is given in pieces, and with `end` that there are no more. Returns early where
        the other end has ended the call."""
        channel = self._channel
        out: List[Buffer] = [self.waiting]
        self.waiting = b""
        size = len(out[0])
        pieces: List[memoryview] = []
        for message in messages:
            content = [memoryview(piece) for piece in message]
            pieces += [memoryview(struct.pack(">BI", 0, sum(map(len, content)))), *content]
        left = sum(map(len, pieces))
        if left == 0 and end:
            out.append(_framed(_DATA, _END_STREAM, self.id, b""))
            size += 9
        while left > 0:
            if size >= _BATCH_BYTES or min(self.window, channel._send_window) <= 0:
                channel._write(*out)
                out, size = [], 0
                while channel.hear() or min(self.window, channel._send_window) <= 0:
                    if self.ready:
                        self._kept.append(memoryview(bytes(self._taken())))
                    if self._status is not None:
                        return
                    if min(self.window, channel._send_window) <= 0:
                        channel._frame(self._deadline)
            now = min(left, self.window, channel._send_window, channel._their_frame_bytes)
            left -= now
            self.window -= now
            channel._send_window -= now
            flags = _END_STREAM if end and left == 0 else 0
            out.append(_head(now, _DATA, flags, self.id))
            size += 9 + now
            while now > 0:
                piece = pieces[0][:now]
                out.append(piece)
                now -= len(piece)
                pieces[0] = pieces[0][len(piece) :]
                if not pieces[0]:
                    del pieces[0]
        channel._write(*out)
        self._closed = self._closed or end

    def receive(self) -> Optional[memoryview]:
        """The next message, to be read before the next call of this object; None: the call ended well. Ended, Lost."""
        if self._kept:
            return self._kept.pop(0)
        while not self.ready:
            if self._status is not None:
                if self._status[0] != "OK":
                    raise Ended(*self._status)
                return None
            self._channel._frame(self._deadline)
        return self._taken()

    def _taken(self) -> memoryview:
        message = self._channel.message[: self._size]
        self.ready, self._size = False, None
        return message

    def finish(self) -> None:
        """Hears the end of a call whose last message has come. Ended, Lost: it was another one than OK."""
        if self.receive() is not None:
            raise Lost("more messages came than were awaited")


# Without dynamic tables the same headers are the same bytes, and a client's calls are few kinds.
_decoded = functools.lru_cache(maxsize=256)(decode)


@functools.lru_cache(maxsize=256)
def _request(scheme: str, authority: str, path: str, milliseconds: int) -> bytes:
    return encode(
        [
            (":method", "POST"),
            (":scheme", scheme),
            (":path", path),
            (":authority", authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", f"{milliseconds}m"),
        ]
    )


def _head(length: int, kind: int, flags: int, stream: int) -> bytes:
    return struct.pack(">BHBBI", length >> 16, length & 0xFFFF, kind, flags, stream)


def _framed(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return _head(len(content), kind, flags, stream) + content
