"""The package's own HTTP/2: header blocks against RFC 7541, and connections against another end that does as told."""

import contextlib
import socket
import struct
import threading
import unittest

import packaged
import harness

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8


class HeaderBlocks(unittest.TestCase):
    def test_the_examples_of_the_rfc_are_read(self):
        from rivulet._hpack import decode

        for block, headers in [
            ("828684410f7777772e6578616d706c652e636f6d", {":method": "GET", ":authority": "www.example.com"}),  # C.3.1
            ("828684418cf1e3c2e5f23a6ba0ab90f4ff", {":path": "/", ":authority": "www.example.com"}),  # C.4.1
            ("040c2f73616d706c652f70617468", {":path": "/sample/path"}),  # C.2.2
            ("488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad1718"
             "63c78f0b97c8e9ae82ae43d3", {":status": "302", "date": "Mon, 21 Oct 2013 20:13:21 GMT"}),  # C.6.1
        ]:
            found = dict(decode(bytes.fromhex(block)))
            self.assertEqual({name: found.get(name) for name in headers}, headers)

    def test_what_is_written_is_read(self):
        from rivulet._hpack import decode, encode

        headers = [(":method", "POST"), ("a" * 126, "b" * 127), ("c" * 5000, "")]
        self.assertEqual(decode(encode(headers)), headers)

    def test_damage_is_told_and_nothing_else(self):
        from rivulet._hpack import BadHeaders, decode

        for block in ("41", "418cf1", "bf", "c0", "ff80808080808001", "3f01", "0081ff", "00847fffffff"):
            with self.subTest(block), self.assertRaises(BadHeaders):
                decode(bytes.fromhex(block))
        for damaged in packaged.mutations(bytes.fromhex("488264025885aec3771a4b0f0d03313233040c2f73616d706c652f70617468"), 2000):
            with contextlib.suppress(BadHeaders):
                decode(damaged)


def frame(kind, flags=0, stream=0, content=b""):
    return struct.pack(">BHBBI", len(content) >> 16, len(content) & 0xFFFF, kind, flags, stream) + content


def message(content):
    return struct.pack(">BI", 0, len(content)) + content


OK_HEADERS = bytes([0x88])  # :status 200
OK_END = b"\0\x0bgrpc-status\x010"


