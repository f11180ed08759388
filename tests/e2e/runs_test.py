"""`rivulet runs`: what happened last night, as people and programs ask for it."""
import csv
import json
import math
import os
import pathlib
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree
import zlib

import harness
from harness import RivuletTest, main


def read_png(path):
    """Width, height and the bytes of the rows, of eight bits each of red, green and blue (PNG, W3C 2003)."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    at, packed, width, height = 8, b"", 0, 0
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0], kind
        if kind == b"IHDR":
            width, height, bits, colour = struct.unpack(">IIBB", body[:10])
            assert (bits, colour) == (8, 2), (bits, colour)
        if kind == b"IDAT":
            packed += body
        at += 12 + size
    raw, row, before = zlib.decompress(packed), width * 3, bytearray(width * 3)
    pixels = bytearray()
    for y in range(height):
        kind, line = raw[y * (row + 1)], bytearray(raw[y * (row + 1) + 1 : (y + 1) * (row + 1)])
        for x in range(row):
            left, above, corner = (line[x - 3] if x >= 3 else 0), before[x], (before[x - 3] if x >= 3 else 0)
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = above
            elif kind == 3:
                guess = (left + above) // 2
            elif kind == 4:
                guess = min((left, above, corner), key=lambda value: abs(left + above - corner - value))
            else:
                break
            line[x] = (line[x] + guess) & 255
        pixels += line
        before = line
    return width, height, bytes(pixels)


class RunsTest(RivuletTest):
    def runs(self, *arguments, code=0, **kwargs):
        return self.run_rivulet("runs", *arguments, "--db", self.path("runs.sqlite"), code=code, **kwargs)

    def runs_json(self, *arguments):
        return json.loads(self.runs(*arguments, "--json").out)

    def change(self, sql, *values, db="runs.sqlite"):
        connection = sqlite3.connect(self.path(db))
        connection.execute(sql, values)
        connection.commit()
        connection.close()

    def ids(self):
        return [run_id for run_id, in self.query("SELECT run_id FROM runs ORDER BY rowid")]


class List(RunsTest):
    def test_what_tells_runs_apart_is_a_column(self):
        for rate in ("0.1", "0.3"):
            self.simulate("--set", f"client.optimizer.learning_rate={rate}")
        text = self.runs("list").out
        title, *lines = text.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(title, r"^run +status +algorithm +learning rate +seed +best +last +rounds +took")
        self.assertRegex(lines[0], r"finished +fedavg +0\.3 +7 +0\.\d{4} +0\.\d{4} +4/4 ")
        rows = self.runs_json("list")
        self.assertEqual([row["client.optimizer.learning_rate"] for row in rows], [0.3, 0.1])

    def test_options_of_one_algorithm_come_last_and_leave_first(self):
        self.simulate("--set", "algorithm.name=fedadam")
        self.simulate("--set", "algorithm.name=ditto", "--set", "algorithm.lambda=0.1", "--set", "client.epochs=1")
        titles = self.runs("list", "--wide").out.splitlines()[0]
        places = [titles.index(word) for word in ("algorithm", "learning rate", "seed", "best", "took", "epochs", "beta1", "lambda")]
        self.assertEqual(places, sorted(places))
        narrow = self.runs("list", env={"COLUMNS": "80"}).out
        for word in ("fedadam", "ditto"):
            self.assertRegex(narrow, rf"finished +{word} +0\.1 +7 +0\.\d{{4}}")
        self.assertNotIn("beta1", narrow)

    def test_where_and_sort_and_limit(self):
        for seed in ("1", "2", "3"):
            self.simulate("--set", f"run.seed={seed}")
        self.runs("tag", self.ids()[1], "baseline")
        seeds = lambda *arguments: [row["seed"] for row in self.runs_json("list", *arguments)]
        self.assertEqual(seeds(), [3, 2, 1])
        self.assertEqual(seeds("--sort", "run.seed"), [1, 2, 3])
        self.assertEqual(seeds("--where", "tag=baseline"), [2])
        self.assertEqual(seeds("--where", "run.seed=3"), [3])
        self.assertEqual(seeds("--where", "name=tiny", "--where", "status=finished", "--limit", "1"), [3])
        best = [row["best_accuracy"] for row in self.runs_json("list", "--sort", "best_accuracy")]
        self.assertEqual(best, sorted(best, reverse=True))
        self.assertEqual(self.runs("list", "--where", "run.seed=9").out, "no run matches\n")
        self.assert_refused(self.runs("list", "--where", "client.epoch=1", code=2), "'client.epochs'", code=2)
        self.assert_refused(self.runs("list", "--sort", "best", code=2), "--sort", code=2)
        self.assert_refused(self.runs("list", "--where", "tiny", code=2), "KEY=VALUE", code=2)

    def test_a_narrow_terminal_loses_columns_and_no_run(self):
        for seed in ("1", "2"):
            self.simulate("--set", f"run.seed={seed}")
        narrow = self.runs("list", env={"COLUMNS": "60"}).out
        self.assertLessEqual(max(map(len, narrow.splitlines())), 60)
        for run_id in self.ids():
            self.assertIn(run_id, narrow)
        wide = self.runs("list", "--wide", env={"COLUMNS": "60"}).out
        self.assertIn("started (UTC)", wide)
        for subcommand in (["rounds", "latest"], ["clients", "latest"]):
            text = self.runs(*subcommand, env={"COLUMNS": "60"}).out
            self.assertLessEqual(max(map(len, text.splitlines())), 60, text)

    def test_no_colour_where_nobody_sees_it(self):
        self.simulate()
        for subcommand in (["list"], ["show", "latest"], ["rounds", "latest"]):
            self.assertNotIn("\033", self.runs(*subcommand).out)


class Show(RunsTest):
    def test_page_tells_what_matters_in_60_columns(self):
        self.simulate()
        self.runs("tag", "latest", "baseline")
        page = self.runs("show", "latest").out
        self.assertRegex(page, r"(?m)^finished: round 4 of 4, in ")
        self.assertRegex(page, r"(?m)^tags: baseline$")
        self.assertRegex(page, r"(?m)^  test accuracy +[▁-█]{4} +0\.\d{4} (the best|best 0\.\d{4} \(\d\))$")
        self.assertRegex(page, r"(?m)^  \d had 12 tasks: 12 aggregated$")
        self.assertRegex(page, r"(?m)^  client\.epochs +2$")
        self.assertRegex(page, r"(?m)^  clients at work .* %")
        # What is as it would be anyway is not told, and no key of no value is.
        self.assertNotIn("client.shuffle", page)
        self.assertNotIn("durability", self.runs("show", "latest", "--config").out)
        model = re.search(r"(?m)^Model\n  (.*)$", page).group(1)
        self.assertTrue(pathlib.Path(model).is_file())
        for line in page.splitlines():
            self.assertTrue(len(line) <= 60 or line.strip() == model, line)

    def test_config_is_a_scenario_that_gives_the_same_run(self):
        self.simulate()
        self.write("again.toml", self.runs("show", "latest", "--config").out)
        self.run_rivulet("simulate", self.path("again.toml"), "--db", self.path("again.sqlite"), code=0)
        self.assertEqual(self.digests(db="again.sqlite"), self.digests())

    def test_failing_clients_come_with_their_reasons(self):
        self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--set", "server.value_bits=-30",
                         "--set", "server.max_attempts=1", code=1)
        shown = self.runs_json("show", "latest")
        self.assertEqual(shown["status"], "failed")
        self.assertGreater(len(shown["failing_clients"]), 0)
        self.assertIn("server.value_bits", shown["failing_clients"][0]["error"])
        page = self.runs("show", "latest").out
        self.assertIn("failed: round 0 of 4", page)
        self.assertIn("refused", page)
        self.assertIn("--resume", page)

    def test_the_last_failure_of_a_client_is_that_of_this_run(self):
        self.simulate()
        self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--set", "server.value_bits=-30",
                         "--set", "server.max_attempts=2", code=1)
        well, ill = self.ids()
        self.assertEqual((self.runs_json("show", well)["failing"], self.runs_json("show", well)["failing_clients"]), (0, []))
        shown = self.runs_json("show", ill)
        failed = self.query("SELECT client_id, count(*), max(attempt) FROM client_rounds WHERE status <> 'folded' "
                            f"AND run_id = '{ill}' GROUP BY client_id")
        self.assertEqual(shown["failing"], len(failed))
        self.assertEqual({(row["client_id"], row["tasks"]) for row in shown["failing_clients"]},
                         {(client, tasks) for client, tasks, _ in failed})

    def test_what_bounds_a_round_is_told_with_what_would_make_it_shorter(self):
        self.simulate()
        told = self.runs_json("profile", "latest")
        rounds = self.query("SELECT train_seconds, evaluate_seconds FROM rounds")
        self.assertEqual(told["rounds"], len(rounds))
        self.assertAlmostEqual(told["train_seconds"], sum(train for train, _ in rounds) / len(rounds))
        self.assertAlmostEqual(told["evaluate_seconds"], sum(evaluate for _, evaluate in rounds) / len(rounds))
        self.assertGreaterEqual(told["last_task_seconds"], told["median_task_seconds"])
        # The history of a federation whose clients have machines of their own: one of four takes ten times as long.
        database = sqlite3.connect(self.path("runs.sqlite"))
        (cohort,) = database.execute("SELECT max(folded) FROM attempt").fetchone()
        database.execute("UPDATE attempt SET train_seconds = 11, evaluate_seconds = 5, aggregate_seconds = 0, "
                         "finished = started + 16000")
        database.execute("UPDATE task SET wait_seconds = 0, upload_seconds = 0, train_seconds = CASE WHEN task = (SELECT "
                         "max(t.task) FROM task t WHERE t.attempt_key = task.attempt_key) THEN 10 ELSE 9 END")
        database.commit()
        database.close()
        told = self.runs_json("profile", "latest", "--rounds", "2")
        self.assertEqual((told["rounds"], told["tasks"], told["last_task_seconds"], told["median_task_seconds"]),
                         (2, cohort, 10, 9))
        self.assertAlmostEqual(told["tasks_at_once"], (9 * cohort + 1) / 11)
        self.assertIn("evaluation.every = 5", " ".join(one["what"] for one in told["advice"]))
        gains = [one["gain_seconds"] for one in told["advice"]]
        self.assertEqual(gains, sorted(gains, reverse=True))
        page = self.runs("profile", "latest").out
        self.assertLessEqual(max(map(len, page.splitlines())), 60)
        self.assert_refused(self.runs("profile", "latest", "--rounds", "0", code=2), "--rounds must be between 1 and 10000, not 0", code=2)

    def test_a_killed_run_is_not_running(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", "100000",
                             "--set", "run.durability=round")
        deadline = time.monotonic() + 60
        while not pathlib.Path(self.path("runs.sqlite")).exists() or not self.committed():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assertEqual(self.runs_json("show", "latest")["status"], "running")
        self.assertEqual(self.runs_json("list")[0]["status"], "running")
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(self.query("SELECT status FROM runs"), [("running",)])
        self.assertEqual(self.runs_json("show", "latest")["status"], "interrupted")
        self.assertEqual(self.runs_json("list")[0]["status"], "interrupted")
        self.assertIn("interrupted: round", self.runs("show", "latest").out)
        self.assertIn("was interrupted", self.runs("tail", "latest").out)


class Compare(RunsTest):
    def test_what_differed_and_how_far_seeds_spread(self):
        for seed in ("1", "2"):
            self.simulate("--set", f"run.seed={seed}")
        self.simulate("--set", "client.epochs=1")
        one, two, three = self.ids()
        told = self.runs_json("compare", one, two, three)
        self.assertEqual([run["run_id"] for run in told["runs"]], [one, two, three])
        self.assertEqual(told["differing"], {"client.epochs": ["2", "2", "1"], "run.seed": ["1", "2", "7"]})
        group, = told["equal_but_for_the_seed"]
        self.assertEqual(group["runs"], [one, two])
        last = [run["metrics"]["test/accuracy"]["last"] for run in told["runs"][:2]]
        told_metric = group["metrics"]["test/accuracy"]
        self.assertAlmostEqual(told_metric["last_mean"], sum(last) / 2)
        self.assertAlmostEqual(told_metric["last_deviation"], abs(last[0] - last[1]) / 2 ** 0.5)
        text = self.runs("compare", "name=tiny").out
        self.assertRegex(text, rf"(?m)^A  {one}  finished$")
        self.assertRegex(text, r"(?m)^  client\.epochs +2 +2 +1$")
        self.assertIn("A, B: equal but for the seed", text)
        self.assertIn("±", text)
        self.assert_refused(self.runs("compare", one, code=2), "at least two", code=2)
        self.runs("tag", three, "alone")
        alone = self.runs("compare", "tag=alone").out
        self.assertRegex(alone, rf"(?m)^A  {three}  finished$")
        self.assertIn("There is no other run", alone)
        self.assertRegex(alone, r"(?m)^test/accuracy$")
        self.assertEqual([run["run_id"] for run in self.runs_json("compare", "tag=alone")["runs"]], [three])
        self.assert_refused(self.runs("compare", one, "tinny", code=1), "tinny", code=1)


class Plot(RunsTest):
    def test_svg_is_well_formed_and_has_a_curve_a_run(self):
        for seed in ("1", "2"):
            self.simulate("--set", f"run.seed={seed}")
        out = self.path("plot.svg")
        self.runs("plot", *self.ids(), "--metric", "test/loss", "--out", out)
        root = xml.etree.ElementTree.parse(out).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for text in ("test/loss", "round", *self.ids()):
            self.assertIn(text, texts)
        self.assertIn("2 runs", self.runs("plot", "name=tiny", "--metric", "test/loss", "--out", out).out)
        self.assertEqual(xml.etree.ElementTree.tostring(xml.etree.ElementTree.parse(out).getroot()), xml.etree.ElementTree.tostring(root))
        self.assert_refused(self.runs("plot", "tag=none", "--out", out, code=1), "tag=none", code=1)
        drawn = self.runs("plot", *self.ids(), "--terminal", env={"COLUMNS": "60"}).out
        self.assertIn("test/accuracy", drawn)
        self.assertLessEqual(max(map(len, drawn.splitlines())), 60)
        self.assertTrue(any("\u2801" <= c <= "\u28ff" for c in drawn))
        self.assert_refused(self.runs("plot", "latest", "--metric", "test/los", "--out", out, code=2), "test/loss", code=2)
        self.assert_refused(self.runs("plot", "latest", code=2), "--out", code=2)
        self.assert_refused(self.runs("plot", "latest", "--out", self.path("x.bmp"), code=2), ".svg", code=2)

    def test_png_needs_no_display_and_has_the_curve(self):
        self.simulate()
        out = self.path("plot.png")
        self.runs("plot", "latest", "--out", out, env={"DISPLAY": "", "HOME": "/nonexistent"})
        width, height, pixels = read_png(out)
        self.assertEqual(width, 1440)
        self.assertEqual(len(pixels), width * height * 3)
        colours = {tuple(pixels[at : at + 3]) for at in range(0, len(pixels), 3)}
        self.assertIn((0x00, 0x72, 0xB2), colours)  # the curve
        self.assertIn((0x22, 0x22, 0x22), colours)  # the letters
        self.assertIn((255, 255, 255), colours)


class Progress(RunsTest):
    def test_it_is_json_or_nothing_where_that_is_wanted(self):
        simulate = ("simulate", self.scenario, "--db", self.path("runs.sqlite"))
        quiet = self.run_rivulet(*simulate, "--quiet", code=0)
        self.assertEqual(quiet.err, "")
        self.assertIn("test accuracy", quiet.out)
        told = [json.loads(line) for line in self.run_rivulet(*simulate, "--progress", "json", code=0).err.splitlines()]
        rounds = [line for line in told if line["progress"] == "round"]
        self.assertEqual([line["round"] for line in rounds], [1, 2, 3, 4])
        self.assertEqual(rounds[-1]["seconds_left"], None)
        self.assertEqual([line["accuracy"] for line in rounds], [row[0] for row in self.query(
            "SELECT test_accuracy FROM round_summary WHERE run_id = ? ORDER BY round", self.ids()[-1])])
        self.assert_refused(self.run_rivulet(*simulate, "--progress", "bar"), "auto or json", code=2)
        self.assert_refused(self.run_rivulet(*simulate, "--progress", "json", "--quiet"), "one of them", code=2)


class Export(RunsTest):
    def test_files_hold_what_the_views_hold(self):
        self.simulate()
        self.simulate("--set", "run.seed=8")
        run_id = self.ids()[0]
        self.runs("export", run_id, "--csv", self.path("out/csv"), "--json", self.path("run.json"))
        whole = json.loads(pathlib.Path(self.path("run.json")).read_text())
        connection = sqlite3.connect(self.path("runs.sqlite"))
        connection.row_factory = sqlite3.Row
        for view in ("runs", "run_keys", "rounds", "client_rounds", "metrics", "models", "events", "client_reliability"):
            rows = [dict(row) for row in connection.execute(f"SELECT * FROM {view} WHERE run_id = ?", (run_id,))]
            by_text = lambda row: json.dumps(row, sort_keys=True)
            self.assertEqual(sorted(map(by_text, whole[view])), sorted(map(by_text, rows)), view)
            with open(self.path(f"out/csv/{view}.csv"), newline="") as file:
                lines = list(csv.DictReader(file))
            self.assertEqual(len(lines), len(rows), view)
            if rows:
                self.assertEqual(list(lines[0]), list(rows[0]), view)
        connection.close()
        self.assert_refused(self.runs("export", run_id, code=2), "--csv DIR, --json FILE, --tensorboard DIR or --proof DIR", code=2)
        self.simulate("--set", "run.seed=8")
        self.runs("export", "name=tiny", "--csv", self.path("several"))
        for run in self.ids():
            with open(self.path(f"several/{run}/rounds.csv")) as file:
                self.assertEqual({row["run_id"] for row in csv.DictReader(file)}, {run})
        self.assert_refused(self.runs("export", "name=tiny", "--json", self.path("two.json"), code=2), "--json writes one run", code=2)


    def test_a_run_resumed_within_a_second_keeps_its_events(self):
        for rounds in ("1", "2", "3"):
            self.simulate("--rounds", rounds, "--logdir", self.path("log"), *(["--resume", "latest"] if rounds > "1" else []))
        files = sorted((self.folder / "log" / self.ids()[0]).iterdir())
        self.assertEqual(len(files), 3, files)
        for file in files:
            self.assertIn(b"test/accuracy", file.read_bytes(), file)

    def tensorboard(self, script, *arguments):
        """What a Python that has TensorBoard prints last, as JSON; skipped by name without one."""
        python = next((python for python in (os.environ.get("RIVULET_PEER_PYTHON"), sys.executable) if python and
                       subprocess.run([python, "-c", "import tensorboard"], capture_output=True).returncode == 0), None)
        if python is None:
            self.skipTest("no Python with the package tensorboard; RIVULET_PEER_PYTHON may name one")
        done = subprocess.run([python, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_tensorboard_reads_what_was_measured(self):
        self.simulate("--set", "run.keep_models=all", "--logdir", self.path("log"))
        self.runs("export", "latest", "--tensorboard", self.path("events"))
        folder, live = (self.folder / name / self.ids()[0] for name in ("events", "log"))
        self.assertEqual(len(list(folder.glob("events.out.tfevents.*"))), 1)
        told = self.tensorboard("""
