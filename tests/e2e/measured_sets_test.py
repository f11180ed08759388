"""What a run's versions are measured on: shards of a set, several test sets by name, and a validation set by which the best is
chosen."""
import json
import re

import harness
from harness import RivuletTest, main


class MeasuredSets(RivuletTest):
    def central(self, db):
        return self.query("SELECT round, name, value FROM metrics WHERE scope = 'central' ORDER BY round, name", db=db)

    def files(self):
        """The tiny scenario's own test set, another of one class, and the training set in three parts."""
        self.simulate("--rounds", 1)
        train = (self.folder / "data/train.tfrecord").read_bytes()
        self.records, at = [], 0
        while at < len(train):
            length = int.from_bytes(train[at:at + 8], "little")
            self.records.append(train[at + 12:at + 12 + length])
            at += 16 + length
        for part, (begin, end) in enumerate(((0, 40), (40, 41), (41, len(self.records)))):
            self.write(f"part-{part}.tfrecord", harness.tfrecord(self.records[begin:end]))
        self.ones = self.write("ones.tfrecord", harness.tfrecord([harness.example(bytes(784), 1) for _ in range(5)]))

    def test_shards_are_the_file_that_they_are_cut_from(self):
        self.files()
        self.simulate(db="whole.sqlite")
        parts = ("--set", f"data.train={self.path('part-*.tfrecord')}")
        self.simulate(*parts, db="parts.sqlite")
        self.assertEqual(self.digests("parts.sqlite"), self.digests("whole.sqlite"))
        self.simulate(*parts, db="again.sqlite")  # with indices beside the parts
        self.assertEqual(self.digests("again.sqlite"), self.digests("whole.sqlite"))
        self.simulate("--set", f"data.test={self.path('part-?.tfrecord')}", "--set", f"data.tests=[\"same={self.path('data/train.tfrecord')}\"]",
                      db="test.sqlite")
        values = {name: value for _, name, value in self.central("test.sqlite")}
        self.assertEqual(values["test/accuracy"], values["same/accuracy"])
        evaluated = self.run_rivulet("model", "evaluate", "latest", "--db", self.path("test.sqlite"), "--data", self.path("part-*.tfrecord"),
                                     "--json", code=0).out
        self.assertEqual(json.loads(evaluated)["test/accuracy"], values["test/accuracy"])
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--set", "data.synth.kind=", "--set",
                                             f"data.train={self.path('piece-*')}"), "no file matches", "piece-*", "data.train")
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--set", f"data.train={self.path('piece-*')}"), "pattern", "piece-*")

    def test_a_client_binds_the_same_shards(self):
        self.files()
        alone = ("--set", "data.partition.clients=1", "--set", "server.clients_per_round=1", "--rounds", "2")
        self.simulate(*alone, db="alone.sqlite")
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path("deployed.sqlite"), *alone)
        address = process.stdout.readline().split()[-1]
        self.run_rivulet("client", "--coordinator", address, "--insecure", "--name", "client-00000", "--data",
                         f"train={self.path('part-*.tfrecord')}", code=0)
        self.assertEqual(process.wait(timeout=60), 0)
        deployed = self.digests("deployed.sqlite")
        # Dealt by iid the one client of a simulation has the same examples in an order of its own, so shards in one file are compared.
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path("whole.sqlite"), *alone)
        address = process.stdout.readline().split()[-1]
        self.run_rivulet("client", "--coordinator", address, "--insecure", "--name", "client-00000", "--data",
                         f"train={self.path('data/train.tfrecord')}", code=0)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(deployed, self.digests("whole.sqlite"))

    def test_several_sets_are_measured_by_name(self):
        self.files()
        before = self.digests()
        said = self.simulate("--rounds", 1, "--set", f"data.tests=[\"ones={self.ones}\"]", "--set", f"data.validation={self.path('part-1.tfrecord')}",
                             db="sets.sqlite")
        self.assertEqual(self.digests("sets.sqlite"), before, "what is measured changes no model")
        names = {name for _, name, _ in self.central("sets.sqlite")}
        self.assertEqual(names, {f"{name}/{metric}" for name in ("test", "ones", "validation") for metric in ("accuracy", "loss")})
        self.assertRegex(said.err, r"ones/accuracy [01]\.0000 .*validation/accuracy [01]\.0000")
        told = json.loads(self.run_rivulet("model", "evaluate", "latest", "--db", self.path("sets.sqlite"), "--json", code=0).out)
        for _, name, value in self.central("sets.sqlite"):
            self.assertEqual(told[name], value)
        page = self.run_rivulet("runs", "show", "latest", "--db", self.path("sets.sqlite"), code=0).out
        self.assertRegex(page, r"(?m)^  ones accuracy ")
        self.assertRegex(page, r"(?m)^  validation loss ")
        for line, fragment in (("[\"ones\"]", "NAME=FILE"), ("[\"test=x\"]", "taken"), ("[\"a=x\", \"a=y\"]", "taken"), ("[\"a/b=x\"]", "NAME=FILE")):
            self.assert_refused(self.run_rivulet("simulate", self.scenario, "--set", f"data.tests={line}"), "data.tests", fragment)

    def test_the_best_version_is_the_best_on_the_validation_set(self):
        self.files()
        # The validation set says that one class alone is right, so that another version is the best than by the test set.
        sets = ("--set", f"data.validation={self.ones}", "--set", "run.keep_models=best", "--set", "run.durability=round", "--rounds", 8)
        self.simulate(*sets, db="best.sqlite")
        judged = {round: value for round, name, value in self.central("best.sqlite") if name == "validation/accuracy"}
        best = max(judged, key=lambda round: (judged[round], -round))
        told = json.loads(self.run_rivulet("model", "evaluate", "latest:best", "--db", self.path("best.sqlite"), "--json", code=0).out)
        self.assertEqual(told["round"], best)
        files = [file.name for file in self.folder.glob("best.sqlite.models/*/*.safetensors")]
        self.assertIn(f"round-{best:06d}.safetensors", files)

    def test_a_fraction_is_held_out_of_what_clients_have(self):
        self.files()
        self.simulate("--set", "data.validation_fraction=0.25", "--rounds", 2, db="held.sqlite")
        names = {name for _, name, _ in self.central("held.sqlite")}
        self.assertLessEqual({"validation/accuracy", "test/accuracy"}, names)
        shares = self.run_rivulet("data", "partition", self.scenario, "--set", "data.validation_fraction=0.25", "--json", code=0).out
        self.assertEqual(json.loads(shares)["examples"], len(self.records) * 3 // 4)
        total, = self.query("SELECT total FROM metrics WHERE name = 'validation/accuracy' AND round = 2", db="held.sqlite")[0]
        self.assertEqual(total, len(self.records) // 4)
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--set", "data.validation_fraction=0.25", "--set",
                                             f"data.validation={self.ones}"), "keep one")
        self.assertTrue(re.search(r"validation/accuracy", self.run_rivulet("simulate", self.scenario, "--db", self.path("x.sqlite"), "--set",
                                                                         "data.validation_fraction=0.25", "--rounds", 1, code=0).err))


if __name__ == "__main__":
    main()
