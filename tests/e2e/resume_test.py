"""A run that was interrupted, in any way, goes on to the same bits."""
import contextlib
import hashlib
import json
import pathlib
import shlex
import shutil
import signal
import sqlite3
import sys
import time

from harness import RivuletTest, main

STORED = pathlib.Path(__file__).with_name("stored_run")
sys.path.insert(0, str(STORED))
import make_stored_run  # noqa: E402

ROUNDS = 40


class RunOfAnotherProgram(RivuletTest):
    """A run that a program of another version began, as its history and its folder were left then."""

    def setUp(self):
        super().setUp()
        self.run_rivulet("data", "synth", "synthetic", *make_stored_run.DATA, cwd=self.folder, code=0)
        self.stored = self.write("stored.toml", make_stored_run.SCENARIO)
        with contextlib.closing(sqlite3.connect(self.path("runs.sqlite"))) as db:
            db.executescript((STORED / "history.sql").read_text())
        ((self.run_id, version, self.plan_digest),) = self.query("SELECT run_id, version, plan_digest FROM runs")
        self.assertEqual(version, make_stored_run.VERSION_OF_THEN)
        self.models = self.folder / "runs.sqlite.models" / self.run_id
        shutil.copytree(STORED / "models", self.models)

    def resume(self, *arguments):
        return self.run_rivulet("simulate", self.stored, "--db", self.path("runs.sqlite"), "--resume", "latest",
                                "--kernels", "portable", *arguments)

    def test_goes_on_with_the_plan_that_it_keeps(self):
        self.run_rivulet("plan", "build", self.stored, "--out", self.path("today"), code=0)
        self.assertNotEqual(hashlib.sha256((self.folder / "today").read_bytes()).hexdigest(), self.plan_digest)
        result = self.resume()
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(self.digests(), json.loads((STORED / "digests.json").read_text()))
        ((version, plan_digest, status),) = self.query("SELECT version, plan_digest, status FROM runs")
        self.assertEqual((plan_digest, status), (self.plan_digest, "finished"))
        self.assertNotEqual(version, make_stored_run.VERSION_OF_THEN, "the row names who wrote it last")
        self.assertEqual((self.models / "plan").read_bytes(), (STORED / "models" / "plan").read_bytes())

    def test_whose_plan_is_gone_goes_on_with_one_built_anew_and_says_so(self):
        (self.models / "plan").unlink()
        result = self.resume()
        self.assertEqual(result.code, 0, result.err)
        whole = json.loads((STORED / "digests.json").read_text())
        self.assertEqual(self.digests()[:2], whole[:2])
        self.assertNotEqual(self.digests()[2:], whole[2:], "two epochs give other models than three")
        self.assertTrue(self.query("SELECT 1 FROM events WHERE message LIKE 'its plan % was not kept; built again%'"))


