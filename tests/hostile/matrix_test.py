"""Callers × calls: who may ask what of a coordinator, of an aggregator and of the pages. Every cell has its status; a call or a page
without a row fails."""
import http.client
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from world import CALLS, HAS_OPENSSL, World, ask, grpc  # noqa: E402
from callers import TURNED_AWAY  # noqa: E402
from protos import ROOT  # noqa: E402
import requests  # noqa: E402
from requests import AGGREGATOR, BANNED, CLIENT, KINDS, OPERATOR, ROWS, STRANGER  # noqa: E402

from harness import field, main  # noqa: E402

NONE, PLAINTEXT = "no certificate", "no TLS"
# Pages, and what an operator gets without any parameter.
PAGES = {"/": 200, "/run": 404, "/round": 404, "/client": 404, "/model": 404, "/labels": 404, "/compare": 400, "/table.csv": 400,
         "/picture.png": 400, "/picture.svg": 400, "/icon.svg": 200, "/feed": 200, "/metrics": 200, "/no-such-page": 404}


def pages_in_sources():
    """The paths that handlers are registered for."""
    found = set()
    for room in ("pages", "cli", "http", "inspect"):
        for file in sorted((ROOT / room).rglob("*.cc")):
            text = file.read_text()
            for call in re.finditer(r"\bHandle(?:Stream)?\(\s*([^,{]+),", text):
                found |= set(re.findall(r'"(/[^"]*)"', call[1])) | set(re.findall(r"\b(k\w+Path)\b", call[1]))
    named = "".join(path.read_text() for path in sorted((ROOT / "pages").glob("*.h")))
    return {re.search(rf'\b{name}\[?\]? = "([^"]+)"', named)[1] if name.startswith("k") else name for name in found}


class Rows(unittest.TestCase):
    def test_every_call_of_the_protos_has_a_row(self):
        self.assertGreaterEqual(len(CALLS), 9)
        self.assertEqual(sorted(ROWS), sorted(CALLS), "tests/hostile/requests.py: each call of proto/ has a row, and no other has one")

    def test_every_row_says_for_whom_it_is(self):
        for call, variants in ROWS.items():
            for what, _, statuses in variants:
                self.assertLessEqual(set(statuses), set(KINDS), f"{call}, {what}")
            self.assertTrue(any(statuses for _, _, statuses in variants), f"{call} is for nobody")

    def test_every_page_has_a_row(self):
        self.assertEqual(pages_in_sources() - set(PAGES), set(), "PAGES of this file lacks a page")


