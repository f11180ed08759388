"""An option does something or does not exist: for every key of docs/reference/scenario.md, a test that sees its effect. A documented key without
one here fails test_every_key_has_a_test. An option of a registered piece needs none: unless it has one here, its example has to change the model."""
import json
import os
import pathlib
import re
import subprocess
import time

import harness
from harness import RivuletTest, field, main, node, varint

PAGE = (pathlib.Path(__file__).parents[2] / "docs/reference/scenario.md").read_text()
DOCUMENTED = re.findall(r"^\| `([a-z0-9_.]+)` \|", PAGE, re.M)
# Key, the key that chooses its piece, a piece that has it, and its example.
OPTIONS = re.findall(r'^\| `([a-z0-9_.]+)` \|.* Only when ([a-z_.]+\.(?:kind|sizes)) is "(\w+)".*\| `\w+ = (.*)` \|$', PAGE, re.M)


class KeyEffects(RivuletTest):
    IN_MEMORY = True
    ADAPTED = {"model.lora.targets": '["*kernel"]'}
    plain = {}  # the digests that settings give without the key that is tested, as many tests compare with the same

    def sets(self, settings):
        return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]

    def outcome(self, settings):
        """The digests of a run with these keys set, after two rounds."""
        db = f"{len(list(self.folder.iterdir()))}.sqlite"
        self.simulate("--rounds", 2, *self.sets(settings), db=db)
        return self.digests(db), db

    def changes(self, settings, under=None):
        """Setting them gives another model than not setting them, everything else, `under` included, being equal."""
        under = under or {}
        words = tuple(self.sets(under))
        if words not in self.plain:
            self.plain[words] = self.outcome(under)[0]
        self.assertNotEqual(self.outcome({**under, **settings})[0], self.plain[words])

    def refused(self, settings, *fragments):
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--db", self.path("refused.sqlite"), "--rounds", 1,
                                             *self.sets(settings)), *fragments)

    def graph(self):
        self.run_rivulet("model", "export", "logistic_regression", "--out", self.path("model.pb"), code=0)
        return {"model.graph": self.path("model.pb")}

    def central(self, db):
        return self.query("SELECT round, name, value FROM metrics WHERE scope = 'central' ORDER BY round, name", db=db)

    def one_bad_client(self):
        """Records of which one has a label that no model has: its client fails at every task."""
        image = bytes(784)
        records = [harness.example(image, 77 if i == 5 else 3) for i in range(12)]
        return {"data.train": self.write("bad.tfrecord", harness.tfrecord(records)), "data.test": "", "data.partition.clients": 3,
                "server.clients_per_round": 3}

    def attempts(self, settings):
        """Status of every attempt of a run that one bad client takes part in."""
        db = f"{len(list(self.folder.iterdir()))}.sqlite"
        self.simulate_any("--rounds", 1, *self.sets({**self.one_bad_client(), **settings}), db=db)
        return [row[0] for row in self.query("SELECT status FROM rounds ORDER BY attempt", db=db)]

    def simulate_any(self, *arguments, db):
        return self.run_rivulet("simulate", self.scenario, "--db", self.path(db), *arguments)

    # Each method is named after its key, dots written as two underscores.

    def test_run__name(self):
        db = self.outcome({"run.name": "other"})[1]
        self.assertEqual(self.query("SELECT name FROM runs", db=db), [("other",)])

    def test_run__rounds(self):
        self.simulate("--set", "run.rounds=3")
        self.assertEqual(len(self.digests()), 3)

    def rounds_until_stopped(self, settings):
        """How many of five rounds are run, and what the end says why."""
        db = f"{len(list(self.folder.iterdir()))}.sqlite"
        self.simulate("--rounds", 5, *self.sets(settings), db=db)
        self.assertEqual(self.query("SELECT status FROM runs", db=db), [("finished",)])
        said = self.query("SELECT message FROM events WHERE message LIKE 'no further round%'", db=db)
        return self.query("SELECT count(*) FROM rounds", db=db)[0][0], [message for message, in said]

    def test_run__stop(self):
        losses = [value for _, name, value in self.central(self.outcome({})[1]) if name == "test/loss"]
        rounds, said = self.rounds_until_stopped({"run.stop": f"'loss <= {losses[1]!r}'"})
        self.assertEqual(rounds, 2)
        self.assertRegex(said[0], r"no further round: test/loss is [0-9.]+, and run\.stop is \"loss <= ")
        self.assertEqual(self.rounds_until_stopped({"run.stop": "'accuracy > 1'"}), (5, []))
        self.refused({"run.stop": "accuracy"}, "run.stop is 'accuracy'", "accuracy >= 0.99")
        self.assert_refused(self.simulate_any("--rounds", 2, "--set", "run.stop='auc > 0.5'", db="auc.sqlite"),
                            "versions are measured by test/accuracy, test/loss; name one of these")

    def test_run__patience(self):
        # Of a model that does not move no version is better than the first.
        still = {"client.optimizer.learning_rate": 1e-30, "run.patience": 2}
        rounds, said = self.rounds_until_stopped(still)
        self.assertEqual(rounds, 3)
        self.assertIn("no further round: 2 measured versions after the best so far were no better, as many as run.patience says", said)
        self.assertEqual(self.rounds_until_stopped({"run.patience": 5}), (5, []))

    def test_run__seed(self):
        self.changes({"run.seed": 8})

    def model_files(self, settings, rounds=2):
        db = f"{len(list(self.folder.iterdir()))}.sqlite"
        self.simulate("--rounds", rounds, *self.sets(settings), db=db)
        return sorted(path.name for path in self.folder.glob(f"{db}.models/*/*.safetensors"))

    def test_run__keep_models(self):
        self.assertEqual(len(self.model_files({"run.keep_models": "last"})), 2)
        for durability in ("round", "end"):
            db = f"{durability}.sqlite"
            self.simulate("--rounds", 8, *self.sets({"run.keep_models": "best", "run.durability": durability}), db=db)
            best, = self.query("SELECT best_round FROM run_leaderboard", db=db)[0]
            files = [path.name for path in self.folder.glob(f"{db}.models/*/*.safetensors")]
            self.assertLessEqual({f"round-{best:06d}.safetensors", "round-000008.safetensors"}, set(files))
            self.assertLessEqual(len(files), 3)
        self.assertEqual(len(self.model_files({"run.keep_models": "all"})), 3)

    def test_run__durability(self):
        # The newest stays, and the one that was written before it.
        first, last = "round-000000.safetensors", "round-000008.safetensors"
        self.assertEqual(self.model_files({"run.durability": "end"}, 8), [first, last])
        files = self.model_files({"run.durability": "round"}, 8)
        self.assertEqual((len(files), files[-1]), (2, last))
        self.assertNotEqual(files[0], first)

    def test_run__kernels(self):
        portable = self.outcome({"run.kernels": "portable"})[0]
        self.assertNotEqual(portable, self.outcome({})[0])  # sums are rounded in another order
        self.simulate("--rounds", 2, "--kernels", "portable", db="option.sqlite")
        self.assertEqual(self.digests("option.sqlite"), portable)

    def peak_memory(self, megabytes):
        """Largest anonymous memory of a run whose 12,000 digits are kept in 9.5 MB, in kB, and its digests."""
        db = f"cache-{megabytes}.sqlite"
        process = self.start("simulate", self.scenario, "--db", self.path(db), "--rounds", 3, "--workers", 1,
                             *self.sets({"run.cache_megabytes": megabytes, "data.synth.writers": 200,
                                         "data.synth.examples_per_writer": 60, "data.partition.clients": 10, "server.clients_per_round": 10}))
        peak = 0
        while process.poll() is None:
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                break
            peak = max([peak] + [int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:")])
            time.sleep(0.002)
        _, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        return peak, self.digests(db)

    @harness.measures_memory
    def test_run__cache_megabytes(self):
        none, some, all = (self.peak_memory(megabytes) for megabytes in (0, 2, 1024))
        self.assertGreater(all[0] - none[0], 7_000)
        self.assertLess(some[0] - none[0], 5_000)
        self.assertEqual(none[1], some[1])
        self.assertEqual(none[1], all[1])

    def test_model__preset(self):
        db = self.outcome({"model.preset": "mlp"})[1]
        self.assertEqual(self.query("SELECT DISTINCT parameters FROM models", db=db), [(199210,)])

    def test_model__graph(self):
        graph = self.graph()
        self.assertEqual(self.outcome(graph)[0], self.outcome({})[0])  # the preset's own graph gives the preset's bits
        self.refused({"model.graph": self.write("junk.pb", b"junk")}, "junk.pb")

    def test_model__onnx(self):
        onnx = {"model.onnx": self.path("model.onnx")}
        self.run_rivulet("model", "export", self.scenario, "--out", onnx["model.onnx"], code=0)
        self.assertEqual(self.outcome(onnx)[0], self.outcome({})[0])  # the same first weights and the same bits after
        self.refused({"model.onnx": self.write("junk.onnx", b"junk")}, "junk.onnx")

    def test_model__arrays(self):
        """What a run begins with that other clients train; tests/python/arrays_test.py has them."""
        first, second = self.path("first.safetensors"), self.path("second.safetensors")
        for seed, file in enumerate((first, second)):
            self.simulate("--rounds", 1, "--set", f"run.seed={seed}", db=f"{seed}.sqlite")
            (model,) = self.folder.glob(f"{seed}.sqlite.models/*/round-000000.safetensors")
            model.rename(file)
        plans = []
        for file in (first, second, first):
            self.run_rivulet("plan", "build", self.scenario, "--set", f"model.arrays={file}", "--out", self.path("a.plan"), code=0)
            plans.append(self.run_rivulet("plan", "show", self.path("a.plan"), code=0).out)
        self.assertIn("external", plans[0])
        self.assertEqual(plans[0], plans[2])
        self.assertNotEqual(plans[0], plans[1])
        self.assert_refused(self.run_rivulet("plan", "build", self.scenario, "--set", f"model.arrays={self.write('junk', b'junk')}",
                                             "--out", self.path("b.plan")), "junk")

    def test_model__base(self):
        """Tensors of a plan whose values it has not; tests/python/base_test.py has clients."""
        shown = {}
        for name in ("digits", "adapter", "other"):
            self.simulate("--rounds", 1, "--set", f"run.seed={len(name)}", db=f"{name}.sqlite")
            (model,) = self.folder.glob(f"{name}.sqlite.models/*/round-000000.safetensors")
            content = model.read_bytes()
            if name != "adapter":  # other names, as many bytes long
                content = content.replace(b"dense", b"still")
            pathlib.Path(self.path(f"{name}.safetensors")).write_bytes(content)
        keys = {"model.arrays": self.path("adapter.safetensors")}
        for base in ("digits", "other"):
            build = self.sets({**keys, "model.base": self.path(f"{base}.safetensors")})
            self.run_rivulet("plan", "build", self.scenario, *build, "--out", self.path("a.plan"), code=0)
            shown[base] = self.run_rivulet("plan", "show", self.path("a.plan"), code=0).out
            digest = json.loads(self.run_rivulet("model", "base", self.path(f"{base}.safetensors"), "--json", code=0).out)["digest"]
            self.assertRegex(shown[base], rf"(?m)^base +{digest}$")
            self.assertRegex(shown[base], r"(?m)^format +4$")
        self.assertNotEqual(shown["digits"], shown["other"])
        junk = {"model.base": self.write("junk", b"junk")}
        for settings, fragments in [
            ({**keys, **junk}, ["model.base", "junk"]),
            ({**keys, "model.base": keys["model.arrays"]}, ["dense1/", "is in model.arrays", "and in model.base"]),
            (junk, ["model.base", "junk"]),
            ({"model.base": self.path("other.safetensors")}, ["model.base", "still", "no such variable"]),
            ({"model.base": keys["model.arrays"]}, ["model.base", "only variables that are trained", "model.weights"]),
        ]:
            build = self.sets(settings)
            self.assert_refused(self.run_rivulet("plan", "build", self.scenario, *build, "--out", self.path("b.plan")), *fragments)

    def test_server__serve_base(self):
        """tests/python/base_test.py has clients of either kind."""
        self.refused({"server.serve_base": "false"}, "server.serve_base", "only when model.base is given")

    def test_model__weights(self):
        digests, db = self.outcome({"run.keep_models": "all"})
        (after,) = self.folder.glob(f"{db}.models/*/round-000001.safetensors")
        goes_on, other = self.outcome({"model.weights": str(after), "run.seed": 9})
        self.assertEqual(self.query("SELECT digest FROM models WHERE round = 0", db=other), [(digests[0],)])
        self.assertNotEqual(goes_on, self.outcome({"run.seed": 9})[0])
        self.refused({"model.weights": str(after), "model.preset": "mlp"}, "model.weights", "dense1/kernel", "[784,10]", "[784,200]")
        self.refused({"model.weights": self.write("junk.safetensors", b"junk")}, "model.weights", "junk.safetensors")

    def test_model__loss(self):
        self.refused({**self.graph(), "model.loss": "nowhere"}, "nowhere")

    def test_model__metrics(self):
        names = {name for _, name, _ in self.central(self.outcome({**self.graph(), "model.metrics": "[]"})[1])}
        self.assertEqual(names, {"test/loss"})
        asked = {"model.metrics": '["top_3", "f1", "auc"]', "evaluation.federated_every": 1}
        db = self.outcome(asked)[1]
        rows = dict((name, value) for round, name, value in self.central(db) if round == 2)
        self.assertEqual(set(rows), {"test/loss", "test/top_3", "test/f1", "test/auc", "test/auc_bound"})
        clients = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'federated' AND round = 2", db=db))
        for name in ("top_3", "f1", "auc"):
            self.assertTrue(0 <= rows[f"test/{name}"] <= 1, rows)
            self.assertTrue(0 <= clients[f"evaluate/{name}"] <= 1, clients)
        self.refused({"model.metrics": '["acuracy"]'}, "acuracy", "Did you mean 'accuracy'?")

    def test_model__image_input(self):
        self.refused({**self.graph(), "model.image_input": "nowhere"}, "nowhere")

    def test_model__label_input(self):
        self.refused({**self.graph(), "model.label_input": "nowhere"}, "nowhere")

    LAYERS = '[{ type = "flatten" }, { type = "dense", units = 10 }]'

    def layers(self, settings):
        return {"model.layers": self.LAYERS, "model.input.shape": "[28, 28, 1]", **settings}

    def test_model__layers(self):
        self.assertEqual(self.outcome(self.layers({}))[0], self.outcome({})[0])  # the same model as the preset's
        self.refused(self.layers({"model.layers": '[{ type = "flatten" }, { type = "dense", unit = 10 }]'}), "layer 2", "units")
        self.refused({"model.layers": self.LAYERS}, "model.input.shape")

    def test_model__input__shape(self):
        self.refused({"model.input.shape": "[28, 28, 3]"}, "image")  # the data has one channel

    def test_model__input__kind(self):
        self.refused(self.layers({"model.input.kind": "values"}), "image")  # the data has bytes

    def test_model__inputs(self):
        """tests/e2e/inputs_test.py has what comes of several."""
        named = self.layers({"model.inputs": '[{ name = "image", shape = [28, 28, 1] }]'})
        del named["model.input.shape"]
        self.assertEqual(self.outcome(named)[0], self.outcome(self.layers({}))[0])
        self.refused({**named, "model.inputs": '[{ name = "image", shape = [28, 28, 1] }, { name = "age", shape = [1] }]'}, "no layer takes", "age")

    def test_model__columns(self):
        self.refused(self.layers({"model.columns": self.write("columns.json", "{}")}), "model.columns", "columns.json")

    def test_model__classes(self):
        db = self.outcome({"model.classes": 20})[1]
        self.assertEqual(self.query("SELECT DISTINCT parameters FROM models", db=db), [(785 * 20,)])

    def test_model__normalization(self):
        parameters = {}
        for normalization in ("batch", "none"):
            db = self.outcome({"model.preset": "resnet8", "model.input.shape": "[28, 28, 1]", "model.normalization": normalization})[1]
            parameters[normalization] = self.query("SELECT DISTINCT parameters FROM models", db=db)[0][0]
        self.assertGreater(parameters["batch"], parameters["none"])

    def test_model__target(self):
        """Of the same examples a class, and two numbers; tests/e2e/tabular_test.py has what comes of them."""
        self.refused(self.layers({"model.target": "numbers"}), "label", "float")  # the data has classes
        self.refused(self.layers({"model.target": "labels"}), "label", "10")
        self.refused(self.layers({"model.target": "numbers", "model.objective": "sparse_softmax_cross_entropy"}),
                     "mse, huber, mae")

    def test_model__objective(self):
        self.changes({"model.objective": "mse"}, self.layers({}))

    def test_model__label_smoothing(self):
        self.changes({"model.label_smoothing": 0.1})

    def test_model__class_weights(self):
        self.changes({"model.class_weights": "[1, 1, 1, 1, 1, 1, 1, 1, 1, 9]"})
        self.assertEqual(self.outcome({"model.class_weights": "[2, 2, 2, 2, 2, 2, 2, 2, 2, 2]"})[0], self.outcome({})[0])
        self.refused({"model.class_weights": "[1, 2]"}, "model.class_weights has 2 weights", "10 classes")
        # Decimals, as PyTorch's weight= takes them, are whole numbers of the same ratios.
        whole = self.outcome({"model.class_weights": "[5, 17, 10, 10, 10, 10, 10, 10, 10, 10]"})[0]
        self.assertEqual(self.outcome({"model.class_weights": "[0.5, 1.7, 1, 1, 1, 1.0, 1, 1, 1, 1]"})[0], whole)
        self.refused({"model.class_weights": "[0.5, -1.5]"}, "model.class_weights in", "must hold numbers of at least 0, not -1.5")
        self.refused({"model.class_weights": "[0.5, inf]"}, "must hold finite numbers, not inf")

    def test_model__ignore_label(self):
        """That it counts for nothing, tests/engine/models/language_test.cc says."""
        self.changes({"model.ignore_label": 3})
        self.assertEqual(self.outcome({"model.ignore_label": -100})[0], self.outcome({"model.ignore_label": "[-5]"})[0])
        self.refused({"model.ignore_label": "[1, 2]"}, "model.ignore_label")
        self.refused({"model.ignore_label": 3, "model.metrics": '["top_5"]'}, "the metric 'top_5' is of all labels")
        self.refused({"model.ignore_label": 3, "model.objective": "focal"}, "model.ignore_label", "sparse_softmax_cross_entropy")

    def test_model__positive_weight(self):
        self.changes({"model.positive_weight": 3}, {"model.objective": "sigmoid_cross_entropy"})

    def test_model__focal_gamma(self):
        self.changes({"model.focal_gamma": 1}, {"model.objective": "focal"})

    def test_model__focal_alpha(self):
        """Of labels; tests/engine/models/objectives_test.cc has the numbers."""
        self.refused({"model.focal_alpha": 2, "model.objective": "focal"}, "model.focal_alpha")
        self.refused({"model.focal_alpha": 0.5}, "model.focal_alpha", "focal")

    def test_model__huber_delta(self):
        self.refused({"model.huber_delta": 0, "model.objective": "huber"}, "model.huber_delta")
        self.refused({"model.huber_delta": 0.5}, "model.huber_delta", "huber")

    def test_model__trainable(self):
        """A mask, which is no weight, is one where the scenario says so."""
        masked = str(pathlib.Path(__file__).parents[1] / "conformance" / "onnx" / "torch" / "masked.onnx")
        under = {"model.preset": "", "model.onnx": masked}
        self.changes({"model.trainable": '["attn_*"]'}, under)
        self.refused({**under, "model.trainable": '["attn_mas"]'}, "model.trainable", "attn_mask")

    def test_model__freeze(self):
        self.changes({"model.freeze": '["*/bias"]'})
        self.refused({"model.freeze": '["dense1/bia"]'}, "model.freeze", "dense1/bias")

    def test_model__lora__targets(self):
        self.changes({"model.lora.targets": '["dense*"]'})
        self.refused({"model.lora.targets": '["dense1/kernal"]'}, "model.lora", "dense1/kernel")
        self.refused({"model.lora.targets": '["*bias"]'}, "model.lora", "no product has one of them as its weight")

    def test_model__lora__rank(self):
        self.changes({"model.lora.rank": 2}, self.ADAPTED)

    def test_model__lora__alpha(self):
        self.changes({"model.lora.alpha": 8.0}, self.ADAPTED)

    def test_model__lora__dropout(self):
        self.changes({"model.lora.dropout": 0.5}, self.ADAPTED)

    def test_model__lora__freeze_a(self):
        self.changes({"model.lora.freeze_a": "true"}, self.ADAPTED)

    def test_model__lora__rslora(self):
        self.changes({"model.lora.rslora": "true"}, self.ADAPTED)

    def test_model__lora__modules_to_save(self):
        self.changes({"model.lora.modules_to_save": '["*/bias"]'}, self.ADAPTED)
        self.refused({"model.lora.modules_to_save": '["dense1/kernel"]', **self.ADAPTED}, "model.lora",
                     "is to be trained as a whole")

    def test_server__lora(self):
        self.changes({"server.lora": "stack"}, self.ADAPTED)
        self.refused({"server.lora": "stack"}, "the model has no adapters")
        self.refused({"server.lora": "freeze_a", **self.ADAPTED}, "lora_A' is trained", "model.lora.freeze_a = true")
        self.refused({"server.lora": "stack", "model.lora.freeze_a": "true", **self.ADAPTED}, "is not trained")
        self.refused({"server.lora": "stack", "algorithm.name": "median", **self.ADAPTED}, "the aggregation rule")
        self.refused({"server.lora": "stack", "server.learning_rate": 0.5, **self.ADAPTED}, "server.learning_rate to 1")
        self.refused({"server.lora": "stack", "privacy.secure": "arithmetic", "privacy.clip": 1.0, **self.ADAPTED},
                     "privacy.secure hides them")
        noise = {"algorithm.name": "dp_fedavg", "privacy.clip": 1.0, "algorithm.noise_multiplier": 1.0, **self.ADAPTED}
        self.refused(noise, "whose product multiplies it", "model.lora.freeze_a = true")

    def test_server__lora_rank(self):
        self.changes({"server.lora_rank": 2}, {"server.lora": "stack", **self.ADAPTED})

    def test_model__personal(self):
        unmeasured = {"evaluation.every": 0}
        self.changes({"model.personal": '["*/bias"]'}, unmeasured)
        self.refused({"model.personal": '["dense1/bia"]'}, "model.personal", "dense1/bias")
        self.refused({"model.personal": '["*/bias"]'}, "evaluation.every")
        self.refused({"model.personal": '["*/bias"]', "algorithm.name": "fedprox", **unmeasured}, "local", "base model")

    def test_data__train(self):
        other = {"data.train": self.write("other.tfrecord", harness.tfrecord(
            [harness.example(bytes([i]) * 784, i % 10) for i in range(60)])), "data.test": ""}
        self.changes(other)
        self.refused({"data.train": self.path("othre.tfrecord")}, "othre.tfrecord", "Did you mean 'other.tfrecord'?")

    def test_data__tests(self):
        test = self.write("test.tfrecord", harness.tfrecord([harness.example(bytes(784), 1)]))
        names = {name for _, name, _ in self.central(self.outcome({"data.tests": f'["one={test}"]'})[1])}
        self.assertEqual(names, {"test/accuracy", "test/loss", "one/accuracy", "one/loss"})

    def test_data__validation(self):
        test = self.write("test.tfrecord", harness.tfrecord([harness.example(bytes(784), 1)]))
        names = {name for _, name, _ in self.central(self.outcome({"data.validation": test})[1])}
        self.assertEqual(names, {"test/accuracy", "test/loss", "validation/accuracy", "validation/loss"})

    def test_data__validation_fraction(self):
        self.changes({"data.validation_fraction": 0.25})

    def test_data__test(self):
        test = self.write("test.tfrecord", harness.tfrecord([harness.example(bytes(784), 1)]))
        value = {name: value for _, name, value in self.central(self.outcome({"data.test": test})[1])}["test/accuracy"]
        self.assertIn(value, (0.0, 1.0))  # of one example
        self.assertEqual(self.central(self.outcome({"data.synth.kind": "", "data.train": self.path("data/train.tfrecord"),
                                                    "data.test": ""})[1]), [])

    def test_data__input_feature(self):
        self.refused({"data.input_feature": "nowhere"}, "nowhere")

    def test_data__label_feature(self):
        self.refused({"data.label_feature": "nowhere"}, "nowhere")

    def test_data__partition__kind(self):
        self.changes({"data.partition.kind": "shards"})

    def test_data__partition__clients(self):
        db = self.outcome({"data.partition.clients": 4})[1]
        self.assertEqual(self.query("SELECT count(*) FROM clients", db=db), [(4,)])

    def test_data__partition__shards_per_client(self):
        self.changes({"data.partition.shards_per_client": 1}, {"data.partition.kind": "shards"})

    def test_data__partition__alpha(self):
        self.changes({"data.partition.alpha": 50}, {"data.partition.kind": "dirichlet"})

    def test_data__partition__sizes(self):
        self.changes({"data.partition.sizes": "linear"})

    def test_data__partition__skew(self):
        self.changes({"data.partition.skew": 2}, {"data.partition.sizes": "power_law"})

    def test_data__partition__size_alpha(self):
        self.changes({"data.partition.size_alpha": 50}, {"data.partition.sizes": "dirichlet"})

    def test_data__partition__min_examples(self):
        self.refused({"data.partition.kind": "label_dirichlet", "data.partition.min_examples": 17}, "give 1 to 16")

    def test_data__partition__labels_per_client(self):
        self.changes({"data.partition.labels_per_client": 8},
                     {"data.partition.kind": "pathological", "data.partition.labels_per_client": 4})

    def test_data__partition__distribution(self):
        def shares(name, of):
            return {"data.partition.distribution": self.write(name, "\n".join(",".join(map(str, of(client))) for client in range(6)))}
        self.changes(shares("unlike.csv", lambda client: [1 + client * label for label in range(10)]),
                     {"data.partition.kind": "distribution", **shares("alike.csv", lambda client: [1] * 10)})

    def test_data__partition__property(self):
        self.refused({"data.partition.kind": "continuous", "data.partition.property": "nowhere"}, "nowhere")

    def test_data__partition__strictness(self):
        self.changes({"data.partition.strictness": 0.25},
                     {"data.partition.kind": "continuous", "data.partition.property": "label"})

    def test_data__partition__key(self):
        db = self.outcome({"data.partition.kind": "by_key", "data.partition.key": "label"})[1]
        names = {name for name, in self.query("SELECT client_id FROM clients", db=db)}
        self.assertTrue(names <= {str(digit) for digit in range(10)}, names)

    def test_data__shift__kind(self):
        self.changes({"data.shift.kind": "rotation"})

    def test_data__shift__amount(self):
        self.changes({"data.shift.amount": 0.5}, {"data.shift.kind": "noise"})

    def test_data__shift__groups(self):
        self.changes({"data.shift.groups": 2}, {"data.shift.kind": "brightness"})

    def test_data__synth__kind(self):
        self.outcome({})
        self.assertTrue((self.folder / "data/train.tfrecord").exists())
        os.remove(self.folder / "data/train.tfrecord")
        self.refused({"data.synth.kind": ""}, "data/train.tfrecord")

    def generated(self, settings):
        self.outcome({**settings, "data.train": self.path("made/train.tfrecord"), "data.test": self.path("made/test.tfrecord")})
        inspected = {}
        for name in ("train", "test"):
            inspected[name] = self.run_rivulet("data", "inspect", self.path(f"made/{name}.tfrecord"), "--json", code=0).out
        return {name: int(re.search(r'"examples": (\d+)', text).group(1)) for name, text in inspected.items()}

    def test_data__synth__writers(self):
        self.assertEqual(self.generated({"data.synth.writers": 15})["train"], 15 * 8)

    def test_data__synth__test_writers(self):
        self.assertEqual(self.generated({"data.synth.test_writers": 3})["test"], 3 * 8)

    def test_data__synth__examples_per_writer(self):
        self.assertEqual(self.generated({"data.synth.examples_per_writer": 9}), {"train": 12 * 9, "test": 2 * 9})

    def test_data__synth__seed(self):
        made = {"data.train": self.path("a/train.tfrecord"), "data.test": self.path("a/test.tfrecord"), "data.synth.seed": 3}
        other = {"data.train": self.path("b/train.tfrecord"), "data.test": self.path("b/test.tfrecord"),
                 "data.synth.seed": 4}
        self.assertNotEqual(self.outcome(made)[0], self.outcome(other)[0])

    def test_client__epochs(self):
        db = self.outcome({"client.epochs": 3})[1]
        self.assertEqual(self.query("SELECT DISTINCT steps FROM client_rounds", db=db), [(3 * 4,)])  # 16 examples by fives

    def test_client__partial_work(self):
        steps = lambda settings: {row[0] for row in self.query("SELECT steps FROM client_rounds", db=self.outcome(settings)[1])}
        epochs = {"client.epochs": 8}
        whole, = steps(epochs)
        partial = steps({**epochs, "client.partial_work": 1})
        self.assertGreater(len(partial), 1)
        self.assertLessEqual(max(partial), whole)
        self.assertGreaterEqual(min(partial), whole // 8)
        self.refused({"client.partial_work": 0.5, "client.epochs": 1}, "client.epochs is above 1")

    def test_client__frozen(self):
        everything = {"client.frozen": '["*=1..1"]'}
        first, second = self.outcome(everything)[0][:2]
        plain = self.outcome({})[0]
        self.assertNotIn(first, plain)
        self.assertNotEqual(second, first)  # from round 2 on it trains
        self.changes({"client.frozen": '["*/bias=1.."]'})
        self.refused({"client.frozen": '["conv1/*"]'}, "PATTERN=FROM..UNTIL")
        self.refused({"client.frozen": '["nothing=1..2"]'}, "no variable that is trained matches 'nothing'")
        self.refused({**everything, "client.optimizer.weight_decay": 0.1}, "client.optimizer.weight_decay")

    def test_client__batch_size(self):
        db = self.outcome({"client.batch_size": 16})[1]
        self.assertEqual(self.query("SELECT DISTINCT steps FROM client_rounds", db=db), [(2,)])

    def test_client__shuffle(self):
        self.changes({"client.shuffle": "false"})

    def input_graph(self, name, batch, shuffle=True):
        """A file with the dataset ops that give batches of so many examples."""
        def scalar(dtype, value):
            return {"dtype": field(6, dtype), "value": field(8, field(1, dtype) + field(2, b"") + value)}
        def elements(*shapes):
            shapes = b"".join(field(7, b"".join(field(2, field(1, size)) for size in shape)) for shape in shapes)
            return {"output_types": field(1, field(6, bytes([1, 9]))), "output_shapes": field(1, shapes)}
        examples = elements((28, 28, 1), ())
        graph = node("examples", "BoundDataset", name=field(2, "train"), **examples)
        for const, value in (("everything", -1), ("zero", 0), ("batch_size", batch)):
            graph += node(const, "Const", **scalar(9, field(10, varint(value))))
        graph += node("drop", "Const", **scalar(10, field(11, varint(0))))
        graph += node("shuffled", "ShuffleDataset", "examples", "everything", "zero", "zero", **examples)
        graph += node("batches", "BatchDatasetV2", "shuffled" if shuffle else "examples", "batch_size", "drop",
                      **elements((-1, 28, 28, 1), (-1,)))
        return {"client.input_graph": self.write(name, graph)}

    def test_client__input_graph(self):
        # What the built-in epochs do, written as a graph, gives their bits; 16 examples go by fives there.
        built_in = self.outcome({})[0]
        self.assertEqual(self.outcome(self.input_graph("same.pb", 5))[0], built_in)
        self.assertNotEqual(self.outcome(self.input_graph("plain.pb", 5, shuffle=False))[0], built_in)
        db = self.outcome(self.input_graph("large.pb", 16))[1]
        self.assertEqual(self.query("SELECT DISTINCT steps FROM client_rounds", db=db), [(2,)])
        self.refused({**self.input_graph("same.pb", 5), "client.shuffle": "false"}, "client.shuffle", "client.input_graph")
        self.refused({"client.input_graph": self.write("junk.pb", b"junk")}, "the plan's input graph")
        self.refused({"client.input_graph": self.write("path.pb", node("batches", "TFRecordDataset"))}, "TFRecordDataset",
                     "by path")

    def test_client__optimizer__kind(self):
        self.changes({"client.optimizer.kind": "momentum"})

    def test_client__optimizer__learning_rate(self):
        self.changes({"client.optimizer.learning_rate": 0.2})

    def test_client__optimizer__momentum(self):
        self.changes({"client.optimizer.momentum": 0.5}, {"client.optimizer.kind": "momentum"})

    def test_client__optimizer__nesterov(self):
        self.changes({"client.optimizer.nesterov": "true"}, {"client.optimizer.kind": "momentum"})

    def optimizer(self, key, value, kind):
        self.changes({f"client.optimizer.{key}": value}, {"client.optimizer.kind": kind})

    def test_client__optimizer__rho(self):
        self.optimizer("rho", 0.5, "adadelta")

    def test_client__optimizer__centered(self):
        self.optimizer("centered", "true", "rmsprop")

    def test_client__optimizer__beta1(self):
        self.optimizer("beta1", 0.5, "adam")

    def test_client__optimizer__beta2(self):
        self.optimizer("beta2", 0.5, "yogi")

    def test_client__optimizer__epsilon(self):
        self.optimizer("epsilon", 0.1, "adamw")

    def test_client__optimizer__initial_accumulator(self):
        self.optimizer("initial_accumulator", 0.1, "adagrad")

    def test_client__optimizer__weight_decay(self):
        self.changes({"client.optimizer.weight_decay": 0.1})

    def test_client__optimizer__clip_norm(self):
        self.changes({"client.optimizer.clip_norm": 0.1})

    def test_client__optimizer__clip_value(self):
        self.changes({"client.optimizer.clip_value": 0.001})

    def schedule(self, key, value, kind):
        self.changes({f"client.schedule.{key}": value}, {"client.schedule.kind": kind})

    def test_client__schedule__kind(self):
        self.changes({"client.schedule.kind": "cosine"})

    def test_client__schedule__warmup(self):
        self.changes({"client.schedule.warmup": 2})

    def test_client__schedule__unit(self):
        self.schedule("unit", "step", "cosine")

    def test_client__schedule__length(self):
        self.schedule("length", 1, "cosine")

    def test_client__schedule__decay_rate(self):
        self.schedule("decay_rate", 0.1, "exponential")

    def test_client__schedule__end(self):
        self.schedule("end", 0.5, "polynomial")

    def test_client__schedule__power(self):
        self.schedule("power", 2, "polynomial")

    def test_client__precision(self):
        self.changes({"client.precision": "bfloat16"})
        self.changes({"client.precision": "float16"}, {"client.precision": "bfloat16"})

    def test_client__loss_scale__kind(self):
        # A power of two changes no bit of float32, and in float16 too large a scale makes every step one that does not count.
        self.assertEqual(self.outcome({"client.loss_scale.kind": "dynamic"})[0], self.outcome({})[0])
        huge = {"client.precision": "float16", "client.loss_scale.kind": "static", "client.loss_scale.scale": 16777216}
        self.assertEqual(len(set(self.outcome(huge)[0])), 1)
        self.changes({"client.loss_scale.kind": "dynamic"}, huge)  # falls until steps count

    def test_client__loss_scale__scale(self):
        self.changes({"client.loss_scale.scale": 1000}, {"client.loss_scale.kind": "static"})  # no power of two

    def test_client__loss_scale__growth_steps(self):
        # Doubled at every step, the scale soon overflows float16.
        self.changes({"client.loss_scale.growth_steps": 1}, {"client.precision": "float16", "client.epochs": 5,
                                                             "client.loss_scale.kind": "dynamic"})

    def test_algorithm__name(self):
        self.refused({"algorithm.name": "fedavgg"}, "Did you mean 'fedavg'?")
        self.refused({"server.algorithm": "fedavg"}, "write [algorithm] name = \"fedavg\"")

    def test_algorithm__graph(self):
        text = self.write("rule.txt", b"mu = 0.1\ngradient = grad + mu * (params - base)\n")
        self.run_rivulet("graph", "build", text, "--out", self.path("rule.pb"), code=0)
        rule = {"algorithm.graph": self.path("rule.pb")}
        self.assertEqual(self.outcome(rule)[0], self.outcome({"algorithm.name": "fedprox", "algorithm.mu": 0.1})[0])
        self.changes({"algorithm.mu": 0.7}, rule)
        self.refused({**rule, "algorithm.mo": 0.7}, "algorithm", "Did you mean 'mu'?")
        self.refused({**rule, "algorithm.name": "ditto"}, "algorithm.graph", "fedavg")
        self.refused({"algorithm.graph": self.write("junk.pb", b"junk")}, "algorithm.graph", "junk.pb")

    def drawn(self, settings, rounds=3, under=None):
        """Numbers of the clients that trained, a set a round."""
        db = f"{len(list(self.folder.iterdir()))}.sqlite"
        self.simulate("--rounds", rounds, *self.sets({**(under or {}), **settings}), db=db)
        rows = self.query("SELECT round, client_id FROM client_rounds WHERE kind = 'train' ORDER BY round, client_id", db=db)
        return [{int(name[-5:]) for at, name in rows if at == number} for number in range(1, rounds + 1)]

    def test_selection__name(self):
        rounds = self.drawn({"selection.name": "round_robin", "server.clients_per_round": 2})
        self.assertEqual(set.union(*rounds), set(range(6)))  # three times two of six
        self.refused({"selection.name": "ort"}, "Did you mean 'oort'?")
        self.refused({"selection.name": "oort", "server.base": "latest"}, "server.base", "committed")

    def test_data__partition__tags(self):
        under = {"selection.tags": '["icu"]', "server.clients_per_round": 2}
        self.assertEqual(set.union(*self.drawn({"data.partition.tags": '["icu=client-00001", "icu=*4"]'}, under=under)), {1, 4})
        self.refused({"data.partition.tags": '["icu"]'}, "TAG=PATTERN")

    def test_selection__tags(self):
        under = {"data.partition.tags": '["icu=*", "adult=client-0000*", "icu=client-00001"]', "server.clients_per_round": 2}
        self.assertEqual(len(set.union(*self.drawn({}, rounds=15, under=under))), 6)
        some = {"data.partition.tags": '["icu=client-0000*", "adult=*3", "adult=*5"]', "server.clients_per_round": 2}
        self.assertEqual(set.union(*self.drawn({"selection.tags": '["icu", "adult"]'}, under=some)), {3, 5})
        self.refused({**some, "selection.tags": '["ward"]'}, "0 of the 6 clients", "selection.tags")
        coordinator, client = self.start_deployed({"selection.tags": '["icu"]'}, "--tag", "ward")
        _, err = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 1, err)
        self.assertIn("is not tagged 'icu', as the clients of this run are; start it with --tag icu", err)
        coordinator.terminate()
        coordinator.wait(timeout=60)
        coordinator, _ = self.start_deployed({"selection.tags": '["icu"]', "run.name": "tagged"}, "--tag", "ward", "--tag", "icu")
        self.assertEqual(coordinator.wait(timeout=60), 0)

    def test_selection__min_examples(self):
        unlike = {"data.partition.sizes": "exponential", "data.partition.skew": 1, "server.clients_per_round": 1}
        everybody = set.union(*self.drawn({}, rounds=15, under=unlike))
        larger = set.union(*self.drawn({"selection.min_examples": 16}, rounds=15, under=unlike))
        self.assertLess(larger, everybody)
        self.refused({"selection.min_examples": 1000}, "0 of the 6 clients", "selection.min_examples")

    def trace(self):
        return {"selection.trace": self.write("trace.csv", b"".join(b"client-%05d,%d,%d\n" % (i, 1 + i // 2, 1 + i // 2) for i in range(6))),
                "server.clients_per_round": 2}

    def test_selection__trace(self):
        self.assertEqual(self.drawn({}, under=self.trace()), [{0, 1}, {2, 3}, {4, 5}])
        self.refused({"selection.trace": self.write("junk.csv", b"client-00000,1\n")}, "junk.csv:1:", "no line of a trace")
        result = self.simulate_any("--rounds", 4, *self.sets(self.trace()), db="over.sqlite")
        self.assertEqual(result.code, 1, result)
        self.assertIn("round 4 needs 1 clients and can draw 0", result.err)

    def test_selection__period(self):
        self.assertEqual(self.drawn({"selection.period": 3}, rounds=5, under=self.trace()),
                         [{0, 1}, {2, 3}, {4, 5}, {0, 1}, {2, 3}])

    def test_server__clients_per_round(self):
        db = self.outcome({"server.clients_per_round": 5})[1]
        self.assertEqual(self.query("SELECT DISTINCT selected FROM rounds", db=db), [(5,)])

    def test_server__over_selection(self):
        # Simulated and deployed: six are asked, or two, and half of them make the round.
        db = self.outcome({"server.over_selection": 2})[1]
        self.assertEqual(self.query("SELECT selected, folded, dropped FROM rounds", db=db), [(6, 3, 3)] * 2)
        self.assertEqual(self.query("SELECT DISTINCT error FROM client_rounds WHERE status = 'dropped'", db=db),
                         [("the round had enough updates without it",)])
        self.refused({"server.over_selection": 2.1}, "server.over_selection = 2.1", "asks 7 clients")
        self.refused({"server.over_selection": 2, "server.base": "latest"}, "server.over_selection is 2", "server.in_flight")
        coordinator, first = self.start_deployed({"server.min_clients": 2, "server.over_selection": 2, "client.epochs": 300})
        address = next(word for word in first.args if word.startswith("127.0.0.1:"))
        self.start("client", "--coordinator", address, "--insecure", "--name", "client-00001", "--data",
                   f"train={self.path('data/train.tfrecord')}")
        self.assertEqual(coordinator.wait(timeout=60), 0)
        self.assertEqual(self.query("SELECT selected, folded, dropped FROM rounds", db="deployed.sqlite"), [(2, 1, 1)])

    def start_deployed(self, settings, *options):
        """A coordinator, and one client of it named client-00000."""
        self.outcome({})  # makes the data
        coordinator = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db",
                                 self.path("deployed.sqlite"), "--rounds", 1,
                                 *self.sets({"server.clients_per_round": 1, **settings}))
        address = coordinator.stdout.readline().split()[-1]
        client = self.start("client", "--coordinator", address, "--insecure", "--name", "client-00000", "--data",
                            f"train={self.path('data/train.tfrecord')}", *options)
        return coordinator, client

    def test_server__min_clients(self):
        coordinator, _ = self.start_deployed({"server.min_clients": 1})  # and not the six of the partition
        self.assertEqual(coordinator.wait(timeout=60), 0)
        coordinator, client = self.start_deployed({"server.min_clients": 2})
        self.assertTrue(any("1 of 2" in line for line in client.stderr))  # what the client says that it waits for

    def test_server__deadline(self):
        coordinator, _ = self.start_deployed({"server.min_clients": 1, "server.deadline": 0.5, "server.max_attempts": 1,
                                              "client.epochs": 1000000})
        _, err = coordinator.communicate(timeout=60)
        self.assertEqual(coordinator.returncode, 1, err)
        self.assertIn("deadline of 0.5 s", err)

    LATEST = {"server.base": "latest", "server.in_flight": 5, "server.max_staleness": 3, "run.rounds": 4}

    def test_server__base(self):
        self.refused({"server.base": "latest", "algorithm.name": "trimmed_mean"}, "trimmed_mean", 'set it to "committed"')
        self.assertEqual(self.latenesses({"server.base": "committed"}), {0})
        self.assertGreater(len(self.latenesses(self.LATEST)), 1)

    def latenesses(self, settings):
        db = f"{len(list(self.folder.iterdir()))}.sqlite"
        self.simulate(*self.sets(settings), db=db)
        return {row[0] for row in self.query("SELECT staleness FROM client_rounds WHERE status = 'folded'", db=db)}

    def test_server__in_flight(self):
        self.assertGreater(max(self.latenesses(self.LATEST)), max(self.latenesses({**self.LATEST, "server.in_flight": 1})))
        self.refused({"server.in_flight": 5}, "server.in_flight is 5", 'server.base "committed"')

    def test_server__max_staleness(self):
        self.assertEqual(self.latenesses({**self.LATEST, "server.max_staleness": 0}), {0})

    def test_server__staleness_exponent(self):
        digests = []
        for exponent in (0, 2):
            db = f"exponent-{exponent}.sqlite"
            self.simulate(*self.sets({**self.LATEST, "server.staleness_exponent": exponent}), db=db)
            digests.append(self.digests(db))
        self.assertEqual(digests[0][0], digests[1][0])  # nobody is late for the first version
        self.assertNotEqual(digests[0], digests[1])

    def test_server__min_reports(self):
        self.assertEqual(self.attempts({"server.min_reports": 2}), ["committed"])
        self.assertNotIn("committed", self.attempts({"server.min_reports": 3}))

    def test_server__max_attempts(self):
        for attempts in (1, 2):
            self.assertEqual(len(self.attempts({"server.max_attempts": attempts, "server.min_reports": 3})), attempts)

    def test_server__lease(self):
        # A client that has joined and is gone when it is drawn: the round does not wait for it until its deadline.
        coordinator, gone = self.start_deployed({"server.min_clients": 2, "server.clients_per_round": 2, "server.lease": 0.5})
        address = next(word for word in gone.args if word.startswith("127.0.0.1:"))
        self.assertTrue(any("1 of 2" in line for line in gone.stderr))
        gone.kill()
        self.start("client", "--coordinator", address, "--insecure", "--name", "client-00001", "--data",
                   f"train={self.path('data/train.tfrecord')}")
        self.assertEqual(coordinator.wait(timeout=30), 0)
        self.assertEqual(self.query("SELECT status, error FROM client_rounds WHERE client_id = 'client-00000'",
                                    db="deployed.sqlite"), [("dropped", "it was silent for 0.5 s")])

    def test_server__presence(self):
        # A client that has joined and is silent for longer counts as a member and is not drawn; compare server.lease.
        coordinator, gone = self.start_deployed({"server.min_clients": 2, "server.clients_per_round": 2, "server.presence": 0.5})
        address = next(word for word in gone.args if word.startswith("127.0.0.1:"))
        self.assertTrue(any("1 of 2" in line for line in gone.stderr))
        gone.kill()
        gone.wait()
        time.sleep(1)  # at least: longer is as good
        self.start("client", "--coordinator", address, "--insecure", "--name", "client-00001", "--data",
                   f"train={self.path('data/train.tfrecord')}")
        self.assertEqual(coordinator.wait(timeout=30), 0)
        self.assertEqual({client for (client,) in self.query("SELECT client_id FROM client_rounds", db="deployed.sqlite")}, {"client-00001"})

    def test_server__learning_rate(self):
        self.changes({"server.learning_rate": 0.5})

    def test_server__download(self):
        self.changes({"server.download": "bf16"})
        self.changes({"server.download": "int8"})
        self.refused({"server.download": "top_k"}, "server.download", "bf16")

    def test_server__average(self):
        plain, averaged = self.outcome({}), self.outcome({"server.average": 0.9})
        self.assertEqual(averaged[0], plain[0])
        self.assertNotEqual(self.central(averaged[1]), self.central(plain[1]))

    def server_schedule(self, key, value, **under):
        self.changes({f"server.schedule.{key}": value}, {f"server.schedule.{name}": value for name, value in under.items()})

    def test_server__schedule__kind(self):
        self.changes({"server.schedule.kind": "cosine"})

    def test_server__schedule__warmup(self):
        self.changes({"server.schedule.warmup": 2})

    def test_server__schedule__length(self):
        self.server_schedule("length", 1, kind="step")

    def test_server__schedule__decay_rate(self):
        self.server_schedule("decay_rate", 0.1, kind="step", length=1)

    def test_server__schedule__end(self):
        self.server_schedule("end", 0.5, kind="cosine")

    def tuned(self, settings):
        return {"server.fine_tune.data": self.path("data/train.tfrecord"), **settings}

    def test_server__fine_tune__data(self):
        self.outcome({})  # makes the data
        self.changes(self.tuned({}))
        self.refused(self.tuned({"server.average": 0.5}), "server.average", "server.fine_tune.data")
        self.refused({"server.fine_tune.data": self.path("nothing.tfrecord")}, "nothing.tfrecord")

    def test_server__fine_tune__epochs(self):
        self.outcome({})
        self.changes({"server.fine_tune.epochs": 2}, self.tuned({}))
        self.refused({"server.fine_tune.epochs": 2}, "only when server.fine_tune.data is given")

    def test_server__fine_tune__batch_size(self):
        self.outcome({})
        self.changes({"server.fine_tune.batch_size": 5}, self.tuned({}))

    def test_server__fine_tune__learning_rate(self):
        plain = self.outcome({})[0]
        self.assertEqual(self.outcome(self.tuned({"server.fine_tune.learning_rate": 0}))[0], plain)
        self.changes({"server.fine_tune.learning_rate": 0.1}, self.tuned({}))

    def norms(self, db):
        return [row[0] for row in self.query("SELECT update_norm FROM client_rounds WHERE status = 'folded'", db=db)]

    def test_server__sum_bits(self):
        self.changes({"server.sum_bits": 32}, under={"server.weights": "uniform"})
        self.refused({"server.sum_bits": 32, "algorithm.name": "median"}, "server.sum_bits is 32")
        self.refused({"server.sum_bits": 33}, "sums of 33 bits")

    def test_privacy__clip(self):
        free, clipped = (self.norms(self.outcome(settings)[1]) for settings in ({}, {"privacy.clip": 0.05}))
        self.assertGreater(min(free), 0.06)
        self.assertLess(max(clipped), 0.05 * 1.00001)
        self.assertGreater(min(clipped), 0.05 * 0.99999)

    def test_privacy__noise(self):
        under = {"privacy.clip": 1.0, "privacy.noise": 0.1, "privacy.noise_source": "seeded"}
        norms = self.norms(self.outcome(under)[1])  # of 7850 values of deviation 0.1
        self.assertTrue(all(8 < norm < 10 for norm in norms), norms)
        self.refused({"privacy.noise": 0.1}, "privacy.noise", "privacy.clip is above 0")

    def test_privacy__noise_source(self):
        under = {"privacy.clip": 1.0, "privacy.noise": 0.1}
        seeded = {**under, "privacy.noise_source": "seeded"}
        self.assertEqual(self.outcome(seeded)[0], self.outcome(seeded)[0])
        self.assertNotEqual(self.outcome(under)[0], self.outcome(under)[0])

    def test_privacy__unit(self):
        under = {"privacy.unit": "example", "privacy.clip": 1.0, "privacy.noise": 1.0, "privacy.noise_source": "seeded"}
        digests, db = self.outcome(under)
        self.assertEqual(digests, self.outcome(under)[0])
        self.assertNotEqual(digests, self.outcome({**under, "privacy.unit": "client"})[0])
        self.assertEqual(self.query("SELECT count(*) FROM client_rounds WHERE train_loss IS NOT NULL", db=db), [(0,)])
        accounts = json.loads(self.run_rivulet("privacy", "accounts", next(self.folder.glob(f"{db}.models/*")), "--json", code=0).out)
        self.assertTrue(accounts)
        self.assertTrue(all(0 < account["epsilon"] < 1e6 and account["steps"] > 0 for account in accounts), accounts)
        self.refused({"privacy.unit": "example"}, "privacy.unit", "privacy.clip")
        self.refused({**under, "algorithm.name": "dp_fedavg"}, "privacy.unit", "dp_fedavg")

    PRIVATE = {"algorithm.name": "dp_fedavg", "algorithm.noise_multiplier": 3.0, "privacy.clip": 0.5}

    def spent(self, settings):
        return self.query("SELECT epsilon, delta FROM rounds", db=self.outcome({**self.PRIVATE, **settings})[1])

    def test_privacy__epsilon(self):
        free = self.spent({})
        self.assertGreater(len(free), 1)
        kept = self.spent({"privacy.epsilon": free[0][0] * 1.01})
        self.assertEqual([row[0] for row in kept], [free[0][0]])
        self.refused({**self.PRIVATE, "privacy.epsilon": 0.001}, "not one round fits", "privacy.epsilon")
        self.refused({"privacy.clip": 1.0, "privacy.epsilon": 1}, "privacy.epsilon", "dp_fedavg")

    def test_privacy__delta(self):
        usual, small = self.spent({}), self.spent({"privacy.delta": 1e-9})
        self.assertEqual({row[1] for row in small}, {1e-9})
        self.assertGreater(small[0][0], usual[0][0])

    SECURE = {"privacy.clip": 1.0, "privacy.secure": "arithmetic"}
    MASKED = {"privacy.clip": 1.0, "privacy.secure": "secagg_plus"}

    def test_privacy__secure(self):
        digests, db = self.outcome(self.SECURE)
        self.assertEqual(digests, self.outcome({"privacy.clip": 1.0, "server.value_bits": 1})[0])
        self.assertEqual(self.query("SELECT count(*) FROM events WHERE message LIKE '%hides nothing%'", db=db), [(1,)])
        self.assertEqual(digests, self.outcome(self.MASKED)[0])
        self.refused({"privacy.secure": "arithmetic"}, "set privacy.clip")

    def test_privacy__min_survivors(self):
        self.refused({**self.SECURE, "privacy.min_survivors": 4}, "privacy.min_survivors is 4", "1 to 3")
        self.refused({"privacy.min_survivors": 2}, 'privacy.secure is not "none"')

    def test_privacy__min_cohort(self):
        self.refused({**self.MASKED, "privacy.min_cohort": 4}, "privacy.min_cohort is 4", "server.clients_per_round")
        self.refused({**self.SECURE, "privacy.min_cohort": 3}, 'privacy.secure is "secagg_plus"')

    def test_privacy__max_colluding(self):
        self.refused({**self.MASKED, "privacy.max_colluding": 3}, "3 colluding", "3 members")

    def test_privacy__drop_out(self):
        self.refused({**self.MASKED, "privacy.drop_out": 0.5}, "1 of 3 members may drop out")

    def test_privacy__least_sum(self):
        self.refused({**self.MASKED, "privacy.least_sum": 4}, "protects sums of 3 honest clients", "asks for 4")

    def test_update__codec(self):
        self.changes({"update.codec": "bf16"})
        self.changes({"update.codec": "int8"})
        self.changes({"update.codec": "random_k", "update.fraction": 0.5})
        self.refused({"update.codec": "bf61"}, "update.codec", "bf16")

    def test_update__fraction(self):
        whole, _ = self.outcome({"update.codec": "top_k", "update.fraction": 1.0})
        self.assertEqual(whole, self.outcome({})[0])
        self.assertNotEqual(whole, self.outcome({"update.codec": "top_k", "update.fraction": 0.1})[0])
        self.refused({"update.fraction": 0.1}, "update.fraction", "top_k")

    def test_update__error_feedback(self):
        sparse = {"update.codec": "top_k", "update.fraction": 0.1, "run.rounds": 3}
        kept, lost = (self.outcome({**sparse, "update.error_feedback": feedback})[0] for feedback in ("true", "false"))
        self.assertNotEqual(kept, lost)
        clipped = {**sparse, "privacy.clip": 1.0}
        self.refused(clipped, "update.error_feedback", "privacy.clip")

    def test_server__max_weight(self):
        result = self.simulate_any(*self.sets({"server.max_weight": 15}), db="heavy.sqlite")  # clients have 16 examples
        self.assertEqual(result.code, 1, result)
        self.assertIn("server.max_weight", result.err)

    def test_server__weights(self):
        self.changes({"server.weights": "uniform"}, under={"data.partition.clients": 7, "server.clients_per_round": 7})

    def test_server__value_bits(self):
        result = self.simulate_any(*self.sets({"server.value_bits": 0, "client.optimizer.learning_rate": 100}), db="wide.sqlite")
        self.assertEqual(result.code, 1, result)
        self.assertIn("server.value_bits", result.err)

    def spooled(self, megabytes):
        """Whether an unlinked file of a coordinator ever held an upload of 6.7 MB. A simulation uploads nothing."""
        db = f"{megabytes}.sqlite"
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path(db),
                             "--rounds", 4, *self.sets({"model.preset": "mnist_cnn", "server.clients_per_round": 6,
                                                        "server.staging_megabytes": megabytes}))
        address = process.stdout.readline().split()[-1]
        load = subprocess.Popen([os.environ["RIVULET_MANY_NAMES"], address, "6"])
        seen = False
        while process.poll() is None:
            for descriptor in pathlib.Path(f"/proc/{process.pid}/fd").glob("*"):
                try:
                    link = os.readlink(descriptor)
                    seen = seen or (".models/" in link and link.endswith(" (deleted)"))
                except OSError:
                    pass  # closed meanwhile
        self.assertEqual(process.returncode, 0, process.stderr.read())
        self.assertEqual(load.wait(), 0)
        return seen

    def test_server__staging_megabytes(self):
        self.assertTrue(self.spooled(1))
        self.assertFalse(self.spooled(64))

    def test_server__partial(self):
        def unnamed(place):
            """Whether a coordinator that listens has a file without a name in its memory, reserved for sums."""
            process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db",
                                 self.path(f"{place}.sqlite"), *self.sets({"server.partial": place}))
            self.assertIn("listening", process.stdout.readline())
            maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines()
            process.kill()
            return any(str(self.folder) in line and line.endswith("(deleted)") for line in maps)

        self.assertTrue(unnamed("disk"))
        self.assertFalse(unnamed("memory"))

    def test_data__name(self):
        alone = {"data.partition.clients": 1, "server.clients_per_round": 1}
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("alone"), *self.sets(alone), code=0)
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db",
                             self.path("named.sqlite"), "--rounds", 2, *self.sets({**alone, "data.name": "ward"}))
        address = process.stdout.readline().split()[-1]
        client = ["client", "--coordinator", address, "--insecure", "--name", "client-00000", "--data"]
        self.assert_refused(self.run_rivulet(*client, "train=alone/client-00000.tfrecord"), "has bound no data set 'ward'")
        self.run_rivulet(*client, "ward=alone/client-00000.tfrecord", code=0)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(self.digests("named.sqlite"), self.outcome(alone)[0], "a name changes no bit of the model")
        self.assertEqual(self.outcome({**alone, "data.name": "ward"})[0], self.outcome(alone)[0])

    def kept(self, keeps):
        """Whether a coordinator ever had an accepted update in a file of its own."""
        db = f"{keeps}.sqlite"
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path(db),
                             "--rounds", 2, *self.sets({"model.preset": "mnist_cnn", "server.clients_per_round": 6,
                                                        "server.checkpoint_reports": keeps}))
        address = process.stdout.readline().split()[-1]
        load = subprocess.Popen([os.environ["RIVULET_MANY_NAMES"], address, "6"])
        seen = False
        while process.poll() is None:
            seen = seen or any(pathlib.Path(self.path(db + ".models")).glob("*/reports/*.report"))
        self.assertEqual(process.returncode, 0, process.stderr.read())
        self.assertEqual(load.wait(), 0)
        self.assertFalse(any(pathlib.Path(self.path(db + ".models")).glob("*/reports/*")))
        return seen

    def test_server__checkpoint_reports(self):
        self.assertTrue(self.kept("true"))
        self.assertFalse(self.kept("false"))

    def test_evaluation__every(self):
        db = self.outcome({"evaluation.every": 2})[1]
        self.assertEqual({round for round, _, _ in self.central(db)}, {2})
        self.assertEqual(self.central(self.outcome({"evaluation.every": 0})[1]), [])

    def measured(self, settings):
        """Rounds whose model clients measured, and by how many."""
        db = f"{len(list(self.folder.iterdir()))}.sqlite"
        self.simulate("--rounds", 5, *self.sets(settings), db=db)
        return self.query("SELECT round, count(*) FROM metrics WHERE scope = 'client' AND name = 'evaluate/loss' GROUP BY round "
                          "ORDER BY round", db=db)

    def test_evaluation__federated_every(self):
        self.assertEqual([round for round, _ in self.measured({"evaluation.federated_every": 2})], [2, 4, 5])
        self.assertEqual(self.measured({}), [])

    def test_evaluation__federated_clients(self):
        self.assertEqual(self.measured({"evaluation.federated_every": 4, "evaluation.federated_clients": 2}), [(4, 2), (5, 2)])

    def test_attack__name(self):
        self.changes({"attack.name": "sign_flip", "attack.fraction": 1})
        self.refused({"attack.name": "sign_flop"}, "Did you mean 'sign_flip'?")

    def test_attack__fraction(self):
        self.changes({"attack.fraction": 1}, under={"attack.name": "sign_flip"})
        self.refused({"attack.fraction": 0.5}, "only when attack.name is given")

    def virtual_seconds(self, settings):
        """When each of two versions was made."""
        db = self.outcome(settings)[1]
        return [row[0] for row in self.query("SELECT value FROM metrics WHERE name = 'virtual/seconds' ORDER BY round", db=db)]

    def takes(self, settings, per_round):
        """Both rounds take so many seconds; and what is no law is said."""
        first, second = self.virtual_seconds(settings)
        self.assertAlmostEqual(first, per_round, places=4)
        self.assertAlmostEqual(second, 2 * per_round, places=4)
        key, = settings
        self.refused({key: "quick"}, f"{key} is 'quick'", "half_normal(SCALE)")

    def test_devices__compute(self):
        slow, fast = (self.virtual_seconds({"devices.compute": f"'{speed}'"})[1] for speed in ("1e5", "2e5"))
        self.assertAlmostEqual(slow, 2 * fast, places=3)
        self.assertEqual(self.virtual_seconds({}), [])
        # A task that is done in part takes as long as what is done; and a law that is a number needs no quotes.
        eight = {"devices.compute": "1e5", "client.epochs": 8}
        self.assertLess(self.virtual_seconds({**eight, "client.partial_work": 1})[1], self.virtual_seconds(eight)[1])

    MODEL_BYTES = 4 * 7850

    def test_devices__download(self):
        self.takes({"devices.download": f"'{self.MODEL_BYTES / 3}'"}, 3)

    def test_devices__upload(self):
        self.takes({"devices.upload": f"'{self.MODEL_BYTES / 5}'"}, 5)

    def test_devices__delay(self):
        self.takes({"devices.delay": "'7.5'"}, 7.5)
        # By a law the first two of three asked are not always the same.
        self.changes({"devices.delay": "half_normal(60)"}, under={"server.clients_per_round": 2, "server.over_selection": 1.5})

    def test_devices__server(self):
        self.takes({"devices.server": "'2.5'"}, 2.5)
        both = {"devices.server": "'2.5'", "devices.delay": "'4'"}
        self.assertEqual(self.virtual_seconds(both), [6.5, 13])
        # Who has come while a version was made is given its next task once it is there.
        self.assertEqual(self.virtual_seconds({**both, "algorithm.name": "fedbuff", "server.clients_per_round": 2, "server.in_flight": 2}), [6.5, 13])

    def test_devices__failure(self):
        db = self.outcome({"devices.delay": "'60'", "devices.failure": "exponential(120)", "server.lease": 10})[1]
        self.assertIn(("its device disconnected and was silent for 10 s",),
                      self.query("SELECT error FROM client_rounds WHERE status = 'dropped'", db=db))

    def test_devices__availability(self):
        here = {"devices.delay": "'1'", "devices.availability": "uniform(0.1, 0.3)"}
        self.assertGreater(self.virtual_seconds(here)[0], 2)  # somebody is waited for
        self.changes(here, under={"devices.delay": "'1'"})

    def test_devices__period(self):
        here = {"devices.delay": "'1'", "devices.availability": "'0.1'", "server.min_reports": 1}
        self.assertLess(self.virtual_seconds({**here, "devices.period": 100})[0], self.virtual_seconds(here)[0])
        self.refused({"devices.period": 100}, "only when devices.availability or devices.trace is given")

    def test_devices__trace(self):
        lines = b"client,from,until\n" + b"".join(b"client-%05d,%d,1000\n" % (i, 100 if i < 3 else 500) for i in range(6))
        trace = {"devices.trace": self.write("devices.csv", lines)}
        self.assertEqual(self.drawn(trace, rounds=2), [{0, 1, 2}] * 2)
        self.assertGreaterEqual(self.virtual_seconds(trace)[0], 100)
        self.refused({"devices.trace": self.write("wrong.csv", b"client-00000,1\n")}, "wrong.csv:1:", "no line of a trace")

    def test_evaluation__fine_tune_epochs(self):
        losses = []
        for epochs in (0, 1, 5):
            db = f"fine-{epochs}.sqlite"
            self.simulate("--rounds", 2, *self.sets({"evaluation.federated_every": 2, "evaluation.fine_tune_epochs": epochs}), db=db)
            losses += self.query("SELECT value FROM metrics WHERE scope = 'federated' AND name = 'personal/loss'", db=db)
        self.assertEqual(len(losses), 2)
        self.assertLess(losses[1], losses[0])

    def test_evaluation__batch_size(self):
        whole, one = (dict((name, value) for _, name, value in self.central(self.outcome({"evaluation.batch_size": size})[1]))
                      for size in (16, 1))
        self.assertEqual(whole["test/accuracy"], one["test/accuracy"])
        self.assertAlmostEqual(whole["test/loss"], one["test/loss"], places=5)
        self.assertNotEqual(whole["test/loss"], one["test/loss"])  # other sums of the same examples round differently

    def test_every_key_has_a_test(self):
        tested = {name.removeprefix("test_").replace("__", ".") for name in dir(self) if name.startswith("test_")}
        self.assertGreater(len(DOCUMENTED), 30)
        self.assertEqual(sorted(set(DOCUMENTED) - tested), [])
        self.assertEqual(sorted(tested - set(DOCUMENTED)), ["every_key_has_a_test"])


def sees(key, value, selector, piece):
    return lambda self: self.changes({key: value}, {selector: piece})


for key, selector, piece, value in OPTIONS:
    if not hasattr(KeyEffects, name := "test_" + key.replace(".", "__")):
        setattr(KeyEffects, name, sees(key, value, selector, piece))


if __name__ == "__main__":
    main()
