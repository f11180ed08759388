"""rivulet.Client and rivulet.run_client: clients written in Python, in runs of the program and beside its own clients."""

import contextlib
import importlib.util
import logging
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import packaged
import harness
import rivulet

# A hidden layer makes the model 1.27 million bytes large, so that an upload has a whole block before its end.
LAYERS = """
[model]
input = { shape = [28, 28, 1] }
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "dense"
units = 400
activation = "relu"
[[model.layers]]
type = "dense"
units = 10
"""
# s = 62 - value_bits - ceil(log2(clients x max_weight)), by the scenario's defaults.
FRACTION_BITS = 62 - 10 - (3 * 65536 - 1).bit_length()
WIDE = harness.SCENARIO.replace('[model]\npreset = "logistic_regression"\n', LAYERS)


def example(name):
    """A module of examples/."""
    spec = importlib.util.spec_from_file_location(name, packaged.ROOT / f"examples/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Federation(packaged.ProgramTest):
    """A coordinator, a relay before it, and clients."""

    def begin(self, clients, *more, scenario=harness.SCENARIO):
        self.scenario = self.write("federation.toml", scenario)
        settings = [f"data.partition.clients={clients}", f"server.clients_per_round={clients}", "run.keep_models=all"]
        arguments = [part for setting in [*settings, *more] for part in ("--set", setting)]
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *arguments, code=0)
        self.names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        return self.serve(arguments)

    def coordinate(self, scenario):
        """A coordinator of a scenario whose clients have their own data."""
        self.scenario = self.write("federation.toml", scenario)
        return self.serve(["--set", "run.keep_models=all"])

    def serve(self, arguments):
        import relay

        self.arguments = arguments
        self.target = "127.0.0.1:0"
        self.start_coordinator()
        self.relay = relay.Relay(self.target)
        self.addCleanup(self.relay.stop)
        return self.relay.address

    def start_coordinator(self, *more):
        listen = ["--listen", self.target, "--insecure", "--db", self.path("runs.sqlite")]
        self.coordinator = self.start("coordinator", self.scenario, *listen, *self.arguments, *more)
        self.target = self.coordinator.stdout.readline().split()[-1]
        threading.Thread(target=self.coordinator.stderr.read, daemon=True).start()

    def file(self, name):
        return self.path(f"clients/{name}.tfrecord")

    def start_native(self, name):
        return self.start(
            "client",
            "--coordinator",
            self.relay.address,
            "--insecure",
            "--name",
            name,
            "--data",
            f"train={self.file(name)}",
        )

    def start_python(self, name, program=packaged.ROOT / "examples/numpy_client.py", *more):
        process = subprocess.Popen(
            [sys.executable, program, self.relay.address, name, self.file(name), *more],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(packaged.ROOT / "python"), *sys.path]),
                "OPENBLAS_NUM_THREADS": "1",  # several on one machine wait for each other's threads
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def in_thread(self, client, name, **keywords):
        """What run_client gave or raised, once the thread has ended."""
        told = []

        def run():
            try:
                told.append(rivulet.run_client(client, self.relay.address, name=name, **keywords))
            except Exception as error:
                told.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread, told

    def ends(self, thread, told, sentence):
        thread.join(120)
        self.assertEqual([str(each) for each in told], [sentence])

    def check_models(self, tasks):
        from rivulet._crc32c import crc32c
        from rivulet._update import identity

        run = rivulet.open(self.path("runs.sqlite")).run("latest")
        digests = self.digests()
        for round_ in range(1, len(digests) + 1):
            updates = [self.relay.updates[task] for of, _, task, _, _, _ in tasks if of == round_]
            model = folded(run.model(round_ - 1), updates)
            self.assertEqual(rivulet.model_digest(model), digests[round_ - 1])
        for _, _, task, _, digest, _ in tasks:
            sent = bytes(self.relay.updates[task])
            crcs = [int(crc) for crc in crc32c([sent[at : at + (1 << 20)] for at in range(0, len(sent), 1 << 20)])]
            self.assertEqual(identity(0, len(sent), crcs).hex(), digest)


