"""Calls of a coordinator over gRPC, and the meaning of their statuses.

gRPC is loaded by the first connection and by nothing before it. A process that has loaded it may not be forked any more,
which `rivulet.simulate` prefers for its workers.

Requests and replies travel as bytes. This module and those of the transfers parse them. So a malformed reply is a
`CallError` and no exception of another package.
"""

import contextlib
import importlib
import ipaddress
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Optional, Set, Tuple

from rivulet import _protocol
from rivulet._errors import RivuletError, clean, lacks

if TYPE_CHECKING:
    from rivulet._kit import Kit

_CALL_SECONDS = 30
_STREAM_SECONDS = 30 * 60  # of one Fetch or Submit as a whole; what was moved by then is not lost
_GRACE_SECONDS = 5  # gRPC is waited for longer than it was told to take

_SERVICE = "/rivulet.rpc.Coordinator/"

# gRPC in Python has no setting for a least version of TLS. This names the ciphers of 1.2 alone, and one that needs a
# shared secret which nobody has: 1.2 finds no cipher, and 1.3 has its own. gRPC reads it when it is loaded.
_CIPHERS = ("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-CHACHA20-POLY1305")

# As rpc/grpc_options.h and grpc_connection.cc have them: pings keep a connection open while a client
# trains and makes no call, and a coordinator that was restarted is found again within seconds.
_OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 512 << 10),
    ("grpc.http2.max_frame_size", 128 << 10),
    ("grpc.max_receive_message_length", 1 << 20),
    # gRPC unpacks a compressed message before it looks at its length. Nobody sends one.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.per_message_decompression", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 20_000),  # how long one attempt may take, for all its name
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),  # a variable of the environment sends no update elsewhere
    ("grpc.service_config_disable_resolution", 1),  # nor does a record of the name's DNS
    ("grpc.enable_retries", 0),  # gRPC's keep a copy of what was sent; ours know where to go on
]


class CallError(Exception):
    """A call that failed, with the coordinator's sentence, cleaned, or gRPC's."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(clean(sentence))
        self.code = code  # gRPC's name of it: "NOT_FOUND"

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed later."""
        return self.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")

    @property
    def turned_away(self) -> bool:
        """Whether the coordinator wants nothing of this client."""
        return self.code in ("PERMISSION_DENIED", "UNAUTHENTICATED")


_for_tls_1_3 = False  # how gRPC was loaded


def _loaded(tls: bool) -> Any:
    """gRPC, set up before it is loaded. RivuletError: it is not installed, or was loaded for TLS 1.2 too."""
    global _for_tls_1_3
    name, ciphers = _CIPHERS
    if "grpc" not in sys.modules or os.environ.get(name) == ciphers:
        _for_tls_1_3 = True
    if _for_tls_1_3:
        os.environ[name] = ciphers  # older versions read it when the first connection over TLS is made
    if "grpc" not in sys.modules:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it writes lines to stderr; ours say what matters
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # nobody's fork makes calls; gRPC's care can abort one
    elif tls and not _for_tls_1_3:
        raise RivuletError(
            "gRPC was loaded before this client, and would take TLS 1.2; connect before the package that loads it is "
            f"imported, or start Python with {name}={ciphers} in the environment"
        )
    try:
        return importlib.import_module("grpc")
    except ImportError as error:
        raise lacks("grpcio", "python3-grpcio", error) from error


def _host_and_port(address: str, insecure: bool, kit: "Optional[Kit]") -> Tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit() and len(port) < 6) or not 0 < int(port) < 65536:
        raise RivuletError(f"'{address}' is no coordinator's address HOST:PORT, such as 127.0.0.1:7000")
    host = host.strip("[]")
    loopback = host == "localhost"
    with contextlib.suppress(ValueError):
        loopback = ipaddress.ip_address(host).is_loopback
    if not loopback and not insecure and kit is None:
        raise RivuletError(
            f"{address} is not a loopback address, and without TLS the network can read and change every message; give "
            "kit=, the folder of `rivulet ca kit client/NAME`, or insecure=True to accept that"
        )
    return host, int(port)