class Resume(RivuletTest):
    def setUp(self):
        super().setUp()
        self.long = ["--rounds", str(ROUNDS), "--set", "client.epochs=20", "--set", "run.durability=round",
                     "--set", "evaluation.federated_every=3", "--set", "evaluation.federated_clients=2"]
        self.simulate(*self.long, db="whole.sqlite")
        self.whole = self.digests("whole.sqlite")

    def begin(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), *self.long)
        self.wait_for(lambda: self.committed() >= 2, "the second commit")
        return process

    def test_ctrl_c_says_how_to_go_on_and_that_works(self):
        process = self.begin()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        last = err.splitlines()[-1]
        self.assertIn("rivulet: interrupted after round", last)
        self.assertEqual(self.query("SELECT status FROM runs"), [("interrupted",)])
        done = self.committed()
        self.assertLess(done, ROUNDS)
        command = shlex.split(last.split("to resume: rivulet ", 1)[1])
        self.run_rivulet(*command, code=0)
        self.assertEqual(self.digests(), self.whole)
        self.assertEqual(self.query("SELECT count(*), status FROM runs"), [(1, "finished")])

    def test_ctrl_c_twice_ends_at_once(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--set",
                             "client.epochs=1000000")
        self.wait_for(lambda: self.query_or_none("SELECT count(*) FROM runs"), "the run to begin")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertLess(time.monotonic() - begin, 10)

    def query_or_none(self, sql, db="runs.sqlite"):
        try:
            rows = self.query(sql, db=db)
        except sqlite3.Error:
            return None
        return rows[0][0]

    def test_a_selection_that_remembers_goes_on_by_its_snapshot_and_by_the_rows_alone(self):
        for selection in ("weighted", "round_robin", "power_of_choice", "oort"):
            chosen = ["--set", f"selection.name={selection}", "--set", "server.clients_per_round=2",
                      "--set", "data.partition.sizes=exponential", "--set", "client.epochs=20"]
            self.simulate(*chosen, "--rounds", "20", db=f"{selection}-whole.sqlite")
            for rows_alone in (False, True):
                db = f"{selection}-{rows_alone}.sqlite"
                process = self.start("simulate", self.scenario, "--db", self.path(db), *chosen, "--rounds", "20", "--set",
                                     "run.durability=round")
                self.wait_for(lambda: (self.query_or_none("SELECT count(*) FROM rounds WHERE status = 'committed'", db) or 0) >= 3,
                              "the third commit")
                process.kill()
                process.communicate()
                if rows_alone:
                    with sqlite3.connect(self.path(db)) as connection:
                        self.assertGreater(connection.execute("DELETE FROM blob").rowcount, 0)
                self.assertLess(len(self.digests(db)), 20)
                self.simulate(*chosen, "--resume", "latest", db=db)
                self.assertEqual(self.digests(db), self.digests(f"{selection}-whole.sqlite"), (selection, rows_alone))

    def test_kill_in_mid_round_and_again(self):
        for _ in range(3):
            before = self.committed()
            arguments = ["--resume", "latest"] if before else []
            process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), *self.long, *arguments)
            self.wait_for(lambda: self.committed() >= before + 2, "two more commits")
            process.kill()
            process.communicate()
        self.assertLess(self.committed(), ROUNDS)
        self.simulate(*self.long, "--resume", "latest", "--workers", "3")
        self.assertEqual(self.digests(), self.whole)
        # Neither a row nor a model twice.
        self.assertEqual(self.query("SELECT count(*) FROM rounds"), [(ROUNDS,)])
        self.assertEqual(self.query("SELECT count(*) FROM client_rounds WHERE kind = 'train'"), [(3 * ROUNDS,)])
        self.assertEqual(len(list((self.folder / "runs.sqlite.models").rglob("*.safetensors"))), 2)
        # What clients measured is what they measure of a run that nobody killed. The measuring that a kill cut off begins again
        # where the version's model is there still, as the last one's is.
        sql = "SELECT round, client_id, name, value FROM metrics WHERE name LIKE 'evaluate/%'"
        measured, whole = self.query(sql), self.query(sql, db="whole.sqlite")
        self.assertEqual({row[0] for row in whole}, {*range(3, ROUNDS, 3), ROUNDS})
        self.assertLessEqual(set(measured), set(whole))
        self.assertEqual(max(row[0] for row in measured), ROUNDS)

    def test_finished_run_has_nothing_to_do_and_can_be_given_more_rounds(self):
        self.simulate("--rounds", "2")
        result = self.simulate("--resume", "tiny")
        self.assertIn("finished", result.err)
        self.assertRegex(result.out, r"test accuracy 0\.\d{4}")
        self.assertEqual(len(self.digests()), 2)
        self.simulate("--resume", "tiny", "--rounds", "4")
        self.simulate(db="four.sqlite")
        self.assertEqual(self.digests(), self.digests("four.sqlite"))

    def test_more_rounds_of_a_schedule_whose_length_nobody_gave(self):
        cosine = ["--set", "client.schedule.kind=cosine"]
        self.simulate("--rounds", "2", *cosine)
        before = self.digests()
        self.simulate("--rounds", "3", *cosine, "--resume", "tiny")
        after = self.digests()
        self.assertEqual(len(after), 3)
        self.assertEqual(after[:2], before)
        self.simulate("--rounds", "3", *cosine, "--set", "client.schedule.length=2", db="cosine.sqlite")
        self.assertEqual(after, self.digests("cosine.sqlite"))

    def test_a_moved_folder_another_deadline_and_staging(self):
        self.simulate(db="four.sqlite")
        four = self.digests("four.sqlite")
        self.simulate("--rounds", "2")
        moved = self.folder / "moved"
        moved.mkdir()
        for path in list(self.folder.iterdir()):
            if path != moved:
                path.rename(moved / path.name)
        self.run_rivulet("simulate", str(moved / pathlib.Path(self.scenario).name), "--db", str(moved / "runs.sqlite"),
                         "--resume", "tiny", "--rounds", "4", "--set", "server.deadline=77", "--set",
                         "server.staging_megabytes=3", code=0)
        self.assertEqual(self.digests("moved/runs.sqlite"), four)
        config = self.query("SELECT config FROM runs", db="moved/runs.sqlite")[0][0]
        self.assertIn("deadline = 77.0", config)

    def test_another_configuration_is_refused(self):
        self.simulate("--rounds", "2")
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--resume", "latest",
                                  "--rounds", "4", "--set", "client.epochs=3")
        self.assert_refused(result, "client.epochs", code=1)
        self.assertEqual(len(self.digests()), 2)

    def test_two_processes_cannot_own_one_run(self):
        process = self.begin()
        process.send_signal(signal.SIGSTOP)  # or on a loaded machine its rounds are over before the other has begun
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), *self.long, "--resume",
                                  "latest")
        process.send_signal(signal.SIGCONT)
        self.assert_refused(result, "another process", code=1)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(self.digests(), self.whole)


if __name__ == "__main__":
    main()
