"""rivulet.simulate(client_fn=): virtual clients written in Python, in processes that speak for whoever is drawn."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import packaged
import harness
import rivulet

CLASSES = 3


class Means(rivulet.Client):
    """Moves each class's row towards the mean of what its examples have of it."""

    def __init__(self, name):
        import numpy as np

        self.name = name
        draws = np.random.default_rng(int(name.rsplit("-", 1)[1]))
        self.labels = draws.integers(0, CLASSES, 12)
        self.pixels = (self.labels[:, None] + draws.normal(0, 0.3, (12, 4))).astype(np.float32)

    def fit(self, params, context):
        import numpy as np

        means = params["means"].copy()
        for label in np.unique(self.labels):
            means[label] += np.float32(0.5) * (self.pixels[self.labels == label].mean(axis=0) - means[label])
        return rivulet.Params({"means": means}, examples=12, metrics={"train_loss": self.loss(params)})

    def loss(self, params):
        return float(((self.pixels - params["means"][self.labels]) ** 2).mean())

    def evaluate(self, params, context):
        distances = ((self.pixels[:, None] - params["means"]) ** 2).sum(axis=2)
        right = (distances.argmin(axis=1) == self.labels).mean()
        return rivulet.Evaluation(examples=12, metrics={"loss": self.loss(params), "accuracy": right})


def scenario(**sections):
    import numpy as np

    return {
        "run": {"name": "virtual", "rounds": 4, "seed": 7, "keep_models": "all"},
        "model": {"arrays": {"means": np.zeros((CLASSES, 4), np.float32)}},
        "data": {"partition": {"clients": 40}},
        "server": {"clients_per_round": 8},
        **sections,
    }


