"""What is between a client in Python and its coordinator: calls over gRPC, their ends, and hostile peers."""

import concurrent.futures
import contextlib
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import packaged
import harness
import rivulet

SERVICE = "/rivulet.rpc.Coordinator/"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_HEADERS = 4


def grpc():
    from rivulet import _connection

    return _connection._loaded(tls=False)


class Served:
    """A gRPC server whose calls do as they are told: by name a function of (request or its iterator, context), which
    gives bytes, or an iterator of them for the two that stream."""

    def __init__(self, compression=None, **calls):
        rpc = grpc()
        kinds = {
            "Poll": rpc.unary_unary_rpc_method_handler,
            "Fail": rpc.unary_unary_rpc_method_handler,
            "Fetch": rpc.unary_stream_rpc_method_handler,
            "Submit": rpc.stream_stream_rpc_method_handler,
        }

        class Handler(rpc.GenericRpcHandler):
            def service(self, details):
                name = details.method[len(SERVICE) :]
                return kinds[name](calls[name]) if name in calls else None

        self.server = rpc.server(concurrent.futures.ThreadPoolExecutor(16), compression=compression)
        self.server.add_generic_rpc_handlers((Handler(),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def stop(self):
        self.server.stop(0)


class Adds(rivulet.Client):
    def fit(self, params, context):
        return rivulet.Params(params, examples=1)


@packaged.needs_grpc
class Calls(unittest.TestCase):
    def setUp(self):
        from rivulet import _protocol

        self.wire = _protocol
        self.patched("rivulet._connection._CALL_SECONDS", 5)

    def patched(self, name, value):
        patched = unittest.mock.patch(name, value)
        patched.start()
        self.addCleanup(patched.stop)

    def connect(self, compression=None, **calls):
        from rivulet._connection import Connection

        served = Served(compression, **calls)
        self.addCleanup(served.stop)
        connection = Connection(served.address)
        self.addCleanup(connection.close)
        return connection

    def fails(self, call):
        from rivulet._connection import CallError

        with self.assertRaises(CallError) as failed:
            call()
        return failed.exception

    def test_ends_are_told_by_their_codes(self):
        status = grpc().StatusCode
        ends = []

        def poll(request, context):
            context.abort(*ends.pop())

        connection = self.connect(Poll=poll)
        for code, sentence, told, transient, turned_away in [
            (status.NOT_FOUND, "no such run", "no such run", False, False),
            (status.PERMISSION_DENIED, "it was revoked", "it was revoked", False, True),
            (status.UNAVAILABLE, "it ends", f"the coordinator at {connection.address} cannot be reached: it ends", True, False),
            (status.CANCELLED, "", f"the coordinator at {connection.address} cannot be reached: CANCELLED", True, False),
            (status.INTERNAL, "\x1b[2Jred\r\nrivulet: all is well", " [2Jred rivulet: all is well", False, False),
        ]:
            with self.subTest(sentence):
                ends.append((code, sentence))
                error = self.fails(lambda: connection.poll(self.wire.PollRequest()))
                self.assertEqual((str(error), error.transient, error.turned_away), (told, transient, turned_away))

    def test_an_answer_that_is_none_is_an_error_of_ours(self):
        for content in (b"\xff\xff\xff", b"\x0a\x7f", b"\x12\x01\xff", b"\x0b" * 5000):
            with self.subTest(content[:4]):
                connection = self.connect(Poll=lambda request, context, content=content: content)
                error = self.fails(lambda: connection.poll(self.wire.PollRequest()))
                self.assertRegex(str(error), f"at {connection.address} sent {len(content)} bytes that are no answer")
                with self.assertRaisesRegex(rivulet.RivuletError, "that are no answer"):
                    rivulet.run_client(Adds(), connection.address, name="ann")

    def test_a_message_beyond_the_bound_ends_its_call(self):
        connection = self.connect(Poll=lambda request, context: bytes(2 << 20))
        self.assertEqual(self.fails(lambda: connection.poll(self.wire.PollRequest())).code, "RESOURCE_EXHAUSTED")

    def test_a_packed_message_is_not_unpacked(self):
        """gRPC would make 40 MB of 40 KB before it looked at the length, and its error would tell."""
        packed = grpc().Compression.Gzip
        connection = self.connect(packed, Poll=lambda request, context: bytes(40 << 20),
                                  Fetch=lambda request, context: iter([bytes(40 << 20)]))
        error = self.fails(lambda: connection.poll(self.wire.PollRequest()))
        self.assertNotIn(str(40 << 20), str(error))

        def fetch():
            with connection.fetch(self.wire.FetchRequest()) as chunks:
                list(chunks)
        self.assertNotIn(str(40 << 20), str(self.fails(fetch)))

    def test_who_says_nothing_is_not_waited_for_longer_than_the_call_may_take(self):
        self.patched("rivulet._connection._CALL_SECONDS", 0.3)
        self.patched("rivulet._connection._STREAM_SECONDS", 0.3)
        silent = threading.Event()
        self.addCleanup(silent.set)
        connection = self.connect(
            Poll=lambda request, context: silent.wait() or b"", Fetch=lambda request, context: iter([silent.wait() or b""])
        )
        began = time.monotonic()
        self.assertTrue(self.fails(lambda: connection.poll(self.wire.PollRequest())).transient)

        def fetch():
            with connection.fetch(self.wire.FetchRequest()) as chunks:
                next(chunks)

        self.assertTrue(self.fails(fetch).transient)
        self.assertLess(time.monotonic() - began, 10)

    def test_streams_can_be_cancelled_from_another_thread_and_polls_go_on(self):
        ended = threading.Event()

        def fetch(request, context):
            context.add_callback(ended.set)
            yield b"first"
            ended.wait(30)

        connection = self.connect(Fetch=fetch, Poll=lambda request, context: b"")

        def read():
            with connection.fetch(self.wire.FetchRequest()) as chunks:
                self.assertEqual(next(chunks), b"first")
                connection.poll(self.wire.PollRequest())  # as a heartbeat, beside the stream
                threading.Timer(0.05, connection.cancel_streams).start()
                next(chunks)

        self.assertRegex(str(self.fails(read)), "cannot be reached")
        self.assertTrue(ended.wait(10))
        connection.poll(self.wire.PollRequest())
        connection.close()
        self.assertTrue(self.fails(lambda: connection.poll(self.wire.PollRequest())).transient)

    def test_an_upload_is_asked_for_as_the_network_takes_it(self):
        from rivulet._upload import Upload

        import numpy as np

        from rivulet._update import Message, _Values

        asked, taken, read = [], [], threading.Event()
        values = np.arange(8 << 20, dtype=np.float32)  # 32 MB

        class Watched(Message):
            def block(self, index):
                asked.append(index)
                return super().block(index)

        def submit(messages, context):
            next(messages)
            staged, result = self.wire.SubmitReply(), self.wire.SubmitReply()
            staged.staged.SetInParent()
            result.result.SetInParent()
            yield staged.SerializeToString()
            self.assertTrue(read.wait(30))
            for content in messages:
                taken.append(self.wire.SubmitMessage.FromString(content))
            yield result.SerializeToString()

        connection = self.connect(Submit=submit)
        message = Watched([_Values(values, None, None)])
        sending = threading.Thread(target=lambda: Upload(self.wire.SubmitMessage(), message, 0).send(connection))
        sending.start()
        while not asked:
            time.sleep(0.01)
        time.sleep(0.5)
        # A window, and what is on its way to it; not the 32 blocks.
        self.assertLess(len(asked), 12, "the upload runs ahead of the network")
        read.set()
        sending.join(60)
        chunks = [each.chunk for each in taken if each.WhichOneof("message") == "chunk"]
        self.assertEqual(b"".join(chunks), values.tobytes())
        self.assertEqual({len(chunk) for chunk in chunks}, {256 * 1024})
        self.assertEqual(asked, list(range(32)))

    def test_after_a_tries_end_no_block_is_looked_at(self):
        from rivulet._update import Message
        from rivulet._upload import Upload, _Try

        upload = Upload(self.wire.SubmitMessage(), Message([bytes(3 << 20)]), 0)
        attempt = _Try()
        messages = upload._messages(attempt)
        next(messages)
        attempt.go_on(0)
        resume, first = next(messages), next(messages)
        self.assertEqual((len(first) > 1 << 17, len(resume) < 99), (True, True))
        attempt.end()
        upload._message = None  # whoever looked at it would raise
        self.assertEqual(len(list(messages)), 3)  # the rest of the block that was there
        waiting = _Try()
        waiting.end()
        self.assertIsNone(waiting.first_block())

    def test_a_proxy_of_the_environment_is_not_asked(self):
        proxy = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(proxy.close)
        proxy.settimeout(0)
        there = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        names = {name: there for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
        with unittest.mock.patch.dict(os.environ, {**names, "no_proxy": "", "NO_PROXY": ""}):
            self.connect(Poll=lambda request, context: b"").poll(self.wire.PollRequest())
        with self.assertRaises(BlockingIOError):
            proxy.accept()

    def test_grpc_is_loaded_by_a_connection_and_by_nothing_before_it(self):
        code = """
import sys
import rivulet, rivulet._agent, rivulet._site, rivulet._virtual, rivulet.flower, rivulet.analytics
assert "grpc" not in sys.modules
from rivulet._connection import Connection
Connection("127.0.0.1:1").close()
assert "grpc" in sys.modules
"""
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(packaged.ROOT / "python")}, check=True)

    def test_a_blob_that_is_larger_than_it_may_be_is_not_begun(self):
        from rivulet._arrays import Pages
        from rivulet._download import Download

        sent = []

        def fetch(request, context):
            while context.is_active() and len(sent) < 10_000:
                sent.append(1)
                yield self.wire.Chunk(total_bytes=1 << 62, data=bytes(1000)).SerializeToString()

        connection = self.connect(Fetch=fetch)
        for most in (1 << 20, 1 << 40):
            error = self.fails(lambda: Download(Pages(), most).receive(connection, self.wire.FetchRequest()))
            self.assertEqual(error.code, "OUT_OF_RANGE")
        self.assertLess(len(sent), 10_000)


def frame(kind, flags=0, stream=0, content=b""):
    return struct.pack(">BHBBI", len(content) >> 16, len(content) & 0xFFFF, kind, flags, stream) + content


OK = frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, b"\x88\x0f\x10\x10application/grpc")
# What a peer says at first, and then again and again.
FLOODS = {
    "nothing": (b"", b""),
    "settings": (frame(SETTINGS), frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100))),
    "pings": (frame(SETTINGS), frame(PING, 0, 0, bytes(8))),
    "windows": (frame(SETTINGS), frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))),
    "empty data": (OK, frame(DATA, 0, 1)),
    "data of a byte": (OK, frame(DATA, 0, 1, b"\0")),
    "data of nobody": (frame(SETTINGS), frame(DATA, 0, 99, bytes(100))),
    "headers without an end": (frame(SETTINGS) + frame(HEADERS, 0, 1, b"\x88"), frame(CONTINUATION, 0, 1, b"\0\1a\1b")),
    "frames of no kind": (frame(SETTINGS), frame(77, 0, 0, bytes(100))),
    "resets": (frame(SETTINGS), frame(RST_STREAM, 0, 1, struct.pack(">I", 8))),
    "going away": (frame(SETTINGS), frame(GOAWAY, 0, 0, bytes(8))),
    "another protocol": (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"x" * 10),
}


