"""A library of algorithms beside the program's own: what it registers runs, simulated and deployed, and one that does not
fit is refused before its code runs."""
import os
import pathlib
import shutil

from harness import RivuletTest, main

LIBRARY = os.environ["RIVULET_ALGORITHM_LIBRARY"]
LOADED = ["--algorithm-library", LIBRARY]


class AlgorithmLibrary(RivuletTest):
    def copy(self, name, was=b"", now=b""):
        """Another file of it, with some of its bytes changed."""
        text = pathlib.Path(LIBRARY).read_bytes()
        self.assertIn(was, text)
        return self.write(name, text.replace(was, now))

    def test_its_algorithm_runs_simulated_deployed_and_resumed(self):
        damped = [*LOADED, "--set", "algorithm.name=damped"]
        self.simulate(db="average.sqlite")
        self.simulate(*damped, "--set", "algorithm.damping=0", db="limit.sqlite")
        self.assertEqual(self.digests("limit.sqlite"), self.digests("average.sqlite"))
        self.simulate(*damped, "--set", "algorithm.damping=50", "--rounds", 2)
        self.simulate("--resume", "latest", "--rounds", 4, *LOADED)
        self.assertNotEqual(self.digests(), self.digests("average.sqlite"))
        # The processes of the clients inherit it.
        self.run_rivulet("up", self.scenario, "--db", self.path("up.sqlite"), "--clients", 6, *damped, "--set", "algorithm.damping=50",
                         "--rounds", 4, code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests())
        self.run_rivulet("plan", "build", self.scenario, "--out", self.path("t.plan"), *damped, code=0)

    def test_it_is_submitted_by_an_operator_and_to_a_coordinator_that_have_it(self):
        damped = ["--set", "algorithm.name=damped", "--set", "algorithm.damping=50", "--rounds", 2]
        self.simulate(*LOADED, *damped)
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), code=0)
        for loaded in ([], LOADED):
            with self.subTest(loaded):
                db = f"served{len(loaded)}.sqlite"
                coordinator = self.start("coordinator", *loaded, "--listen", "127.0.0.1:0", "--insecure", "--db", db)
                at = ["--coordinator", coordinator.stdout.readline().split()[-1], "--insecure"]
                self.follow(coordinator, db)
                without = self.run_rivulet("submit", self.scenario, *damped, *at)
                self.assert_refused(without, "algorithm.name", "damped", code=2)
                result = self.run_rivulet("submit", self.scenario, *LOADED, *damped, *at)
                if not loaded:
                    self.assert_refused(result, "algorithm.name", "the submitted scenario", "damped", code=1)
                    continue
                for data in sorted((self.folder / "clients").glob("*.tfrecord")):
                    client = self.start("client", *at, "--name", data.stem, "--data", f"train={data}", "--state", self.path(data.stem))
                    self.follow(client, data.stem)
                self.wait_for(lambda: self.committed(db) == 2, "two rounds")
                self.assertEqual(self.digests(db), self.digests())

    def test_its_selector_and_its_rule_run(self):
        chosen = ["--set", "selection.name=first_ones", "--set", "server.clients_per_round=2", "--set", "algorithm.name=midrange"]
        self.simulate(*LOADED, *chosen)
        names = self.query("SELECT DISTINCT client_id FROM client_rounds ORDER BY client_id")
        self.assertEqual(names, [("client-00000",), ("client-00001",)])
        # The middle of two is their mean.
        self.simulate("--set", "selection.name=first_ones", *LOADED, "--set", "server.clients_per_round=2", "--set", "server.weights=uniform",
                      db="mean.sqlite")
        self.assertEqual(len(self.digests()), len(self.digests("mean.sqlite")))

    def test_a_library_that_ends_the_process_is_no_success(self):
        leaving = ["simulate", self.scenario, "--algorithm-library", os.environ["RIVULET_EXITING_LIBRARY"], "--set", "algorithm.name=leaving"]
        for env in ({}, {"RIVULET_EXIT_AT_LOADING": "1"}):
            with self.subTest(env):
                result = self.run_rivulet(*leaving, env=env, code=1)
                self.assertIn("rivulet: a library ended the process before the command was done", result.err)

    def test_without_it_its_names_are_unknown(self):
        result = self.run_rivulet("simulate", self.scenario, "--set", "algorithm.name=damped")
        self.assert_refused(result, "algorithm.name", "damped")
        result = self.run_rivulet("simulate", self.scenario, *LOADED, "--set", "algorithm.name=damped", "--set", "algorithm.dampin=1")
        self.assert_refused(result, "Did you mean 'algorithm.damping'?")

    def test_what_does_not_fit_is_refused_by_what_is_wrong_with_it(self):
        mark = b"rivulet pieces:\0"
        cases = {
            self.copy("older.so", b"rivulet_algorithm_library_abi_1", b"rivulet_algorithm_library_abi_0"):
                "version 0 of the interface of algorithms, and this program has version 1; build it again",
            self.copy("other.so", mark, mark[:-1] + b"\1"): "headers than this program's",
            self.scenario: "is not a shared library",
            os.environ["RIVULET_FAULTY_WORLD"]: "one of its files must say RIVULET_ALGORITHM_LIBRARY",
            self.path("nowhere.so"): "nowhere.so",
        }
        for file, words in cases.items():
            with self.subTest(words):
                self.assert_refused(self.run_rivulet("simulate", self.scenario, "--algorithm-library", file), "--algorithm-library", words,
                                    code=2)
        twin = self.path("twin.so")
        shutil.copy(LIBRARY, twin)
        result = self.run_rivulet("simulate", self.scenario, *LOADED, "--algorithm-library", twin)
        self.assert_refused(result, "twin.so", "is there already; give it another name", code=2)
        self.run_rivulet("scenarios", *LOADED, *LOADED, code=0)  # twice the same is once


if __name__ == "__main__":
    main()
