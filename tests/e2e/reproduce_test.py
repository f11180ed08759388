"""Papers' numbers: what is wanted of them decides the exit code, and what is shipped is sound."""
import json
import os
import pathlib
import shutil

from harness import RIVULET, SCENARIO, RivuletTest, main

PAPERS = pathlib.Path(__file__).parents[2] / "simulations/papers"


class Reproduce(RivuletTest):
    def setUp(self):
        super().setUp()
        # Papers are found beside the program, so a program stands beside these.
        self.program = self.path("bin/rivulet")
        os.makedirs(self.path("bin"))
        shutil.copy2(RIVULET, self.program)

    def paper(self, name="tiny-paper", scenario=SCENARIO, **expected):
        self.write(f"share/rivulet/papers/{name}.toml", "# A paper of this test.\n" + scenario.replace('name = "tiny"', f'name = "{name}"'))
        self.write(f"share/rivulet/papers/{name}.expected.json", json.dumps({"source": "nobody, Table 0", **expected}))

    def reproduce(self, *arguments, **kwargs):
        import subprocess
        from harness import Result
        done = subprocess.run([self.program, "reproduce", *arguments], cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=120)
        result = Result(done.returncode, done.stdout, done.stderr)
        if "code" in kwargs:
            self.assertEqual(result.code, kwargs["code"], result)
        return result

    def values(self, run_id):
        return [value for (value,) in self.query("SELECT value FROM metrics WHERE run_id = ? AND scope = 'central' AND name = "
                                                 "'test/accuracy' ORDER BY round", run_id, db="rivulet.sqlite")]

    def test_virtual_seconds_are_those_of_the_devices(self):
        rounds = {"rounds": 6, "set": ["devices.delay='7'"], "target": 0.3}
        self.paper(results=[
            {"name": "rounds", "measure": "rounds", **rounds},
            {"name": "seconds", "measure": "virtual_seconds", **rounds, "at_most_beside": {"of": "rounds", "times": 7.01}},
            {"name": "faster", "measure": "virtual_seconds", **rounds, "at_most_beside": {"of": "seconds", "times": 0.5}},
            {"name": "without", "measure": "virtual_seconds", "rounds": 6, "target": 0.3, "at_most": 100}])
        results = {result["name"]: result for result in json.loads(self.reproduce("tiny-paper", "--json", code=1).out)["results"]}
        self.assertAlmostEqual(results["seconds"]["value"], 7 * results["rounds"]["value"], places=4)
        self.assertEqual([result["missed"] for result in results.values()],
                         ["", "", f"at most {results['seconds']['value'] / 2:.4g}", "no value"])

    def test_values_are_those_of_the_history_and_bounds_decide(self):
        rates = ["client.optimizer.learning_rate=0.001,0.1"]
        self.paper(seeds=2, results=[
            {"name": "last", "rounds": 3, "published": 0.5, "at_least": 0.01},
            {"name": "tuned", "rounds": 3, "grid": rates, "measure": "best", "at_least_beside": {"of": "last"}},
            {"name": "rounds", "rounds": 6, "measure": "rounds", "target": 0.3, "at_most": 6},
            {"name": "never", "rounds": 2, "measure": "rounds", "target": 1.1, "at_most": 2},
            {"name": "beyond", "rounds": 3, "at_least": 2, "at_most_beside": {"of": "last", "by": -0.5}}])
        told = self.reproduce("tiny-paper", "--json", code=1)
        self.assertIn("2 of 5 results of 'tiny-paper' differ from what was wanted", told.err)
        results = {result["name"]: result for result in json.loads(told.out)["results"]}
        self.assertEqual([result["missed"] for result in results.values()], ["", "", "", "no value", "at least 2, at most "
                                                                             f"{results['last']['value'] - 0.5:.4g}"])
        runs = self.query("SELECT r.run_id, r.seed, k.value, (SELECT max(round) FROM rounds WHERE run_id = r.run_id) FROM runs r JOIN run_keys k "
                          "USING (run_id) WHERE k.key = 'client.optimizer.learning_rate' ORDER BY r.created_at", db="rivulet.sqlite")
        three = {(seed, rate): self.values(run) for run, seed, rate, rounds in runs if rounds == 3}
        self.assertEqual(len(three), 4)  # "beyond" and half of "tuned" are runs of "last"
        self.assertAlmostEqual(results["last"]["value"], (three[7, "0.1"][-1] + three[8, "0.1"][-1]) / 2)
        best = {rate: (max(three[7, rate]) + max(three[8, rate])) / 2 for rate in ("0.001", "0.1")}
        self.assertAlmostEqual(results["tuned"]["value"], max(best.values()))
        self.assertEqual(results["tuned"]["setting"], {"client.optimizer.learning_rate": max(best, key=best.get)})
        to_target = [self.values(run) for run, in self.query("""SELECT run_id FROM runs WHERE config LIKE '%>= 0.3"%'""", db="rivulet.sqlite")]
        self.assertAlmostEqual(results["rounds"]["value"], sum(self.rounds_to(values, 0.3) for values in to_target) / 2)
        for values in to_target:  # what comes after the target is not measured, and is not run
            self.assertLess(len(values), 6)
            self.assertEqual([value >= 0.3 for value in values], [False] * (len(values) - 1) + [True])
        self.assertIsNone(results["never"]["value"])
        table = self.reproduce("tiny-paper", "--only", "tuned", code=0).out
        self.assertIn("nobody, Table 0", table)
        self.assertRegex(table, r"tuned +best test/accuracy +0\.\d+ ± \S+ +- +at least last\+0 .*as wanted")
        self.assertNotIn("never", table)
        self.assertIn("0.5", self.reproduce("tiny-paper", "--only", "last", code=0).out)
        self.assertIn("holds nothing", self.reproduce("tiny-paper", "--quick", code=0).out)

    def test_a_part_is_run_alone_and_what_is_gathered_counts(self):
        rates = ["client.optimizer.learning_rate=0.001,0.1,0.2"]
        self.paper(seeds=2, results=[
            {"name": "tuned", "rounds": 3, "grid": rates, "measure": "last", "at_least": 2, "plain_loop": "0.31, one seed"},
            {"name": "beside", "rounds": 2, "at_least_beside": {"of": "tuned", "by": -1}}])

        def told(*arguments, code=0):
            return {result["name"]: result for result in json.loads(self.reproduce("tiny-paper", "--json", *arguments, code=code).out)["results"]}

        def runs():
            return len(self.query("SELECT run_id FROM runs", db="rivulet.sqlite"))

        part = told("--only", "tuned", "--seeds", "1", "--setting", "client.optimizer.learning_rate=0.1")["tuned"]
        self.assertEqual((part["settings"], part["settings_done"], part["missed"]), (3, 1, ""), "more settings may still come to it")
        run, = self.query("SELECT run_id FROM runs", db="rivulet.sqlite")[0]
        self.assertAlmostEqual(part["value"], self.values(run)[-1])
        self.assertEqual(part["plain_loop"], "0.31, one seed")
        gathered = told("--gathered")  # of the paper's two seeds none is whole
        self.assertEqual([(result["settings_done"], result["value"]) for result in gathered.values()], [(0, None), (0, None)])
        table = self.reproduce("tiny-paper", "--gathered", "--seeds", "1", "--plot", "parts.svg", code=0).out
        self.assertRegex(table, r"tuned +last test/accuracy +0\.\d+ .*0\.31, one seed .*1 of 3 settings")
        self.assertRegex(table, r"beside +last test/accuracy +not run")
        self.assertIn("tuned, client.optimizer.learning_rate=0.1", (self.folder / "parts.svg").read_text())
        self.assertEqual(runs(), 1, "gathering runs nothing")
        whole = told("--seeds", "1", code=1)
        self.assertEqual(runs(), 4)
        self.assertEqual((whole["tuned"]["settings_done"], whole["tuned"]["missed"], whole["beside"]["missed"]), (3, "at least 2", ""))
        for wrong, *fragments in [(("--setting", "client.optimizer.learning_rate=7"), "'tuned'", "learning_rate=0.2"),
                                  (("--setting", "client.optimizer.learning_raet=0.1"), "Did you mean 'client.optimizer.learning_rate'?"),
                                  (("--setting", "fast"), "KEY=VALUE", "'fast'"), (("--quick", "--gathered"), "--quick"),
                                  (("--plot", "parts.gif"), "--plot", ".svg")]:
            self.assert_refused(self.reproduce("tiny-paper", *wrong), *fragments, code=2)

    @staticmethod
    def rounds_to(values, target):
        best, before = None, 0
        for number, value in enumerate(values, 1):
            if value >= target:
                return number if best is None or value == best else before + (number - before) * (target - best) / (value - best)
            best, before = max(value, best if best is not None else value), number
        return None

    def test_what_is_wrong_in_a_file_is_named(self):
        for expected, *fragments in [
                ({"results": [{"name": "a", "rounds": 1, "at_mots": 3}]}, "'at_mots'", "Did you mean 'at_most'?"),
                ({"results": [{"name": "a"}]}, "has no 'rounds'"), ({"results": [{"name": "a", "rounds": 0}]}, "'rounds'", "is 0"),
                ({"results": []}, "no list of 'results'"), ({"results": [{"name": "a", "rounds": 1, "measure": "mean"}]}, "'mean'"),
                ({"results": [{"name": "a", "rounds": 1, "at_least_beside": {"of": "b"}}]}, "'b'", "no earlier result")]:
            self.paper(**expected)
            self.assert_refused(self.reproduce("tiny-paper"), *fragments)
        self.paper(results=[{"name": "a", "rounds": 1}])
        self.assert_refused(self.reproduce("tiny-papre"), "Did you mean 'tiny-paper'?", code=2)
        self.assert_refused(self.reproduce("tiny-paper", "--only", "b"), "no result 'b'", code=2)


class Shipped(RivuletTest):
    def test_every_setting_of_every_paper_makes_a_plan(self):
        listed = self.run_rivulet("reproduce", code=0).out
        papers = sorted(PAPERS.glob("*.toml"))
        self.assertGreaterEqual(len(papers), 6)
        for scenario in papers:
            self.assertIn(f"{scenario.stem}\n    {scenario.read_text().splitlines()[0].removeprefix('# ')}\n", listed)
            expected = json.loads(scenario.with_suffix(".expected.json").read_text())
            self.assertTrue(expected["source"])
            for result in expected["results"]:
                with self.subTest(f"{scenario.stem}: {result['name']}"):
                    sets = result.get("set", []) + [f"{axis.split('=')[0]}={value}" for axis in result.get("grid", [])
                                                    for value in axis.split("=")[1].split(",")[:1]]
                    # What a client attacks with is no part of a plan, and is refused where real clients train.
                    sets = [word for word in sets if not word.startswith("attack.")]
                    self.run_rivulet("plan", "build", scenario.stem, *(word for one in sets for word in ("--set", one)), "--out",
                                     self.path("a.plan"), code=0)


if __name__ == "__main__":
    main()