def first(file):
    """Whether nobody was here before: of several processes exactly one is told so."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


@packaged.needs_grpc
class Virtual(packaged.ProgramTest):
    def setUp(self):
        # Whoever is started in the background by a shell's script ignores interrupts, which these tests send.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        super().setUp()
        self.work_in_folder()

    def drawn(self, run):
        return [
            (row["round"], row["client_id"])
            for row in run.history.rows(
                "SELECT round, client_id FROM client_rounds WHERE run_id = ? AND kind = 'train' ORDER BY round, client_id",
                [run.id],
            )
        ]

    def digests_of(self, run):
        return [row["digest"] for row in run.history.rows("SELECT digest FROM models WHERE run_id = ? ORDER BY round", [run.id])]

    def test_any_number_of_workers_gives_the_same_run_of_the_programs_cohorts(self):
        run = rivulet.simulate(scenario(), client_fn=Means, workers=3)
        self.assertEqual((run.status, len(run.rounds())), ("finished", 4))
        again = rivulet.simulate(scenario(), client_fn=lambda name: Means(name), workers=1, db="again.sqlite")
        self.assertEqual(self.digests_of(again), self.digests_of(run))
        losses = [row["train_loss"] for row in run.history.rows("SELECT train_loss FROM rounds ORDER BY round")]
        self.assertEqual(losses, sorted(losses, reverse=True))
        native = {
            "data": {"synth": {"kind": "digits", "writers": 8, "test_writers": 1, "examples_per_writer": 8},
                     "partition": {"clients": 40}},
            "model": {"preset": "logistic_regression"},
        }
        by_program = rivulet.simulate(scenario(**native), db="native.sqlite")
        self.assertEqual(self.drawn(by_program), self.drawn(run))
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith(".rivulet")], [])

    def test_clients_of_a_data_set_train_a_model_with_a_graph_and_measure_it(self):
        class Bias(rivulet.Client):
            def __init__(self, name):
                self.number = int(name.rsplit("-", 1)[1])
                assert self.number < 5

            def fit(self, params, context):
                changed = {name: array + 1 for name, array in params.items()}
                assert context.numbers == {"epochs": 2, "batch_size": 5, "max_steps": 0}
                return rivulet.Params(changed, examples=3, metrics={"train_loss": 1})

            def evaluate(self, params, context):
                return rivulet.Evaluation(examples=4, metrics={"loss": self.number, "accuracy": 0.25})

        of_digits = {
            "data": {"synth": {"kind": "digits", "writers": 8, "test_writers": 1, "examples_per_writer": 8},
                     "partition": {"clients": 5}},
            "model": {"preset": "logistic_regression"},
            "client": {"epochs": 2, "batch_size": 5},
            "server": {"clients_per_round": 5},
            "evaluation": {"federated_every": 4},
        }
        run = rivulet.simulate(scenario(**of_digits), client_fn=Bias, workers=2)
        self.assertEqual(set(run.scores), {"test/accuracy", "test/loss"})
        first, last = run.model(0), run.model()
        for name, array in last.items():
            self.assertTrue(abs(array - first[name] - 4).max() < 1e-5)
        measured = {
            row["name"]: row["value"] for row in run.history.rows("SELECT name, value FROM metrics WHERE scope = 'federated'")
        }
        self.assertEqual((measured["evaluate/loss"], measured["evaluate/accuracy"]), (2, 0.25))

    def test_what_a_client_keeps_is_found_by_whoever_trains_it_next(self):
        class Counts(Means):
            def fit(self, params, context):
                import numpy as np

                rounds = context.state.get("rounds", np.zeros(0, np.int64))
                with open("log.txt", "a") as log:
                    log.write(f"{context.client} {context.round} {rounds.tolist()}\n")
                context.state["rounds"] = np.append(rounds, context.round)
                return super().fit(params, context)

        few = scenario(data={"partition": {"clients": 6}}, server={"clients_per_round": 4})
        run = rivulet.simulate(few, client_fn=Counts, workers=3)
        rivulet.simulate(few, client_fn=Counts, workers=2, rounds=6, resume=run)
        kept = {}
        lines = sorted((self.folder / "log.txt").read_text().splitlines(), key=lambda line: int(line.split()[1]))
        self.assertEqual(len(lines), 24)
        for line in lines:
            client, round_, rounds = line.split(maxsplit=2)
            self.assertEqual(rounds, str(kept.get(client, [])), line)
            kept.setdefault(client, []).append(int(round_))

    def test_what_a_client_kept_of_an_attempt_that_came_to_nothing_is_forgotten(self):
        class Unlucky(Means):
            def fit(self, params, context):
                import numpy as np

                rounds = context.state.get("rounds", np.zeros(0, np.int64))
                with open("log.txt", "a") as log:
                    log.write(f"{context.task} {rounds.tolist()}\n")
                context.state["rounds"] = np.append(rounds, context.round)
                # Three of six are one too many: the attempt is abandoned, with the updates of the others.
                if context.round in (2, 4) and any(first(f"failed-{context.round}-{which}") for which in range(3)):
                    raise ValueError
                return super().fit(params, context)

        all_or_none = scenario(
            run={"name": "virtual", "rounds": 6}, data={"partition": {"clients": 6}},
            server={"clients_per_round": 4, "min_reports": 4},
        )
        run = rivulet.simulate(all_or_none, client_fn=Unlucky, workers=2)
        self.assertEqual([row["status"] for row in run.history.rows("SELECT status FROM rounds")].count("abandoned"), 2)
        given = dict(line.split(" ", 1) for line in (self.folder / "log.txt").read_text().splitlines())
        kept = {}
        tasks = run.history.rows("SELECT task_id, client_id, round, committed_round FROM client_rounds ORDER BY round, attempt")
        for task in tasks:
            if task["task_id"] in given:  # of an abandoned attempt some may never have begun
                self.assertEqual(given[task["task_id"]], str(kept.get(task["client_id"], [])), task)
            if task["committed_round"] is not None:
                kept.setdefault(task["client_id"], []).append(task["round"])

    def test_a_state_that_is_damaged_fails_its_task_by_name(self):
        class Keeps(Means):
            def fit(self, params, context):
                context.state["round"] = params["means"][0] * 0 + context.round
                return super().fit(params, context)

        few = scenario(data={"partition": {"clients": 2}}, server={"clients_per_round": 2})
        run = rivulet.simulate(few, client_fn=Keeps, workers=1, rounds=1)
        (damaged, *_) = (self.folder / "rivulet.sqlite.models" / run.id / "python").iterdir()
        damaged.write_bytes(b"nonsense")
        with self.assertRaisesRegex(rivulet.RivuletError, "its state cannot be read") as raised:
            rivulet.simulate(few, client_fn=Keeps, workers=1, rounds=2, resume=run, set={"server.min_reports": 2})
        self.assertIn(f"{damaged} is no safetensors file", str(raised.exception.__cause__))

    def test_one_client_that_fails_is_a_failed_task(self):
        class Sometimes(Means):
            def fit(self, params, context):
                if context.round == 2 and context.client == drawn:
                    raise ValueError("patient 4711")
                return super().fit(params, context)

        drawn = self.drawn(rivulet.simulate(scenario(), client_fn=Means, workers=1, db="first.sqlite"))[10][1]
        run = rivulet.simulate(scenario(), client_fn=Sometimes, workers=2)
        (row,) = run.history.rows("SELECT round, client_id, error FROM client_rounds WHERE status = 'failed'")
        self.assertEqual((row["round"], row["client_id"]), (2, drawn))
        self.assertRegex(row["error"], r"^its own code failed: fit \(ValueError at virtual_test.py:\d+\)$")

    def test_a_run_that_comes_to_nothing_has_the_first_traceback_for_its_cause(self):
        def nobody(name):
            raise ZeroDivisionError(f"{name} has no examples")

        with self.assertRaises(rivulet.RivuletError) as raised:
            rivulet.simulate(scenario(), client_fn=nobody, workers=2)
        self.assertIn("round 1", str(raised.exception))
        cause = str(raised.exception.__cause__)
        self.assertRegex(cause, r"Traceback(.|\n)*in nobody(.|\n)*ZeroDivisionError: client-\d+ has no examples")
        with self.assertRaises(rivulet.RivuletError) as raised:
            rivulet.simulate(scenario(), client_fn=str, workers=1, db="str.sqlite")
        self.assertRegex(str(raised.exception.__cause__), "client_fn gave a str for 'client-.*'; it gives a rivulet.Client")
        wrong = type("Wrong", (Means,), {"fit": lambda self, params, context: rivulet.Params({}, examples=1)})
        with self.assertRaises(rivulet.RivuletError) as raised:
            rivulet.simulate(scenario(), client_fn=wrong, workers=1, db="wrong.sqlite")
        self.assertIn("fit gave no 'means'", str(raised.exception.__cause__))

    def test_an_interrupted_run_goes_on_to_the_same_model(self):
        whole = rivulet.simulate(scenario(), client_fn=Means, workers=2, db="whole.sqlite")

        class Slow(Means):
            def fit(self, params, context):
                if context.round == 3 and first("sent"):
                    os.kill(starter, signal.SIGINT)
                return super().fit(params, context)

        starter = os.getpid()
        with self.assertRaises(rivulet.Interrupted) as interrupted:
            rivulet.simulate(scenario(), client_fn=Slow, workers=2)
        run = interrupted.exception.run
        self.assertEqual(run.status, "interrupted")
        rivulet.simulate(scenario(), client_fn=Means, workers=1, resume=run)
        self.assertEqual(self.digests_of(run), self.digests_of(whole))

    def test_an_interrupt_after_the_first_one_ends_it_at_once_and_it_can_go_on(self):
        class Twice(Means):
            def fit(self, params, context):
                if context.round == 3 and first("sent"):
                    os.kill(starter, signal.SIGINT)
                    time.sleep(0.3)  # the program waits for calls that are open, if there are any, and then this process for the worker
                    os.kill(starter, signal.SIGINT)
                return super().fit(params, context)

        starter = os.getpid()
        with self.assertRaises(rivulet.Interrupted) as interrupted:
            rivulet.simulate(scenario(), client_fn=Twice, workers=1)
        run = interrupted.exception.run
        self.assertIsNotNone(run, interrupted.exception)
        rivulet.simulate(scenario(), client_fn=Means, workers=1, resume=run)
        self.assertEqual(run.status, "finished")

    def test_a_worker_that_is_killed_ends_the_run_so_that_it_can_go_on(self):
        class Dies(Means):
            def fit(self, params, context):
                if context.round == 2 and first("died"):
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().fit(params, context)

        with self.assertRaisesRegex(rivulet.RivuletError, "rivulet worker . was ended by signal 9; .*--resume"):
            rivulet.simulate(scenario(), client_fn=Dies, workers=2)
        run = rivulet.simulate(scenario(), client_fn=Dies, workers=2, resume="latest")
        self.assertEqual(run.status, "finished")

    def script(self, text, from_standard_input=False):
        """What a program of its own prints."""
        paths = [str(packaged.ROOT / folder) for folder in ("python", "tests/python", "tests/e2e")]
        (self.folder / "mine.py").write_text(textwrap.dedent(text))
        given = ["-"] if from_standard_input else ["mine.py"]
        done = subprocess.run(
            [sys.executable, *given],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            input=(self.folder / "mine.py").read_text() if from_standard_input else "",
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @packaged.needs_grpc
    @packaged.needs_cloudpickle
    def test_where_a_client_ran_closures_are_simulated_too(self):
        # A notebook's cells are such a program: nothing can import what they define, and nothing guards them.
        program = """
            import threading, time
            import numpy as np
            import rivulet
            from rivulet._connection import Connection
            from virtual_test import scenario

            Connection("127.0.0.1:1").close()                # what a client leaves behind
            moved = np.float32(0.25)

            class Moves(rivulet.Client):
                def fit(self, params, context):
                    return rivulet.Delta({name: np.full_like(array, moved) for name, array in params.items()}, examples=3)

            def nested():
                step = 2
                def make(name):
                    client = Moves()
                    client.step = step
                    return client
                return make

            for number, client_fn in enumerate((lambda name: Moves(), nested(), lambda name, make=nested(): make(name))):
                run = rivulet.simulate(scenario(), client_fn=client_fn, workers=2, db=f"{number}.sqlite")
                print(run.status, run.model()["means"].max())

            def broken(name):
                raise ZeroDivisionError(f"{name} has no examples")

            try:
                rivulet.simulate(scenario(), client_fn=broken, workers=2, db="broken.sqlite")
            except rivulet.RivuletError as error:
                print("ZeroDivisionError: client-" in str(error.__cause__))

            lock = threading.Lock()
            try:
                rivulet.simulate(scenario(), client_fn=lambda name: lock, workers=1, db="lock.sqlite")
            except rivulet.RivuletError as error:
                print(error)
            """
        for from_standard_input in (False, True):
            told = self.script(program, from_standard_input)
            self.assertRegex(told, r"^(finished 1.0\n){3}True\nclient_fn cannot be sent to a new process .*lock.*; let it open")
            for each in self.folder.glob("*.sqlite"):
                each.unlink()

    @packaged.needs_grpc
    def test_without_cloudpickle_a_function_of_a_module_is_sent_by_its_name(self):
        told = self.script(
            """
            import sys
            sys.modules["cloudpickle"] = None
            import grpc, rivulet
            from virtual_test import Means, scenario

            print(rivulet.simulate(scenario(), client_fn=Means, workers=2).status)

            class Here(Means):
                pass

            for client_fn in (Here, lambda name: Means(name)):
                try:
                    rivulet.simulate(scenario(), client_fn=client_fn, workers=1)
                except rivulet.RivuletError as error:
                    print(error)
            """
        )
        self.assertRegex(told, "^finished\n(client_fn cannot be sent to a new process .*; pip install cloudpickle, or Debian.*\n){2}$")

    @packaged.needs_grpc
    def test_a_worker_that_cannot_load_the_function_says_why(self):
        told = self.script(
            """
            import sys, types
            import grpc, rivulet
            from virtual_test import scenario

            gone = types.ModuleType("gone_module")
            exec("def make(name): pass", gone.__dict__)
            sys.modules["gone_module"] = gone
            try:
                rivulet.simulate(scenario(), client_fn=gone.make, workers=1)
            except rivulet.RivuletError as error:
                print(error, "|", str(error.__cause__).strip().splitlines()[-1])
            """
        )
        self.assertRegex(told, "a process that trains clients is gone: rivulet worker 0 exited with 1; .*\| ModuleNotFoundError: .*gone")

    def test_what_cannot_be_is_refused(self):
        with self.assertRaisesRegex(rivulet.RivuletError, "workers=0 leaves no process to train"):
            rivulet.simulate(scenario(), client_fn=Means, workers=0)
        with self.assertRaisesRegex(rivulet.RivuletError, "Clients in Python can train it: start "):
            rivulet.simulate(scenario())
        with self.assertRaisesRegex(rivulet.RivuletError, "is more than data.partition.clients"):
            rivulet.simulate(scenario(server={"clients_per_round": 41}), client_fn=Means)
        self.write("init.safetensors", b"")
        file = self.write("a.toml", "model = { arrays = 'init.safetensors' }\ndata = { partition = { kind = 'by_key' } }\n")
        for arguments, sentence in (
            (["--workers-at", "0.0.0.0:0"], "this node has no identity"),
            (["--workers-at", "here"], "--workers-at: "),
            (["--workers-at", "127.0.0.1:0", "--workers", 2], "Clients in Python can train it: start "),
            (["--workers-at", "127.0.0.1:0", "--replay", "latest"], "with --workers-at others train"),
        ):
            self.assert_refused(self.run_rivulet("simulate", file, *arguments), sentence, code=2)


if __name__ == "__main__":
    harness.main()
