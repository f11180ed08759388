"""Calls of a coordinator: what they are, and what their ends mean."""

import contextlib
import ipaddress
import threading
import time
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Set, Tuple

from rivulet import _protocol
from rivulet._errors import RivuletError
from rivulet._http2 import Call, Channel, Ended, Lost
if TYPE_CHECKING:
    from rivulet._kit import Kit

_CALL_SECONDS = 30
_STREAM_SECONDS = 30 * 60  # of one Fetch or Submit as a whole; what was moved by then is not lost

_SERVICE = "/rivulet.rpc.Coordinator/"


class CallError(Exception):
    """A call that failed, with the coordinator's sentence or gRPC's."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code  # gRPC's name of it: "NOT_FOUND"

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed later."""
        return self.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")

    @property
    def turned_away(self) -> bool:
        """Whether the coordinator wants nothing of this client."""
        return self.code in ("PERMISSION_DENIED", "UNAUTHENTICATED")


def _host_and_port(address: str, insecure: bool, kit: "Optional[Kit]") -> Tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise RivuletError(f"'{address}' is no coordinator's address HOST:PORT, such as 127.0.0.1:7000")
    host = host.strip("[]")
    loopback = host == "localhost"
    with contextlib.suppress(ValueError):
        loopback = ipaddress.ip_address(host).is_loopback
    if not loopback and not insecure and kit is None:
        raise RivuletError(
            f"{address} is not a loopback address, and without TLS anybody on the way can read and change what is "
            "sent; give kit=, the folder of `rivulet ca kit client/NAME`, or say insecure=True to accept that"
        )
    return host, int(port)


class Connection:
    """One coordinator's, made at the first call and made again when it is lost. Thread-safe: calls that are under way at
    the same time have a channel each, and one that has ended leaves its to the next.

    Calls raise `CallError`. Streams are closed by who opens them: what they are is a context.
    """

    def __init__(self, address: str, *, insecure: bool = False, kit: "Optional[Kit]" = None) -> None:
        self._host, self._port = _host_and_port(address, insecure, kit)
        self.address = address
        self._tls = None if kit is None else kit.tls()
        self._lock = threading.Lock()
        self._idle: List[Channel] = []
        self._busy: Set[Channel] = set()
        self._streams: Set[Channel] = set()
        self._closed = False

    def _channel(self) -> Channel:
        """One that nobody else uses."""
        while True:
            with self._lock:
                if self._closed:
                    raise Lost("this client has closed it")
                channel = self._idle.pop() if self._idle else None
            if channel is None:
                channel = Channel(self._host, self._port, self._tls)
            elif not channel.usable():
                channel.close()
                continue
            with self._lock:
                if not self._closed:
                    self._busy.add(channel)
                    return channel
            channel.close()
            raise Lost("this client has closed it")

    @contextlib.contextmanager
    def _call(self, method: str, seconds: float, stream: bool) -> Iterator[Call]:
        channel: Optional[Channel] = None
        call: Optional[Call] = None
        try:
            channel = used = self._channel()
            if stream:
                with self._lock:
                    self._streams.add(used)
            call = used.begin(_SERVICE + method, seconds)
            yield call
        except Lost as error:
            raise self._gone(str(error)) from None
        except Ended as error:
            # A client acts by the code alone. Whatever only says that the connection is gone becomes UNAVAILABLE.
            gone = error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
            raise self._gone(str(error)) if gone else CallError(error.code, str(error)) from None
        finally:
            if channel is not None:
                with self._lock:
                    self._busy.discard(channel)
                    self._streams.discard(channel)
                    again = call is not None and call.clean and not self._closed
                    if again:
                        channel.used = time.monotonic()
                        self._idle.append(channel)
                if not again:
                    channel.close()

    def _gone(self, why: str) -> CallError:
        return CallError("UNAVAILABLE", f"the coordinator at {self.address} cannot be reached: {why}")

    def _unary(self, method: str, request: Any, seconds: float) -> bytes:
        with self._call(method, seconds, stream=False) as call:
            call.send([[request.SerializeToString()]], end=True)
            reply = call.receive()
            if reply is None:
                raise Lost("a call ended without an answer")
            content = bytes(reply)
            call.finish()
            return content

    def poll(self, request: Any) -> Any:
        return _protocol.PollReply.FromString(self._unary("Poll", request, _CALL_SECONDS + request.hold_ms / 1000))

    def fail(self, request: Any) -> None:
        self._unary("Fail", request, _CALL_SECONDS)

    @contextlib.contextmanager
    def fetch(self, request: Any) -> Iterator[Call]:
        """A context: a call from which chunks are received."""
        with self._call("Fetch", _STREAM_SECONDS, stream=True) as call:
            call.send([[request.SerializeToString()]], end=True)
            yield call

    def submit(self) -> Any:
        """A context: a call to which an upload's messages are sent, and its replies received."""
        return self._call("Submit", _STREAM_SECONDS, stream=True)

    def cancel_streams(self) -> None:
        """Ends every stream that is open: whoever reads from one gets a CallError."""
        with self._lock:
            streams = list(self._streams)
        for channel in streams:
            channel.abort()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, busy, self._idle = self._idle, list(self._busy), []
        for channel in busy:  # which whoever uses it closes
            channel.abort()
        for channel in idle:
            channel.close()
