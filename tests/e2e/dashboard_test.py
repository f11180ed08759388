"""`rivulet dashboard`: pages over a history, that say what it says and do nothing else."""
import base64
import hashlib
import html.parser
import http.client
import os
import pathlib
import re
import signal
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

from chromium import CHROMIUM, Browser
from harness import RivuletTest, main

VOID = {"meta", "link", "input", "br", "!doctype"}


class Balanced(html.parser.HTMLParser):
    """Every tag that is opened is closed in its turn; what is shown, and what is linked to."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.links, self.tags = [], "", [], set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.links += [value for name, value in attributes if name in ("href", "src", "action")]
        for name, _ in attributes:
            assert not name.startswith("on") and name != "style", f"{tag} {name}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.text += data


class Dashboard(RivuletTest):
    def setUp(self):
        super().setUp()
        if "dashboard" not in self.run_rivulet("--help").out:
            self.skipTest("built without Boost")

    def serve(self, *more, db="runs.sqlite"):
        process = self.start("dashboard", "--db", self.path(db), "--http", "127.0.0.1:0", *more)
        line = process.stdout.readline()
        self.assertIn(" at http://127.0.0.1:", line)
        self.port = int(line.rsplit(":", 1)[1].strip().strip("/"))
        return process

    def test_connections_that_say_nothing_keep_nobody_waiting(self):
        self.simulate("--rounds", "1")
        self.serve()
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(64)]
        before = time.monotonic()
        self.assertEqual(self.get("/")[0].status, 200)
        self.assertLess(time.monotonic() - before, 12)
        for connection in silent:
            connection.close()

    def test_hostile_connections_cost_little_and_end_with_the_process(self):
        self.simulate("--rounds", "1")
        process = self.serve()
        memory = lambda: int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]) // 1024
        self.assertEqual(self.get("/")[0].status, 200)
        before, over = memory(), threading.Event()

        def pour(bytes_each, pause):
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                try:
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
                    while not over.is_set():
                        connection.sendall(b"X: " + b"y" * bytes_each + b"\r\n")
                        time.sleep(pause)
                except OSError:
                    pass  # the server has closed it

        peers = [threading.Thread(target=pour, args=of) for of in [(10_000, 0)] * 20 + [(1, 0.5)] * 20]
        for peer in peers:
            peer.start()
        time.sleep(3)
        self.assertEqual(self.get("/")[0].status, 200)
        self.assertLess(memory() - before, 64)
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        self.assertLess(time.monotonic() - begin, 5)
        over.set()
        for peer in peers:
            peer.join()

    def get(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, headers={"Host": f"127.0.0.1:{self.port}", **headers})
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response, body

    def page(self, path, status=200):
        response, body = self.get(path)
        self.assertEqual(response.status, status, body)
        self.assertIn("default-src 'none'", response.getheader("Content-Security-Policy"))
        parser = Balanced()
        parser.feed(body)
        parser.close()
        self.assertEqual(parser.open, [])
        self.assertNotIn("script", parser.tags)
        for link in parser.links:
            self.assertTrue(link.startswith(("/", "#")), link)
        return parser

    def test_pages_say_what_the_history_says(self):
        for rate in ("0.1", "0.3"):
            self.simulate("--set", f"client.optimizer.learning_rate={rate}")
        hostile = "<script>alert(1)</script> & \"quotes\""
        self.run_rivulet("runs", "note", "latest", hostile, "--db", self.path("runs.sqlite"), code=0)
        process = self.serve()
        ids = [run_id for run_id, in self.query("SELECT run_id FROM runs ORDER BY rowid")]
        runs = self.page("/")
        for run_id in ids:
            self.assertIn(run_id, runs.text)
            self.assertIn(f"/run?id={run_id}", runs.links)
        self.assertIn("learning_rate", runs.text)
        run = self.page(f"/run?id={ids[1]}")
        self.assertIn(hostile, run.text)
        self.assertIn("svg", run.tags)
        for row in self.query("SELECT test_accuracy, test_loss FROM round_summary WHERE run_id = ?", ids[1]):
            self.assertIn(f"{row[0]:.4f}", run.text)
            self.assertIn(f"{row[1]:.4f}", run.text)
        for client_id, in self.query("SELECT client_id FROM client_reliability WHERE run_id = ?", ids[1]):
            self.assertIn(client_id, run.text)
        compared = self.page("/compare?" + urllib.parse.urlencode([("run", run_id) for run_id in ids]))
        self.assertIn("client.optimizer.learning_rate", compared.text)
        self.assertIn("0.3", compared.text)
        response, body = self.get("/")
        style = re.search("<style>(.*?)</style>", body, re.S)[1]  # with the page, and the only one that counts
        self.assertIn("prefers-color-scheme: dark", style)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        self.assertIn(f"style-src 'sha256-{digest}';", response.getheader("Content-Security-Policy"))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 0)

    def test_rounds_clients_models_and_labels_have_pages(self):
        self.simulate("--set", "run.keep_models=all")
        self.serve()
        run = self.page("/run?id=tiny")
        run_id, = self.query("SELECT run_id FROM runs")[0]
        self.assertIn(f"/round?run={run_id}&round=2", run.links)
        client, = self.query("SELECT client_id FROM client_rounds WHERE round = 2 LIMIT 1")[0]
        self.assertIn(f"/client?run={run_id}&client={client}", run.links)
        self.assertIn("norm of an update", run.text)
        round_page = self.page(f"/round?run={run_id}&round=2")
        for (name,) in self.query("SELECT client_id FROM client_rounds WHERE round = 2"):
            self.assertIn(name, round_page.text)
        self.assertIn("svg", round_page.tags)
        client_page = self.page(f"/client?run={run_id}&client={client}")
        for row in self.query("SELECT round, train_loss FROM client_rounds WHERE client_id = ?", client):
            self.assertIn(f"/round?run={run_id}&round={row[0]}", client_page.links)
            self.assertIn(f"{row[1]:.4f}", client_page.text)
        model = self.page(f"/model?run={run_id}")
        self.assertIn("1, 2, 3, 4", model.text)
        self.assertIn("norm of each layer", model.text)
        labels = self.page(f"/labels?run={run_id}")
        self.assertIn("6 clients", labels.text)
        self.page(f"/round?run={run_id}&round=9", 404)
        self.page(f"/client?run={run_id}&client=nobody", 404)
        self.page("/model?run=nothing", 404)
        (self.folder / "data/train.tfrecord").unlink()
        self.assertIn("not on this machine", self.page(f"/labels?run={run_id}", 404).text)

    def test_a_run_shows_who_did_what_when_and_leads_everywhere(self):
        self.simulate()
        with sqlite3.connect(self.path("runs.sqlite")) as database:  # two tasks of the newest round came to nothing
            database.execute("UPDATE task SET status = 3, error = 'label 12 <at> record 3' WHERE task = (SELECT max(task) FROM task)")
            database.execute("UPDATE task SET status = 2, error = '' WHERE task = (SELECT max(task) FROM task) - 1")
        database.close()
        self.serve()
        run = self.page("/run?id=tiny")
        run_id, = self.query("SELECT run_id FROM runs")[0]
        lost = self.query("SELECT client_id, status FROM client_rounds WHERE status <> 'folded' ORDER BY rowid")
        self.assertEqual([status for _, status in lost], ["dropped", "failed"])
        self.assertIn("Who did what in rounds 1 to 4", run.text)
        self.assertIn("failed: label 12 <at> record 3", run.text)  # what the timeline says where it is pointed at
        self.assertRegex(run.text, r"round 4, \S+: waited .*, trained .*, uploaded .*; dropped")
        for client, _ in lost:
            self.assertIn(f"/client?run={run_id}&client={client}", run.links)
        for round_ in range(1, 5):  # by the bars, too
            self.assertGreaterEqual(run.links.count(f"/round?run={run_id}&round={round_}"), 3)
        self.assertIn("/round", run.links)  # forms: any round, any client
        self.assertIn("/client", run.links)

    @unittest.skipIf(CHROMIUM is None, "no Chromium")
    def test_a_page_of_thousands_of_rounds_is_small_and_painted_at_once(self):
        self.simulate("--rounds", "3000", "--set", "run.keep_models=last", "--quiet")
        process = self.serve()
        body = self.get("/run?id=tiny")[1]
        self.assertLess(len(body), 160_000)
        paints = []
        for _ in range(5):
            with Browser() as browser:
                browser.open(f"http://127.0.0.1:{self.port}/run?id=tiny")
                paints.append(browser.first_paint_ms())
                self.assertEqual(browser.complaints, [])
                # All that a page needs comes with it.
                self.assertEqual([url.rsplit("/", 1)[1] for url in browser.requests if "127.0.0.1" in url and "icon" not in url],
                                 ["run?id=tiny"])
        # On a machine of its own it takes a fifth of that; others may be compiling here.
        self.assertLess(statistics.median(paints), 5000, paints)
        # What they do not lengthen: the processor's time, in which six pages were made.
        user, system = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        self.assertLess((int(user) + int(system)) / os.sysconf("SC_CLK_TCK") / 6, 0.5)

    def test_two_histories_on_one_page(self):
        self.simulate()
        self.simulate("--set", "client.optimizer.learning_rate=0.3", db="other.sqlite")
        self.serve("--db", self.path("other.sqlite"))
        first, = self.query("SELECT run_id FROM runs")[0]
        second, = self.query("SELECT run_id FROM runs", db="other.sqlite")[0]
        runs = self.page("/")
        self.assertIn(f"/run?id={first}", runs.links)
        self.assertIn(f"/run?id=2%2F{second}", runs.links)
        run = self.page(f"/run?id=2%2F{second}")
        self.assertIn(f"/round?run=2%2F{second}&round=1", run.links)
        self.page(f"/round?run=2%2F{second}&round=1")
        self.page(f"/run?id={second}" if second != first else "/run?id=3%2Fx", 404)
        compared = self.page("/compare?" + urllib.parse.urlencode([("run", first), ("run", f"2/{second}")]))
        self.assertIn("client.optimizer.learning_rate", compared.text)

    def test_refusals(self):
        self.simulate()
        self.serve()
        self.assertIn("no run", self.page("/run?id=nothing", 404).text)
        self.assertIn("at least two", self.page("/compare?run=tiny", 400).text)
        self.assertIn("nothing under this address", self.page("/etc/passwd", 404).text)
        self.page("/run?id=%00%ff<b>&rounds=-5&clients=99999999999", 404)
        self.page("/run?id=tiny&rounds=999&clients=999")
        self.assertEqual(self.get("/", "POST")[0].status, 405)
        self.assertEqual(self.get("/", Host="evil.example")[0].status, 403)
        self.assertEqual(self.get("/", Host=f"localhost:{self.port}")[0].status, 200)
        for address, fragment in (("0.0.0.0:0", "this machine"), ("127.0.0.1", "HOST:PORT"), ("127.0.0.1:99999", "65535")):
            self.assert_refused(self.run_rivulet("dashboard", "--db", self.path("runs.sqlite"), "--http", address),
                                fragment, code=2)
        self.assert_refused(self.run_rivulet("dashboard", "--db", self.path("runs.sqlite"), "--http",
                                             f"127.0.0.1:{self.port}"), "could not be taken", code=1)
        self.assert_refused(self.run_rivulet("dashboard", "--db", self.path("none.sqlite")), "none.sqlite", code=1)

    def test_many_rounds_and_clients_are_paged(self):
        self.simulate("--rounds", "120", "--set", "data.partition.clients=90", "--set", "data.synth.writers=90")
        self.serve()
        first = self.page("/run?id=tiny")
        self.assertIn("of 120", first.text)
        self.assertTrue(any("rounds=50" in link for link in first.links), first.links)
        self.assertIn("101–120 of 120", self.page("/run?id=tiny&rounds=100").text)

    def test_a_browser_shows_it_and_has_nothing_to_complain_about(self):
        if CHROMIUM is None:
            self.skipTest("no Chromium")
        self.simulate()
        self.serve()
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
                 f"--user-data-dir={profile}", "--dump-dom", f"http://127.0.0.1:{self.port}/run?id=tiny"],
                capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("How it went", done.stdout)
        self.assertIn("<svg", done.stdout)
        complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "favicon" not in line]
        self.assertEqual(complaints, [])


if __name__ == "__main__":
    main()
