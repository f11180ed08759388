"""The first hour of somebody with files and no scenario: what a command refuses says what to do, and doing it leads to a run."""
import json

from harness import RivuletTest, example, main, tfrecord


class Tables(RivuletTest):
    def patients(self):
        """720 rows: an identifier, an age of which a few cells are no numbers, a ward and whether the patient is ill."""
        rows = [f"P{i:04},{'NA' if i % 100 == 7 else '?' if i == 50 else 30 + i % 40},{'east' if i % 3 else 'west'},{'ill' if i % 40 > 20 else 'well'}"
                for i in range(720)]
        self.write("patients.csv", "Patient ID,age,ward,outcome\n" + "\n".join(rows) + "\n")

    def load(self, *options, code=0):
        return self.run_rivulet("data", "import", "csv", "--from", "patients.csv", "--label", "outcome", "--key", "ward", *options,
                                "--out", "patients", code=code)

    def test_identifiers_do_not_get_into_a_file_that_is_sent(self):
        self.patients()
        numbers = ("--missing", "NA", "--missing", "?", "--fill-missing")
        self.assert_refused(self.load(*numbers, code=1), "column 'Patient ID' has 720 different values in 720 rows",
                            "Pass --without 'Patient ID'", code=1)
        said = self.load(*numbers, "--without", "Patient ID").out
        self.assertIn("  Patient ID  left out\n", said)
        self.assertIn("  ward        key, names the client\n", said)
        self.assertIn("patients/columns.json holds every value of 'outcome'\n", said)
        text = (self.folder / "patients/columns.json").read_text()
        self.assertNotIn("P0001", text)
        self.assertEqual(json.loads(text)["discloses"], ["the mean and deviation of 'age'", "every value of 'outcome': ill, well"])

    def test_texts_among_numbers_are_named(self):
        self.patients()
        refused = self.load("--without", "Patient ID", code=1)
        self.assert_refused(refused, "column 'age': 9 of 720 cells are no numbers: 'NA' (8 cells, first in line 9), '?' (line 52).",
                            "--missing 'NA'", "--missing '?'", "--fill-missing", code=1)
        self.load("--without", "Patient ID", "--missing", "NA", "--missing", "?", "--fill-missing")
        self.write("patients.csv", 'fee,outcome\n"1,000",ill\n"2,500",well\n')
        refused = self.run_rivulet("data", "import", "csv", "--from", "patients.csv", "--label", "outcome", "--out", "fees")
        self.assert_refused(refused, "'1,000' (line 2)", "--thousands ,", "--decimal ,", code=1)
        said = self.run_rivulet("data", "import", "csv", "--from", "patients.csv", "--label", "outcome", "--thousands", ",", "--out", "fees",
                                code=0).out
        self.assertIn("  fee      number\n", said)

    def test_one_option_settles_identifiers_and_gaps(self):
        self.patients()
        refused = self.load(code=1)
        for fragment in ("column 'Patient ID'", "column 'age'",
                         "Pass --auto to use these options: --without 'Patient ID' --missing '?' --missing NA --fill-missing"):
            self.assertIn(fragment, refused.err)
        by_hand = self.load("--without", "Patient ID", "--missing", "NA", "--missing", "?", "--fill-missing", "--test-every", 4).out
        records = [(self.folder / f"patients/{name}").read_bytes() for name in ("train.tfrecord", "test.tfrecord", "columns.json")]
        said = self.load("--auto", "--test-every", 4).out
        self.assertEqual(said, "--auto used these options: --without 'Patient ID' --missing '?' --missing NA --fill-missing\n" + by_hand)
        self.assertEqual(records, [(self.folder / f"patients/{name}").read_bytes() for name in ("train.tfrecord", "test.tfrecord", "columns.json")])
        self.write("patients.csv", "fee,outcome\n$1,ill\n$2,well\n")  # which currency that is, and whether one, nobody can guess
        refused = self.run_rivulet("data", "import", "csv", "--auto", "--from", "patients.csv", "--label", "outcome", "--out", "fees")
        self.assert_refused(refused, "--unit '$'", code=1)
        self.assertNotIn("--auto", refused.err)

    def runs(self, folder):
        """Runs the scenario that the import wrote, as its last line says."""
        done = self.run_rivulet("simulate", f"{folder}/scenario.toml", "--rounds", 2, "--db", "runs.sqlite", code=0)
        return {name for name, in self.query("SELECT DISTINCT name FROM metrics WHERE scope = 'central'")}, done

    def test_a_table_runs_after_one_command(self):
        self.patients()
        said = self.load("--without", "Patient ID", "--missing", "NA", "--missing", "?", "--fill-missing", "--test-every", 4).out
        self.assertTrue(said.endswith("rivulet simulate patients/scenario.toml\n"), said)
        self.assertIn("test/accuracy", self.runs("patients")[0])  # of 2 clients, fewer than the usual 10 a round
        self.write("patients/scenario.toml", "# mine\n")
        self.load("--without", "Patient ID", "--missing", "NA", "--missing", "?", "--fill-missing")
        self.assertEqual((self.folder / "patients/scenario.toml").read_text(), "# mine\n")

    def test_numbers_labels_and_indices_run_after_one_command(self):
        self.write("flats.csv", "rooms,age,town,rent,lift,balcony\n" + "".join(
            f"{1 + i % 4},{10 + i % 50},{'abc'[i % 3]},{400 + 200 * (i % 4) + i % 7},{i % 2},{i // 2 % 2}\n" for i in range(60)))
        for options, metric in ((("--target", "rent"), "test/mae"), (("--label", "lift", "--label", "balcony"), "test/accuracy"),
                                (("--target", "rent", "--index", "town"), "test/mae"), (("--label", "town", "--feature", "home=rooms,age"), "test/accuracy"),
                                (("--label", "lift", "--index", "town", "--without", "rooms", "--without", "age", "--without", "rent",
                                  "--without", "balcony"), "test/accuracy")):
            folder = "flats" + str(len(list(self.folder.iterdir())))
            self.run_rivulet("data", "import", "csv", "--from", "flats.csv", *options, "--test-every", 5, "--out", folder, code=0)
            self.assertIn(metric, self.runs(folder)[0], options)

    def test_targets_of_any_size_are_learnt_after_one_command(self):
        for scale in (1, 1000, 300_000):
            self.write("prices.csv", "rooms,area,town,price\n" + "".join(
                f"{1 + i % 5},{40 + i % 90},{'xyz'[i % 3]},{scale * (1 + i % 5 + (i % 90) / 50):.2f}\n" for i in range(300)))
            folder = f"prices-{scale}"
            self.run_rivulet("data", "import", "csv", "--from", "prices.csv", "--target", "price", "--key", "town", "--test-every", 5,
                             "--out", folder, code=0)
            self.run_rivulet("simulate", f"{folder}/scenario.toml", "--db", f"{folder}.sqlite", code=0)
            ((explained,),) = self.query("SELECT value FROM metrics WHERE name = 'test/r2' ORDER BY round DESC LIMIT 1", db=f"{folder}.sqlite")
            self.assertGreater(explained, 0.8)

    def test_class_names_are_in_every_table(self):
        self.patients()
        self.load("--without", "Patient ID", "--missing", "NA", "--missing", "?", "--fill-missing", "--test-every", 4)
        self.assertRegex(self.run_rivulet("data", "inspect", "patients/test.tfrecord", code=0).out, r"(?m)^     ill +\d+  #+$")
        told = json.loads(self.run_rivulet("data", "inspect", "patients/test.tfrecord", "--json", code=0).out)
        self.assertEqual(told["label_names"], ["ill", "well"])
        self.assertRegex(self.run_rivulet("data", "partition", "patients/scenario.toml", code=0).out, r"(?m)^    well +\d+  ")
        self.run_rivulet("data", "partition", "patients/scenario.toml", "--plot", "who.svg", code=0)
        self.assertIn(">well</text>", (self.folder / "who.svg").read_text())
        self.runs("patients")
        evaluated = self.run_rivulet("model", "evaluate", "latest", "--db", "runs.sqlite", "--classes", "--confusion", "matrix.svg", code=0).out
        self.assertRegex(evaluated, r"(?m)^     ill +[\d.]+ +[\d.]+$")
        self.assertRegex(evaluated, r"(?m)^ +1 +well +\d+ ")
        self.assertIn(">ill 0</text>", (self.folder / "matrix.svg").read_text())
        told = json.loads(self.run_rivulet("model", "evaluate", "latest", "--db", "runs.sqlite", "--classes", "--json", code=0).out)
        self.assertEqual([row["name"] for row in told["classes"]], ["ill", "well"])

    def test_leaf_runs_after_one_command(self):
        def leaf(users, samples, values):
            data = {f"u{user}": {"x": [[(i + k + user) % 3 / 2 for k in range(values)] for i in range(samples)],
                                 "y": [(i + user) % 3 for i in range(samples)]} for user in range(users)}
            return json.dumps({"users": list(data), "num_samples": [samples] * users, "user_data": data})
        for folder, values, options in (("numbers", 4, ()), ("images", 64, ("--pixels",)), ("strips", 10, ("--pixels",))):
            self.write(f"{folder}-leaf/train/a.json", leaf(4, 12, values))
            self.write(f"{folder}-leaf/test/a.json", leaf(2, 4, values))
            said = self.run_rivulet("data", "import", "leaf", "--from", f"{folder}-leaf", *options, "--out", folder, code=0).out
            self.assertIn(f"rivulet simulate {folder}/scenario.toml\n", said)
            self.assertIn("test/accuracy", self.runs(folder)[0])

    def test_a_partition_needs_no_model_and_no_cohort(self):
        self.patients()
        self.load("--without", "Patient ID", "--missing", "NA", "--missing", "?", "--fill-missing")
        self.write("who.toml", """[data]
train = "patients/train.tfrecord"
test = "nowhere.tfrecord"
partition = { kind = "by_key", key = "ward" }
[server]
clients_per_round = 50
""")
        told = json.loads(self.run_rivulet("data", "partition", "who.toml", "--json", code=0).out)
        self.assertEqual((told["clients"], told["examples"]), (2, 720))
        self.assert_refused(self.run_rivulet("simulate", "who.toml"), "names no model")