import json, sys
from tensorboard.backend.event_processing import event_accumulator as reader
from tensorboard.plugins.hparams import plugin_data_pb2
def read(folder):
    events = reader.EventAccumulator(folder, size_guidance={reader.IMAGES: 0, reader.HISTOGRAMS: 0})
    events.Reload()
    def session(tag):
        content = events.SummaryMetadata(tag).plugin_data.content
        return plugin_data_pb2.HParamsPluginData.FromString(content)
    start, end = session("_hparams_/session_start_info").session_start_info, session("_hparams_/session_end_info").session_end_info
    spread = {tag: [(e.step, e.histogram_value.num, sum(e.histogram_value.bucket), e.histogram_value.min, e.histogram_value.max)
                    for e in events.Histograms(tag)] for tag in events.Tags()["histograms"]}
    return {"scalars": {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]},
            "spread": spread, "nodes": len(events.Graph().node), "end": end.status,
            "pictures": [(e.step, e.width, e.height, e.encoded_image_string[:8].hex()) for e in events.Images("confusion")]
                        if "confusion" in events.Tags()["images"] else [],
            "told": {key: (value.number_value, value.string_value, value.bool_value) for key, value in start.hparams.items()}}
print(json.dumps([read(folder) for folder in sys.argv[1:]]))
""", folder, live)
        rows = self.query("SELECT round, test_accuracy, train_loss, folded, selected - folded FROM round_summary ORDER BY round")
        for read in told:  # exported, and written as the run went on: the same under the same tags
            for tag, column in (("test/accuracy", 1), ("train/loss", 2), ("round/folded", 3), ("round/lost", 4)):
                self.assertEqual([step for step, _ in read["scalars"][tag]], [row[0] for row in rows], tag)
                for (_, value), row in zip(read["scalars"][tag], rows):
                    self.assertAlmostEqual(value, row[column], places=5)
            self.assertEqual(read["end"], 1)
            self.assertGreater(read["nodes"], 5)
            self.assertEqual(read["told"]["client.optimizer.kind"], [0, "sgd", False])
            self.assertAlmostEqual(read["told"]["client.optimizer.learning_rate"][0],
                                   self.query("SELECT CAST(value AS REAL) FROM run_keys WHERE key = 'client.optimizer.learning_rate'")[0][0])
            weights = [tag for tag in read["spread"] if tag.startswith("weights/")]
            self.assertEqual({tag.replace("weights/", "updates/") for tag in weights},
                             {tag for tag in read["spread"] if tag.startswith("updates/")})
            self.assertEqual([step for step, *_ in read["spread"][weights[0]]], [0, 1, 2, 3, 4])
            self.assertEqual([step for step, *_ in read["spread"][weights[0].replace("weights", "updates")]], [1, 2, 3, 4])
        self.assertEqual(told[0]["scalars"].keys(), told[1]["scalars"].keys())
        exported, logged = told
        for tag in (tag for tag in exported["spread"] if tag.startswith("clients/")):
            self.assertEqual(exported["spread"][tag], logged["spread"][tag], tag)
        losses = [loss for loss, in self.query("SELECT train_loss FROM client_rounds WHERE round = 4")]
        step, number, counted, least, greatest = exported["spread"]["clients/train_loss"][-1]
        self.assertEqual((step, number, counted), (4, len(losses), len(losses)))
        self.assertAlmostEqual(least, min(losses))
        self.assertAlmostEqual(greatest, max(losses))
        try:
            self.run_rivulet("model", "evaluate", "latest", "--db", self.path("runs.sqlite"), "--confusion", self.path("x.png"), code=0)
        except AssertionError:
            return  # built without libpng
        self.assertEqual([step for step, *_ in exported["pictures"]], [0, 1, 2, 3, 4])
        self.assertEqual([step for step, *_ in logged["pictures"]], [4])
        for step, width, height, head in exported["pictures"]:
            self.assertEqual(head, "89504e470d0a1a0a")
            self.assertGreater(min(width, height), 100)


    def test_a_run_is_logged_for_tensorboard_while_it_goes_on(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", "100000", "--logdir",
                             self.path("log dir"))

        def events():
            for path in (self.folder / "log dir").glob("*/events.out.tfevents.*"):
                content, records = path.read_bytes(), []
                while content:
                    size = int.from_bytes(content[:8], "little")
                    records.append(content[12 : 12 + size])
                    content = content[16 + size :]
                return records
            return []

        self.wait_for(lambda: len(events()) > 3, "rounds in the log")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        self.assertIn(f"--logdir '{self.path('log dir')}'", said)
        version, *records = events()
        self.assertIn(b"brain.Event:2", version)
        self.assertTrue(any(b"_hparams_/session_start_info" in record for record in records[:2]))
        rounds = [record for record in records if b"round/folded" in record]
        self.assertEqual(len(rounds), len(self.query("SELECT 1 FROM round_summary")))
        for record in rounds:
            self.assertTrue(b"test/accuracy" in record and b"train/loss" in record)
        self.assertEqual([path.name for path in (self.folder / "log dir").iterdir()], self.ids())
        self.write("file", "")
        refused = self.run_rivulet("simulate", self.scenario, "--logdir", self.path("file/x"), "--db", self.path("other.sqlite"))
        self.assertNotEqual(refused.code, 0)
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--replay", "latest", "--logdir", "x"), "leave --logdir",
                            code=2)


class Sql(RunsTest):
    def test_answers_and_refusals(self):
        self.simulate()
        self.assertEqual(self.runs_json("sql", "SELECT count(*) AS n, NULL AS unknown, 0.5 AS half FROM rounds"),
                         [{"n": 4, "unknown": None, "half": 0.5}])
        text = self.runs("sql", "SELECT round, status FROM rounds ORDER BY round;").out
        self.assertEqual(text.splitlines()[1].split(), ["1", "committed"])
        self.assertEqual(self.runs("sql", "SELECT * FROM rounds WHERE round = 99").out, "no rows\n")
        for sql, fragment in (("SELEC 1", "SELEC"), ("DELETE FROM run", "only read"), ("SELECT 1; SELECT 2", "SELECT 2"),
                              ("SELECT ?", "parameters"), ("-- nothing", "empty"), ("VACUUM", "only read"),
                              ("SELECT colour FROM rounds", "colour")):
            self.assert_refused(self.runs("sql", sql, code=2), fragment, code=2)
        self.assertEqual(self.query("SELECT count(*) FROM runs"), [(1,)])


class Scans(RunsTest):
    LONG = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 15000000) SELECT count(*) AS n FROM c"

    def test_what_takes_over_a_second_tells_how_far_it_is(self):
        self.simulate()
        told = [json.loads(line) for line in self.runs("sql", self.LONG, "--progress", "json").err.splitlines()]
        self.assertTrue(told)
        for line in told:
            self.assertEqual(line["progress"], "reading the history")
            self.assertGreaterEqual(line["done"], 0)
            self.assertGreaterEqual(line["seconds"], 1)
        self.assertEqual(self.runs("sql", self.LONG, "--quiet").err, "")
        self.assertRegex(self.runs("sql", self.LONG).err, r"^reading the history .*/s")
        self.assertEqual(self.runs("sql", "SELECT 1").err, "", "what is quick says nothing")

    def test_one_that_is_stopped_says_so(self):
        self.simulate()
        process = self.start("runs", "sql", self.LONG.replace("x < 15000000", "x < 4000000000"), "--db", self.path("runs.sqlite"),
                             "--progress", "json")
        self.assertIn("reading the history", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        self.assertIn("stopped while reading the history", process.communicate(timeout=30)[1])
        self.assertNotEqual(process.returncode, 0)

    def test_versions_that_are_verified_are_told_of(self):
        self.simulate()
        told = [json.loads(line) for line in self.runs("verify", "latest", "--progress", "json").err.splitlines()]
        self.assertEqual([(line["done"], line["total"]) for line in told], [(version, 4) for version in range(1, 5)])
        self.assertEqual(self.runs("verify", "latest", "--quiet").err, "")
        self.assertEqual(len(self.runs("verify", "latest").err.splitlines()), 4)


class Questions(RunsTest):
    def test_those_of_the_page_are_answered(self):
        self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--set", "server.value_bits=-30",
                         "--set", "server.max_attempts=1", code=1)
        self.simulate()
        self.simulate("--set", "client.optimizer.learning_rate=0.3")
        page = (pathlib.Path(__file__).parents[2] / "docs/reference/history.md").read_text()
        questions = re.findall(r"```sql\n(.*?)```", page.split("## A dozen questions")[1], re.S)
        self.assertGreaterEqual(len(questions), 12)
        for sql in questions:
            with self.subTest(sql=sql):
                rows = self.runs_json("sql", sql)
                # Every question but those that ask for what did not happen has an answer here.
                self.assertTrue(rows or "level <> 'info'" in sql or ">= 0.5" in sql, sql)


class Models(RunsTest):
    def test_rounds_of_a_run_are_named(self):
        self.simulate("--set", "run.keep_models=all")
        db = ["--db", self.path("runs.sqlite")]
        for row in self.query("SELECT round, test_accuracy, test_loss FROM round_summary"):
            told = json.loads(self.run_rivulet("model", "evaluate", f"tiny:{row[0]}", *db, "--json", code=0).out)
            self.assertEqual((told["round"], told["test/accuracy"], told["test/loss"]), row)
        best, = self.query("SELECT best_round FROM run_leaderboard")[0]
        told = json.loads(self.run_rivulet("model", "evaluate", "latest:best", *db, "--json", code=0).out)
        self.assertEqual(told["round"], best)
        told = json.loads(self.run_rivulet("model", "evaluate", "latest", *db, "--json", "--classes", "--confusion",
                                           self.path("confusion.png"), code=0).out)
        examples, right = sum(map(sum, told["confusion"])), sum(told["confusion"][i][i] for i in range(10))
        self.assertEqual((right, examples), (told["test/accuracy/right"], told["test/accuracy/total"]))
        self.assertEqual([row["examples"] for row in told["classes"]], [sum(row) for row in told["confusion"]])
        for label, row in enumerate(told["classes"]):
            self.assertAlmostEqual(row["recall"] * row["examples"], told["confusion"][label][label])
        self.assertEqual(sum(row["examples"] for row in told["calibration"]), examples)
        gap = sum(abs(row["accuracy"] - row["mean_confidence"]) * row["examples"] for row in told["calibration"])
        self.assertAlmostEqual(told["calibration_error"], gap / examples)
        self.assertGreater(read_png(self.path("confusion.png"))[0], 800)
        said = self.run_rivulet("model", "evaluate", "latest", *db, "--classes", code=0).out
        self.assertIn("taken for", said)
        self.assertIn("expected calibration error", said)
        self.assert_refused(self.run_rivulet("model", "evaluate", "latest", *db, "--confusion", "x.gif"), ".png", code=2)
        other = json.loads(self.run_rivulet("model", "evaluate", "latest", "--data", self.path("data/train.tfrecord"),
                                            *db, "--json", code=0).out)
        self.assertEqual(other["round"], 4)
        self.assertEqual(other["test/accuracy/total"], 12 * 8)
        inspected = json.loads(self.run_rivulet("model", "inspect", "latest:2", *db, "--json", code=0).out)
        self.assertEqual(inspected["metadata.rivulet.model_digest"], self.digests()[1])
        self.run_rivulet("model", "diff", "latest:4", "tiny", *db, code=0)
        self.assertEqual(self.run_rivulet("model", "diff", "latest:3", "latest:4", *db).code, 1)
        self.run_rivulet("model", "export", "latest:best", *db, "--out", self.path("m.onnx"), code=0)
        self.assert_refused(self.run_rivulet("model", "inspect", "latest:9", *db), "rounds 0 to 4", code=1)
        self.assert_refused(self.run_rivulet("model", "inspect", "tinny:1", *db), "'tiny'", code=1)
        self.simulate("--set", "run.name=short", "--set", "run.keep_models=last")
        self.assert_refused(self.run_rivulet("model", "evaluate", "short:1", *db), "was not kept", "run.keep_models decides", code=1)


class Prune(RunsTest):
    def test_old_runs_go_and_tagged_ones_stay(self):
        for seed in ("1", "2", "3", "4"):
            self.simulate("--set", f"run.seed={seed}")
        one, two, three, four = self.ids()
        self.runs("tag", one, "baseline")
        kept = self.digests(run=four)
        (self.folder / "runs.sqlite.models" / two / "mine.txt").write_text("mine")
        listed = self.runs("prune", "--keep", "1")
        self.assertIn("--yes", listed.err)
        self.assertEqual(self.ids(), [one, two, three, four])
        told = self.runs_json("prune", "--keep", "1", "--yes")
        self.assertEqual([row["run_id"] for row in told], [three, two])
        self.assertEqual(self.ids(), [one, four])
        folders = sorted(path.name for path in (self.folder / "runs.sqlite.models").iterdir())
        self.assertEqual(folders, sorted([one, two, four]))
        self.assertEqual([path.name for path in (self.folder / "runs.sqlite.models" / two).iterdir()], ["mine.txt"])
        for view in ("rounds", "client_rounds", "metrics", "models", "run_keys", "events"):
            self.assertEqual(self.query(f"SELECT DISTINCT run_id FROM {view} ORDER BY run_id"), sorted([(one,), (four,)]), view)
        self.assertEqual(self.query("PRAGMA foreign_key_check"), [])
        self.assertEqual(self.digests(run=four), kept)
        self.assertEqual(self.runs("prune", "--keep", "1", "--yes").out, "there is nothing to remove\n")
        self.assert_refused(self.runs("prune", code=2), "--keep", code=2)

    def test_what_clients_kept_goes_with_their_run(self):
        self.simulate("--set", "algorithm.name=scaffold")
        models = self.folder / "runs.sqlite.models"
        self.assertTrue(any(path.is_file() for path in (models / self.ids()[0] / "state").rglob("*")))
        self.assertNotIn("stays", self.runs("prune", "--keep", "0", "--yes").err)
        self.assertEqual(list(models.iterdir()), [])


class Import(RunsTest):
    def test_runs_of_another_history_are_ours_then(self):
        self.simulate("--set", "run.seed=1")
        for seed in ("2", "3"):
            self.simulate("--set", f"run.seed={seed}", db="other.sqlite")
        self.run_rivulet("runs", "tag", "latest", "theirs", "--db", self.path("other.sqlite"), code=0)
        told = self.runs_json("import", self.path("other.sqlite"))
        self.assertEqual([row["imported"] for row in told], [True, True])
        views = ("runs", "run_keys", "tags", "notes", "rounds", "run_clients", "client_rounds", "metrics", "events",
                 "round_summary", "client_reliability")
        for run_id, in self.query("SELECT run_id FROM runs", db="other.sqlite"):
            for view in views:
                columns = ", ".join(row[1] for row in self.query(f"PRAGMA table_info({view})") if row[1] not in
                                    ("rowid", "last_seen_at"))
                rows = [sorted(self.query(f"SELECT {columns} FROM {view} WHERE run_id = ?", run_id, db=db), key=repr)
                        for db in ("runs.sqlite", "other.sqlite")]
                self.assertEqual(*rows, view)
            self.runs("verify", run_id)
            self.run_rivulet("model", "evaluate", run_id, "--db", self.path("runs.sqlite"), code=0)
        self.assertEqual(self.query("PRAGMA foreign_key_check"), [])
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
        self.assertEqual([row["imported"] for row in self.runs_json("import", self.path("other.sqlite"))], [False, False])
        self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--set", "run.seed=3", "--rounds", "6",
                         "--resume", self.query("SELECT run_id FROM runs WHERE seed = 3")[0][0], code=0)
        self.assertEqual(len(self.digests()), 6)

    def test_event_files_become_runs(self):
        for seed in ("1", "2"):
            self.simulate("--set", f"run.seed={seed}", "--logdir", self.path("logs"), db="other.sqlite")
        ids = [run_id for run_id, in self.query("SELECT run_id FROM runs ORDER BY seed", db="other.sqlite")]
        told = self.runs_json("import", self.path("logs"))
        self.assertEqual(sorted((row["run_id"], row["imported"]) for row in told), sorted((run_id, True) for run_id in ids))
        self.assertEqual([row["imported"] for row in self.runs_json("import", self.path("logs"))], [False, False])
        for run_id in ids:
            measured, read = (self.query("SELECT round, value FROM metrics WHERE run_id = ? AND name = 'test/accuracy' AND "
                                         "scope = 'central' AND round > 0 ORDER BY round", run_id, db=db)
                              for db in ("other.sqlite", "runs.sqlite"))
            self.assertEqual([round for round, _ in read], [round for round, _ in measured])
            for (_, one), (_, other) in zip(read, measured):
                self.assertAlmostEqual(one, other, places=6)
            rate = "SELECT CAST(value AS REAL) FROM run_keys WHERE run_id = ? AND key = 'client.optimizer.learning_rate'"
            self.assertEqual(self.query(rate, run_id), self.query(rate, run_id, db="other.sqlite"))
        self.assertEqual(self.query("SELECT DISTINCT status FROM runs"), [("finished",)])
        for command in (["show"], ["rounds"], ["clients"], ["profile"], ["export", "--csv", self.path("csv")]):
            done = self.run_rivulet("runs", command[0], ids[0], *command[1:], "--db", self.path("runs.sqlite"))
            self.assertIn(done.code, (0, 1), (command, done.err))
        self.runs("list")
        self.runs("compare", *ids)
        self.runs("plot", *ids, "--terminal")
        self.assert_refused(self.runs("verify", ids[0], code=1), "event files")
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--resume", ids[0],
                                             code=1), "another program")
        (self.folder / "empty").mkdir()
        self.assert_refused(self.runs("import", self.path("empty"), code=1), "no event files")

    def test_event_files_keep_values_whose_time_is_none(self):
        double = lambda number, value: harness.varint(number << 3 | 1) + struct.pack("<d", value)
        scalar = lambda tag, value: harness.field(5, harness.field(1, harness.field(1, tag) + harness.varint(2 << 3 | 5) +
                                                                   struct.pack("<f", value)))
        logs = self.folder / "logs"
        for name, times in {"negative": [-5.0], "nan": [math.nan], "milliseconds": [1764288000000.0],
                            "mixed": [1764288000.0, -1.0, 1764288000000.0]}.items():
            (logs / name).mkdir(parents=True)
            records = [double(1, times[0]) + harness.field(3, "brain.Event:2")]
            records += [double(1, time) + harness.field(2, step) + scalar("loss", 0.5) for step, time in enumerate(times)]
            (logs / name / "events.out.tfevents.1.x").write_bytes(harness.tfrecord(records))
        said = self.runs("import", self.path("logs"))
        self.assertEqual(sorted(self.ids()), ["milliseconds", "mixed", "nan", "negative"])
        self.assertEqual(self.query("SELECT DISTINCT value FROM metrics"), [(0.5,)])
        self.assertEqual(self.query("SELECT count(*) FROM metrics"), [(6,)])
        for name, count in (("negative", 1), ("nan", 1), ("milliseconds", 1), ("mixed", 2)):
            sentence = rf"{count} numbers of '.*{name}/events.out.tfevents.1.x' have times that are no seconds since 1970"
            self.assertRegex(said.err, sentence)
            [(marked,)] = self.query("SELECT message FROM events WHERE run_id = ? AND level = 'warning'", name)
            self.assertRegex(marked, sentence)
        self.assertEqual(self.query("SELECT started_at FROM runs WHERE run_id = 'mixed'"), [("2025-11-28T00:00:00.000Z",)])
        self.assertRegex(self.query("SELECT started_at FROM runs WHERE run_id = 'nan'")[0][0], r"^20\d\d-")

    def test_hostile_histories_are_refused_whole(self):
        self.simulate()
        for number, (sql, fragment) in enumerate([
            ("UPDATE model SET file = '../../../etc/passwd' WHERE file IS NOT NULL", "leads elsewhere"),
            ("UPDATE run SET run_id = '../evil'", "no name of a folder"),
            ("UPDATE model SET digest = zeroblob(32)", "is not the model of the history"),
            ("UPDATE model SET digest = x'00' WHERE file IS NULL", "invalid model digest"),
            ("UPDATE run SET plan_digest = zeroblob(32)", "plan"),
            ("CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM run; END", "has a trigger"),
            ("PRAGMA ignore_check_constraints = ON; UPDATE attempt SET round = -round", "hostile6.sqlite' has rows that no program"),
        ]):
            with self.subTest(sql=sql):
                db = f"hostile{number}.sqlite"
                self.simulate(db=db)
                connection = sqlite3.connect(self.path(db))
                connection.executescript(sql)
                connection.commit()
                connection.close()
                self.assert_refused(self.runs("import", self.path(db), code=1), fragment, code=1)
                self.assertEqual(len(self.ids()), 1)
                self.assertFalse((self.folder / "evil").exists())
        # What a file defines is not run: with these views of its own the import once had no end.
        self.simulate("--set", "run.seed=9", db="views.sqlite")
        connection = sqlite3.connect(self.path("views.sqlite"))
        for view in ("runs", "models", "metrics", "run_leaderboard"):
            connection.executescript(f"DROP VIEW {view}; CREATE VIEW {view} AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL "
                                     "SELECT i + 1 FROM n) SELECT max(i) AS run_id FROM n")
        connection.close()
        self.runs("import", self.path("views.sqlite"))
        self.assertEqual(len(self.ids()), 2)
        self.runs("list")
        self.simulate(db="clash.sqlite")
        self.change("UPDATE run SET run_id = ?", self.ids()[0], db="clash.sqlite")
        self.assert_refused(self.runs("import", self.path("clash.sqlite"), code=1), "not the same one", code=1)
        self.assert_refused(self.runs("import", self.path("runs.sqlite"), code=2), "itself", code=2)
        self.assert_refused(self.runs("import", self.path("none.sqlite"), code=1), "none.sqlite", code=1)


class Verify(RunsTest):
    def test_a_part_is_verified_from_the_model_before_it(self):
        self.simulate("--set", "run.keep_models=all")
        told = self.runs_json("verify", "latest", "--from", "3", "--to", "4")
        self.assertEqual((told["versions"], told["model_digest"]), (2, self.digests()[3]))
        self.assertEqual(self.runs_json("verify", "latest", "--to", "2")["model_digest"], self.digests()[1])
        for bad in (("--from", "5"), ("--to", "9"), ("--from", "3", "--to", "2")):
            self.assert_refused(self.runs("verify", "latest", *bad, code=1), "has the rounds 1 to 4")
        self.change("UPDATE task SET train_loss = 9 WHERE attempt_key = (SELECT attempt_key FROM attempt WHERE round = 2 AND kind = 0)")
        self.runs("verify", "latest", "--from", "3")
        self.assert_refused(self.runs("verify", "latest", "--from", "2", "--to", "2", code=1), "train_loss is 9")
        self.change("UPDATE model SET file = NULL WHERE round = 2")
        self.assert_refused(self.runs("verify", "latest", "--from", "3", code=1), "the model of round 2")

    def test_a_run_comes_out_as_recorded_or_its_first_difference_is_named(self):
        self.simulate()
        told = self.runs_json("verify", "latest")
        self.assertEqual(told["versions"], 4)
        self.assertEqual(told["model_digest"], self.digests()[-1])
        os.rename(self.path("data"), self.path("moved"))
        self.runs("verify", "latest", "--set", f"data.train={self.path('moved/train.tfrecord')}",
                  "--set", f"data.test={self.path('moved/test.tfrecord')}")
        os.rename(self.path("moved"), self.path("data"))
        self.assert_refused(self.runs("verify", "latest", "--set", "client.epochs=9", code=2), "client.epochs", code=2)
        self.change("UPDATE model SET digest = zeroblob(32) WHERE round = 3")
        self.assert_refused(self.runs("verify", "latest", code=1), "version 3", code=1)


class Tail(RunsTest):
    def test_follows_a_run_to_its_end(self):
        self.simulate()
        lines = self.runs("tail", "latest").out.splitlines()
        self.assertRegex(lines[-1], r"^run tiny-.* has finished$")
        self.assertTrue(any(re.match(r"\d\d:\d\d:\d\d round 4  accuracy 0\.\d{4}  loss \d", line) for line in lines), lines)
        self.assertEqual(len(self.runs("tail", "latest", "--lines", "1").out.splitlines()), 2)
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", "200",
                             "--set", "run.durability=round", "--set", "run.name=longer")
        deadline = time.monotonic() + 60
        while not self.query("SELECT 1 FROM rounds r JOIN runs USING (run_id) WHERE name = 'longer'"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        rows = [json.loads(line) for line in self.runs("tail", "longer", "--json", "--lines", "0").out.splitlines()]
        process.wait()
        rounds = [row["round"] for row in rows if "attempt" in row]
        self.assertEqual(rounds, list(range(rounds[0], 201)))


class Help(RivuletTest):
    def test_help_and_version_are_commands_too(self):
        self.assertEqual(self.run_rivulet("version", code=0).out, self.run_rivulet("--version", code=0).out)
        self.assertEqual(self.run_rivulet("help", code=0).out, self.run_rivulet("--help", code=0).out)
        self.assertEqual(self.run_rivulet("help", "runs", "show", code=0).out,
                         self.run_rivulet("runs", "show", "--help", code=0).out)
        self.assert_refused(self.run_rivulet("help", "runs", "shwo"), "'show'", code=2)

    def test_keys_of_scenarios_have_help_too(self):
        keys = lambda *words: re.findall(r"^([a-z_.0-9]+) = ", self.run_rivulet("help", "keys", *words, code=0).out, re.M)
        self.assertGreater(len(keys()), 100)
        self.assertEqual(keys("client.epochs"), ["client.epochs"])
        self.assertEqual(keys("*.epochs"), ["client.epochs", "server.fine_tune.epochs"])
        self.assertEqual(keys("lr"), ["client.optimizer.learning_rate"])
        self.assertLessEqual({"privacy.clip", "privacy.noise"}, set(keys("privacy")))
        # Options of algorithms, selections and attacks are keys too.
        self.assertIn("algorithm.mu", keys("mu"))
        mu = self.run_rivulet("help", "keys", "algorithm.mu", code=0).out
        self.assertRegex(mu, r'Only when algorithm\.name is[^.]*"fedprox"')
        self.assertLessEqual({"selection.candidates", "attack.boost"}, set(keys()))
        text = self.run_rivulet("help", "keys", "client.epochs", code=0).out
        self.assertIn("integer, default 1; at least 1 and at most 1000000", text)
        self.assertLessEqual(max(map(len, self.run_rivulet("help", "keys", code=0).out.splitlines())), 130)
        self.assert_refused(self.run_rivulet("help", "keys", "xyzzy"), "no key is like 'xyzzy'", code=1)
        self.assert_refused(self.run_rivulet("help", "keys", "a", "b"), "one pattern", code=2)


if __name__ == "__main__":
    main()
