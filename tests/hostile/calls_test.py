"""Calls of every kind by those who are admitted: messages made up and changed at random, in any order, at any pace, and HTTP/2 that
keeps to no rule. A coordinator, an aggregator and a simulation answer each with a status or cut it off, serve others on, and keep
their memory; sentences of their answers and lines of their logs show as text."""
import os
import ssl
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import chance as chances  # noqa: E402
import http2  # noqa: E402
from http2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RESET, SETTINGS, WINDOW, frame  # noqa: E402
from world import CALLS, World, ask, caller, grpc  # noqa: E402
import requests  # noqa: E402

from harness import field, main, measures_memory, varint  # noqa: E402

WORDS = ["", "a", "b", "no-task", "latest", "\n", "\x1b[31m", "\0", "../..", "é" * 300, "x" * 5000, "\u202e", "abort", "ban", "pause", "stop"]
NUMBERS = [0, 1, 2, 3, 127, 128, 255, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -1, -(1 << 31)]
CODES = {"OK", "CANCELLED", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
         "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}


def made_up(chance, depth=0):
    """A message of fields that might be some message's."""
    content = b""
    for _ in range(chance.choice([0, 1, 1, 2, 3, 5, 300 if chance.random() < 0.05 else 4])):
        number = chance.randrange(1, 16)
        kind = chance.randrange(5)
        if kind == 0:
            content += field(number, chance.choice(NUMBERS))
        elif kind == 1:
            content += field(number, chance.choice(WORDS).encode("utf-8", "surrogatepass"))
        elif kind == 2:
            content += varint(number << 3 | 1) + chance.randbytes(8)
        elif kind == 3 and depth < 6:
            content += field(number, made_up(chance, depth + 1))
        else:
            content += field(number, chance.randbytes(chance.choice([0, 1, 31, 32, 33, 200])))
    return content


def messages_for(call, chance, name):
    """What a caller might send, and then not quite."""
    _, make, _ = chance.choice(requests.ROWS[call])
    sent = make(name if chance.random() < 0.8 else chance.choice(WORDS))
    if chance.random() < 0.5:
        sent = [chances.mutated(content, chance) for content in sent]
    elif chance.random() < 0.5:
        sent = [content + made_up(chance) for content in sent]
    else:
        sent = [made_up(chance)]
    if CALLS[call].sends:
        sent += [made_up(chance) for _ in range(chance.choice([0, 1, 3, 40]))]
        if chance.random() < 0.2:
            sent.insert(0, field(3, chance.randbytes(chance.choice([0, 100, 900_000]))))
    return sent


def frames(chance, path):
    """HTTP/2 that a client would not send."""
    header = http2.call(path, *[(b"x-%d" % i, b"y" * chance.choice([0, 10, 3000])) for i in range(chance.choice([0, 1, 60]))],
                        method=chance.choice([b"POST", b"POST", b"GET", b"\0"]))
    kinds = [
        lambda: b"".join(frame(HEADERS, END_HEADERS, stream, header) + frame(RESET, 0, stream, b"\0\0\0\x08") for stream in range(1, 201, 2)),
        lambda: frame(SETTINGS) * 2000,
        lambda: frame(PING, 0, 0, b"12345678") * 2000,
        lambda: frame(HEADERS, END_HEADERS, 1, header) + frame(DATA, 0, 1) * 3000,
        lambda: frame(HEADERS, 0, 1, header) + frame(CONTINUATION, 0, 1) * 1000 + frame(DATA, 0, 1),
        lambda: frame(HEADERS, END_HEADERS, 1, header) + frame(WINDOW, 0, 1, b"\x7f\xff\xff\xff") * 3,
        lambda: frame(HEADERS, END_HEADERS, 1, header) + frame(DATA, 0, 1, http2.message(b"x" * 100, chance.choice([0, 1, 1 << 31, (1 << 32) - 1]))),
        lambda: frame(HEADERS, END_HEADERS, 1, header) + frame(DATA, END_STREAM, 1, http2.message(made_up(chance), None, chance.choice([0, 1, 255]))),
        lambda: frame(HEADERS, END_HEADERS, 1, header) + frame(HEADERS, END_HEADERS | END_STREAM, 1, header),
        lambda: frame(HEADERS, END_HEADERS, chance.choice([0, 2, (1 << 31) - 1]), header),
        lambda: frame(SETTINGS, 0, 0, b"".join(i.to_bytes(2, "big") + chance.randbytes(4) for i in range(1, 10))),
        lambda: frame(chance.randrange(256), chance.randrange(256), chance.randrange(4), chance.randbytes(chance.randrange(100))),
        lambda: chances.mutated(frame(HEADERS, END_HEADERS, 1, header) + frame(DATA, END_STREAM, 1, http2.message(made_up(chance))), chance, 20),
        lambda: b"".join(frame(HEADERS, END_HEADERS, stream, header) for stream in range(1, 201, 2)),  # more are bounded by no setting: docs/guide/security.md
        lambda: frame(HEADERS, END_HEADERS, 1, b"\x3f\xe1\xff\x03" + header),  # a table of HPACK of 65,504 bytes
        lambda: frame(HEADERS, END_HEADERS, 1, b"\xbe" * 5000),  # entries that are none
    ]
    return b"".join(kind() for kind in chance.choices(kinds, k=chance.choice([1, 1, 2, 3])))


@unittest.skipUnless(grpc, "needs gRPC (Debian's python3-grpcio)")
class CallsOfAllKinds(World):
    def setUp(self):
        super().setUp()
        self.make_authority()
        self.callers.issue("aggregator/south", "south", "--host", "localhost")  # north itself would be told that another has taken its place
        print(f"RIVULET_HOSTILE_SEED={chances.SEED}", flush=True)

    @measures_memory
    def test_calls_of_all_kinds(self):
        coordinator, port = self.start_coordinator("--aggregators", scenario=False)
        served, served_port = self.start_coordinator("--aggregators", name="served")
        north, north_port = self.listening("north", "aggregator", "--parent", f"127.0.0.1:{served_port}", "--listen", "127.0.0.1:0", "--tls",
                                           "north")
        simulation = self.start("simulate", self.scenario, "--db", "s.sqlite", "--rounds", 1_000_000, "--workers", 0, "--workers-at",
                                "127.0.0.1:0", "--tls", "coordinator", "--set", "server.lease=1")
        line = next(line for line in simulation.stderr if line.startswith("listening on "))
        self.follow(simulation, "simulation")
        targets = [("coordinator", coordinator, port), ("served", served, served_port), ("north", north, north_port),
                   ("simulation", simulation, int(line.rsplit(":", 1)[1]))]
        channels = {(name, folder): self.channel(at, folder) for name, _, at in targets for folder in ("a", "b", "south", "ann")}
        for name, _, _ in targets:
            self.assertIn(ask(channels[name, "a"], CALLS["Coordinator.Poll"], *requests.poll(0)(""))[0], ("OK", "FAILED_PRECONDITION"))
        rest = {name: self.memory(process) for name, process, _ in targets}
        counted, peaks = {}, dict(rest)
        for number, chance in chances.cases("calls", chances.seconds(15)):
            name, process, at = chance.choice(targets)
            what = f"case {number} of seed {chances.SEED}, {name}"
            folder = chance.choice(["a", "b", "south", "ann"])
            if chance.random() < 0.85:
                call = chance.choice(sorted(CALLS))
                hurry = chance.choice([0.001, 0.02, 0.1, 0.3])
                code, sentence, _ = ask(channels[name, folder], CALLS[call], *messages_for(call, chance, ""), timeout=hurry)
                self.assertIn(code, CODES, f"{what}: {call}: {sentence}")
                self.assertNotRegex(sentence, r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202e]", f"{what}: {call}")
                counted[code] = counted.get(code, 0) + 1
            else:
                self.send_frames(at, folder, frames(chance, chance.choice(list(CALLS.values())).path))
                counted["frames"] = counted.get("frames", 0) + 1
            self.assertIsNone(process.poll(), f"{what} ended: {self.logs[name][-3:]}")
            peaks[name] = max(peaks[name], self.memory(process))
        print(f"calls: {dict(sorted(counted.items()))}", flush=True)
        print("MB more at the peak: " + ", ".join(f"{name} {(peaks[name] - rest[name]) / 1024:.1f}" for name in rest), flush=True)
        for name, process, at in targets:
            self.assert_lives(process, name)
            self.assertLess(peaks[name] - rest[name], 64 << 10, name)
            code, sentence, _ = ask(self.channel(at, "b"), CALLS["Coordinator.Fetch"], *requests.fetch("b"))
            self.assertEqual(code, "NOT_FOUND", f"{name}: {sentence}")
            self.assertNotRegex("".join(self.logs[name]), r"[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202e]", name)

    def send_frames(self, port, folder, content):
        try:
            connection = http2.connect(port, self.path(folder), self.path("ca/authority.crt"), timeout=3)
        except (OSError, ssl.SSLError):
            return
        content = http2.PREFACE + frame(SETTINGS) + content
        try:
            # In pieces, and what comes is read between them: both sides would wait for each other.
            for at in range(0, len(content), 16 << 10):
                connection.settimeout(0.5)
                connection.sendall(content[at:at + (16 << 10)])
                connection.settimeout(0.01)
                try:
                    connection.recv(1 << 16)
                except TimeoutError:
                    pass
        except (OSError, ssl.SSLError):
            pass
        connection.close()


if __name__ == "__main__":
    main()