class _Channel:
    """gRPC's, with the calls of a coordinator."""

    def __init__(self, grpc: Any, target: str, kit: "Optional[Kit]") -> None:
        if kit is None:
            channel = grpc.insecure_channel(target, options=_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(kit.authority, kit.key, kit.certificate)
            channel = grpc.secure_channel(target, credentials, options=_OPTIONS)
        self._channel = channel
        self.poll = channel.unary_unary(_SERVICE + "Poll")
        self.fail = channel.unary_unary(_SERVICE + "Fail")
        self.fetch = channel.unary_stream(_SERVICE + "Fetch")
        self.submit = channel.stream_stream(_SERVICE + "Submit")

    def close(self) -> None:
        """Does not wait for a peer that floods it, during which gRPC neither closes nor cancels."""
        closing = threading.Thread(target=self._channel.close, name="rivulet closes", daemon=True)
        closing.start()
        closing.join(_GRACE_SECONDS)


class Connection:
    """One coordinator's, made at the first call and made again when it is lost. Thread-safe: calls travel side by side.

    Calls raise `CallError`. A stream is a context, closed by its opener.
    """

    def __init__(self, address: str, *, insecure: bool = False, kit: "Optional[Kit]" = None) -> None:
        host, port = _host_and_port(address, insecure, kit)
        if kit is not None:
            kit.check()
        grpc = _loaded(tls=kit is not None)
        self._grpc = grpc
        self.address = address
        self._lock = threading.Lock()
        self._streams: Set[Any] = set()
        # Named as what it is: gRPC takes "unix:7000" for another kind of address.
        self._target = f"dns:///[{host}]:{port}" if ":" in host else f"dns:///{host}:{port}"
        self._kit = kit
        self._channel = _Channel(grpc, self._target, kit)

    def _meant(self, error: Any) -> CallError:
        """A client acts by the code alone. Every code for a lost connection becomes UNAVAILABLE."""
        code, details = error.code().name, error.details() or ""
        gone = (
            code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
            or (code == "UNKNOWN" and details == "Stream removed")
            or (code == "INTERNAL" and details.startswith("Received RST_STREAM"))
        )
        return self._gone(details or code) if gone else CallError(code, details)

    def _gone(self, why: str) -> CallError:
        return CallError("UNAVAILABLE", f"the coordinator at {self.address} cannot be reached: {why}")

    @contextlib.contextmanager
    def _meaning(self) -> Iterator[None]:
        try:
            yield
        except self._grpc.RpcError as error:
            raise self._meant(error) from None

    def _begun(self, method: Any, *arguments: Any, **keywords: Any) -> Any:
        try:
            return method(*arguments, **keywords)
        except ValueError as error:  # gRPC's, of a channel that was closed
            raise self._gone(str(error)) from None

    def parsed(self, kind: Any, content: bytes) -> Any:
        """A message that came. CallError: it is none."""
        try:
            return _protocol.parsed(kind, content)
        except ValueError as error:
            sentence = f"the coordinator at {self.address} sent {len(content)} bytes that are no answer: {error}"
            raise CallError("INTERNAL", sentence) from None

    def _unary(self, name: str, request: Any, seconds: float) -> bytes:
        channel = self._channel
        with self._meaning():
            call = self._begun(getattr(channel, name).future, request.SerializeToString(), timeout=seconds)
            try:
                content: bytes = call.result(timeout=seconds + _GRACE_SECONDS)
                return content
            except self._grpc.FutureTimeoutError:
                self._leave(channel)
                raise self._gone("it keeps the connection busy and does not answer") from None

    def _leave(self, channel: _Channel) -> None:
        """For another one: a peer can keep gRPC so busy that no call of a connection ends."""
        with self._lock:
            if self._channel is channel:
                self._channel = _Channel(self._grpc, self._target, self._kit)
        channel.close()

    def poll(self, request: Any) -> Any:
        content = self._unary("poll", request, _CALL_SECONDS + request.hold_ms / 1000)
        return self.parsed(_protocol.PollReply, content)

    def fail(self, request: Any) -> None:
        self._unary("fail", request, _CALL_SECONDS)

    @contextlib.contextmanager
    def _stream(self, method: Any, argument: Any) -> Iterator[Iterator[bytes]]:
        with self._meaning():
            call = self._begun(method, argument, timeout=_STREAM_SECONDS)
            with self._lock:
                self._streams.add(call)
            try:
                yield call
            finally:
                with self._lock:
                    self._streams.discard(call)
                call.cancel()  # one that has ended hears nothing of it

    def fetch(self, request: Any) -> "contextlib.AbstractContextManager[Iterator[bytes]]":
        """A context: an iterator of chunks."""
        return self._stream(self._channel.fetch, request.SerializeToString())

    def submit(self, messages: Iterable[bytes]) -> "contextlib.AbstractContextManager[Iterator[bytes]]":
        """A context: an iterator of replies to an upload's messages. A thread of gRPC's asks for these, one at a time and
        as the network takes them."""
        return self._stream(self._channel.submit, iter(messages))

    def cancel_streams(self) -> None:
        """Ends every stream that is open: their readers get a CallError."""
        with self._lock:
            streams = list(self._streams)
        for call in streams:
            call.cancel()

    def close(self) -> None:
        self._channel.close()