def flood(name):
    """Prints an address and floods whoever calls it. A process of its own: it takes all that a core has."""
    begin, again = FLOODS[name]

    def talk(connection):
        with contextlib.suppress(OSError), connection:
            connection.recv(1 << 16)
            connection.sendall(begin)
            while again:
                connection.sendall(100 * again)
            time.sleep(60)

    listener = socket.create_server(("127.0.0.1", 0))
    print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()


@packaged.needs_grpc
class Floods(unittest.TestCase):
    """Whatever a peer sends, a call ends: gRPC's own deadline does not hold in some of them."""

    def test_no_flood_outlives_a_calls_time(self):
        from rivulet import _protocol
        from rivulet._connection import CallError, Connection

        for name in FLOODS:
            with self.subTest(name), unittest.mock.patch.multiple("rivulet._connection", _CALL_SECONDS=0.5, _GRACE_SECONDS=0.5):
                peer = subprocess.Popen([sys.executable, __file__, "--flood", name], stdout=subprocess.PIPE, text=True)
                try:
                    connection = Connection(peer.stdout.readline().strip())
                    began = time.monotonic()
                    with self.assertRaises(CallError):
                        connection.poll(_protocol.PollRequest())
                    connection.close()
                    self.assertLess(time.monotonic() - began, 20)
                finally:
                    peer.kill()
                    peer.wait()
                    peer.stdout.close()


