"""A thousand hostile connections at once: silent, half shaken, with headers and messages that never end, on the calls' port and on the
pages' port. The coordinator stays within 64 MB of its rest, serves an honest client beside them, and ends as it is asked to."""
import os
import resource
import signal
import socket
import ssl
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import http2  # noqa: E402
from world import CALLS, World, ask, grpc  # noqa: E402
import requests  # noqa: E402

from harness import main, measures_memory  # noqa: E402

CONNECTIONS, MEGABYTES = 1000, 64


def client_hello():
    """The first bytes of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


@unittest.skipUnless(grpc, "needs gRPC (Debian's python3-grpcio)")
class Memory(World):
    @measures_memory
    def test_a_thousand_connections(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * CONNECTIONS), hard))
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2 * CONNECTIONS:
            self.skipTest("too few descriptors")
        self.make_authority()
        pages = "--http " in self.run_rivulet("simulate", "--help").out
        coordinator, port = self.start_coordinator(*(["--http", "127.0.0.1:0", "--http-tls", "coordinator"] if pages else []))
        pages_port = self.pages_of("coordinator") if pages else port
        honest = self.channel(port, "a")
        poll = requests.poll(0)("")
        self.assertEqual(ask(honest, CALLS["Coordinator.Poll"], *poll)[0], "OK")
        rest, peak = self.memory(coordinator), 0
        kept, refused = [], 0
        hello = client_hello()
        begin = http2.PREFACE + http2.frame(http2.SETTINGS)
        submit = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.call(CALLS["Coordinator.Submit"].path))

        def opened(number):
            kind = (0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7)[number % 11]
            if kind < 3:
                connection = socket.create_connection(("127.0.0.1", port), timeout=10)
                connection.sendall([b"", os.urandom(16 << 10), hello[:len(hello) // 2]][kind])
            elif kind == 3:
                connection = http2.connect(port, None, self.path("ca/authority.crt"))
            elif kind == 7:
                connection = socket.create_connection(("127.0.0.1", pages_port), timeout=10)
                connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (60 << 10))
            else:
                connection = http2.connect(port, self.path("a"), self.path("ca/authority.crt"))
                connection.sendall(begin + [
                    b"",
                    http2.frame(http2.HEADERS, 0, 1, http2.call("/x")) + http2.frame(http2.CONTINUATION, 0, 1, http2.fields([(b"a", b"b" * 4000)])),
                    submit + http2.frame(http2.DATA, 0, 1, http2.message(os.urandom(8000), 4 << 20)),
                ][kind - 4])
            return connection

        try:
            for number in range(CONNECTIONS):
                try:
                    kept.append(opened(number))
                except (OSError, ssl.SSLError):
                    refused += 1
                if number % 100 == 0:
                    peak = max(peak, self.memory(coordinator))
                    self.assertEqual(ask(honest, CALLS["Coordinator.Poll"], *poll)[0], "OK")
            for _ in range(10):
                peak = max(peak, self.memory(coordinator))
                time.sleep(0.2)
            print(f"{len(kept)} connections stand, {refused} were refused: {rest >> 10} MB at rest, {(peak - rest) / 1024:.1f} MB more at the peak",
                  flush=True)
            self.assertGreater(len(kept), CONNECTIONS // 2)
            self.assertLess(peak - rest, MEGABYTES << 10)
            newcomer = self.channel(port, "b")
            self.assertEqual(ask(newcomer, CALLS["Coordinator.Poll"], *poll)[0], "OK")
            self.assert_lives(coordinator, "coordinator")
            began = time.monotonic()
            coordinator.send_signal(signal.SIGTERM)
            self.ends(coordinator, "coordinator", code=coordinator.wait(timeout=30))
            self.assertIn(coordinator.returncode, (0, 1))
            self.assertLess(time.monotonic() - began, 15)
        finally:
            for connection in kept:
                connection.close()


if __name__ == "__main__":
    main()
