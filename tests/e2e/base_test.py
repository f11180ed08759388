"""Models with a graph on top of a base model: frozen variables are mapped from a file, travel once and are in no version."""
import json
import os
import pathlib
import threading
import unittest.mock

from harness import RivuletTest, main
from lora_test import safetensors

SCENARIO = """
[run]
name = "over-a-base"
rounds = 3
seed = 7

[model]
preset = "%(preset)s"
base = "base.safetensors"

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
# Of a message with a version, beside the values: its header, the plan's name and digests.
BESIDE = 4096


class OverABase(RivuletTest):
    IN_MEMORY = True

    def setUp(self):
        super().setUp()
        patched = unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.path("cache")})
        patched.start()
        self.addCleanup(patched.stop)

    def begin(self, preset="mlp", text=SCENARIO):
        """The base is a model that was trained a little, as models are that somebody fine-tunes."""
        self.scenario = self.write("plain.toml", self.without_adapters(text % {"preset": preset}))
        self.plain = f"{preset}.sqlite"
        self.simulate("--rounds", 1, db=self.plain)
        self.base = self.path("base.safetensors")
        pathlib.Path(self.base).unlink(missing_ok=True)
        self.export("latest", self.base, db=self.plain)
        self.scenario = self.write(f"{preset}.toml", text % {"preset": preset})

    @staticmethod
    def without_adapters(text):
        kept, skipping = [], False
        for line in text.splitlines():
            skipping = line == "[model.lora]" if line.startswith("[") else skipping
            if not skipping and not line.startswith("base = "):
                kept.append(line)
        return "\n".join(kept) + "\n"

    def export(self, what, out, *more, db="runs.sqlite"):
        self.run_rivulet("model", "export", what, "--out", out, "--db", self.path(db), *more, code=0)
        return safetensors(out)[0]

    def measured(self, what, db):
        return json.loads(self.run_rivulet("model", "evaluate", what, "--db", self.path(db), "--json", code=0).out)["test/loss"]

    def same(self, tensors, others):
        """By names, since a difference of megabytes takes minutes to be printed."""
        self.assertEqual(sorted(tensors), sorted(others))
        self.assertEqual([name for name in tensors if tensors[name] != others[name]], [])

    def versions(self, db):
        return sorted(self.folder.glob(f"{db}.models/*/round-*.safetensors"))

    def test_it_is_what_a_run_with_its_weights_in_the_plan_is(self):
        for preset in ("mlp", "mnist_cnn"):
            with self.subTest(preset=preset):
                self.begin(preset)
                over_db, inside_db = f"{preset}-over.sqlite", f"{preset}-inside.sqlite"
                self.simulate(db=over_db)
                # A is drawn: the other run is given it.
                first = self.path("first.safetensors")
                self.export("latest:0", first, db=over_db)
                self.simulate("--set", "model.base=", "--set", f"model.weights={first}", db=inside_db)
                over, inside = self.versions(over_db), self.versions(inside_db)
                last, whole = safetensors(over[-1])[0], safetensors(inside[-1])[0]
                self.assertTrue(all(name.endswith(("/lora_A", "/lora_B")) for name in last), last.keys())
                self.same(last, {name: whole[name] for name in last})
                self.assertEqual(self.metric("test/loss", over_db), self.metric("test/loss", inside_db))
                # What reads a version finds the base.
                self.same(self.export("latest", self.path("whole.safetensors"), db=over_db), whole)
                self.assertEqual(self.measured("latest", over_db), self.metric("test/loss", over_db)[-1])
                # Version 0 is the base, to the bit.
                self.assertEqual(self.measured("latest:0", over_db), self.measured("latest", self.plain))

    def test_neither_plan_nor_versions_have_its_values(self):
        self.begin()
        base_bytes = pathlib.Path(self.base).stat().st_size
        self.run_rivulet("plan", "build", self.scenario, "--out", self.path("over.plan"), code=0)
        self.assertLess(pathlib.Path(self.path("over.plan")).stat().st_size, base_bytes / 10)
        shown = self.run_rivulet("plan", "show", self.path("over.plan"), code=0).out
        self.assertRegex(shown, r"(?m)^base_variables +6$")
        self.simulate()
        adapter = sum(len(data) for _, data in safetensors(self.versions("runs.sqlite")[-1])[0].values())
        for version in self.versions("runs.sqlite"):
            self.assertLessEqual(version.stat().st_size, adapter + BESIDE)

    def test_workers_change_nothing(self):
        self.begin("mnist_cnn")
        dropout = ("--set", "model.lora.dropout=0.1", "--set", "model.lora.modules_to_save=[\"*/bias\"]")
        for workers in (1, 2, 3):
            self.simulate("--workers", workers, *dropout, db=f"{workers}.sqlite")
        digests = self.digests("1.sqlite")
        self.assertEqual(len(set(digests)), 3)
        self.assertEqual(self.digests("2.sqlite"), digests)
        self.assertEqual(self.digests("3.sqlite"), digests)

    def test_killed_and_resumed_it_gives_the_same_bits(self):
        self.begin()
        for rounds in (40, 200, 1000):  # more where a run ended before it could be killed
            run = ("--rounds", rounds, "--set", "run.durability=round")
            process = self.start("simulate", self.scenario, "--db", self.path(f"{rounds}.sqlite"), *run)
            self.wait_for(lambda: self.committed(f"{rounds}.sqlite") >= 2 or process.poll() is not None, "2 commits")
            process.kill()
            process.communicate()
            if process.returncode != 0:
                break
        self.assertNotEqual(process.returncode, 0)
        self.assertLess(self.committed(f"{rounds}.sqlite"), rounds)
        self.simulate(*run, "--resume", "latest", db=f"{rounds}.sqlite")
        self.simulate(*run, db="whole.sqlite")
        self.assertEqual(self.digests(f"{rounds}.sqlite"), self.digests("whole.sqlite"))
        self.run_rivulet("runs", "verify", "latest", "--db", self.path(f"{rounds}.sqlite"), code=0)

    def test_a_file_with_tensors_at_odd_places_is_copied_once(self):
        self.begin("mnist_cnn")
        content = pathlib.Path(self.base).read_bytes()
        header = int.from_bytes(content[:8], "little")
        pathlib.Path(self.base).write_bytes((header + 8).to_bytes(8, "little") + content[8:8 + header] + 8 * b" " + content[8 + header:])
        digest = json.loads(self.run_rivulet("model", "base", self.base, "--json", code=0).out)["digest"]
        copy = self.folder / "cache/rivulet/bases" / f"{digest}.safetensors"
        first = self.simulate(db="first.sqlite")
        self.assertRegex(first.err, rf"its aligned copy '{copy}' has {copy.stat().st_size} bytes")
        second = self.simulate(db="second.sqlite")
        self.assertNotIn("aligned copy", second.err)
        # Where no copy can be kept, the tensors are in memory.
        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.write("file", "")}):
            third = self.simulate(db="third.sqlite")
        self.assertIn("no aligned copy is kept", third.err)
        fourth = self.simulate("--set", f"model.base={copy}", db="fourth.sqlite")
        self.assertNotIn("aligned copy", fourth.err)
        for db in ("second", "third", "fourth"):
            self.assertEqual(self.digests(f"{db}.sqlite"), self.digests("first.sqlite"))

    def test_freezing_alone_is_enough(self):
        self.begin("mnist_cnn")
        self.scenario = self.write("frozen.toml", self.without_adapters(SCENARIO % {"preset": "mnist_cnn"}).replace(
            'preset = "mnist_cnn"\n', 'preset = "mnist_cnn"\nbase = "base.safetensors"\nfreeze = ["conv*"]\n'))
        self.simulate(db="over.sqlite")
        self.simulate("--set", "model.base=", "--set", f"model.weights={self.base}", db="inside.sqlite")
        last, whole = (safetensors(self.versions(db)[-1])[0] for db in ("over.sqlite", "inside.sqlite"))
        self.assertFalse([name for name in last if name.startswith("conv")])
        self.same(last, {name: whole[name] for name in last})  # the trained ones began with the base's values

    def deploy(self, db, bases, count=2, code=0, coordinator=(), client=lambda i: ()):
        """Clients with a folder of bases each; returns what they said."""
        serving = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path(db), *coordinator)
        address = serving.stdout.readline().split()[-1]
        threading.Thread(target=serving.stderr.read, daemon=True).start()
        clients = []
        for i in range(count):
            name = self.names[i]
            clients.append(self.start("client", "--coordinator", address, "--insecure", "--name", name, "--data",
                                      f"train=parts/{name}.tfrecord", "--state", f"{db}-{name}", "--base-dir", self.path(bases(i)), *client(i)))
        said = [process.communicate(timeout=120)[1] for process in clients]
        self.assertEqual(serving.wait(timeout=60), code, said)
        return said

    def partitioned(self, *more):
        self.begin()
        text = (SCENARIO % {"preset": "mlp"}).replace("clients = 6", "clients = 2").replace("clients_per_round = 3", "clients_per_round = 2")
        self.scenario = self.write("two.toml", text)
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("parts"), *more, code=0)
        self.names = sorted(path.stem for path in (self.folder / "parts").glob("*.tfrecord"))

    def down(self, db):
        rows = self.query("SELECT round, bytes_down FROM client_rounds ORDER BY round, client_id", db=db)
        return [[down for of, down in rows if of == round_] for round_ in (1, 2, 3)]

    def test_it_travels_once_and_a_second_run_fetches_nothing(self):
        self.partitioned()
        facts = json.loads(self.run_rivulet("model", "base", self.base, "--json", code=0).out)
        self.simulate(db="simulated.sqlite")
        for number, db in enumerate(("first.sqlite", "second.sqlite")):
            said = self.deploy(db, lambda i: f"bases {i}")
            self.assertEqual(self.digests(db), self.digests("simulated.sqlite"))
            adapter = sum(len(data) for _, data in safetensors(self.versions(db)[-1])[0].values())
            first, *later = self.down(db)
            for down in first:
                fetched = facts["bytes_to_download"] if number == 0 else 0
                self.assertGreaterEqual(down, fetched + adapter)
                self.assertLess(down, fetched + adapter + facts["bytes_to_download"] / 10)
            for down in sum(later, []):
                self.assertLessEqual(down, adapter + BESIDE)
            for version in self.versions(db):
                self.assertLessEqual(version.stat().st_size, adapter + BESIDE)
            self.assertEqual([f"downloading the base {facts['digest']}, from byte 0" in text for text in said], [number == 0] * 2, said)
            self.run_rivulet("runs", "verify", "latest", "--db", self.path(db), code=0)

    def test_clients_of_one_machine_download_it_once(self):
        self.partitioned()
        said = self.deploy("runs.sqlite", lambda i: "shared")
        self.assertEqual(sum("downloading the base" in text for text in said), 1, said)

    def test_an_interrupted_download_resumes(self):
        self.partitioned()
        facts = json.loads(self.run_rivulet("model", "base", self.base, "--json", code=0).out)
        self.deploy("whole.sqlite", lambda i: "whole")
        whole = (self.folder / "whole" / f"{facts['digest']}.safetensors").read_bytes()
        self.assertEqual(len(whole), facts["bytes_to_download"])
        half = len(whole) // 2
        for name, left in (("right", whole[:half]), ("wrong", whole + b"more")):
            with self.subTest(name=name):
                self.write(f"{name}/{facts['digest']}.part", left)
                said = self.deploy(f"{name}.sqlite", lambda i: name)
                self.assertEqual(sum(f"from byte {len(left)}" in text for text in said), 1, said)
                self.assertTrue((self.folder / name / f"{facts['digest']}.safetensors").read_bytes() == whole)
                down = self.down(f"{name}.sqlite")[0]
                self.assertEqual(sum(facts["bytes_to_download"] <= bytes_ for bytes_ in down), 0 if name == "right" else 1, down)

    def test_a_site_may_have_its_own_copy(self):
        self.partitioned()
        digest = json.loads(self.run_rivulet("model", "base", self.base, "--json", code=0).out)["digest"]
        own = ("--base", f"{digest}={self.base}")
        said = self.deploy("runs.sqlite", lambda i: f"none {i}", coordinator=("--set", "server.serve_base=false"), client=lambda i: own)
        self.assertFalse([text for text in said if "downloading" in text], said)
        self.assertFalse(list(self.folder.glob("none */*.safetensors")))

    def test_without_a_copy_a_sentence_says_what_to_do(self):
        self.partitioned()
        digest = json.loads(self.run_rivulet("model", "base", self.base, "--json", code=0).out)["digest"]
        serving = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path("runs.sqlite"),
                             "--set", "server.serve_base=false")
        address = serving.stdout.readline().split()[-1]
        threading.Thread(target=serving.stderr.read, daemon=True).start()
        for name in self.names:
            self.follow(self.start("client", "--coordinator", address, "--insecure", "--name", name, "--data",
                                   f"train=parts/{name}.tfrecord", "--state", name, "--base-dir", self.path("none")), name)
        for name in self.names:
            self.said(name, rf"the coordinator does not send it: .*serve_base = false.*; give this client its own copy: --base {digest}=FILE")

    def test_a_changed_byte_is_refused_by_both_sides(self):
        self.partitioned()
        digest = json.loads(self.run_rivulet("model", "base", self.base, "--json", code=0).out)["digest"]
        self.deploy("runs.sqlite", lambda i: f"bases {i}")
        content = bytearray(pathlib.Path(self.base).read_bytes())
        content[-1] ^= 1
        changed = self.write("changed.safetensors", bytes(content))
        # The coordinator, of a run that is resumed; and a plan's other base makes another plan.
        refused = self.run_rivulet("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path("runs.sqlite"),
                                   "--resume", "latest", "--rounds", 5, "--set", f"model.base={changed}")
        self.assert_refused(refused, digest, changed)
        # A client's own copy, at its start.
        refused = self.run_rivulet("client", "--coordinator", "127.0.0.1:1", "--insecure", "--name", self.names[0], "--data",
                                   f"train=parts/{self.names[0]}.tfrecord", "--base", f"{digest}={changed}")
        self.assert_refused(refused, "--base", changed, digest)
        # A kept download is fetched again.
        kept = self.folder / "bases 0" / f"{digest}.safetensors"
        kept.write_bytes(kept.read_bytes()[:-1] + b"\x55")
        said = self.deploy("again.sqlite", lambda i: f"bases {i}")
        self.assertIn("it is replaced", said[0])
        self.assertEqual(self.digests("again.sqlite"), self.digests("runs.sqlite"))

    def test_what_cannot_be_over_a_base_is_refused(self):
        self.begin()
        refused = lambda *words: self.run_rivulet("simulate", self.scenario, "--db", self.path("no.sqlite"), *words)
        self.assert_refused(refused("--set", "model.lora.targets=[]"), "model.base", "only variables that are trained", "model.weights")
        self.assert_refused(refused("--set", "model.preset=logistic_regression"), "model.base", "dense")
        self.assert_refused(refused("--set", f"model.weights={self.base}"), "model.weights", "has no adapters", "leave out one")
        part = self.path("part.safetensors")
        tensors = {name: value for name, value in safetensors(self.base)[0].items() if name != "dense1/bias"}
        header, data = {}, b""
        for name, (shape, value) in tensors.items():
            header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(value)]}
            data += value
        text = json.dumps(header).encode()
        pathlib.Path(part).write_bytes(len(text).to_bytes(8, "little") + text + data)
        self.assert_refused(refused("--set", f"model.base={part}"), "dense1/bias", "is frozen", part)
        self.simulate("--set", f"model.base={part}", "--set", 'model.lora.modules_to_save=["dense1/bias"]')


if __name__ == "__main__":
    main()
