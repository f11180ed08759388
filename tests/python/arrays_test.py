"""model.arrays: a model without a graph, which clients in Python train and the program folds, stores and serves."""

import logging
import unittest

import packaged
import harness
import rivulet
from client_test import Federation, example, folded, parsed

SCENARIO = """
[run]
name = "foreign"
rounds = 3
seed = 7

[model]
arrays = "init.safetensors"
freeze = ["scale", "half"]

[data]
synth = { kind = "digits", writers = 12, test_writers = 2, examples_per_writer = 8, seed = 3 }
partition = { kind = "iid", clients = 6 }

[client]
epochs = 2
batch_size = 5

[server]
clients_per_round = 3

[evaluation]
federated_every = 3
"""


class Judging:
    """A client of examples/numpy_client.py that looks at what else the model has, and measures."""

    def __init__(self, file):
        import numpy as np

        self.dense = example("numpy_client").Dense(file)
        self.examples = self.dense.examples
        self.half = np.array([1.5, -2], np.float16)

    def layers(self, params):
        assert params["half"].dtype == "float16" and (params["half"] == self.half).all()
        assert params["scale"].dtype == "float32" and params["scale"].tolist() == [1.5, -2]
        return {name: array for name, array in params.items() if name.startswith("dense1/")}

    def fit(self, params, context):
        return self.dense.fit(self.layers(params), context)

    def evaluate(self, params, context):
        layers = self.layers(params)
        scores = self.dense.pixels @ layers["dense1/kernel"] + layers["dense1/bias"]
        loss, _ = self.dense.gradients(layers, self.dense.pixels, self.dense.labels)
        right = (scores.argmax(axis=1) == self.dense.labels).mean()
        return rivulet.Evaluation(examples=self.examples, metrics={"loss": loss, "accuracy": right})


def safetensors(tensors):
    """A file with tensors of any type: (dtype, shape, bytes) by name."""
    import json
    import struct

    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@packaged.needs_grpc
