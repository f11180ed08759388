"""Scenarios that come with the program, by name from any folder; and new ones."""
import json
import os
import pathlib

from harness import RivuletTest, main

SHIPPED = pathlib.Path(__file__).parents[2] / "simulations/scenarios"
SMALL = ["--rounds", 1, "--set", "data.synth.writers=4", "--set", "data.synth.test_writers=1", "--set", "data.synth.examples_per_writer=6",
         "--set", "server.clients_per_round=2"]


class Scenarios(RivuletTest):
    def test_all_that_are_shipped_are_listed_with_what_their_files_begin_with(self):
        out = self.run_rivulet("scenarios", code=0).out
        for file in sorted(SHIPPED.glob("*.toml")):
            self.assertIn(f"{file.stem}\n    {file.read_text().splitlines()[0].removeprefix('# ')}\n", out)

    def test_by_name_it_is_the_run_of_its_file_with_data_here_or_where_is_said(self):
        here, there = self.path("here"), self.path("there")
        os.makedirs(here)
        for folder, environment in ((here, {}), (there, {"RIVULET_DATA": there})):
            self.run_rivulet("simulate", "quickstart", *SMALL, "--db", f"{folder}.sqlite", cwd=here, env=environment, code=0)
            self.assertTrue(pathlib.Path(folder, "data/digits-4-1-6-1/train.tfrecord").exists())
        self.assertEqual(self.digests("here.sqlite"), self.digests("there.sqlite"))
        self.assertEqual(self.query("SELECT name FROM runs", db="here.sqlite"), [("quickstart",)])

    def test_a_folder_of_that_name_is_not_the_scenario(self):
        os.makedirs(self.path("quickstart"))
        self.run_rivulet("simulate", "quickstart", *SMALL, "--db", "named.sqlite", code=0)
        self.assertEqual(self.query("SELECT name FROM runs", db="named.sqlite"), [("quickstart",)])

    def test_a_name_that_is_none_is_told_the_nearest(self):
        self.assert_refused(self.run_rivulet("simulate", "quickstrat"), "no file 'quickstrat'", "Did you mean 'quickstart'?")

    def test_where_its_data_is_not_there_it_is_told_how_to_get(self):
        self.assert_refused(self.run_rivulet("simulate", "mnist-logistic"), "mnist/train.tfrecord: no such file",
                            "'rivulet data import mnist --from FOLDER --out mnist' makes it")

    def test_a_new_one_runs_and_is_never_written_over(self):
        self.run_rivulet("new", self.path("mine.toml"), code=0)
        self.run_rivulet("simulate", self.path("mine.toml"), *SMALL, "--db", self.path("mine.sqlite"), code=0)
        self.assertEqual(len(self.digests("mine.sqlite")), 1)
        self.assert_refused(self.run_rivulet("new", self.path("mine.toml")), "is there already")
        self.run_rivulet("new", self.path("theirs.toml"), "--from", "mnist-fedavg", code=0)
        self.assertEqual(pathlib.Path(self.path("theirs.toml")).read_text(), (SHIPPED / "mnist-fedavg.toml").read_text())

    def test_seed_is_the_key(self):
        self.simulate("--rounds", 1, "--seed", 5, db="option.sqlite")
        self.simulate("--rounds", 1, "--set", "run.seed=5", db="key.sqlite")
        self.assertEqual(self.digests("option.sqlite"), self.digests("key.sqlite"))
        self.assertEqual(self.query("SELECT seed FROM runs", db="option.sqlite"), [(5,)])

    def test_a_dry_run_says_what_would_be_and_leaves_no_history(self):
        out = self.run_rivulet("simulate", self.scenario, "--rounds", 3, "--dry-run", "--workers", 2, code=0).out
        for fragment in ("3 rounds of", "parameters; an update is", "a client", "for 2 workers", "tasks of", "evaluations of"):
            self.assertIn(fragment, out)
        told = json.loads(self.run_rivulet("simulate", self.scenario, "--rounds", 3, "--dry-run", "--json", code=0).out)
        self.assertEqual((told["rounds"], told["tasks"]), (3, 3 * told["clients_per_round"]))
        self.assertGreater(told["memory_bytes"], 3 * 4 * told["parameters"])
        self.assertGreater(told["task_seconds"], 0)
        self.assertGreater(told["evaluate_seconds"], 0)
        self.assertGreater(told["seconds"], told["evaluate_seconds"])
        self.assertLess(told["seconds"], 60)  # of some nine tasks of a tenth of a second
        self.assertFalse(pathlib.Path(self.path("rivulet.sqlite")).exists())
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--dry-run", "--replay", "latest"), "--dry-run")


if __name__ == "__main__":
    main()