class OwnData(RivuletTest):
    SYNTH = """
[run]
rounds = 2
[model]
preset = "logistic_regression"
[data]
synth = { kind = "digits", writers = 6, test_writers = 2, examples_per_writer = 8 }
partition = { clients = 6 }
"""

    def test_a_mistyped_name_is_not_drawn(self):
        scenario = self.write("own.toml", self.SYNTH)
        self.write("mine.tfrecord", tfrecord([example(bytes([i]) * 784, i % 10) for i in range(24)]))
        refused = self.run_rivulet("simulate", scenario, "--set", "data.train=mina.tfrecord")
        self.assert_refused(refused, "mina.tfrecord", "data.synth generates no data", "Did you mean 'mine.tfrecord'?", code=1)
        self.assertFalse((self.folder / "mina.tfrecord").exists())
        both = self.run_rivulet("simulate", scenario, "--set", "data.train=mina.tfrecord", "--set", "data.test=mino.tfrecord")
        self.assert_refused(both, "mina.tfrecord", "data.synth generates no data", code=1)
        beside = self.run_rivulet("simulate", scenario, "--set", "data.train=mine.tfrecord", "--set", "data.test=mino.tfrecord")
        self.assert_refused(beside, "mino.tfrecord", "no test set beside the training data", code=1)
        self.assertFalse((self.folder / "mino.tfrecord").exists())
        self.run_rivulet("simulate", scenario, "--set", "data.train=mine.tfrecord", "--db", "own.sqlite", code=0)
        self.assertEqual(self.query("SELECT name FROM metrics WHERE name LIKE 'test/%'", db="own.sqlite"), [])  # of digits it would be
        self.assertFalse((self.folder / "test.tfrecord").exists())
        self.run_rivulet("simulate", scenario, "--db", "drawn.sqlite", code=0)
        self.assertNotEqual(self.query("SELECT name FROM metrics WHERE name LIKE 'test/%'", db="drawn.sqlite"), [])


if __name__ == "__main__":
    main()