class Arrays(Federation):
    def setUp(self):
        super().setUp()
        logger = logging.getLogger("rivulet")
        self.addCleanup(setattr, logger, "propagate", logger.propagate)
        logger.propagate = False
        self.file_of_weights()

    def file_of_weights(self, bias=0.0):
        import numpy as np

        kernel = np.random.default_rng(5).normal(0, 0.05, (784, 10)).astype("<f4")
        halves = np.array([1.5, -2], "<f4")
        self.write(
            "init.safetensors",
            safetensors(
                {
                    "dense1/kernel": ("F32", [784, 10], kernel.tobytes()),
                    "dense1/bias": ("F32", [10], np.full(10, bias, "<f4").tobytes()),
                    "half": ("F16", [2], halves.astype("<f2").tobytes()),
                    "scale": ("BF16", [2], (halves.view("<u4") >> 16).astype("<u2").tobytes()),
                }
            ),
        )
        self.kernel = kernel

    def rivulet_client(self, name):
        client = Judging(self.file(name))
        wrapped = type("Wrapped", (rivulet.Client,), {"fit": lambda _, *a: client.fit(*a)})()
        wrapped.evaluate, wrapped.examples = client.evaluate, client.examples
        return wrapped

    def test_clients_train_what_the_program_cannot_and_it_folds_stores_and_serves_it(self):
        self.begin(3, scenario=SCENARIO)
        threads = [self.in_thread(self.rivulet_client(name), name) for name in self.names]
        for thread, told in threads:
            self.ends(thread, told, "the run has finished after round 3")
        self.assertEqual(self.coordinator.wait(60), 0)
        run = rivulet.open(self.path("runs.sqlite")).run("latest")
        first = run.model(0, widen_bfloat16=True)
        self.assertEqual(list(first), ["dense1/kernel", "dense1/bias", "half", "scale"])
        self.assertTrue((first["dense1/kernel"] == self.kernel).all())
        self.assertEqual((str(first["half"].dtype), first["scale"].tolist()), ("float16", [1.5, -2]))
        with self.assertRaisesRegex(rivulet.RivuletError, "'scale' is BF16"):
            run.model(0)
        # Each version follows from the updates that were sent, as a model with a graph would.
        for round_, digest in enumerate(self.digests(), 1):
            tasks = self.query(f"SELECT task_id FROM client_rounds WHERE round = {round_} AND kind = 'train'")
            layers = [
                {name: array for name, array in run.model(r, widen_bfloat16=True).items() if "dense1" in name}
                for r in (round_ - 1, round_)
            ]
            expected = folded(layers[0], [self.relay.updates[task] for (task,) in tasks])
            self.assertEqual(rivulet.model_digest(layers[1]), rivulet.model_digest(expected), digest)
        losses = [loss for (loss,) in self.query("SELECT train_loss FROM rounds ORDER BY round")]
        self.assertLess(losses[-1], losses[0])
        measured = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'federated'"))
        self.assertGreater(measured["evaluate/accuracy"], 0.5)
        self.assertLess(measured["evaluate/loss"], losses[0])
        self.assertEqual(parsed(self.relay.updates[tasks[0][0]])[1].keys(), {"examples", "train_loss"})
        self.export_without_the_first_weights(run)

    def export_without_the_first_weights(self, run):
        """There is no graph, so weights alone are written, under their own names."""
        (self.folder / "init.safetensors").unlink()
        newest = run.model(widen_bfloat16=True)
        for format, file in (("pytorch", "theirs.safetensors"), ("safetensors", "ours.safetensors")):
            self.run_rivulet("model", "export", "latest", "--db", self.path("runs.sqlite"), "--format", format, "--out", self.path(file), code=0)
            written = rivulet.load_safetensors(self.path(file), widen_bfloat16=True)
            self.assertEqual(sorted(written), sorted(newest))
            self.assertTrue(all((written[name] == newest[name]).all() for name in newest))
        refused = self.run_rivulet("model", "export", "latest", "--db", self.path("runs.sqlite"), "--out", self.path("net.onnx"))
        self.assert_refused(refused, "weights without a graph", "npz, pytorch and safetensors", code=2)

    def test_native_clients_say_who_can(self):
        self.begin(1, "run.rounds=1", "evaluation.federated_every=0", scenario=SCENARIO)
        native = self.start_native(self.names[0])
        for line in native.stderr:
            if "has no graph" in line:
                break
        self.assertIn("take part with rivulet.run_client of the Python package", line)
        native.kill()
        native.wait()
        thread, told = self.in_thread(self.rivulet_client(self.names[0]), self.names[0])
        self.ends(thread, told, "the run has finished after round 1")
        errors = {error for (error,) in self.query("SELECT error FROM client_rounds WHERE status = 'failed'")}
        self.assertEqual(
            errors, {"the plan has no graph, and it runs graphs; clients of the Python package train such a model"}
        )

    def test_commands_that_run_models_say_who_can(self):
        scenario = self.write("foreign.toml", SCENARIO)
        for command in (
            ["simulate", scenario, "--db", self.path("x.sqlite")],
            ["up", scenario, "--clients", 3, "--db", self.path("x.sqlite")],
            ["graph", "inspect", scenario],
            ["model", "inspect", scenario],
            ["debug", scenario],
        ):
            self.assert_refused(self.run_rivulet(*command), "Clients in Python can train it: start ")

    def test_a_plan_is_of_its_first_values(self):
        scenario = self.write("foreign.toml", SCENARIO)
        plan = self.path("foreign.plan")
        built = self.run_rivulet("plan", "build", scenario, "--out", plan, code=0)
        self.assertIn("external training", built.out)
        shown = self.run_rivulet("plan", "show", plan, code=0).out
        self.assertRegex(shown, "training +external: it has no graph")
        self.assertRegex(shown, "train_pass_1 +data set 'train', 2 epochs, batches of 5\n")
        self.file_of_weights(bias=1.0)
        refused = self.run_rivulet(
            "coordinator", scenario, "--plan", plan, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path("x.sqlite")
        )
        self.assertIn("use the file that the plan was built from", refused.err)


class Memory(unittest.TestCase):
    def test_pages_are_used_again_once_nobody_looks_at_them(self):
        import numpy as np

        from rivulet._arrays import Pages

        pages = Pages()
        first = pages.of(10_000)
        first[:] = b"a" * 10_000
        watched = np.frombuffer(first[100:200], np.uint8)
        del first
        second = pages.of(20_000)
        second[:] = b"b" * 20_000
        self.assertEqual(bytes(watched), b"a" * 100)
        where = np.frombuffer(second, np.uint8).ctypes.data
        del second
        self.assertEqual(np.frombuffer(pages.of(20_000), np.uint8).ctypes.data, where)
        self.assertEqual(len(pages.of(5_000)), 5_000)
        for impossible in (-1, 0, 1 << 62):
            with self.assertRaises((OSError, OverflowError, ValueError)):
                pages.of(impossible)
        self.assertEqual(len(pages.of(1)), 1)


if __name__ == "__main__":
    harness.main()
