"""`simulate --http` and `coordinator --http`: pages of a run while it goes on, that nobody who looks on can hold up."""
import http.client
import json
import re
import signal
import socket
import ssl
import statistics
import time
import unittest

from chromium import CHROMIUM, Browser
from harness import RivuletTest, main


class Feed:
    """Server-sent events of one connection, as they come."""

    def __init__(self, port, path="/feed", **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        self.places, self.closed = {}, 0

    def next(self):
        """The kind of the next event, None at the end; what it shows is in `places`."""
        event, data = None, ""
        while line := self.response.readline().decode():
            line = line.rstrip("\n")
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data += line[6:]
            elif not line and event is not None:
                if event == "show":
                    shown = json.loads(data)
                    self.places.update(shown["places"])
                    self.closed = shown["closed"]
                return event
        return None


class Live(RivuletTest):
    def setUp(self):
        super().setUp()
        if "--http " not in self.run_rivulet("simulate", "--help").out:
            self.skipTest("built without Boost")

    def start_simulation(self, *arguments):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--http", "127.0.0.1:0",
                             "--quiet", *arguments)
        for line in process.stderr:
            found = re.search(r"it shows at (https?://[^:/]+:(\d+)/run\?id=(\S+))", line)
            if found:
                self.url, self.port, self.run = found[1], int(found[2]), found[3]
                return process
        self.fail("no page")

    def get(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response, body

    def stop(self, process):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    def test_a_feed_tells_each_round_and_the_end(self):
        process = self.start_simulation("--rounds", "400")
        feed = Feed(self.port)
        self.assertEqual(feed.response.getheader("Content-Type"), "text/event-stream")
        self.assertIn("script-src 'sha256-", feed.response.getheader("Content-Security-Policy"))
        kinds = []
        while (kind := feed.next()) is not None:
            kinds.append(kind)
        self.assertGreater(kinds.count("show"), 2)
        self.assertEqual(kinds[-1], "end")
        self.assertIn("it has finished", feed.places["live-state"])
        self.assertIn("400", feed.places["live-rounds"])
        self.assertIn("<svg", feed.places["live-curves"])
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)

    def test_the_page_has_a_script_of_its_own_and_the_rest_of_the_history(self):
        self.simulate()
        process = self.start_simulation("--rounds", "100000")
        live = self.get(f"/run?id={self.run}")[1]
        self.assertIn("new EventSource", live)
        self.assertIn('data-feed="/feed"', live)
        other = self.query("SELECT run_id FROM runs WHERE status = 'finished'")[0][0]
        self.assertNotIn("data-feed=", self.get(f"/run?id={other}")[1])
        self.assertIn("is running in this process", self.get("/")[1])
        self.assertEqual(self.get("/", "POST")[0].status, 405)
        self.assertEqual(self.get("/", Host="evil.example")[0].status, 403)
        self.stop(process)

    def test_readers_that_do_not_read_hold_nothing_up(self):
        started = time.monotonic()
        self.simulate("--rounds", "12000", "--quiet", db="alone.sqlite")
        alone = time.monotonic() - started
        started = time.monotonic()
        process = self.start_simulation("--rounds", "12000")  # so that it is not over before all are connected
        dead = []
        for _ in range(30):  # more than there are streams
            connection = socket.create_connection(("127.0.0.1", self.port))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(b"GET /feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            dead.append(connection)
        self.assertEqual(self.get("/icon.svg")[0].status, 200)  # pages are answered all the same
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        self.assertLess(time.monotonic() - started, alone * 3 + 12)
        self.assertEqual(self.digests(), self.digests(db="alone.sqlite"))
        for connection in dead:
            connection.close()

    def test_a_token_opens_a_session(self):
        token = "0123456789abcdef0123456789abcdef"
        process = self.start_simulation("--rounds", "100000", "--http-token", self.write("token", token + "\n"))
        self.assertEqual(self.get("/")[0].status, 401)
        self.assertEqual(self.get("/feed")[0].status, 401)
        self.assertEqual(self.get("/?token=" + token[:-1] + "x")[0].status, 401)
        self.assertEqual(self.get("/", Authorization="Bearer " + token)[0].status, 200)
        response = self.get("/?token=" + token)[0]
        self.assertEqual((response.status, response.getheader("Location")), (303, "/"))
        # What browsers read as another host is a path of this one, or none.
        for target, location in {"//evil.example": "/", "///evil.example": "/", "/%5Cevil.example": "/%5Cevil.example",
                                 "/%09/evil.example": "/%09/evil.example", "/%0D%0ASet-Cookie:a=b": "/%0D%0ASet-Cookie%3Aa%3Db",
                                 "/%2F/evil.example": "/", "/run": "/run", "http://evil.example/": "/",
                                 "/a:b@evil.example": "/a%3Ab%40evil.example"}.items():
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.sendall(f"GET {target}?token={token}&id=a%26b HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                   "Connection: close\r\n\r\n".encode())
                told = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
            self.assertEqual(re.findall(r"(?m)^Location: (.*)\r$", told), [location + "?id=a%26b"], told)
            self.assertEqual(len(re.findall(r"(?m)^Set-Cookie:", told)), 1)
        cookie = response.getheader("Set-Cookie")
        self.assertIn("HttpOnly; SameSite=Strict", cookie)
        self.assertNotIn(token, cookie)
        self.assertEqual(self.get("/", Cookie="other=1; " + cookie.split(";")[0])[0].status, 200)
        self.stop(process)

    def test_beyond_loopback_operators_read_by_tls_alone(self):
        self.simulate()
        ca = lambda *arguments: self.run_rivulet("ca", *arguments, code=0)
        ca("init", "--name", "study")
        ca("issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "server")
        ca("issue", "operator/ann", "--out", "ann")
        ca("issue", "client/bob", "--out", "bob")
        self.assert_refused(self.run_rivulet("dashboard", "--db", "runs.sqlite", "--http", "0.0.0.0:0", "--http-tls", "bob"),
                            "is no server", code=1)
        process = self.start("dashboard", "--db", "runs.sqlite", "--http", "0.0.0.0:0", "--http-tls", "server")
        self.port = int(re.search(r"https://0\.0\.0\.0:(\d+)/", process.stdout.readline())[1])

        def status(name=None, **versions):
            context = ssl.create_default_context(cafile=self.path("server/authority.crt"))
            for version, value in versions.items():
                setattr(context, version, value)
            if name:
                context.load_cert_chain(self.path(f"{name}/node.crt"), self.path(f"{name}/node.key"))
            connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=30)
            connection.request("GET", "/")
            return connection.getresponse().status

        self.assertEqual(status("ann"), 200)
        self.assertEqual(status("bob"), 403)
        self.assertEqual(status(), 403)
        with self.assertRaises(ssl.SSLError):
            status("ann", maximum_version=ssl.TLSVersion.TLSv1_2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        token = self.write("token", "0123456789abcdef")
        process = self.start("dashboard", "--db", "runs.sqlite", "--http", "0.0.0.0:0", "--http-tls", "server",
                             "--http-token", token)
        self.port = int(re.search(r"https://0\.0\.0\.0:(\d+)/", process.stdout.readline())[1])
        self.assertEqual(status("ann"), 401)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

    def test_refusals(self):
        def refused(fragment, *arguments, code=2):
            self.assert_refused(self.run_rivulet("simulate", self.scenario, "--db", self.path("x.sqlite"), *arguments),
                                fragment, code=code)

        refused("only this machine", "--http", "0.0.0.0:0")
        refused("HOST:PORT", "--http", "8080")
        refused("--http HOST:PORT", "--http-token", self.write("t", "x" * 20))
        refused("can be guessed", "--http", "127.0.0.1:0", "--http-token", self.write("short", "secret\n"), code=1)
        refused("none", "--http", "127.0.0.1:0", "--http-token", self.path("none"), code=1)
        refused("leave --http", "--http", "127.0.0.1:0", "--replay", "latest")

    def test_a_coordinator_shows_who_joins_and_what_is_awaited(self):
        coordinator = self.start("coordinator", self.scenario, "--db", self.path("runs.sqlite"), "--listen", "127.0.0.1:0",
                                 "--insecure", "--http", "127.0.0.1:0", "--json", "--set", "data.partition.clients=3",
                                 "--set", "server.clients_per_round=3", "--rounds", "100000")
        address = port = None
        for line in coordinator.stdout:
            event = json.loads(line)
            address = event.get("address", address)
            if event["event"] == "page":
                port = int(re.search(r":(\d+)/", event["url"])[1])
                break
        feed = Feed(port)
        self.assertEqual(feed.next(), "show")
        self.assertIn("waiting for the first round", feed.places["live-state"])
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("shards"), "--set",
                         "data.partition.clients=3", code=0)
        shards = sorted((self.folder / "shards").glob("*.tfrecord"))
        clients = [self.start("client", "--coordinator", address, "--insecure", "--name", shard.stem, "--data",
                              f"train={shard}", *how)
                   for shard, how in zip(shards, (["--progress", "json"], ["--quiet"], []))]
        deadline = time.monotonic() + 60
        while "live-rounds" not in feed.places or "committed" not in feed.places["live-rounds"]:
            self.assertEqual(feed.next(), "show")
            self.assertLess(time.monotonic(), deadline)
        for shard in shards:
            self.assertRegex(feed.places["live-log"], f"{shard.stem}|and . more have joined")  # at one moment, in one line
        for client in clients:
            client.send_signal(signal.SIGTERM)
        in_json, quiet, in_words = (client.communicate(timeout=60)[1].splitlines() for client in clients)
        notes = [json.loads(line) for line in in_json if line.startswith("{")]
        self.assertTrue(any(note["name"] == shards[0].stem and "training" in note["sentence"] for note in notes), in_json)
        self.assertFalse([line for line in quiet if "training" in line], quiet)
        self.assertTrue(any(line.startswith(shards[2].stem + ": round ") for line in in_words), in_words)
        self.stop(coordinator)

    @unittest.skipIf(CHROMIUM is None, "no Chromium")
    def test_a_browser_sees_curves_move_within_100_ms_of_a_rounds_close(self):
        process = self.start_simulation("--rounds", "100000", "--set", "client.epochs=20", "--workers", "1")
        with Browser() as browser:
            browser.open(self.url)
            browser.wait_for("document.getElementById('live-link').textContent === 'live'")
            path = "document.querySelector('#live-curves path[stroke-width=\"2\"]')?.getAttribute('d')"
            first = browser.wait_for(path)
            browser.wait_for(f"{path} !== {json.dumps(first)}")
            delays = []
            for _ in range(15):
                before = browser.evaluate("document.getElementById('live-rounds').innerText")
                browser.wait_for(f"document.getElementById('live-rounds').innerText !== {json.dumps(before)}")
                delays.append(browser.evaluate("+document.getElementById('live-link').dataset.delay"))
            # A machine that is busy with other tests keeps the browser itself waiting now and then.
            self.assertLess(statistics.quantiles(delays, n=4)[0], 100, delays)
            self.stop(process)
            browser.wait_for("document.getElementById('live-link').textContent === 'ended'")
            self.assertIn("these pages ended with the process",
                          browser.evaluate("document.getElementById('live-state').innerText"))
            self.assertEqual(browser.complaints, [])
            for url in browser.requests:
                self.assertRegex(url, r"^(http://127\.0\.0\.1:|about:)")


if __name__ == "__main__":
    main()