class Peer:
    """The other end of one connection: sends what it is told to, and keeps what it is sent."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard = bytearray()
        self.connection = None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.connected = threading.Event()
        self.reader.start()

    def _read(self):
        with contextlib.suppress(OSError):
            self.connection, _ = self.listener.accept()
            self.connected.set()
            while content := self.connection.recv(1 << 16):
                self.heard += content

    def say(self, *frames):
        self.connected.wait(10)
        self.connection.sendall(b"".join(frames))

    def close(self):
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.listener, socket.SHUT_RDWR)
        self.listener.close()
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            self.reader.join(10)
            self.connection.close()

    def frames(self):
        """(kind, flags, stream, content) of what has come so far, behind the preface."""
        at, found = 24, []
        while at + 9 <= len(self.heard):
            high, low, kind, flags, stream = struct.unpack_from(">BHBBI", self.heard, at)
            length = high << 16 | low
            found.append((kind, flags, stream, bytes(self.heard[at + 9 : at + 9 + length])))
            at += 9 + length
        return found


class Channels(unittest.TestCase):
    def setUp(self):
        from rivulet import _http2

        self.peer = Peer()
        self.addCleanup(self.peer.close)
        self.channel = _http2.Channel("127.0.0.1", self.peer.port, None)
        self.addCleanup(self.channel.close)

    def begun(self, seconds=10.0):
        call = self.channel.begin("/service/Method", seconds)
        call.send([[b"request"]], end=True)
        return call

    def test_messages_are_cut_out_of_frames_wherever_they_begin(self):
        call = self.begun()
        content = message(b"one") + message(b"") + message(b"three" * 40_000)
        self.peer.say(frame(SETTINGS), frame(HEADERS, END_HEADERS, 1, OK_HEADERS))
        self.peer.say(frame(DATA, 0, 1, content[:3]), frame(DATA, PADDED, 1, b"\2" + content[3:9] + b"\0\0"))
        self.peer.say(frame(DATA, 0, 1, content[9:]), frame(HEADERS, END_HEADERS | END_STREAM, 1, OK_END))
        found = [bytes(call.receive()) for _ in range(3)]
        self.assertEqual(found, [b"one", b"", b"three" * 40_000])
        self.assertIsNone(call.receive())
        self.assertTrue(call.clean and self.channel.usable())

    def test_the_next_call_goes_over_the_same_connection(self):
        for stream in (1, 3):
            call = self.begun()
            self.peer.say(
                frame(PING, 0, 0, b"12345678"),
                frame(HEADERS, 0, stream, OK_HEADERS[:0]),
                frame(CONTINUATION, END_HEADERS, stream, OK_HEADERS),
                frame(DATA, 0, stream, message(b"reply")),
                frame(DATA, 0, 99, message(b"of a stream that nobody knows")),
                frame(77, 0, stream, b"of a kind that nobody knows"),
                frame(HEADERS, END_HEADERS | END_STREAM, stream, OK_END),
            )
            self.assertEqual(bytes(call.receive()), b"reply")
            call.finish()
            self.assertTrue(self.channel.usable())
        self.channel.close()
        self.peer.reader.join(10)
        self.assertIn((PING, ACK, 0, b"12345678"), self.peer.frames())

    def test_what_is_sent_keeps_to_the_windows_of_the_other_end(self):
        self.peer.say(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 100_000)))
        call = self.channel.begin("/service/Method", 10)
        done = threading.Thread(target=lambda: call.send([[b"a" * 150_000, b"b" * 50_000]], end=True))
        done.start()
        done.join(0.3)
        sent = sum(len(content) for kind, _, _, content in self.peer.frames() if kind == DATA)
        self.assertTrue(done.is_alive() and 0 < sent <= 65_535, sent)
        self.peer.say(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 300_000)))
        done.join(0.3)
        sent = sum(len(content) for kind, _, _, content in self.peer.frames() if kind == DATA)
        self.assertTrue(done.is_alive() and sent == 100_000, sent)
        self.peer.say(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 300_000)))
        done.join(10)
        self.channel.close()
        self.peer.reader.join(10)
        data = [content for kind, _, _, content in self.peer.frames() if kind == DATA]
        self.assertEqual(b"".join(data), message(b"a" * 150_000 + b"b" * 50_000))
        self.assertLessEqual(max(map(len, data)), 16_384)

    def test_pieces_that_the_socket_takes_in_part_come_whole_and_in_order(self):
        sent = []

        class Narrow:
            """Takes a few bytes at once, of the first piece or of several."""

            def sendmsg(self, pieces):
                some = b"".join(pieces)[: 1 + len(sent) % 7]
                sent.append(some)
                return len(some)

            def settimeout(self, seconds):
                pass

            def close(self):
                pass

        self.channel.close()
        self.channel._socket = Narrow()
        self.channel._write(b"one", b"", memoryview(b"three" * 9), b"4", b"")
        self.assertEqual(b"".join(sent), b"one" + b"three" * 9 + b"4")

    def test_ends_are_told_by_their_codes(self):
        from rivulet._http2 import Ended, Lost

        escaped = b"\0\x0bgrpc-status\x015\0\x0cgrpc-message\x0cno%20such%21"
        aborted = b"\0\x0bgrpc-status\x0210\0\x0cgrpc-message\x16the task was made anew"
        for said, error, sentence in [
            ([frame(HEADERS, END_HEADERS | END_STREAM, 1, OK_HEADERS + escaped)], "NOT_FOUND", "no such!"),
            ([frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x08\x03503")], "UNAVAILABLE", r"HTTP 503"),
            ([frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x08\x03401")], "UNAUTHENTICATED", r"HTTP 401"),
            ([frame(HEADERS, END_HEADERS | END_STREAM, 1, OK_HEADERS + aborted)], "ABORTED", "the task was made anew"),
            ([frame(RST_STREAM, 0, 1, struct.pack(">I", 8))], "CANCELLED", "cut off"),
            ([frame(DATA, 0, 1, struct.pack(">BI", 0, 2 << 20))], "RESOURCE_EXHAUSTED", "2097152 bytes"),
            ([frame(GOAWAY, 0, 0, bytes(8))], None, "takes no more calls"),
            ([frame(DATA, 0, 1, b"\1\0\0\0\0")], None, "compressed"),
            ([frame(DATA, PADDED, 1, b"\7abc")], None, "padding"),
            ([frame(HEADERS, END_HEADERS, 1, b"\xff\xff")], None, "header that is none"),
            ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], None, "sent a frame of"),
        ]:
            with self.subTest(sentence):
                call = self.begun()
                self.peer.say(*said)
                with self.assertRaisesRegex(Lost if error is None else Ended, sentence) as raised:
                    call.receive()
                self.assertEqual(getattr(raised.exception, "code", None), error)
            self.peer.close()
            self.setUp()

    def test_who_says_nothing_is_not_waited_for_longer_than_the_call_may_take(self):
        from rivulet._http2 import Ended

        with self.assertRaisesRegex(Ended, "no answer came in time"):
            self.begun(0.1).receive()

    def test_a_connection_that_was_closed_or_is_to_be_left_is_not_used_again(self):
        self.assertTrue(self.channel.usable())
        self.peer.say(frame(GOAWAY, 0, 0, struct.pack(">II", 0x7FFFFFFF, 0)))
        self.await_unusable()
        self.peer.close()
        self.setUp()
        self.peer.connected.wait(10)
        self.peer.close()
        self.await_unusable()

    def await_unusable(self):
        for _ in range(1000):
            if not self.channel.usable():
                return
        self.fail("it is still used")

    def test_one_that_waits_can_be_cancelled_from_another_thread(self):
        from rivulet._http2 import Lost

        call = self.begun()
        threading.Timer(0.05, self.channel.abort).start()
        with self.assertRaisesRegex(Lost, "cancelled"):
            call.receive()

    def test_damaged_frames_end_a_call_and_nothing_else(self):
        from rivulet._http2 import Ended, Lost

        whole = b"".join(
            [
                frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 20_000)),
                frame(HEADERS, END_HEADERS, 1, OK_HEADERS),
                frame(DATA, PADDED, 1, b"\1" + message(b"reply") + b"\0"),
                frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 9)),
                frame(HEADERS, END_HEADERS | END_STREAM, 1, OK_END),
            ]
        )
        for damaged in packaged.mutations(whole, 150):
            call = self.begun()
            self.peer.say(damaged)
            self.peer.connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(Ended, Lost):
                while call.receive() is not None:
                    pass
            self.channel.close()
            self.peer.close()
            self.setUp()


if __name__ == "__main__":
    harness.main()
