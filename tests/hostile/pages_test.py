"""Requests of all kinds to the pages: addresses, parameters, headers and tokens made up and changed at random, and bytes that are no
request. Each is answered with a status that fits or cut off; nothing that was sent comes back as markup or as a header, no page opens
without its token, and memory stays where it was. tests/http/http_server_test.cc has the limits one by one."""
import json
import os
import re
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from world import World  # noqa: E402
import chance as chances  # noqa: E402

from harness import main, measures_memory  # noqa: E402

TOKEN = "0123456789abcdef0123456789abcdef"
PATHS = ["/", "/run", "/round", "/client", "/model", "/labels", "/compare", "/table.csv", "/picture.png", "/picture.svg", "/icon.svg",
         "/feed", "/metrics"]
NAMES = ["id", "run", "round", "rounds", "client", "clients", "first", "find", "status", "algorithm", "sort", "order", "runs", "of", "name",
         "metric", "token", "group", "by", "columns", "width", "x", "y"]
WORDS = ["latest", "tiny", "up", "down", "finished", "fedavg", "runs", "rounds", "clients", "tasks", "metrics", "events", "loss", "curves",
         "client-00000", "0", "1", "2", "4", "-1", "999999999", "9999999999", "1e9", "NaN", "", "'", '"', "%", "_", "*", "\\", "\0", "\r\n",
         "<script>alert(1)</script>", "\"><x-rivulet onload=a>", "'; DROP TABLE runs; --", "' OR 1=1 --", "../../../../etc/passwd",
         "/etc/passwd", "file:///etc/passwd", "\u202e", "\ud7ff", "é", "\x1b[2J", "%00", "%2e%2e", "a" * 300, "é" * 200, "0:latest", "1:latest",
         "-1:latest", "9" * 40 + ":latest", "\r\nX-Injected: 1", "\nSet-Cookie: a=b"]
STATUSES = {200, 303, 400, 401, 403, 404, 405, 408, 413, 414, 417, 431, 501, 503, 505}
QUICK = 5.0


def word(chance, known):
    return chance.choice(known * 6 + WORDS) if chance.random() < 0.9 else "".join(chr(chance.randrange(1, 0xd7ff)) for _ in range(chance.randrange(40)))


def escaped(text, chance, sloppy):
    """As browsers would; `sloppy`: not always."""
    out = b""
    for byte in text.encode("utf-8", "surrogatepass"):
        plain = chr(byte).isalnum() and byte < 128
        if sloppy and chance.random() < 0.1:
            out += chance.choice([b"%", b"%0", b"%zz", b""]) + bytes([byte])
        else:
            out += bytes([byte]) if plain else b"%%%02X" % byte
    return out


def target(chance, known):
    path = chance.choice(PATHS).encode()
    if chance.random() < 0.15:
        path = chance.choice([b"/../", b"//", b"/./", b"/%2e%2e/", b"", b"*", b"http://127.0.0.1/", b"/\\", b"/" + b"a" * 9000, b"/%", b"?"]) + path
    sloppy = chance.random() < 0.1
    pairs = [escaped(chance.choice(NAMES) if chance.random() < 0.9 else word(chance, known), chance, sloppy) +
             (b"=" if chance.random() < 0.95 else b"") + escaped(word(chance, known), chance, sloppy)
             for _ in range(chance.choice([0, 1, 1, 2, 2, 3, 4, 40 if chance.random() < 0.1 else 5]))]
    if chance.random() < 0.6:  # past the first question of every page
        pairs = [b"run=" + chance.choice(known).encode(), b"id=" + chance.choice(known).encode(),
                 b"of=" + chance.choice([b"runs", b"rounds", b"clients", b"tasks", b"metrics"]), *pairs]
    return path + (b"?" + b"&".join(pairs) if pairs else b"")


