"""Sweeps: settings times seeds in one history, told as a table, gone on with where they were killed."""
import json
import pathlib
import signal
import time

from harness import RivuletTest, main

RATE = "client.optimizer.learning_rate"


class Sweep(RivuletTest):
    def sweep(self, *arguments, **kwargs):
        return self.run_rivulet("sweep", self.scenario, "--db", self.path("runs.sqlite"), *arguments, **kwargs)

    def test_settings_times_seeds_are_the_runs_that_simulate_makes(self):
        told = json.loads(self.sweep("--grid", f"{RATE}=0.01,0.1", "--seeds", 3, "--json", code=0).out)
        self.assertEqual([point["set"] for point in told["points"]], [{RATE: "0.01"}, {RATE: "0.1"}])
        self.assertEqual((told["name"], told["tag"], told["metric"]), ("tiny", "sweep-tiny", "test/accuracy"))
        runs = [run for point in told["points"] for run in point["runs"]]
        self.assertEqual([run["seed"] for run in runs], [7, 8, 9] * 2)
        self.assertEqual({run["status"] for run in runs}, {"finished"})
        # Parts that runs share change no bit: of the last one too, whose plan, data and programs others made.
        self.simulate("--set", f"{RATE}=0.1", "--seed", 9, db="alone.sqlite")
        self.assertEqual(self.digests(run=runs[-1]["run_id"]), self.digests("alone.sqlite"))
        for point in told["points"]:
            values = [self.query("SELECT value FROM metrics WHERE run_id = ? AND scope = 'central' AND name = 'test/accuracy' "
                                 "ORDER BY round", run["run_id"]) for run in point["runs"]]
            last, best = [run[-1][0] for run in values], [max(run)[0] for run in values]
            mean = sum(last) / 3
            self.assertAlmostEqual(point["last_mean"], mean)
            self.assertAlmostEqual(point["last_deviation"], (sum((v - mean) ** 2 for v in last) / 2) ** 0.5)
            self.assertAlmostEqual(point["best_mean"], sum(best) / 3)
        best = max(told["points"], key=lambda point: point["last_mean"])
        self.assertEqual(told["best"], best["set"])
        # By its tag the history finds the sweep, and by its keys what differed.
        self.assertEqual(self.query("SELECT value, count(*) FROM run_keys JOIN tags USING (run_id) WHERE key = ? AND tag = "
                                    "'sweep-tiny' GROUP BY value ORDER BY value", RATE), [("0.01", 3), ("0.1", 3)])

    def test_table_and_plot(self):
        out = self.sweep("--list", f"{RATE}=0.01,0.1", "--list", "client.epochs=1,2", "--plot", self.path("s.svg"), "--best",
                         "test/loss", "--tag", "night", code=0).out
        lines = out.splitlines()
        self.assertEqual(lines[0], "test/loss")
        self.assertRegex(lines[1], r"learning_rate +epochs +runs +failed +last +best$")
        self.assertRegex(lines[3], r"^\* +0\.1\d* +2 +1 +0 +\d\.\d{4} +\d\.\d{4}$")
        self.assertIn(f"best     {RATE}=0.1, client.epochs=2, test/loss", out)
        self.assertIn("tag night", lines[-1])
        picture = pathlib.Path(self.path("s.svg")).read_text()
        self.assertIn("epochs=1", picture)
        self.assertIn("epochs=2", picture)
        self.assert_refused(self.sweep("--best", "test/los"), "'test/los'", "Did you mean 'test/loss'?", code=1)

    def test_what_is_done_is_not_done_again(self):
        self.simulate("--set", f"{RATE}=0.1")  # one that nobody swept
        self.sweep("--grid", f"{RATE}=0.1", code=0)
        self.assertEqual(self.query("SELECT count(*) FROM runs"), [(1,)])
        self.sweep("--grid", f"{RATE}=0.1,0.2", "--seeds", 2, code=0)
        before = self.query("SELECT run_id, version, finished_at FROM runs ORDER BY run_id")
        self.assertEqual(len(before), 4)
        again = self.sweep("--grid", f"{RATE}=0.2,0.1", "--seeds", 2, code=0)
        self.assertEqual(self.query("SELECT run_id, version, finished_at FROM runs ORDER BY run_id"), before)
        self.assertEqual(again.err.count("had finished"), 4)
        self.sweep("--grid", f"{RATE}=0.2", "--rounds", 5, code=0)
        self.assertEqual(self.query("SELECT count(*) FROM runs"), [(5,)])

    def test_a_deployed_run_that_says_the_same_is_none_of_it(self):
        self.run_rivulet("up", self.scenario, "--clients", 6, "--db", self.path("runs.sqlite"), "--set", f"{RATE}=0.1", code=0)
        deployed = self.query("SELECT run_id, finished_at FROM runs")
        told = json.loads(self.sweep("--grid", f"{RATE}=0.1", "--json", code=0).out)
        self.assertNotEqual(told["points"][0]["runs"][0]["run_id"], deployed[0][0])
        self.assertEqual(self.query("SELECT count(*) FROM runs"), [(2,)])
        self.assertEqual(self.query("SELECT run_id, finished_at FROM runs ORDER BY created_at LIMIT 1"), deployed)

    def killed(self, how):
        """A sweep of six that is ended in the midst of its third run or later, and what it had finished."""
        process = self.start("sweep", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", 60, "--grid", f"{RATE}=0.01,0.1",
                             "--seeds", 3, "--set", "run.durability=round")

        def third():
            try:
                return len(self.query("SELECT 1 FROM runs")) >= 3
            except Exception:  # there is no history yet
                return False
        self.wait_for(third, "the third run")
        time.sleep(0.02)
        process.send_signal(how)
        process.wait(60)
        return process, dict(self.query("SELECT run_id, finished_at FROM runs WHERE status = 'finished'"))

    def go_on(self, done):
        told = json.loads(self.sweep("--rounds", 60, "--grid", f"{RATE}=0.01,0.1", "--seeds", 3, "--set", "run.durability=round", "--json",
                                     code=0).out)
        finished = dict(self.query("SELECT run_id, finished_at FROM runs WHERE status = 'finished'"))
        self.assertEqual(len(finished), 6)
        self.assertEqual(self.query("SELECT count(*) FROM runs"), [(6,)])  # the one in the midst went on
        for run_id, at in done.items():
            self.assertEqual(finished[run_id], at)
        self.assertEqual(self.query("SELECT count(*) FROM tags WHERE tag = 'sweep-tiny'"), [(6,)])
        last = told["points"][1]["runs"][0]
        self.simulate("--rounds", 60, "--set", f"{RATE}=0.1", "--seed", last["seed"], db="alone.sqlite")
        self.assertEqual(self.digests(run=last["run_id"]), self.digests("alone.sqlite"))

    def test_killed_it_goes_on(self):
        _, done = self.killed(signal.SIGKILL)
        self.assertGreaterEqual(len(done), 2)
        self.go_on(done)

    def test_interrupted_it_says_so_and_goes_on(self):
        process, done = self.killed(signal.SIGINT)
        self.assertEqual(process.returncode, 1)
        self.assertIn("the same command resumes", process.stderr.read())
        self.assertGreaterEqual(len(done), 2)
        self.go_on(done)

    def test_a_run_that_fails_is_told_of_and_the_others_go_on(self):
        told = self.sweep("--grid", f"{RATE}=1e6,0.1", "--set", "server.max_attempts=1", "--json")
        self.assertEqual(told.code, 0, told)
        points = json.loads(told.out)["points"]
        self.assertEqual([run["status"] for point in points for run in point["runs"]], ["failed", "finished"])
        self.assertNotIn("last_mean", points[0])
        self.assertEqual(json.loads(told.out)["best"], {RATE: "0.1"})
        self.assertIn("it failed", told.err)
        # Given again it goes on from where it failed, and fails there again.
        again = self.sweep("--grid", f"{RATE}=1e6,0.1", "--set", "server.max_attempts=1", "--json")
        self.assertEqual(again.out, told.out)
        self.assertIn("it failed", again.err)
        self.assertEqual(self.query("SELECT count(*) FROM runs"), [(2,)])

    def test_what_is_wrong_is_said_before_anything_is_run(self):
        for arguments, *fragments in [
                (["--grid", "client.epoch=1"], "client.epoch", "Did you mean 'client.epochs'?"),
                (["--grid", "client.epochs=1,many"], "2 of 2", "client.epochs"),
                (["--grid", "client.epochs"], "KEY=VALUES"),
                (["--random", f"{RATE}=0.1:0.2"], "draws"),
                (["--plot", "s.gif"], "--plot", "s.gif")]:
            self.assert_refused(self.sweep(*arguments), *fragments, code=2)
        self.assertFalse(pathlib.Path(self.path("runs.sqlite")).exists())


if __name__ == "__main__":
    main()
