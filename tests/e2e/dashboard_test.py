"""`rivulet dashboard`: pages over a history, that say what it says and do nothing else."""
import base64
import csv
import datetime
import hashlib
import html.parser
import http.client
import io
import json
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
import xml.etree.ElementTree

from chromium import CHROMIUM, Browser
from harness import RivuletTest, main

VOID = {"meta", "link", "input", "img", "br", "!doctype"}


class Balanced(html.parser.HTMLParser):
    """Every tag that is opened is closed in its turn; what is shown, and what is linked to."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.links, self.tags, self.elements = [], "", [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.elements.append((tag, dict(attributes)))
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
        # One script and one style sheet, to the byte those that the policy names.
        policy = response.getheader("Content-Security-Policy")
        for tag in "script", "style":
            held, = re.findall(f"<{tag}>(.*?)</{tag}>", body, re.S)
            digest = base64.b64encode(hashlib.sha256(held.encode()).digest()).decode()
            self.assertIn(f"{tag}-src 'sha256-{digest}';", policy)
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
        self.assertIn("learning rate", runs.text)
        for rate in ("0.1", "0.3"):
            self.assertIn(rate, runs.text)
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
        self.assertIn("prefers-color-scheme: dark", body)
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
        with sqlite3.connect(self.path("runs.sqlite")) as database:  # two tasks of the newest round failed
            database.execute("UPDATE task SET status = 3, error = 'label 12 <at> record 3' WHERE task = (SELECT max(task) FROM task)")
            database.execute("UPDATE task SET status = 2, error = '' WHERE task = (SELECT max(task) FROM task) - 1")
        database.close()
        self.serve()
        run = self.page("/run?id=tiny")
        run_id, = self.query("SELECT run_id FROM runs")[0]
        lost = self.query("SELECT client_id, status FROM client_rounds WHERE status <> 'folded' ORDER BY rowid")
        self.assertEqual([status for _, status in lost], ["dropped", "failed"])
        self.assertIn("Tasks of rounds 1 to 4", run.text)
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

    def names_in_order(self, path):
        """The runs of a list, by their seeds."""
        body = self.get(path)[1]
        return re.findall(r'data-is="seed">(\d+)<', body)

    def test_the_list_is_sorted_and_filtered_without_a_script(self):
        for seed, rate in (("1", "0.3"), ("2", "0.001"), ("3", "0.1")):
            self.simulate("--set", f"run.seed={seed}", "--set", f"client.optimizer.learning_rate={rate}")
        self.simulate("--set", "run.seed=4", "--set", "algorithm.name=fedadam", "--set", "run.name=adaptive")
        self.run_rivulet("runs", "tag", "adaptive", "baseline", "--db", self.path("runs.sqlite"), code=0)
        self.serve()
        runs = self.page("/")
        self.assertEqual(self.names_in_order("/"), ["4", "3", "2", "1"])  # newest first
        self.assertEqual(self.names_in_order("/?sort=seed&order=up"), ["1", "2", "3", "4"])
        self.assertEqual(self.names_in_order("/?sort=rate&order=down"), ["1", "4", "3", "2"])
        best = [seed for seed, in self.query("SELECT seed FROM run_leaderboard ORDER BY best_accuracy DESC, created_at DESC")]
        self.assertEqual([int(seed) for seed in self.names_in_order("/?sort=best&order=down")], best)
        for query, seeds in (("algorithm=fedadam", ["4"]), ("find=BASELINE", ["4"]), ("find=learning_rate%3D0.1", ["4", "3"]),
                             ("find=tiny+seed%3D2", ["2"]), ("status=running", []), ("find=nothing", [])):
            self.assertEqual(self.names_in_order("/?" + query), seeds, query)
        self.assertIn("No run matches.", self.page("/?find=nothing").text)
        self.page("/?sort=%3Cb%3E&order=sideways&find=%22%3E%3Cscript%3E&status=%27&runs=999")
        # Links of the head keep what was looked for, and turn the order of their column round.
        links = self.page("/?sort=seed&order=up&find=tiny").links
        self.assertIn("/?sort=seed&order=down&find=tiny", links)
        self.assertIn("/?sort=best&order=down&find=tiny", links)
        # What an algorithm alone has stands behind what tells all runs apart, and each row has its curve.
        self.assertIn("beta1", runs.text)
        sparks = [attributes for tag, attributes in runs.elements if tag == "path" and attributes.get("class") == "spark"]
        self.assertEqual(len(sparks), 4)

    def test_the_first_screen_says_health_result_time_and_failures(self):
        self.simulate("--set", "run.seed=1")
        with sqlite3.connect(self.path("runs.sqlite")) as database:
            (run_id, best), = database.execute("SELECT run_id, best_accuracy FROM run_leaderboard").fetchall()
            (seen,), = database.execute("SELECT count(*) FROM client_reliability").fetchall()
        database.close()
        self.serve()
        text = self.page(f"/run?id={run_id}").text
        order = ["Is it healthy?", "Healthy", "4 of 4 rounds", "How good is it?", f"{best:.4f}", "What is slow?", "clients at work",
                 "Who failed?", "None", f"of {seen} clients", "Curves", "Rounds, newest first", "Tasks of rounds", "Clients, least reliable first",
                 "Configuration", "Log, newest first"]
        place = 0
        for word in order:
            place = text.find(word, place)
            self.assertNotEqual(place, -1, f"{word} does not stand where it should")
        with sqlite3.connect(self.path("runs.sqlite")) as database:  # one task of each round failed
            database.execute("UPDATE attempt SET folded = folded - 1, failed = 1")
            database.execute("UPDATE membership SET folded = folded - 1, failed = 1 WHERE client = (SELECT min(client) FROM membership)")
            client, = database.execute("SELECT client_id FROM client_reliability WHERE failed = 1").fetchone()
        database.close()
        text = self.page(f"/run?id={run_id}").text
        self.assertIn("Needs a look", text)
        self.assertIn("4 of 12 tasks failed or were refused", text)
        self.assertRegex(text, rf"Who failed\?1 of {seen} clients{client} 1 of \d tasks")

    def test_one_point_is_no_chart(self):
        self.simulate("--rounds", "1")
        self.simulate("--rounds", "1", "--set", "run.seed=8")
        self.serve()
        ids = [run_id for run_id, in self.query("SELECT run_id FROM runs")]
        charts = lambda page: [attributes for tag, attributes in page.elements if tag == "figure" and "data-plot" in attributes]
        run = self.page(f"/run?id={ids[0]}")
        self.assertEqual(charts(run), [])
        self.assertIn("A curve begins with the second value.", run.text)
        self.assertNotIn("spark", [attributes.get("class") for _, attributes in self.page("/").elements])
        compared = self.page(f"/compare?run={ids[0]}&run={ids[1]}")
        self.assertEqual(charts(compared), [])
        self.assertIn("±", compared.text)

    def test_seeds_are_one_line_with_a_band(self):
        for seed in ("1", "2", "3"):
            self.simulate("--set", f"run.seed={seed}")
        self.simulate("--set", "run.seed=1", "--set", "algorithm.name=fedprox", "--set", "algorithm.mu=0.5", "--set", "run.name=prox")
        self.serve()
        ids = [run_id for run_id, in self.query("SELECT run_id FROM runs ORDER BY rowid")]
        query = "&".join(f"run={run_id}" for run_id in ids)
        page = self.page("/compare?" + query)
        self.assertIn("2 settings, 4 runs", page.text)
        self.assertIn("tiny (3 seeds)", page.text)
        values = [value for value, in self.query("SELECT test_accuracy FROM round_summary WHERE round = 4 ORDER BY run_id")]
        of_seeds = [self.query("SELECT test_accuracy FROM round_summary WHERE round = 4 AND run_id = ?", run_id)[0][0] for run_id in ids[:3]]
        self.assertIn(f"{statistics.mean(of_seeds):.4f} ± {statistics.stdev(of_seeds):.4f}", page.text)
        self.assertEqual(len(values), 4)
        plots = [json.loads(attributes["data-plot"]) for tag, attributes in page.elements if tag == "figure" and "data-plot" in attributes]
        accuracy = plots[0]["series"]
        self.assertEqual([series["label"] for series in accuracy], ["tiny (3 seeds)", "prox"])
        self.assertAlmostEqual(accuracy[0]["points"][-1][1], statistics.mean(of_seeds), 4)
        last = accuracy[0]["band"][-1]
        self.assertAlmostEqual(last[2] - last[1], 2 * statistics.stdev(of_seeds), 4)
        self.assertEqual(accuracy[1]["band"], [])
        self.assertNotIn("run.seed", page.text)
        self.assertIn("algorithm.mu", page.text)

    def test_pages_of_runs_that_predict_numbers(self):
        self.write("prices.csv", "rooms,area,price\n" + "".join(f"{1 + i % 5},{40 + i % 90},{300_000 * (1 + i % 5) + 999 * (i % 90)}\n" for i in range(200)))
        self.run_rivulet("data", "import", "csv", "--from", "prices.csv", "--target", "price", "--test-every", 5, "--out", "prices", code=0)
        self.run_rivulet("simulate", "prices/scenario.toml", "--rounds", 3, "--db", "runs.sqlite", code=0)
        self.simulate("--rounds", "2")
        numbers, classes = [run_id for run_id, in self.query("SELECT run_id FROM runs ORDER BY rowid")]
        ((mse,),) = self.query("SELECT value FROM metrics WHERE name = 'test/mse' AND round = 3")
        self.assertGreater(mse, 1e6)
        self.serve()
        run = self.page(f"/run?id={numbers}")
        self.assertIn(f"test/mse {mse:.4g}", run.text)
        self.assertNotIn("test accuracy", run.text)  # the column that would be empty
        self.assertIn("test accuracy", self.page(f"/run?id={classes}").text)
        (listed,) = [line for line in self.run_rivulet("runs", "list", "--db", "runs.sqlite", "--wide", code=0).out.splitlines() if numbers in line]
        self.assertIn(" test/loss ", listed)
        compared = self.page(f"/compare?run={numbers}&run={classes}")
        self.assertLess(compared.text.index("test/mse"), compared.text.index("train/loss"))
        figures = re.findall(r"<figure data-plot.*?</figure>", self.get(f"/compare?run={numbers}&run={classes}")[1], re.S)
        (of_mse,) = [figure for figure in figures if "<b>test/mse</b>" in figure]
        self.assertEqual(re.findall(r"</svg>\s*([^<]+)</span>", of_mse), ["prices"])  # a legend of what is drawn alone

    def test_every_table_and_picture_can_be_downloaded(self):
        self.simulate("--set", "run.keep_models=all")
        self.simulate("--set", "run.seed=8")
        self.serve()
        ids = [run_id for run_id, in self.query("SELECT run_id FROM runs ORDER BY rowid")]
        client, = self.query("SELECT client_id FROM client_rounds WHERE run_id = ? GROUP BY 1 ORDER BY count(*) DESC LIMIT 1", ids[0])[0]
        seen = {}
        for path in ("/", f"/run?id={ids[0]}", f"/round?run={ids[0]}&round=2", f"/client?run={ids[0]}&client={client}",
                     f"/model?run={ids[0]}", f"/labels?run={ids[0]}", f"/compare?run={ids[0]}&run={ids[1]}"):
            elements = self.page(path).elements
            found = [attributes["href"] for tag, attributes in elements if tag == "a" and "download" in attributes]
            self.assertTrue(found, path)
            tables = sum(tag == "table" for tag, _ in elements)
            self.assertLessEqual(tables, sum(address.startswith("/table.csv") and "of=curve" not in address for address in found), path)
            for address in found:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                connection.request("GET", address)
                answer = connection.getresponse()
                body = answer.read()
                connection.close()
                kind = answer.getheader("Content-Type")
                seen[address] = body
                if address.startswith("/picture.png") and answer.status == 400 and b"libpng" in body:
                    continue
                self.assertEqual(answer.status, 200, (address, body))
                if address.startswith("/table.csv"):
                    self.assertTrue(kind.startswith("text/csv"), kind)
                    rows = list(csv.reader(io.StringIO(body.decode())))
                    self.assertGreater(len(rows), 1 if "of=differences" not in address else 0, address)
                    self.assertEqual({len(row) for row in rows}, {len(rows[0])}, address)
                elif address.startswith("/picture.svg"):
                    self.assertEqual(kind, "image/svg+xml")
                    self.assertEqual(xml.etree.ElementTree.fromstring(body).tag, "{http://www.w3.org/2000/svg}svg")
                else:
                    self.assertEqual(kind, "image/png")
                    self.assertTrue(body.startswith(b"\x89PNG\r\n"), address)
        rounds, = [list(csv.DictReader(io.StringIO(body.decode()))) for address, body in seen.items()
                   if address == f"/table.csv?of=rounds&run={ids[0]}"]
        self.assertEqual([(int(row["round"]), row["status"]) for row in rounds], [(n, "committed") for n in (1, 2, 3, 4)])
        listed, = [list(csv.DictReader(io.StringIO(body.decode()))) for address, body in seen.items() if "of=runs" in address]
        self.assertEqual(sorted(row["seed"] for row in listed), ["7", "8"])
        for address in ("/table.csv?of=rounds", "/table.csv?of=nothing&run=tiny", "/picture.svg?of=nothing&run=tiny", "/picture.svg?of=curve"):
            self.page(address, 400)
        for address in ("/table.csv?of=rounds&run=nothing", "/picture.svg?of=curve&run=tiny&metric=test/los", "/picture.svg?of=round&run=tiny&round=9"):
            self.page(address, 404)

    def test_a_clients_examples_are_those_of_a_task(self):
        self.simulate()
        self.serve()
        run_id, = self.query("SELECT run_id FROM runs")[0]
        client, tasks, examples, total = self.query(
            "SELECT client_id, count(*), max(examples), sum(examples) FROM client_rounds GROUP BY 1 HAVING count(*) > 1 LIMIT 1")[0]
        self.assertEqual(total, tasks * examples)
        page = self.page(f"/client?run={run_id}&client={client}")
        self.assertRegex(page.text, rf"Examples{examples} a task{total} over all its tasks")
        self.assertIn("active", page.text)

    def test_times_have_their_utc(self):
        self.simulate()
        self.serve()
        created, = self.query("SELECT created_at FROM runs")[0]
        times = [attributes for tag, attributes in self.page("/").elements if tag == "time"]
        self.assertEqual(times, [{"datetime": created, "title": f"{created[:10]} {created[11:19]} UTC"}])

    @unittest.skipIf(CHROMIUM is None, "no Chromium")
    def test_a_browser_shows_values_smooths_and_has_a_log_axis(self):
        self.simulate("--rounds", "12")
        self.serve()
        started, = self.query("SELECT started_at FROM runs")[0]
        with Browser() as browser:
            browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
            browser.open(f"http://127.0.0.1:{self.port}/run?id=tiny")
            shown = browser.evaluate("document.querySelector('.under time').textContent")
            utc = datetime.datetime.fromisoformat(started.replace("Z", "+00:00"))
            there = utc.astimezone(datetime.timezone(datetime.timedelta(hours=9)))
            self.assertIn(there.strftime(":%M:%S"), shown)
            self.assertIn(str(there.day), shown)
            self.assertNotIn("UTC", shown)
            self.assertIn("UTC", browser.evaluate("document.querySelector('.under time').title"))
            browser.evaluate("document.querySelector('figure[data-plot]').scrollIntoView()")
            x, y, width, height = browser.evaluate(
                "(r => [r.x, r.y, r.width, r.height])(document.querySelector('figure[data-plot] svg').getBoundingClientRect())")
            browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + width * 0.97, y=y + height / 2)
            tip = browser.wait_for("document.querySelector('.tip')?.innerText")
            last, = self.query("SELECT test_accuracy FROM round_summary WHERE round = 12")[0]
            self.assertRegex(tip, r"^round 12\s")
            self.assertAlmostEqual(float(tip.split()[-1]), last, 4)
            browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
            browser.wait_for("!document.querySelector('.tip')")
            line = "document.querySelector('figure[data-plot] path[stroke-width=\"2\"]').getAttribute('d')"
            drawn = browser.evaluate(line)
            set_knob = ("(() => {{ const knob = document.querySelector('.knobs [name={}]'); {}; "
                        "knob.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()")
            browser.evaluate(set_knob.format("smooth", "knob.value = 0.9"))
            smooth = browser.evaluate(line)
            self.assertNotEqual(smooth, drawn)
            height_of = lambda path: (lambda ys: max(ys) - min(ys))([float(y) for y in re.findall(r" ([\d.]+)", path)])
            self.assertLess(height_of(smooth), height_of(drawn))
            browser.evaluate(set_knob.format("smooth", "knob.value = 0"))
            places = lambda path: [float(number) for number in re.findall(r"-?[\d.]+", path)]
            again = browser.evaluate(line)
            self.assertEqual(len(places(again)), len(places(drawn)))
            for one, other in zip(places(again), places(drawn)):  # the script draws what the server drew
                self.assertAlmostEqual(one, other, delta=0.3)
            browser.evaluate(set_knob.format("log", "knob.checked = true"))
            self.assertNotEqual(browser.evaluate(line), drawn)
            self.assertFalse(browser.evaluate("document.querySelector('.knobs').hidden"))
            self.assertEqual(browser.complaints, [])

    @unittest.skipIf(CHROMIUM is None, "no Chromium")
    def test_no_page_and_no_table_is_wider_than_its_window(self):
        self.simulate("--set", "run.keep_models=all", "--set", "run.seed=1")
        self.simulate("--set", "algorithm.name=fedadam", "--set", "run.name=adaptive")
        reason = "the update is refused: its norm of 1.25e+04 exceeds privacy.clip; lower client.optimizer.learning_rate"
        with sqlite3.connect(self.path("runs.sqlite")) as database:
            database.execute("UPDATE task SET status = 3, error = ? WHERE task = (SELECT max(task) FROM task)", [reason])
        database.close()
        self.serve()
        ids = [run_id for run_id, in self.query("SELECT run_id FROM runs ORDER BY rowid")]
        client, = self.query("SELECT client_id FROM client_rounds WHERE status = 'failed'")[0]
        pages = ["/", *(f"/run?id={run_id}" for run_id in ids), f"/round?run={ids[1]}&round=4", f"/client?run={ids[1]}&client={client}",
                 f"/model?run={ids[0]}", f"/labels?run={ids[0]}", f"/compare?run={ids[0]}&run={ids[1]}"]
        cut = ("[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
               ".map(e => (e.previousElementSibling ?? e).textContent.slice(0, 40))")
        with Browser() as browser:
            for width in (400, 1024, 1440):
                browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
                for path in pages:
                    browser.open(f"http://127.0.0.1:{self.port}{path}")
                    self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width, (path, width))
                    self.assertEqual(browser.evaluate(cut), [], (path, width))
            # On the narrow screen a row says which number is which, as its head does not show.
            browser.call("Emulation.setDeviceMetricsOverride", width=400, height=900, deviceScaleFactor=1, mobile=False)
            browser.open(f"http://127.0.0.1:{self.port}/round?run={ids[1]}&round=4")
            self.assertEqual(browser.evaluate("getComputedStyle(document.querySelector('.rows thead')).display"), "none")
            titles = browser.evaluate("[...document.querySelectorAll('.rows thead th')].map(e => e.textContent)")
            shown = browser.evaluate("[...document.querySelector('.rows tbody tr').cells].map(e => [e.textContent, e.dataset.is ?? null])")
            self.assertEqual(len(titles), len(shown))
            for title, (text, name) in list(zip(titles, shown))[1:]:
                self.assertEqual(name, title if text else None)
            self.assertEqual(browser.complaints, [])

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
        self.assertIn(">Curves<", done.stdout)
        self.assertIn("<svg", done.stdout)
        complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "favicon" not in line]
        self.assertEqual(complaints, [])


if __name__ == "__main__":
    main()