@packaged.needs_grpc
class Said(unittest.TestCase):
    """What a coordinator says is shown as one line."""

    ESCAPE = "\x1b]0;owned\x07all is well\nrivulet: run it again\u2028\u202e\x9b31m"

    def agent(self, *replies):
        from rivulet._agent import _Agent
        from rivulet._client_state import ClientState

        connection = unittest.mock.MagicMock()
        connection.poll.side_effect = replies
        return _Agent(Adds(), connection, "ann", "train", ClientState(None))

    def assert_clean(self, text):
        self.assertIn("all is well rivulet: run it again", text)
        self.assertTrue(text.isprintable(), repr(text))

    def test_a_text_is_cleaned_and_shortened(self):
        from rivulet._errors import clean

        self.assert_clean(clean(self.ESCAPE))
        self.assertEqual(clean("Zürich · 東京 🏥"), "Zürich · 東京 🏥")
        for long in ("a" * 1001, "a" * 2001, "\0" * 5000 + "a" * 5000):
            self.assertLessEqual(len(clean(long)), 1000)
            self.assertEqual(clean(long)[-1], "…")

    def test_the_runs_end_is_cleaned_in_what_is_given_and_what_is_raised(self):
        from rivulet import _protocol

        over = _protocol.PollReply()
        over.over.sentence = self.ESCAPE
        self.assert_clean(self.agent(over).run())
        over.over.failed = True
        with self.assertRaises(rivulet.RivuletError) as raised:
            self.agent(over).run()
        self.assert_clean(str(raised.exception))

    def test_log_lines_are_cleaned(self):
        from rivulet import _protocol

        waits, over = _protocol.PollReply(wait_ms=1), _protocol.PollReply()
        waits.awaited.sentence = self.ESCAPE
        over.over.sentence = "it is over"
        with self.assertLogs("rivulet", logging.INFO) as logs:
            self.agent(waits, over).run()
        self.assert_clean(logs.records[0].getMessage())

    def test_no_wait_is_longer_than_it_may_be(self):
        from rivulet import _backoff, _heartbeat, _protocol

        for wait in (1 << 62, -(1 << 62), 0):
            slept = []
            over = _protocol.PollReply()
            over.over.sentence = "it is over"
            with unittest.mock.patch("time.sleep", slept.append):
                self.agent(_protocol.PollReply(wait_ms=wait), over).run()
            self.assertTrue(0 < slept[0] <= _backoff.LONGEST_WAIT_MS / 1000, slept)
            self.assertTrue(0 < _heartbeat._seconds(wait) <= 60)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--flood"]:
        flood(sys.argv[2])
    harness.main()