@unittest.skipUnless(grpc, "needs gRPC (Debian's python3-grpcio)")
@unittest.skipUnless(HAS_OPENSSL, "needs openssl")
class Matrix(World):
    def setUp(self):
        super().setUp()
        self.make_authority()
        self.callers.make_those_refused_by_their_certificate()
        self.callers.issue("client/banned", "banned")
        self.callers.issue("client/late", "late")
        self.write("clients.txt", "a\ngone\nbanned\nlate\n")
        self.hand_out_list("coordinator", "north")
        self.cells = 0

    def hand_out_list(self, *folders):
        for folder in folders:
            shutil.copy(self.folder / "ca/revoked.crl", self.folder / folder / "revoked.crl")

    def expect(self, channel, who, status, name=""):
        """`status(call, statuses)` of every cell of this caller."""
        for call, variants in ROWS.items():
            for what, messages, statuses in variants:
                got, sentence, _ = ask(channel, CALLS[call], *messages(name))
                self.cells += 1
                self.assertEqual(got, status(call, statuses), f"{who}: {call} {what}: {sentence}")
                self.assertNotRegex(sentence, r"[\x00-\x08\x0b-\x1f\x7f]", who)

    def expect_kind(self, channel, who, kind, name=""):
        self.expect(channel, who, lambda call, statuses: statuses.get(kind, "PERMISSION_DENIED"), name)

    def expect_none(self, port):
        """Those whose connection is refused."""
        for who in (NONE, PLAINTEXT, "coordinator", *TURNED_AWAY):
            with self.channel(port, None if who in (NONE, PLAINTEXT) else who, plaintext=who == PLAINTEXT) as channel:
                self.expect(channel, who, lambda call, statuses: "UNAVAILABLE")

    def test_coordinator(self):
        coordinator, port = self.start_coordinator("--aggregators", "--clients", "clients.txt", scenario=False)
        ann = self.channel(port, "ann")
        self.assertEqual(ask(self.channel(port, "banned"), CALLS["Coordinator.Poll"], *requests.poll(0)(""))[0], "OK")
        self.assertEqual(ask(ann, CALLS["Control.Command"], field(1, "ban") + field(2, "banned"))[0], "OK")
        self.expect_none(port)
        for folder, kind in (("a", CLIENT), ("b", STRANGER), ("banned", BANNED), ("north", AGGREGATOR), ("ann", OPERATOR)):
            channel = self.channel(port, folder)
            self.expect_kind(channel, folder, kind)
            # Another's name opens nothing, and closes nothing that asks for none.
            for other in ("b", "a", "north", "ann", "banned", "A", "a\n", "\0", "x" * 100_000):
                if other == folder:
                    continue
                expected = lambda call, statuses: statuses.get(kind, "PERMISSION_DENIED") if call.startswith("Control.") else "PERMISSION_DENIED"
                self.expect(channel, f"{folder} as {other[:20]!r}", expected, other)
        # A client whose connection is open when its certificate is revoked.
        late = self.channel(port, "late")
        self.expect_kind(late, "late", CLIENT)
        self.run_rivulet("ca", "revoke", "client/late", code=0)
        self.hand_out_list("coordinator")
        poll = requests.poll(0)("")
        self.wait_for(lambda: ask(late, CALLS["Coordinator.Poll"], *poll)[0] != "OK", "the revocation")
        self.expect(late, "late, revoked", lambda call, statuses: "UNAUTHENTICATED")
        self.expect_kind(self.channel(port, "a"), "a, after all that", CLIENT)
        self.assert_lives(coordinator, "coordinator")
        print(f"coordinator: {self.cells} cells", flush=True)

    def test_coordinator_that_admits_no_aggregators(self):
        coordinator, port = self.start_coordinator(scenario=False)
        nothing = lambda call, statuses: "PERMISSION_DENIED"
        self.expect(self.channel(port, "north"), "north", nothing)
        self.expect(self.channel(port, "north"), "north as a", nothing, "a")
        self.expect_kind(self.channel(port, "b"), "b", CLIENT)
        self.expect_kind(self.channel(port, "ann"), "ann", OPERATOR)
        self.assert_lives(coordinator, "coordinator")

    def test_aggregator(self):
        _, parent = self.start_coordinator("--aggregators")
        north, port = self.listening("north", "aggregator", "--parent", f"127.0.0.1:{parent}", "--listen", "127.0.0.1:0", "--tls", "north",
                                     "--clients", "clients.txt")
        # It steers nothing, whoever asks.
        of = lambda kind: lambda call, statuses: ("UNIMPLEMENTED" if call.startswith("Control.") else statuses.get(kind, "PERMISSION_DENIED"))
        self.expect_none(port)
        # Until the coordinator has answered for a client, it is asked to come again.
        a, (_, update, _) = self.channel(port, "a"), ROWS["Coordinator.Submit"][0]
        def known():
            ask(a, CALLS["Coordinator.Poll"], *requests.poll(0)(""))
            return ask(a, CALLS["Coordinator.Submit"], *update(""))[0] != "UNAVAILABLE"
        self.wait_for(known, "the coordinator's answer for a client")
        for folder, kind in (("a", CLIENT), ("b", STRANGER), ("ann", "nobody here"), ("north", "nobody here")):
            self.expect(self.channel(port, folder), folder, of(kind))
            self.expect(self.channel(port, folder), f"{folder} as late", of("another"), "late")
        self.assert_lives(north, "north")
        print(f"aggregator: {self.cells} cells", flush=True)

    def test_simulation_with_workers(self):
        """Who has any certificate of a client may train for it; operators and strangers may not."""
        process = self.start("simulate", self.scenario, "--db", "s.sqlite", "--rounds", 100000, "--workers", 0, "--workers-at", "127.0.0.1:0",
                             "--tls", "coordinator", "--set", "server.lease=1")
        port = next(int(line.rsplit(":", 1)[1]) for line in process.stderr if line.startswith("listening on "))
        self.follow(process, "simulation")
        self.expect_none(port)
        ann = self.channel(port, "ann")
        for call, variants in ROWS.items():
            for what, messages, _ in variants:
                got = ask(ann, CALLS[call], *messages(""))[0]
                self.assertEqual(got, "UNIMPLEMENTED" if call.startswith("Control.") else "PERMISSION_DENIED", f"{call} {what}")
        self.assert_lives(process, "simulation")

    # Pages

    def page(self, port, path, folder=None, *, tls=True, method="GET", **headers):
        """The status; "TLS" where no connection stands."""
        try:
            if not tls:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            else:
                context = ssl.create_default_context(cafile=self.path("ca/authority.crt"))
                if folder:
                    context.load_cert_chain(self.path(f"{folder}/node.crt"), self.path(f"{folder}/node.key"))
                connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=20)
            connection.request(method, path, headers=headers)
            status = connection.getresponse().status
            connection.close()
            return status
        except (ssl.SSLError, ConnectionError, http.client.HTTPException, socket.timeout):
            return "TLS"

    def test_pages(self):
        token = "0123456789abcdef0123456789abcdef"
        coordinator, _ = self.start_coordinator("--http", "127.0.0.1:0", "--http-tls", "coordinator")
        port = self.pages_of("coordinator")
        cells = 0
        for path, status in PAGES.items():
            self.assertEqual(self.page(port, path, "ann"), status, path)
            for who in ("a", "b", "north", "coordinator", None):
                self.assertEqual(self.page(port, path, who), 403, f"{who}: {path}")
                cells += 1
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
                self.assertEqual(self.page(port, path, "ann", method=method), 405, f"{method} {path}")
                cells += 1
        for who in TURNED_AWAY:
            for path in PAGES:
                self.assertIn(self.page(port, path, who), (403, "TLS"), f"{who}: {path}")
                cells += 1
        self.assertEqual(self.page(port, "/", tls=False), "TLS")
        self.assert_lives(coordinator, "coordinator")
        second, _ = self.start_coordinator("--http", "127.0.0.1:0", "--http-token", self.write("token", token + "\n"), name="tokened")
        port = self.pages_of("tokened")
        for path, status in PAGES.items():
            self.assertEqual(self.page(port, path, tls=False, Authorization=f"Bearer {token}"), status, path)
            for headers in ({}, {"Authorization": f"Bearer {token[:-1]}"}, {"Authorization": f"Bearer {token}0"}, {"Authorization": "Bearer "},
                            {"Authorization": f"Basic {token}"}, {"Cookie": f"rivulet_session={token}"}, {"Cookie": "rivulet_session="},
                            {"Authorization": f"Bearer {token.upper()}x"}):
                self.assertEqual(self.page(port, path, tls=False, **headers), 401, f"{headers}: {path}")
                cells += 1
            self.assertEqual(self.page(port, path, tls=False, Host="evil.example", Authorization=f"Bearer {token}"), 403, path)
        self.assert_lives(second, "tokened")
        print(f"pages: {cells} cells", flush=True)


if __name__ == "__main__":
    main()