def request(chance, known, allowed):
    """(bytes, path without parameters, whether the token is in it)."""
    where = target(chance, known)
    method = b"GET" if chance.random() < 0.9 else chance.choice([b"HEAD", b"POST", b"PUT", b"get", b"", b"CONNECT", b"PRI", b"\xff", b"G" * 500])
    fields = [b"Host: 127.0.0.1"]
    opened = False
    if chance.random() < 0.15:
        fields[0] = chance.choice([b"Host: evil.example", b"Host: localhost", b"Host:", b"Host: 127.0.0.1\r\nHost: 127.0.0.1", b"Host: [::1", b"X: y",
                                   b"Host: 127.0.0.1@evil.example", b"Host: 127.0.0.1:99999999"])
    if chance.random() < 0.5:
        given = TOKEN.encode() if allowed and chance.random() < 0.6 else chance.choice(
            [TOKEN[:-1], TOKEN + "0", TOKEN.upper(), TOKEN[1:], "", "0" * 32, TOKEN + " " + TOKEN, None])
        given = chances.mutated(TOKEN.encode(), chance, 2) if given is None else given if isinstance(given, bytes) else given.encode()
        opened = given == TOKEN.encode()
        fields.append(b"Authorization: Bearer " + given)
    for _ in range(chance.choice([0, 0, 0, 0, 0, 0, 1, 2, 120 if chance.random() < 0.05 else 3])):
        fields.append(chance.choice([
            b"Cookie: rivulet_session=" + chance.randbytes(8).hex().encode(), b"Cookie: " + b"a=b; " * 200, b"Content-Length: 5",
            b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, gzip",
            b"Upgrade: h2c", b"Expect: 100-continue", b"Connection: upgrade", b"Range: bytes=0-0,1-1,-1", b"X" * 70_000 + b": 1", b" folded: 1",
            b"Accept-Encoding: gzip, *;q=0", b"If-None-Match: *", b"X-Forwarded-For: 10.0.0.1", b"Authorization: Bearer ", b"\0: 1", b": 1", b"a"]))
    version = b"HTTP/1.1" if chance.random() < 0.95 else chance.choice([b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b"http/1.1", b"", b"HTTP/1.1 x"])
    content = method + b" " + where + b" " + version + b"\r\n" + b"\r\n".join(fields) + b"\r\nConnection: close\r\n\r\n"
    if chance.random() < 0.1:
        content += chance.choice([b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"hello", b"0\r\n\r\n", chance.randbytes(2000)])
    if chance.random() < 0.15:
        content = chances.mutated(content, chance)
        opened = True  # perhaps
    return content, where.split(b"?")[0], opened or TOKEN.encode() in content


class Pages(World):
    def setUp(self):
        super().setUp()
        if "--http " not in self.run_rivulet("simulate", "--help").out:
            self.skipTest("built without Boost")
        self.simulate("--set", "run.name=\"<x-rivulet>\"", "--set", "evaluation.every=1")
        self.simulate("--set", "algorithm.name=fedprox", "--set", "algorithm.mu=0.1", "--rounds", 2)
        print(f"RIVULET_HOSTILE_SEED={chances.SEED}", flush=True)

    def serve(self, *more):
        process = self.start("dashboard", "--db", "runs.sqlite", "--http", "127.0.0.1:0", *more)
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())[1])
        return self.follow(process, f"dashboard {len(more)}"), port

    def answer(self, port, content):
        """What comes back until the end; the stream of /feed has none."""
        with socket.create_connection(("127.0.0.1", port), timeout=QUICK) as connection:
            try:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)  # that no more comes, is known
                return b"".join(iter(lambda: connection.recv(1 << 16), b""))
            except (ConnectionError, BrokenPipeError):
                return b""

    def judge(self, content, answer, opened, tokened, taken):
        if not answer:
            return 0  # cut off
        head, _, body = answer.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.[01] (\d{3}) ", head)
        self.assertTrue(status, answer[:200])
        status = int(status[1])
        self.assertIn(status, STATUSES, answer[:500])
        self.assertNotRegex(head, rb"(?mi)^(?:X-Injected|Set-Cookie: a=b)")
        self.assertRegex(head, rb"(?mi)^X-Content-Type-Options: nosniff")
        self.assertRegex(head, rb"(?mi)^Content-Security-Policy: default-src 'none'")
        if b"text/html" in head:
            self.assertNotIn(b"<x-rivulet", body)
            self.assertNotIn(b"<script>alert", body)
        self.assertNotIn(b"root:x:0", body)
        if tokened and not opened:
            self.assertNotIn(status, (200, 303), answer[:300])
        self.assertLess(taken, QUICK)
        return status

    @measures_memory
    def test_requests_of_all_kinds(self):
        runs = [run for (run,) in self.query("SELECT run_id FROM runs")]
        plain, plain_port = self.serve()
        tokened, tokened_port = self.serve("--http-token", self.write("token", TOKEN + "\n"))
        # What pages cost once, such as SQLite's cache, is no growth.
        for path in PATHS:
            for run in runs:
                self.answer(plain_port, f"GET {path}?run={run}&id={run} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        rest = {plain: self.memory(plain), tokened: self.memory(tokened)}
        statuses = {}
        for number, chance in chances.cases("pages", chances.seconds(20)):
            secret = chance.random() < 0.4
            content, path, opened = request(chance, runs, chance.random() < 0.7)
            began = time.monotonic()
            try:
                answer = self.answer(tokened_port if secret else plain_port, content)
                status = self.judge(content, answer, opened, secret, time.monotonic() - began)
            except (AssertionError, TimeoutError, OSError) as error:
                self.fail(f"case {number} of seed {chances.SEED}: {error!r}: {content[:400]!r}")
            statuses[status] = statuses.get(status, 0) + 1
        print(json.dumps({"statuses, 0 where the connection was cut": dict(sorted(statuses.items()))}), flush=True)
        for process, port in ((plain, plain_port), (tokened, tokened_port)):
            self.assert_lives(process, "the dashboard")
            self.assertLess(self.memory(process) - rest[process], 64 << 10)
            answer = self.answer(port, f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode())
            self.assertIn(b" 200 ", answer[:20])
        self.assertLessEqual({200, 400, 401, 404, 405}, set(statuses))


if __name__ == "__main__":
    main()