def parsed(message):
    """(parts by name, scalars by name) of an Update, by a reader of the wire format that is this test's own."""

    def fields(content):
        at = 0

        def number():
            nonlocal at
            value = shift = 0
            while True:
                byte = content[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        while at < len(content):
            tag = number()
            size = number() if tag & 7 == 2 else 8
            yield tag >> 3, content[at : at + size]
            at += size

    parts, scalars = {}, {}
    for field, content in fields(bytes(message)):
        entry = dict(fields(content))
        if field == 2:
            parts[entry[1].decode()] = entry[3]
        else:
            (scalars[entry[1].decode()],) = struct.unpack("<d", entry[2])
    return parts, scalars


def folded(base, updates):
    """The next model, from the one before and the updates that were sent: docs/reference/algorithms.md's federated averaging in
    the integers of federated/aggregation/aggregation_spec.h, with a server that adds the mean."""
    import numpy as np

    values = np.concatenate([array.reshape(-1) for array in base.values()])
    sums, weights = np.zeros(values.size, np.int64), 0
    for update in updates:
        parts, scalars = parsed(update)
        delta, weight = np.frombuffer(parts["delta"], "<f4").astype(np.float64), int(scalars["examples"])
        sums += np.rint(delta * (weight * 2.0**FRACTION_BITS)).astype(np.int64)
        weights += weight
    mean = (sums / (weights * 2.0**FRACTION_BITS)).astype(np.float32)
    values = (values.astype(np.float64) + mean.astype(np.float64)).astype(np.float32)
    splits = np.cumsum([array.size for array in base.values()])[:-1]
    return {name: part.reshape(array.shape) for (name, array), part in zip(base.items(), np.split(values, splits))}


@packaged.needs_grpc
class Together(Federation):
    def test_native_and_numpy_clients_are_one_run_and_its_model_follows_from_their_updates(self):
        self.begin(3, "run.rounds=2", scenario=WIDE)
        native, kept, killed = self.names
        self.relay.stall_uploads(killed, 1 << 20)
        processes = [self.start_native(native), self.start_python(kept)]
        victim = self.start_python(killed)
        self.assertTrue(self.relay.stalled.wait(120))
        victim.kill()
        victim.wait()
        self.relay.stall_uploads("", 0)
        processes.append(self.start_python(killed))
        for process in [*processes, self.coordinator]:
            self.assertEqual(process.wait(120), 0)

        tasks = self.query("SELECT round, client_id, task_id, status, update_digest, train_loss FROM client_rounds")
        self.assertEqual(len(tasks), 6)
        self.assertEqual({status for _, _, _, status, _, _ in tasks}, {"folded"})
        first = next(task for round_, name, task, _, _, _ in tasks if (round_, name) == (1, killed))
        self.assertEqual(self.relay.resumed[first], [0, 1 << 20])
        self.check_models(tasks)
        losses = [loss for round_, _, _, _, _, loss in tasks if round_ == 2]
        self.assertLess(max(losses), min(loss for round_, _, _, _, _, loss in tasks if round_ == 1))


MEASURED = """
import logging, sys, threading
import numpy as np
import rivulet

def anonymous():
    with open("/proc/self/status") as status:
        return 1024 * sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon:", "RssShmem:")))

class Adds(rivulet.Client):
    def fit(self, params, context):
        trained = {name: array + np.float32(1e-6) for name, array in params.items()}
        self.bytes = sum(array.nbytes for array in trained.values())
        return rivulet.Params(trained, examples=1)

import rivulet._agent, rivulet._connection
rivulet._connection.Connection(sys.argv[1]).close()
client, before, peak, ended = Adds(), anonymous(), [0], threading.Event()

def watch():
    while not ended.wait(0.002):
        peak[0] = max(peak[0], anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
rivulet.run_client(client, sys.argv[1], name=sys.argv[2])
ended.set()
watcher.join()
print((peak[0] - before) / client.bytes)
"""


@packaged.needs_grpc
@unittest.skipUnless(os.path.exists("/proc/self/status"), "needs Linux's /proc")
class Memory(Federation):
    def test_a_client_takes_at_most_three_times_the_parameters(self):
        import numpy as np

        # The model that it is given and the one that it trained are two of them.
        rivulet.save_safetensors(self.path("init.safetensors"), {"w": np.zeros((10, 1 << 20), np.float32)})
        self.coordinate(
            """
run = { name = "large", rounds = 3 }
model = { arrays = "init.safetensors" }
data = { partition = { clients = 1 } }
server = { clients_per_round = 1 }
"""
        )
        program = self.write("measured.py", MEASURED)
        self.relay.stop()
        process = subprocess.run(
            [sys.executable, program, self.target, "ann"],
            env={**os.environ, "PYTHONPATH": str(packaged.ROOT / "python")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertLessEqual(float(process.stdout), 3.0)


class Adds(rivulet.Client):
    """Adds a number to every variable."""

    def __init__(self, number=0.01, **metrics):
        self.number, self.metrics, self.contexts = number, metrics, []

    def fit(self, params, context):
        import numpy as np

        self.contexts.append(context)
        changes = {name: np.full_like(array, self.number) for name, array in params.items()}
        return rivulet.Delta(changes, examples=3, metrics=self.metrics)


@packaged.needs_grpc
class Tasks(Federation):
    def setUp(self):
        super().setUp()
        self.records = []
        handler = logging.Handler(logging.INFO)
        handler.emit = self.records.append
        logger = logging.getLogger("rivulet")
        self.addCleanup(logger.setLevel, logger.level)
        self.addCleanup(setattr, logger, "propagate", logger.propagate)
        self.addCleanup(logger.removeHandler, handler)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False

    def lines(self, level):
        return [record.getMessage() for record in self.records if record.levelno == level]

    def test_what_fit_is_given(self):
        import numpy as np

        self.begin(1, "run.rounds=2")
        client = Adds(train_loss=np.float32(0.5))
        seen = []

        def fit(params, context):
            seen.append(params)
            with self.assertRaisesRegex(ValueError, "read-only"):
                params["dense1/bias"] += 1
            return Adds.fit(client, params, context)

        client.fit = fit
        self.ends(*self.in_thread(client, "ann"), "the run has finished after round 2")
        self.assertEqual([context.round for context in client.contexts], [1, 2])
        self.assertEqual(client.contexts[0].numbers, {"epochs": 2, "batch_size": 5, "max_steps": 0})
        self.assertNotEqual(client.contexts[0].seed, client.contexts[1].seed)
        self.assertEqual({context.client for context in client.contexts}, {"ann"})
        run = rivulet.open(self.path("runs.sqlite")).run("latest")
        self.assertEqual({context.run for context in client.contexts}, {run.id})
        for given, round_ in zip(seen, (0, 1)):
            self.assertEqual(rivulet.model_digest(given), rivulet.model_digest(run.model(round_)))
        np.testing.assert_array_equal(run.model()["dense1/bias"], np.full(10, np.float32(0.02)))
        rows = self.query("SELECT examples, steps, train_loss, weight FROM client_rounds")
        self.assertEqual(rows, [(3, None, 0.5, 3)] * 2)  # it says nothing of steps
        self.assertIn("ann: round 1: examples 3, train_loss 0.5, ", " ".join(self.lines(logging.INFO)))

    def test_an_exception_in_fit_reaches_the_history_without_what_it_says(self):
        self.begin(1, "run.rounds=1", "server.lease=1")
        client = Adds()
        works = client.fit

        def fit(params, context):
            client.fit = works
            raise ValueError("patient 4711")

        client.fit = fit
        self.ends(*self.in_thread(client, "ann"), "the run has finished after round 1")
        rows = self.query("SELECT status, error FROM client_rounds ORDER BY attempt")
        self.assertEqual([status for status, _ in rows], ["failed", "folded"])
        self.assertRegex(
            rows[0][1], r"^its own code failed: fit \(ValueError at client_test.py:\d+\)$"
        )
        (record,) = [record for record in self.records if record.exc_info]
        self.assertEqual((record.getMessage(), str(record.exc_info[1])), ("ann: round 1: fit raised", "patient 4711"))

    def test_what_cannot_be_sent_is_told_by_name(self):

        self.begin(1, "run.rounds=1", "server.lease=1")
        client = Adds()
        client.fit = lambda params, context: (setattr(client, "fit", Adds().fit), {"a": 1})[1]
        self.ends(*self.in_thread(client, "ann"), "the run has finished after round 1")
        told = "ann: round 1: failed: fit gave a dict; it gives rivulet.Params or rivulet.Delta"
        self.assertEqual(self.lines(logging.ERROR), [told])
        (error,) = self.query("SELECT error FROM client_rounds WHERE status = 'failed'")
        self.assertEqual(error, ("its own code failed: fit (it gave a dict)",))

    def test_a_fit_that_is_silent_for_longer_than_its_lease_keeps_it(self):
        self.begin(1, "run.rounds=1", "server.lease=0.6", "server.presence=0.6")
        client = Adds()
        client.fit = lambda params, context: (time.sleep(2), Adds.fit(client, params, context))[1]
        self.ends(*self.in_thread(client, "ann"), "the run has finished after round 1")
        self.assertEqual(self.query("SELECT attempt, status FROM client_rounds"), [(1, "folded")])

    def test_a_fit_hears_that_its_task_is_needed_no_longer(self):
        self.begin(1, "run.rounds=1", "server.deadline=1", "server.lease=0.6")
        client, stopped = Adds(), []

        def fit(params, context):
            while not stopped and not context.cancelled:
                time.sleep(0.01)
            stopped.append(context.cancelled)
            return Adds.fit(client, params, context)

        client.fit = fit
        self.ends(*self.in_thread(client, "ann"), "the run has finished after round 1")
        self.assertEqual(stopped, [True, False])
        self.assertIn("ann: round 1: too late: the coordinator needs it no longer", self.lines(logging.INFO))
        rows = self.query("SELECT status FROM client_rounds ORDER BY attempt")
        self.assertEqual(rows, [("dropped",), ("folded",)])

    def test_metrics_that_were_not_declared_are_named_once(self):
        self.begin(1)
        self.ends(*self.in_thread(Adds(f1=0.5, train_loss=1, auc=2), "ann"), "the run has finished after round 4")
        self.assertEqual(
            self.lines(logging.WARNING),
            [
                f"ann: the plan takes no metric '{name}', and it is not sent; it takes steps, train_loss"
                for name in ("f1", "auc")
            ],
        )

    def test_chunks_that_come_damaged_are_fetched_again(self):
        self.begin(1, "run.rounds=1")
        self.relay.damage = 2
        self.ends(*self.in_thread(Adds(), "ann"), "the run has finished after round 1")
        self.assertEqual(self.query("SELECT status FROM client_rounds"), [("folded",)])

    def test_clients_measure_a_version(self):
        self.begin(1, "run.rounds=1", "evaluation.federated_every=1")
        client = Adds()
        client.evaluate = lambda params, context: rivulet.Evaluation(
            examples=8, metrics={"loss": 0.5, "accuracy": 0.75}
        )
        self.ends(*self.in_thread(client, "ann"), "the run has finished after round 1")
        measured = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'federated'"))
        self.assertEqual((measured["evaluate/loss"], measured["evaluate/accuracy"]), (0.5, 0.75), measured)

    def test_state_is_kept_when_the_update_counts_and_else_forgotten(self):
        import numpy as np

        self.begin(1, "run.rounds=3")
        client, given = Adds(), []

        def fit(params, context):
            given.append({name: array.tolist() for name, array in context.state.items() if name != "last"})
            context.state["tasks"] = np.append(context.state.get("tasks", []), context.round)
            context.state["last"] = np.float64(context.round)
            client.number = 1e6 if len(given) == 2 else 0.01  # the second is beyond what the plan takes
            return Adds.fit(client, params, context)

        client.fit = fit
        kept = self.path("ann.safetensors")
        self.ends(*self.in_thread(client, "ann", state=kept), "the run has finished after round 3")
        self.assertEqual(given, [{}, {"tasks": [1]}, {"tasks": [1]}, {"tasks": [1, 2]}])
        self.assertEqual(rivulet.load_safetensors(kept)["tasks"].tolist(), [1, 2, 3])
        self.assertRegex(" ".join(self.lines(logging.WARNING)), "refused: .*beyond ±2\\^10")

    def test_an_update_of_the_same_numbers_is_the_native_clients_to_the_byte(self):
        import numpy as np

        from rivulet import _plan, _update

        self.begin(1, "run.rounds=1")
        self.assertEqual(self.start_native(self.names[0]).wait(120), 0)
        ((task, sent),) = self.relay.updates.items()
        parts, scalars = parsed(sent)
        run = rivulet.open(self.path("runs.sqlite")).run("latest")
        base = run.model(0)
        values = np.split(np.frombuffer(parts["delta"], "<f4"), np.cumsum([array.size for array in base.values()])[:-1])
        changes = {name: part.reshape(array.shape) for (name, array), part in zip(base.items(), values)}
        plan = _plan.Plan(self.relay.plan)
        delta = rivulet.Delta(changes, examples=int(scalars.pop("examples")), metrics=scalars)
        declared, dropped = _update.scalars_of(delta, "fit", plan, _plan.TRAIN)
        self.assertEqual(dropped, [])
        self.assertEqual(bytes(_update.write_update(delta, declared, plan, base)), sent)
        # The model itself as the result: the difference is taken in float32, as native clients take it.
        trained = rivulet.Params({name: base[name] + changes[name] for name in base}, examples=1)
        again = np.frombuffer(parsed(_update.write_update(trained, declared, plan, base))[0]["delta"], "<f4")
        self.assertEqual(
            again.tobytes(),
            np.concatenate([(trained.arrays[name] - base[name]).reshape(-1) for name in base]).tobytes(),
        )

    def test_an_upload_that_is_aborted_is_too_late_and_no_failure(self):
        import grpc

        self.begin(1, "run.rounds=1")
        self.relay.refuse = [grpc.StatusCode.ABORTED]
        client = Adds()
        self.ends(*self.in_thread(client, "ann"), "the run has finished after round 1")
        self.assertIn("ann: round 1: too late: the test says so", self.lines(logging.INFO))
        self.assertEqual(len(client.contexts), 2)
        self.relay.stop()

        self.begin(1, "run.rounds=1")
        self.relay.refuse = [grpc.StatusCode.ABORTED]
        client = Adds()
        thread = self.in_thread(client, "ann", state_dir=self.path("kept"))
        self.ends(*thread, "the run has finished after round 1")
        self.assertEqual(len(client.contexts), 1)  # what was finished is sent when the task is offered again
        self.assertEqual(self.relay.failures, [])
        self.assertEqual(self.query("SELECT attempt, status FROM client_rounds"), [(1, "folded")] * 2)

    def test_an_upload_hears_from_the_coordinator_that_its_task_is_gone(self):
        import grpc

        # Without heartbeats, which would say it sooner.
        quiet = unittest.mock.MagicMock()
        quiet.return_value.__enter__.return_value.over = None
        with unittest.mock.patch("rivulet._agent.Heartbeat", quiet):
            self.begin(1, "run.rounds=1", "server.deadline=1", scenario=WIDE)
            self.relay.stall_uploads("ann", 1 << 20)
            thread = self.in_thread(Adds(), "ann")
            self.assertTrue(self.relay.stalled.wait(120))
            dropped = "SELECT 1 FROM client_rounds WHERE status = 'dropped' AND task_id = ?"
            self.wait_for(lambda: self.query(dropped, self.relay.stalled_task), "the coordinator to give the task up")
            self.relay.goes_on.set()
            self.ends(*thread, "the run has finished after round 1")
        self.assertEqual(self.relay.ended, [grpc.StatusCode.ABORTED])
        self.assertRegex(" ".join(self.lines(logging.INFO)), "ann: round 1: too late: ")
        *earlier, last = self.query("SELECT status FROM client_rounds ORDER BY attempt")
        self.assertEqual((set(earlier), last, self.relay.failures), ({("dropped",)}, ("folded",), []))

    def test_who_has_too_few_examples_or_not_the_tags_is_no_member(self):
        self.begin(1, "run.rounds=1", 'selection.tags=["icu", "adult"]', "selection.min_examples=20")
        client = Adds()
        for examples, tags, sentence in [
            (19, ["icu", "adult"], "client 'ann' has 19 examples, and this run is of clients with at least 20"),
            (20, ["icu"], "client 'ann' is not tagged 'adult', as the clients of this run are; start it with --tag adult"),
            (20, (), "client 'ann' is not tagged 'icu', as the clients of this run are; start it with --tag icu"),
        ]:
            client.examples = examples
            with self.subTest(sentence):
                self.ends(*self.in_thread(client, "ann", tags=tags), sentence)
        client.examples = 20
        self.assertEqual(client.contexts, [])
        self.ends(*self.in_thread(client, "bob", tags=["adult", "icu", "ward"]), "the run has finished after round 1")
        self.assertEqual(self.query("SELECT client_id, status FROM client_rounds"), [("bob", "folded")])

    def test_who_is_turned_away_hears_why(self):
        self.begin(1, "run.rounds=1")
        thread, told = self.in_thread(Adds(), "ann", dataset="test")
        self.ends(thread, told, "client 'ann' has bound no data set 'train', on which this run trains; bind one")
        self.assertIsInstance(told[0], rivulet.RivuletError)


@packaged.needs_grpc
class Results(unittest.TestCase):
    """What a result must be, without a coordinator."""

    @classmethod
    def setUpClass(cls):
        from rivulet import _plan, _protocol

        message = _protocol.Plan(format=2, name="tiny")
        for name, shape, segment in [
            ("w", (2, 3), "trainable"),
            ("b", (3,), "trainable"),
            ("mean", (3,), "shared"),
            ("table", (4,), "frozen"),
        ]:
            message.model.variables.add(name=name, dtype=1, shape=shape, segment=segment)
        program = message.programs.add(kind=0)
        program.passes.add(dataset="train", epochs=1, batch_size=2)
        program.parts.add(part="delta", less="base_params", shared_too=True, **{"from": "params"})
        message.aggregation.parts.add(name="delta", codec="f32", elements=12)
        message.aggregation.scalars.add(name="correct")
        cls.message = message
        cls.plan = _plan.Plan(message.SerializeToString())

    def setUp(self):
        import numpy as np

        shapes = {"w": (2, 3), "b": (3,), "mean": (3,), "table": (4,)}
        self.base = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}

    def sent(self, result):
        from rivulet import _plan, _update

        scalars, _ = _update.scalars_of(result, "fit", self.plan, _plan.TRAIN)
        return parsed(_update.write_update(result, scalars, self.plan, self.base))

    def changed(self, **arrays):
        return rivulet.Params({**self.base, **arrays}, examples=1, metrics={"correct": 1})

    def test_order_is_the_wires_and_strides_are_followed(self):
        import numpy as np

        w = np.arange(6, dtype=np.float32).reshape(3, 2).T
        parts, scalars = self.sent(self.changed(w=w + 1, mean=np.float32([7, 8, 9])))
        delta = np.frombuffer(parts["delta"], "<f4")
        np.testing.assert_array_equal(delta, [0, 2, 4, 1, 3, 5, 0, 0, 0, 6, 7, 8])
        self.assertEqual(scalars, {"examples": 1, "correct": 1})

    def test_a_delta_is_sent_as_it_is(self):
        import numpy as np

        changes = {name: array * 0 for name, array in self.base.items()}
        changes["b"] = np.float32([1, 2, 3])
        parts, _ = self.sent(rivulet.Delta(changes, examples=1, metrics={"correct": 1}))
        np.testing.assert_array_equal(np.frombuffer(parts["delta"], "<f4"), [0] * 6 + [1, 2, 3] + [0] * 3)

    def test_blocks_are_cut_anywhere_within_numbers(self):
        import numpy as np

        from rivulet import _update

        now, was = (np.random.default_rng(seed).normal(size=23).astype(np.float32) for seed in (1, 2))
        for size in (4, 8, 12, 64, 128):
            for name, combine in [("as it is", None), ("less", np.subtract), ("more", np.add)]:
                with self.subTest(f"{name}, blocks of {size}"), unittest.mock.patch.object(_update, "BLOCK_BYTES", size):
                    values = _update._Values(now, None if combine is None else was, combine)
                    message = _update.Message([b"abc", values, b"de", values, b"f"])
                    sent = (now if combine is None else combine(now, was)).tobytes()
                    whole = b"abc" + sent + b"de" + sent + b"f"
                    self.assertEqual(bytes(message), whole)
                    last = message.blocks - 1
                    self.assertEqual(bytes(message.block(last)), whole[last * size :])

    def test_a_plan_that_asks_for_the_model_gets_it(self):
        import numpy as np

        from rivulet import _plan

        message = type(self.message).FromString(self.message.SerializeToString())
        message.programs[0].parts[0].less = ""
        self.plan = _plan.Plan(message.SerializeToString())
        result = self.changed(b=np.float32([1, 2, 3]))
        as_delta = rivulet.Delta(
            {name: array - self.base[name] for name, array in result.arrays.items()}, examples=1, metrics={"correct": 1}
        )
        for given in (result, as_delta):
            parts, _ = self.sent(given)
            np.testing.assert_array_equal(np.frombuffer(parts["delta"], "<f4"), [1] * 6 + [1, 2, 3] + [1] * 3)

    def test_nothing_is_cast_left_out_or_thought_of(self):
        import numpy as np

        ones = self.base
        for result, sentence in [
            (
                self.changed(w=np.ones((2, 3))),
                "fit gave 'w' as float64, and it is float32; say astype.numpy.float32. if",
            ),
            (
                self.changed(w=np.ones((3, 2), np.float32)),
                r"fit gave 'w' with shape \(3, 2\), and its shape is \(2, 3\)",
            ),
            (self.changed(w=ones["w"].astype(">f4")), "fit gave 'w' as >f4"),
            (self.changed(w=[[1], [2, 3]]), "'w', which fit gave, is no array"),
            (
                self.changed(menn=ones["mean"]),
                "fit gave 'menn', which is no variable of the model; did you mean 'mean'",
            ),
            (self.changed(table=ones["table"] * 2), "fit changed 'table', which is frozen"),
            (rivulet.Params({"w": ones["w"]}, examples=1, metrics={"correct": 1}), "fit gave no 'b'; give every"),
            (rivulet.Params(ones, examples=1), "fit gave no metric 'correct', which the plan sums"),
            (rivulet.Params(ones, examples=1, metrics={"correct": "1"}), "fit gave the metric 'correct' as '1'"),
            (rivulet.Params(ones, examples=1.5, metrics={"correct": 1}), "fit gave examples=1.5; it is how many"),
            (rivulet.Params(ones, examples=0, metrics={"correct": 1}), "fit gave examples=0"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                self.sent(result)

    def test_frozen_variables_may_be_left_out(self):
        del self.base["table"]
        self.sent(rivulet.Params(dict(self.base), examples=1, metrics={"correct": 1}))

    def test_an_evaluations_rates_are_counts(self):
        from rivulet import _plan, _protocol, _update

        message = _protocol.Plan(format=2, name="tiny")
        a_pass = message.programs.add(kind=1).passes.add(dataset="train")
        for name in ("loss", "accuracy/right", "accuracy/total"):
            a_pass.scalars.add(name=f"evaluate/{name}")
        plan = _plan.Plan(message.SerializeToString())

        def declared(**metrics):
            metrics = {name.replace("__", "/"): value for name, value in metrics.items()}
            return _update.scalars_of(rivulet.Evaluation(examples=3, metrics=metrics), "evaluate", plan, _plan.EVALUATE)

        wanted = {"examples": 3, "evaluate/loss": 1.5, "evaluate/accuracy/right": 2, "evaluate/accuracy/total": 3}
        self.assertEqual(declared(loss=1.5, accuracy=2 / 3, auc=1), (dict(sorted(wanted.items())), ["auc"]))
        counts = {"accuracy__right": 5, "accuracy__total": 9}
        self.assertEqual(declared(loss=1.5, **counts)[0]["evaluate/accuracy/right"], 5)
        for metrics, sentence in [
            (
                {"loss": 1.5, "accuracy": 0.7},
                "'accuracy' as 0.7, which is no share of 3 examples; give 'accuracy/right'",
            ),
            ({"loss": 1.5, "accuracy": -1}, "'accuracy' as -1.0, which is no share"),
            ({"accuracy": 1}, "evaluate gave no metric 'loss'"),
            ({"loss": 1}, "evaluate gave no metric 'accuracy/right'"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                declared(**metrics)

    @packaged.needs_torch
    def test_tensors_are_arrays(self):
        import torch

        with self.assertRaisesRegex(rivulet.RivuletError, "'w', which fit gave, is no array: .*requires grad"):
            self.sent(self.changed(w=torch.ones(2, 3, requires_grad=True)))
        self.sent(self.changed(w=torch.ones(2, 3)))

    def test_plans_that_only_their_own_passes_can_serve_are_refused(self):
        from rivulet import _plan

        for change, sentence in [
            (
                lambda plan: setattr(plan.programs[0].parts[0], "from", "update/dc"),
                "a part 'delta', which only its own",
            ),
            (lambda plan: setattr(plan.programs[0].parts[0], "less", "slots/0"), "a difference to 'slots/0'"),
            (lambda plan: setattr(plan.aggregation.parts[0], "codec", "q8"), "wants its part 'delta' as 'q8'"),
            (lambda plan: setattr(plan, "format", 3), "the plan has format 3, and this package reads 2"),
        ]:
            message = type(self.message).FromString(self.message.SerializeToString())
            change(message)
            with self.subTest(sentence), self.assertRaisesRegex(_plan.CannotDo, sentence):
                self.plan = _plan.Plan(message.SerializeToString())
                self.sent(self.changed())

    def test_what_run_client_cannot_take_is_told_by_name(self):
        for given, sentence in [
            (dict(tags="icu"), r"tags = 'icu'; they are a list of words, such as \['icu'\]"),
            (dict(tags=[""]), r"tags = \[''\]"),
            (dict(hold_megabytes=-1), "hold_megabytes = -1; it is a whole number, and 0 holds nothing"),
            (dict(hold_megabytes=1.5), "hold_megabytes = 1.5"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.run_client(Adds(), "127.0.0.1:1", name="ann", **given)

    def test_addresses(self):
        from rivulet._connection import Connection

        for address, sentence in [
            ("127.0.0.1", "'127.0.0.1' is no coordinator's address HOST:PORT"),
            ("127.0.0.1:0", "no coordinator's address"),
            ("127.0.0.1:65536", "no coordinator's address"),
            ("127.0.0.1:" + "9" * 5000, "no coordinator's address"),
            ("127.0.0.1:٣", "no coordinator's address"),
            ("example.org:7000", "example.org:7000 is not a loopback address, and without TLS"),
            ("10.0.0.1:7000", "or insecure=True to accept that"),
        ]:
            with self.subTest(address), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                Connection(address)
        for address in ("localhost:1", "127.3.0.1:1", "[::1]:1"):
            Connection(address).close()
        Connection("10.0.0.1:7000", insecure=True).close()


class Asks:
    """A connection whose coordinator asks to evaluate until that came to something; at first, `lost` times, it has not
    the model that is to be evaluated."""

    address = "nowhere"

    def __init__(self, plan, model, lost):
        import hashlib

        from rivulet import _protocol

        self.wire = _protocol
        self.blobs = {hashlib.sha256(plan).digest(): plan, bytes.fromhex(rivulet.model_digest(model)): None}
        self.model = model
        self.uploads, self.failures = [], []
        self.lost = lost

    def poll(self, request):
        reply = self.wire.PollReply()
        if self.uploads or self.failures or request.want == 0:
            reply.over.sentence = "it is over"
            return reply
        plan, model = self.blobs
        task = reply.tasks.add(id="t", run_id="r", client_id="ann", kind=1, plan=plan)
        task.inputs.add(name="model").id.MergeFrom(type(task.inputs[0].id)(form=1, digest=model))
        reply.wait_ms = 60_000
        return reply

    @contextlib.contextmanager
    def fetch(self, request):
        from rivulet._connection import CallError

        content = self.blobs[request.id.digest]
        if content is None and self.lost > 0:
            self.lost -= 1
            raise CallError("NOT_FOUND", "this coordinator has no such blob, or no longer")
        if content is None:
            with tempfile.NamedTemporaryFile() as file:
                rivulet.save_safetensors(file.name, self.model)
                content = pathlib.Path(file.name).read_bytes()
        from rivulet._crc32c import crc32c

        chunk = self.wire.Chunk(total_bytes=len(content), data=content, crc=int(crc32c([content])[0]))
        yield iter([chunk.SerializeToString()])

    @contextlib.contextmanager
    def submit(self, messages):
        staged, result = self.wire.SubmitReply(), self.wire.SubmitReply()
        staged.staged.SetInParent()
        result.result.SetInParent()
        messages = [self.wire.SubmitMessage.FromString(content) for content in messages]
        self.uploads.append(b"".join(message.chunk for message in messages))
        yield iter([staged.SerializeToString(), result.SerializeToString()])

    def parsed(self, kind, content):
        return kind.FromString(content)

    def fail(self, request):
        self.failures.append((request.failure.code, request.failure.subject))

    def cancel_streams(self):
        pass


@packaged.needs_grpc
class Evaluations(unittest.TestCase):
    def asked(self, client, lost=0):
        import numpy as np

        from rivulet import _protocol
        from rivulet._agent import _Agent
        from rivulet._client_state import ClientState

        message = _protocol.Plan(format=2, name="tiny")
        message.model.variables.add(name="w", dtype=1, shape=(2,), segment="trainable")
        a_pass = message.programs.add(kind=1).passes.add(dataset="train")
        a_pass.scalars.add(name="loss")
        connection = Asks(message.SerializeToString(), {"w": np.ones(2, np.float32)}, lost)
        with self.assertLogs("rivulet"):
            self.assertEqual(_Agent(client, connection, "ann", "train", ClientState(None)).run(), "it is over")
        return connection

    def test_an_evaluation_is_sent_without_parts(self):
        class Judges(Adds):
            def evaluate(self, params, context):
                return rivulet.Evaluation(examples=4, metrics={"loss": params["w"].sum(), "auc": 1})

        connection = self.asked(Judges())
        self.assertEqual(parsed(connection.uploads[0]), ({}, {"examples": 4, "loss": 2}))
        self.assertEqual(connection.failures, [])

    def test_a_model_that_is_gone_for_a_time_is_asked_for_again_before_the_task_fails(self):
        class Judges(Adds):
            def evaluate(self, params, context):
                return rivulet.Evaluation(examples=4, metrics={"loss": 1})

        came_back = self.asked(Judges(), lost=2)
        self.assertEqual((len(came_back.uploads), came_back.failures), (1, []))
        stays_away = self.asked(Judges(), lost=3)
        self.assertEqual((stays_away.uploads, stays_away.failures), ([], [(0, "")]))

    def test_who_does_not_say_how_to_evaluate_says_so(self):
        connection = self.asked(Adds())
        self.assertEqual((connection.uploads, connection.failures), ([], [(7, "how to evaluate")]))


@packaged.needs_grpc
class State(harness.RivuletTest):
    """What a client keeps, as the coordinator's words about its tasks come in."""

    def given(self, state, round_, run="r"):
        return {name: array.tolist() for name, array in state.of(run, round_).items()}

    def did(self, state, round_, end=0):
        import numpy as np

        state.propose("r", round_, f"r{round_}", {"rounds": np.append(state.of("r", round_).get("rounds", []), round_)})
        if end is not None:
            state.hear(f"r{round_}", end)

    def test_a_round_that_is_asked_for_again_begins_with_what_was_before_it(self):
        from rivulet._client_state import ClientState

        for path in (None, self.path("ann.safetensors")):
            state = ClientState(path)
            self.assertEqual(self.given(state, 1), {})
            self.did(state, 1)
            self.did(state, 2)
            self.did(state, 3, end=2)  # dropped
            self.did(state, 4, end=None)  # nobody has said yet
            for again in (state, ClientState(path)) if path else (state,):
                self.assertEqual(self.given(again, 5), {"rounds": [1, 2]})
                self.assertEqual(self.given(again, 2), {"rounds": [1]})
                self.assertEqual(self.given(again, 5, run="another"), {})
                again.hear("r3", 0)  # of another task than the one proposed
                self.assertEqual(self.given(again, 5), {"rounds": [1, 2]})
            again.hear("r4", 0)
            self.assertEqual(self.given(again, 5), {"rounds": [1, 2, 4]})

    def test_what_was_before_stays_until_the_newest_is_durable(self):
        from rivulet._client_state import ClientState

        for path in (None, self.path("ann.safetensors")):
            state = ClientState(path)
            for round_ in (1, 2, 3, 4):
                self.did(state, round_)
            # The coordinator lost three versions, and makes them again.
            for again in (state, ClientState(path)) if path else (state,):
                self.assertEqual(self.given(again, 2), {"rounds": [1]})
            self.did(state, 2)
            self.assertEqual(self.given(state, 5), {"rounds": [1, 2]})
            self.did(state, 3)
            state.hear("r2", 0, durable=True)  # not the newest: nothing is settled by it
            self.assertEqual(self.given(state, 2), {"rounds": [1]})
            state.hear("r3", 0, durable=True)
            self.assertEqual((self.given(state, 3), self.given(state, 4)), ({}, {"rounds": [1, 2, 3]}))
        self.assertEqual([each.name for each in self.folder.glob("ann*")], ["ann.safetensors"])

    def test_what_nobody_says_to_be_durable_is_not_kept_for_ever(self):
        from rivulet._client_state import ClientState

        state = ClientState(self.path("ann.safetensors"), 2)
        for round_ in (1, 2, 3, 4, 5):
            self.did(state, round_)
        self.assertEqual(sorted(each.name for each in self.folder.glob("ann*")), [f"ann.safetensors{end}" for end in ("", ".round-3", ".round-4")])

    def test_only_arrays_are_kept(self):
        from rivulet._client_state import ClientState

        with self.assertRaisesRegex(rivulet.RivuletError, r"fit left context.state\['n'\] as a int; it keeps NumPy"):
            ClientState(None).propose("r", 1, "t", {"n": 1})


@packaged.needs_grpc
class Protocol(harness.RivuletTest):
    @unittest.skipUnless(shutil.which("protoc"), "needs protoc (Debian's protobuf-compiler)")
    def test_what_the_package_knows_of_the_messages_stands_in_proto(self):
        from google.protobuf import descriptor_pb2

        def fields(path):
            described = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(path).read_bytes())
            return {
                (message.name, field.name, field.number, field.type, field.label, field.type_name)
                for file in described.file
                for message in [each for top in file.message_type for each in (top, *top.nested_type)]
                for field in message.field
            }

        made = self.path("made.desc")
        subprocess.run([packaged.ROOT / "scripts/python-protocol.sh", made], check=True)
        ours = fields(packaged.ROOT / "python/rivulet/_protocol.desc")
        # A field that is new there and that no client in Python reads is passed over, as by an older client.
        self.assertEqual(ours - fields(made), set(), "run scripts/python-protocol.sh")
        self.assertGreater(len(ours), 100)


if __name__ == "__main__":
    harness.main()
