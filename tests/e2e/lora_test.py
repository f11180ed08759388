"""Adapters: trained beside a frozen model, the same bits wherever they are trained, and out to PEFT and back."""
import json
import pathlib
import sqlite3
import struct

from harness import RivuletTest, main

SCENARIO = """
[run]
name = "adapters"
rounds = 3
seed = 7

[model]
preset = "%(preset)s"

[model.lora]
targets = ["*kernel"]
rank = 2
alpha = 4

[data]
synth = { kind = "digits", writers = 12, test_writers = 2, examples_per_writer = 16, seed = 3 }
train = "digits/train.tfrecord"
test = "digits/test.tfrecord"
partition = { kind = "iid", clients = 6 }

[client]
epochs = 1
batch_size = 8
optimizer = { kind = "sgd", learning_rate = 0.1 }

[server]
clients_per_round = 3
"""


def safetensors(path):
    """Names, shapes and bytes of a file, and its metadata."""
    content = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data = content[8 + length:]
    return {name: (tuple(entry["shape"]), data[slice(*entry["data_offsets"])]) for name, entry in header.items()}, metadata


class Lora(RivuletTest):
    IN_MEMORY = True

    def begin(self, preset):
        self.scenario = self.write(f"{preset}.toml", SCENARIO % {"preset": preset})

    def measured(self, what, db="runs.sqlite"):
        return json.loads(self.run_rivulet("model", "evaluate", what, "--db", self.path(db), "--json", code=0).out)["test/loss"]

    def weights(self, what, name, *arguments):
        out = self.path(name)
        self.run_rivulet("model", "export", what, "--out", out, "--db", self.path("runs.sqlite"), *arguments, code=0)
        return safetensors(out)[0]

    def test_workers_change_nothing_and_the_base_stays(self):
        for preset in ("mlp", "mnist_cnn"):
            with self.subTest(preset=preset):
                self.begin(preset)
                for workers in (1, 2, 3):
                    self.simulate("--workers", workers, "--set", "model.lora.dropout=0.1", db=f"{preset}-{workers}.sqlite")
                digests = self.digests(f"{preset}-1.sqlite")
                self.assertEqual(len(set(digests)), 3)
                for workers in (2, 3):
                    self.assertEqual(self.digests(f"{preset}-{workers}.sqlite"), digests)

    def test_deployed_it_is_what_was_simulated(self):
        self.begin("mlp")
        dropout = ("--set", "model.lora.dropout=0.1", "--set", "model.lora.freeze_a=true")
        self.simulate(*dropout)
        self.run_rivulet("up", self.scenario, "--db", self.path("up.sqlite"), "--clients", 6, *dropout, code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests())

    def test_stacked_updates_are_the_same_wherever_they_are_trained(self):
        self.begin("mlp")
        stack = ("--set", "server.lora=stack")
        for workers in (1, 3):
            self.simulate("--workers", workers, *stack, db=f"{workers}.sqlite")
        self.run_rivulet("up", self.scenario, "--db", self.path("up.sqlite"), "--clients", 6, *stack, code=0)
        digests = self.digests("1.sqlite")
        self.assertEqual(self.digests("3.sqlite"), digests)
        self.assertEqual(self.digests("up.sqlite"), digests)
        dropped = self.metric("server/lora_dropped", "1.sqlite")
        self.assertEqual(len(dropped), 3)
        for share in dropped:
            self.assertTrue(0 < share < 0.5, share)
        losses = self.metric("test/loss", "1.sqlite")
        self.assertLess(losses[-1], losses[0])

    def test_a_killed_run_is_resumed_to_the_same_bits(self):
        self.begin("mlp")
        for number, settings in enumerate((("model.lora.dropout=0.1",), ("server.lora=stack", "model.lora.modules_to_save=[\"*/bias\"]"))):
            with self.subTest(settings=settings):
                chosen = ["--rounds", 30, *(word for setting in settings for word in ("--set", setting))]
                whole, db = f"whole-{number}.sqlite", f"killed-{number}.sqlite"
                self.simulate(*chosen, db=whole)
                process = self.start("simulate", self.scenario, "--db", self.path(db), *chosen, "--set", "run.durability=round")
                self.wait_for(lambda: self.committed(db) >= 2, "the second commit")
                process.kill()
                process.communicate()
                self.assertLess(self.committed(db), 30)
                self.simulate(*chosen, "--resume", "latest", "--workers", 2, db=db)
                self.assertEqual(self.digests(db), self.digests(whole))

    def committed(self, db):
        try:
            return len(self.digests(db))
        except sqlite3.Error:
            return 0

    def test_models_from_files_have_adapters_too(self):
        self.begin("mlp")
        for model in ("model.pb", "model.onnx"):
            with self.subTest(model=model):
                self.run_rivulet("model", "export", "mlp", "--out", self.path(model), code=0)
                key = "model.graph" if model.endswith("pb") else "model.onnx"
                self.simulate("--set", f"{key}={self.path(model)}", "--set", 'model.lora.targets=["dense*"]', db=f"{model}.sqlite")
                losses = self.metric("test/loss", f"{model}.sqlite")
                self.assertLess(losses[-1], losses[0])
                last = sorted(self.folder.glob(f"{model}.sqlite.models/*/*.safetensors"))[-1]
                self.assertEqual(len([name for name in safetensors(last)[0] if "/lora_" in name]), 6)

    def test_version_0_measures_as_the_base_and_training_improves_it(self):
        self.begin("mlp")
        self.simulate()
        self.simulate("--set", "model.lora.targets=[]", db="base.sqlite")
        self.assertEqual(self.measured("latest:0"), self.measured("latest:0", "base.sqlite"))
        losses = self.metric("test/loss")
        self.assertLess(losses[-1], losses[0])
        before, after = self.weights("latest:0", "0.safetensors"), self.weights("latest", "3.safetensors")
        moved = {name for name in after if after[name] != before[name]}
        self.assertEqual(moved, {name for name in after if "/lora_" in name})
        self.assertEqual(len(moved), 6)

    def test_updates_hold_the_adapter_alone(self):
        self.begin("mlp")
        self.run_rivulet("up", self.scenario, "--db", self.path("runs.sqlite"), "--clients", 6, "--rounds", 1, code=0)
        # 784 · 2 + 2 · 200, 200 · 2 + 2 · 200, 200 · 2 + 2 · 10 values.
        sizes = {size for size, in self.query("SELECT bytes_up FROM client_rounds")}
        self.assertLess(max(sizes), 4 * 3188 + 1000)
        self.assertGreater(min(sizes), 4 * 3188)

    def test_peft_takes_the_adapter_and_gives_it_back(self):
        self.begin("mlp")
        self.simulate()
        told = self.run_rivulet("model", "export", "latest", "--format", "peft", "--out", self.path("adapter"), "--json", "--db",
                                self.path("runs.sqlite"), code=0)
        self.assertEqual(json.loads(told.out)["modules"], 3)
        config = json.loads(pathlib.Path(self.path("adapter/adapter_config.json")).read_text())
        self.assertEqual(config, {
            "peft_type": "LORA", "task_type": None, "r": 2, "lora_alpha": 4, "lora_dropout": 0.0,
            "target_modules": ["dense1", "dense2", "dense3"], "bias": "none", "base_model_name_or_path": None,
            "inference_mode": True, "fan_in_fan_out": False})
        tensors, metadata = safetensors(self.path("adapter/adapter_model.safetensors"))
        self.assertEqual(metadata, {"format": "pt"})
        self.assertEqual({name: shape for name, (shape, _) in tensors.items()}, {
            "base_model.model.dense1.lora_A.weight": (2, 784), "base_model.model.dense1.lora_B.weight": (200, 2),
            "base_model.model.dense2.lora_A.weight": (2, 200), "base_model.model.dense2.lora_B.weight": (200, 2),
            "base_model.model.dense3.lora_A.weight": (2, 200), "base_model.model.dense3.lora_B.weight": (10, 2)})
        ours = self.weights("latest", "ours.safetensors")
        shape, data = ours["dense3/kernel/lora_B"]
        rows = struct.unpack(f"<{shape[0] * shape[1]}f", data)
        theirs = struct.unpack("<20f", tensors["base_model.model.dense3.lora_B.weight"][1])
        self.assertEqual([rows[row * 10 + column] for column in range(10) for row in range(2)], list(theirs))
        self.run_rivulet("model", "import", self.path("adapter"), "--like", self.scenario, "--out", self.path("back.safetensors"), code=0)
        self.assertEqual(safetensors(self.path("back.safetensors"))[0], ours)
        # A run that begins with them measures what this one ended with.
        self.simulate("--rounds", 1, "--set", f"model.weights={self.path('back.safetensors')}", db="more.sqlite")
        self.assertEqual(self.measured("latest:0", "more.sqlite"), self.measured("latest"))

    def test_modules_to_save_travel_whole(self):
        self.begin("mnist_cnn")
        self.simulate("--rounds", 1, "--set", 'model.lora.targets=["conv*"]', "--set", 'model.lora.modules_to_save=["dense2/*"]')
        self.run_rivulet("model", "export", "latest", "--format", "peft", "--out", self.path("adapter"), "--db", self.path("runs.sqlite"),
                         code=0)
        tensors, _ = safetensors(self.path("adapter/adapter_model.safetensors"))
        self.assertIn("base_model.model.dense2.weight", tensors)
        self.assertIn("base_model.model.dense2.bias", tensors)
        filters = tensors["base_model.model.conv1.lora_A.weight"][0]
        self.assertEqual((filters[0], len(filters)), (2, 4))
        self.assertEqual(tensors["base_model.model.conv1.lora_B.weight"][0][1:], (2, 1, 1))
        config = json.loads(pathlib.Path(self.path("adapter/adapter_config.json")).read_text())
        self.assertEqual(config["modules_to_save"], ["dense2"])

    def test_merged_weights_measure_as_the_adapters_do(self):
        self.begin("mlp")
        self.simulate()
        self.run_rivulet("model", "merge", "latest", "--out", self.path("merged.safetensors"), "--db", self.path("runs.sqlite"), code=0)
        merged, _ = safetensors(self.path("merged.safetensors"))
        self.assertEqual(set(merged), {f"dense{layer}/{part}" for layer in (1, 2, 3) for part in ("kernel", "bias")})
        self.simulate("--rounds", 1, "--set", "model.lora.targets=[]", "--set",
                      f"model.weights={self.path('merged.safetensors')}", db="merged.sqlite")
        self.assertAlmostEqual(self.measured("latest:0", "merged.sqlite"), self.measured("latest"), places=5)
        self.assert_refused(self.run_rivulet("model", "merge", "mlp", "--out", self.path("no.safetensors")), "mlp has no adapters")
        # The base of the next adapters.
        self.simulate("--rounds", 1, "--set", f"model.weights={self.path('merged.safetensors')}", db="again.sqlite")
        self.assertEqual(self.measured("latest:0", "again.sqlite"), self.measured("latest:0", "merged.sqlite"))

    def test_adapters_of_another_shape_are_refused(self):
        self.begin("mlp")
        self.simulate("--rounds", 1)
        self.run_rivulet("model", "export", "latest", "--format", "peft", "--out", self.path("adapter"), "--db", self.path("runs.sqlite"),
                         code=0)
        config = pathlib.Path(self.path("adapter/adapter_config.json"))
        whole = json.loads(config.read_text())
        importing = ["model", "import", self.path("adapter"), "--out", self.path("x.safetensors")]
        self.assert_refused(self.run_rivulet(*importing), "--like")
        like = [*importing, "--like", self.scenario]
        for change, fragments in (({"r": 3}, ("r is 3", "model.lora.rank is 2")),
                                  ({"lora_alpha": 8}, ("set model.lora.alpha to 8",)),
                                  ({"peft_type": "IA3"}, ("peft_type",)),
                                  ({"rank_pattern": {"dense1": 4}}, ("rank_pattern",)),
                                  ({"use_dora": True}, ("DoRA",)),
                                  ({"bias": "all"}, ("bias",))):
            with self.subTest(change=change):
                config.write_text(json.dumps({**whole, **change}))
                self.assert_refused(self.run_rivulet(*like), "adapter_config.json", *fragments)
        config.write_text("{")
        self.assert_refused(self.run_rivulet(*like), "adapter_config.json")
        config.write_text(json.dumps(whole))
        fewer = self.write("fewer.toml", (SCENARIO % {"preset": "mlp"}).replace('"*kernel"', '"dense1/*"'))
        self.assert_refused(self.run_rivulet(*importing, "--like", fewer), "belongs to no adapter", "dense2")
        other = self.write("other.toml", (SCENARIO % {"preset": "logistic_regression"}))
        self.assert_refused(self.run_rivulet(*importing, "--like", other), "'base_model.model.dense1.lora_B.weight' is float32[200,2], and float32[10,2] belongs there")


if __name__ == "__main__":
    main()
