"""Aggregation by a function in Python: rivulet.simulate(aggregate=f) and --aggregate MODULE:FUNCTION."""

import os
import pathlib
import sys
import unittest.mock

import packaged
import harness
import rivulet

MODULE = '''
import os, signal, time
import numpy as np

def mean(updates, state):
    """FedAvg's own mean: sums of whole multiples of a power of two in double, divided once."""
    weights = sum(update.weight for update in updates)
    return {name: (sum(update.weight * update.delta[name].astype(np.float64) for update in updates) / weights).astype(np.float32)
            for name in updates[0].delta}

def median(updates, state):
    return {name: np.median(np.stack([update.delta[name] for update in updates]), axis=0) for name in updates[0].delta}

def momentum(updates, state):
    step = mean(updates, None)
    if state is not None:
        step = {name: 0.5 * state[name] + step[name] for name in step}
    return step, step

def seen(updates, state):
    """What it was given, for the test to read."""
    with open("seen.txt", "a") as file:
        file.write(" ".join(f"{update.client}:{update.weight:g}" for update in updates) + "\\n")
    assert all(not array.flags.writeable for update in updates for array in update.delta.values())
    print("for people")
    return mean(updates, state)

def nothing(updates, state): pass
def raises(updates, state): raise ValueError("no majority")
def nan(updates, state): return {name: array * np.nan for name, array in updates[0].delta.items()}
def shape(updates, state): return {name: array.ravel() for name, array in updates[0].delta.items()}
def lacks(updates, state): return {}
def unknown(updates, state): return {**updates[0].delta, "more": np.zeros(3)}
def text(updates, state): return {name: np.full(array.shape, "x") for name, array in updates[0].delta.items()}
def dies(updates, state): os.kill(os.getpid(), signal.SIGKILL)
def hangs(updates, state): time.sleep(60)
def unstored(updates, state): return dict(updates[0].delta), open(os.devnull)
'''


