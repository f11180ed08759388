"""Calls of a coordinator over gRPC: what they are, and what their ends mean."""

import contextlib
import ipaddress
import threading
from typing import Any, Iterator, Optional

from rivulet import _protocol
from rivulet._errors import RivuletError
from rivulet._kit import Kit

try:
    import grpc
except ImportError as error:
    raise RivuletError(
        f"a client needs grpcio ({error}): pip install 'rivulet[client]', or Debian's python3-grpcio"
    ) from error

_CALL_SECONDS = 30
_STREAM_SECONDS = 30 * 60  # of one Fetch or Submit as a whole; what was moved by then is not lost

# As federated/transport/grpc_options.h and grpc_client.cc have them: pings keep a connection open while a client trains
# and makes no call, and a coordinator that was restarted is found again within seconds.
_OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 512 << 10),
    ("grpc.max_receive_message_length", 1 << 20),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]


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


def _meant(address: str, error: Any) -> CallError:
    """A client acts by the code alone. Whatever only says that the connection is gone becomes UNAVAILABLE."""
    code, details = error.code().name, error.details() or ""
    gone = (
        code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
        or (code == "UNKNOWN" and details == "Stream removed")
        or (code == "INTERNAL" and details.startswith("Received RST_STREAM"))
    )
    if not gone:
        return CallError(code, details)
    return CallError("UNAVAILABLE", f"the coordinator at {address} cannot be reached: {details or code}")


def _check_address(address: str, insecure: bool, kit: Optional[Kit]) -> None:
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


class Connection:
    """One coordinator's, made at the first call and made again when it is lost. Thread-safe.

    Calls raise `CallError`. Streams are closed by who opens them: what they are is a context.
    """

    def __init__(self, address: str, *, insecure: bool = False, kit: Optional[Kit] = None) -> None:
        _check_address(address, insecure, kit)
        self.address = address
        self._lock = threading.Lock()
        self._streams: "set[Any]" = set()
        if kit is None:
            self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(kit.authority, kit.key, kit.certificate)
            self._channel = grpc.secure_channel(address, credentials, options=_OPTIONS)

        def method(kind: Any, name: str, reply: Any) -> Any:
            return kind(
                f"/rivulet.rpc.Coordinator/{name}",
                request_serializer=lambda message: message if type(message) is bytes else message.SerializeToString(),
                response_deserializer=reply.FromString,
            )

        channel = self._channel
        self._poll = method(channel.unary_unary, "Poll", _protocol.PollReply)
        self._fetch = method(channel.unary_stream, "Fetch", _protocol.Chunk)
        self._submit = method(channel.stream_stream, "Submit", _protocol.SubmitReply)
        self._fail = method(channel.unary_unary, "Fail", _protocol.FailReply)

    @contextlib.contextmanager
    def _meaning(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise _meant(self.address, error) from None

    def poll(self, request: Any) -> Any:
        with self._meaning():
            return self._poll(request, timeout=_CALL_SECONDS + request.hold_ms / 1000)

    def fail(self, request: Any) -> None:
        with self._meaning():
            self._fail(request, timeout=_CALL_SECONDS)

    @contextlib.contextmanager
    def _stream(self, begin: Any, argument: Any) -> Iterator[Any]:
        with self._meaning():
            call = begin(argument, timeout=_STREAM_SECONDS)
            with self._lock:
                self._streams.add(call)
            try:
                yield call
            finally:
                with self._lock:
                    self._streams.discard(call)
                call.cancel()

    def fetch(self, request: Any) -> Any:
        """A context: an iterator of chunks."""
        return self._stream(self._fetch, request)

    def submit(self, messages: Any) -> Any:
        """A context: an iterator of replies to what an iterator of messages gives, some of them as their bytes."""
        return self._stream(self._submit, messages)

    def cancel_streams(self) -> None:
        """Ends every stream that is open: whoever reads from one gets a CallError."""
        with self._lock:
            streams = list(self._streams)
        for call in streams:
            call.cancel()

    def close(self) -> None:
        self._channel.close()