@packaged.needs_grpc
class Aggregate(packaged.ProgramTest):
    def setUp(self):
        super().setUp()
        self.work_in_folder()
        self.write("own_rules.py", MODULE)
        path = [str(packaged.ROOT / "python"), str(self.folder)]
        patched = unittest.mock.patch.dict(os.environ, {"PYTHONPATH": os.pathsep.join(path), "RIVULET_PYTHON": sys.executable})
        patched.start()
        self.addCleanup(patched.stop)

    def model(self, db):
        return rivulet.open(db).run("latest").model()

    def assert_near(self, ours, theirs, tolerance=1e-6):
        import numpy as np

        a, b = self.model(ours), self.model(theirs)
        self.assertEqual(list(a), list(b))
        for name in a:
            self.assertLessEqual(float(np.abs(a[name] - b[name]).max()), tolerance, name)

    def test_a_weighted_mean_is_fedavg_and_a_median_the_median(self):
        self.simulate("--aggregate", "own_rules:mean", db="mean.sqlite")
        self.simulate(db="fedavg.sqlite")
        self.assert_near("mean.sqlite", "fedavg.sqlite")
        self.simulate("--aggregate", "own_rules:median", "--set", "server.weights=uniform", db="own.sqlite")
        self.simulate("--set", "algorithm.name=median", db="median.sqlite")
        self.assert_near("own.sqlite", "median.sqlite")
        keys = dict(self.query("SELECT key, value FROM run_keys", db="mean.sqlite"))
        self.assertEqual((keys["algorithm.name"], keys["algorithm.function"]), ('"external"', '"own_rules:mean"'))

    def test_it_sees_clients_and_weights_read_only_and_may_print(self):
        result = self.simulate("--aggregate", "own_rules:seen", "--json")
        lines = (self.folder / "seen.txt").read_text().splitlines()
        self.assertEqual(len(lines), 4)
        rounds = self.query("SELECT round, client_id, examples FROM client_rounds ORDER BY round, client_id")
        for round in range(1, 5):
            expected = [f"{client}:{examples}" for number, client, examples in rounds if number == round]
            self.assertEqual(sorted(lines[round - 1].split()), expected)
        self.assertNotIn("for people", result.out)

    def test_a_resumed_run_continues_with_the_state(self):
        self.simulate("--aggregate", "own_rules:momentum", db="whole.sqlite")
        self.simulate("--aggregate", "own_rules:momentum", "--rounds", "2")
        refused = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--resume", "latest", "--rounds", "4")
        self.assert_refused(refused, "aggregated by a function in Python", '"own_rules:momentum"', "--aggregate", code=2)
        other = self.run_rivulet(
            "simulate", self.scenario, "--db", self.path("runs.sqlite"), "--resume", "latest", "--aggregate", "own_rules:mean"
        )
        self.assert_refused(other, "algorithm.function")
        self.simulate("--aggregate", "own_rules:momentum", "--rounds", "4", "--resume", "latest")
        self.assertEqual(self.digests(), self.digests("whole.sqlite"))
        (states,) = {tuple(sorted(path.name for path in folder.glob("aggregate-*"))) for folder in (self.folder / "runs.sqlite.models").iterdir()}
        self.assertEqual(states, tuple(f"aggregate-{round}.pickle" for round in range(1, 5)))
        next((self.folder / "runs.sqlite.models").glob("*/aggregate-4.pickle")).unlink()
        lost = self.run_rivulet(
            "simulate", self.scenario, "--db", self.path("runs.sqlite"), "--resume", "latest", "--aggregate", "own_rules:momentum", "--rounds", "5"
        )
        self.assert_refused(lost, "state of version 4 is missing", code=1)
        self.run_rivulet("runs", "prune", "--db", self.path("runs.sqlite"), "--keep", "0", "--yes", code=0)
        self.assertEqual(list((self.folder / "runs.sqlite.models").iterdir()), [])

    def test_what_a_function_does_wrong_fails_the_round_with_a_sentence(self):
        for name, sentence in (
            ("nothing", "it returned nothing; it has to return the model's change"),
            ("raises", "it raised ValueError at own_rules.py:"),
            ("nan", "has NaN or infinity"),
            ("shape", "has the shape (7840,), not (784, 10)"),
            ("lacks", "it returned no '"),
            ("unknown", "it returned 'more', which is no variable of the model"),
            ("text", "not numbers"),
            ("dies", "its process was ended by signal 9"),
            ("hangs", "it did not answer within 2 s; --aggregate-seconds allows it more"),
            ("unstored", "its state cannot be stored"),
        ):
            with self.subTest(name):
                db = self.path(f"{name}.sqlite")
                result = self.run_rivulet(
                    "simulate", self.scenario, "--db", db, "--aggregate", f"own_rules:{name}", "--aggregate-seconds", "2"
                )
                self.assertEqual(result.code, 1, result)
                self.assertIn("round 1 cannot be committed", result.err)
                self.assertIn(f"--aggregate own_rules:{name}: ", result.err)
                self.assertIn(sentence, result.err)
                self.assertEqual(self.query("SELECT status FROM rounds", db=f"{name}.sqlite"), [("failed",)])

    def test_what_does_not_go_together_is_refused_by_name(self):
        for arguments, fragments in (
            (["--aggregate", "own_rules"], ["'own_rules' is not MODULE:FUNCTION"]),
            (["--aggregate", "no_such_module:f"], ["no_such_module", "cannot be imported"]),
            (["--aggregate", "own_rules:no_such"], ["has no function 'no_such'"]),
            (["--aggregate", "own_rules:mean", "--set", "algorithm.name=median"], ["median", "--aggregate"]),
            (["--aggregate", "own_rules:mean", "--set", "update.codec=int8"], ["update.codec", "int8"]),
            (["--aggregate", "own_rules:mean", "--set", "privacy.clip=1"], ["privacy.clip"]),
            (["--aggregate", "own_rules:mean", "--set", "server.base=latest"], ["server.base", "external"]),
            (["--aggregate", "own_rules:mean", "--set", "algorithm.name=fedbuff"], ["fedbuff", "--aggregate"]),
            (["--set", "algorithm.name=external"], ["--aggregate MODULE:FUNCTION"]),
            (["--aggregate-seconds", "3"], ["--aggregate-seconds", "give both"]),
        ):
            with self.subTest(arguments[-1]):
                result = self.run_rivulet("simulate", self.scenario, "--db", self.path("refused.sqlite"), *arguments)
                self.assert_refused(result, *fragments)
        refused = self.run_rivulet(
            "coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--aggregators", "--aggregate", "own_rules:mean"
        )
        self.assert_refused(refused, "--aggregators", "--aggregate", code=2)
        with unittest.mock.patch.dict(os.environ, {"RIVULET_PYTHON": "no-such-python"}):
            result = self.run_rivulet("simulate", self.scenario, "--db", self.path("refused.sqlite"), "--aggregate", "own_rules:mean")
        self.assert_refused(result, "no program 'no-such-python'", "RIVULET_PYTHON", code=1)

    def test_a_deployed_run_has_the_bits_of_a_simulated_one(self):
        self.simulate("--aggregate", "own_rules:momentum", db="whole.sqlite")
        coordinator = self.start(
            "coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path("deployed.sqlite"),
            "--aggregate", "own_rules:momentum",
        )
        address = coordinator.stdout.readline().removeprefix("listening on ").strip()
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), code=0)
        clients = [
            self.start("client", "--coordinator", address, "--insecure", "--name", f"client-{i:05}",
                       "--data", f"train={self.path('clients')}/client-{i:05}.tfrecord", "--state", self.path(f"state-{i}"))
            for i in range(6)
        ]
        for process in (*clients, coordinator):
            self.assertEqual(process.wait(timeout=120), 0)
        self.assertEqual(self.digests("deployed.sqlite"), self.digests("whole.sqlite"))

    def test_processes_of_up_and_runs_of_a_sweep_are_aggregated_too(self):
        self.simulate("--aggregate", "own_rules:momentum", db="whole.sqlite")
        expected = self.digests("whole.sqlite")
        momentum = ("--aggregate", "own_rules:momentum")
        self.run_rivulet("up", self.scenario, "--clients", 6, *momentum, "--db", self.path("up.sqlite"), code=0)
        self.assertEqual(self.digests("up.sqlite"), expected)
        lost = self.run_rivulet("up", self.scenario, "--clients", 6, "--aggregate", "no_such_module:f", "--db", self.path("lost.sqlite"))
        self.assert_refused(lost, "no_such_module", "cannot be imported", code=1)
        raised = self.run_rivulet("up", self.scenario, "--clients", 6, "--aggregate", "own_rules:raises", "--db", self.path("raised.sqlite"))
        self.assertEqual(raised.code, 1, raised)
        self.assertIn("it raised ValueError at own_rules.py:", raised.err)
        self.assert_refused(
            self.run_rivulet("up", self.scenario, "--clients", 6, "--set", "algorithm.name=external"), "--aggregate MODULE:FUNCTION", code=2
        )

        rates = ("--list", "server.learning_rate=1,0.5", "--db", self.path("sweep.sqlite"))
        swept = self.run_rivulet("sweep", self.scenario, *momentum, *rates, code=0)
        self.assertRegex(swept.out, r"(?m)^ +0\.5000 +1 +0 ")
        runs = self.query("SELECT run_id FROM runs ORDER BY created_at, run_id", db="sweep.sqlite")
        self.assertEqual(len(runs), 2)
        for (run,) in runs:  # each with its own states
            states = sorted(path.name for path in (self.folder / "sweep.sqlite.models" / run).glob("aggregate-*"))
            self.assertEqual(states, [f"aggregate-{round}.pickle" for round in range(1, 5)])
        models = {digest for (digest,) in self.query("SELECT model_digest FROM rounds", db="sweep.sqlite")}
        self.assertLessEqual({digest for (digest,) in self.query("SELECT model_digest FROM rounds", db="whole.sqlite")}, models)
        self.run_rivulet("sweep", self.scenario, *momentum, *rates, code=0)
        self.assertEqual(self.query("SELECT run_id FROM runs ORDER BY created_at, run_id", db="sweep.sqlite"), runs)
        failed = self.run_rivulet("sweep", self.scenario, "--aggregate", "own_rules:raises", *rates[:2], "--db", self.path("bad.sqlite"), code=0)
        reasons = [line for line in failed.err.splitlines() if "it failed: " in line]
        self.assertEqual(len(reasons), 2)
        self.assertTrue(all("it raised ValueError at own_rules.py:" in reason for reason in reasons))
        self.assert_refused(
            self.run_rivulet("sweep", self.scenario, "--set", "algorithm.name=external", *rates), "--aggregate MODULE:FUNCTION", code=2
        )

    def test_where_no_function_can_be_called_the_run_is_refused_by_name(self):
        self.simulate("--aggregate", "own_rules:mean", "--rounds", "2")
        external = ("--set", "algorithm.name=external", "--set", "algorithm.function=own_rules:mean")
        submitted = self.run_rivulet("submit", self.scenario, *external, "--coordinator", "127.0.0.1:1", "--insecure")
        self.assert_refused(submitted, "calls no function for submitted runs", "--aggregate MODULE:FUNCTION", code=2)
        service = ("coordinator", "--listen", "127.0.0.1:0", "--insecure", "--db", self.path("runs.sqlite"))
        self.assert_refused(self.run_rivulet(*service, "--resume", "latest"), "calls no function for submitted runs", code=1)
        verified = self.run_rivulet("runs", "verify", "latest", "--db", self.path("runs.sqlite"))
        self.assert_refused(verified, "cannot be replayed", "a function in Python", code=1)
        self.run_rivulet("plan", "build", self.scenario, *external, "--out", self.path("own.plan"), code=0)
        planned = ("coordinator", self.scenario, *service[1:], "--plan", self.path("own.plan"))
        self.assert_refused(self.run_rivulet(*planned), "the plan's updates", "--aggregate own_rules:mean", code=2)
        other = self.run_rivulet(*planned, "--aggregate", "own_rules:median")
        self.assert_refused(other, "names the function 'own_rules:mean'", "own_rules:median", code=2)
        coordinator = self.start(*planned, "--aggregate", "own_rules:mean")
        self.assertIn("listening on ", coordinator.stdout.readline())
        coordinator.terminate()
        coordinator.wait(timeout=60)
        self.run_rivulet("plan", "build", self.scenario, "--out", self.path("fedavg.plan"), code=0)
        plain = self.run_rivulet(*planned[:-1], self.path("fedavg.plan"), "--aggregate", "own_rules:mean")
        self.assert_refused(plain, "the plan aggregates by", "fedavg", code=2)

    def test_a_function_of_this_process_by_simulate(self):
        import numpy as np

        def halved(updates, state):
            weights = sum(update.weight for update in updates)
            count = (state or 0) + 1
            return {
                name: sum(update.weight * update.delta[name] for update in updates) / weights / 2
                for name in updates[0].delta
            }, count

        if not packaged.installed("cloudpickle"):
            with self.assertRaisesRegex(rivulet.RivuletError, "aggregate cannot be sent to a new process.*cloudpickle"):
                rivulet.simulate("tiny.toml", aggregate=halved)
            with unittest.mock.patch.object(sys, "path", [str(self.folder), *sys.path]):
                import own_rules

                run = rivulet.simulate("tiny.toml", aggregate=own_rules.mean)
            self.assertIn('function = "own_rules:mean"', run.config)
            return
        run = rivulet.simulate("tiny.toml", aggregate=halved, rounds=2)
        self.assertRegex(run.config, r'function = ".*halved"')
        again = rivulet.simulate("tiny.toml", aggregate=halved, rounds=4, resume=run)
        self.simulate("--set", "server.learning_rate=0.5", db="half.sqlite")
        ours, theirs = again.model(), self.model("half.sqlite")
        for name in ours:
            self.assertLessEqual(float(np.abs(ours[name] - theirs[name]).max()), 1e-6)
        with self.assertRaisesRegex(rivulet.RivuletError, "aggregate is a int"):
            rivulet.simulate("tiny.toml", aggregate=3)


if __name__ == "__main__":
    harness.main()
