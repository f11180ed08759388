"""From a table to a trained model without a line of code: numbers that are predicted, and several labels of a row. What training
comes to is computed here a second time, in plain Python."""
import json
import math
import random
import struct

from harness import RivuletTest, main

MODEL = """
[run]
seed = 3
[model]
input = {{ shape = [2], kind = "values" }}
target = "{target}"
[[model.layers]]
type = "dense"
units = {units}
initializer = "zeros"
[data]
train = "table/train.tfrecord"
test = "table/test.tfrecord"
input_feature = "features"
partition = {{ clients = 4 }}
[client]
batch_size = 1000
optimizer = {{ kind = "sgd", learning_rate = {rate} }}
[server]
clients_per_round = 4
"""


class Tabular(RivuletTest):
    def table(self, names, rows, options):
        self.write("table.csv", ",".join(names) + "\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))
        return self.run_rivulet("data", "import", "csv", "--from", self.path("table.csv"), *options, "--out", self.path("table"), code=0).out

    def train(self, rounds, *sets, **model):
        scenario = self.write("table.toml", MODEL.format(**model))
        return self.run_rivulet("simulate", scenario, "--db", self.path("runs.sqlite"), "--rounds", rounds, *sets, code=0)

    def weights(self):
        """The tensors of the newest run's newest model."""
        run, = self.query("SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1")[0]
        file = sorted(self.folder.glob(f"runs.sqlite.models/{run}/*.safetensors"))[-1].read_bytes()
        size, = struct.unpack("<Q", file[:8])
        header = json.loads(file[8:8 + size])
        body = file[8 + size:]
        return {name: struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 4}f", body[slice(*entry["data_offsets"])])
                for name, entry in header.items() if name != "__metadata__"}

    def central(self):
        return dict(self.query("SELECT name, value FROM metrics WHERE scope = 'central' AND round = (SELECT max(round) FROM metrics WHERE scope = "
                               "'central') AND run_id = (SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1)"))

    def houses(self, noise=0.1):
        draw = random.Random(7)
        rows = []
        for _ in range(125):
            a, b = draw.gauss(0, 1), draw.gauss(1, 1)
            rows.append((a, b, 2 * a - 3 * b + 1 + draw.gauss(0, noise)))
        said = self.table(("a", "b", "price"), rows, ("--target", "price", "--test-every", 5))
        self.assertIn("100 examples of 2 features and 1 target", said)
        return [row for i, row in enumerate(rows) if i % 5 != 4], rows[4::5]

    def test_one_step_from_zeros_is_the_gradient_of_the_mean_square(self):
        train, _ = self.houses()
        self.train(1, target="numbers", units=1, rate=0.1)
        # Every client makes one step over its 25 rows, so that their mean is one step over all 100.
        step = [0.1 * 2 / len(train) * sum(row[2] * x for row in train for x in [(*row[:2], 1)[k]]) for k in range(3)]
        weights = self.weights()
        for got, wanted in zip((*weights["dense1/kernel"], *weights["dense1/bias"]), step):
            self.assertAlmostEqual(got, wanted, delta=2e-6)

    def test_many_steps_come_to_the_least_squares(self):
        train, test = self.houses()
        self.train(150, "--set", "evaluation.every=150", target="numbers", units=1, rate=0.2)
        # The normal equations, by elimination.
        system = [[sum(x * y for x, y in zip(one, other)) for other in zip(*[(a, b, 1.0, c) for a, b, c in train])]
                  for one in list(zip(*[(a, b, 1.0) for a, b, _ in train]))]
        for i in range(3):
            for k in range(3):
                if k != i:
                    factor = system[k][i] / system[i][i]
                    system[k] = [x - factor * y for x, y in zip(system[k], system[i])]
        least = [row[3] / row[i] for i, row in enumerate(system)]
        weights = self.weights()
        for got, wanted in zip((*weights["dense1/kernel"], *weights["dense1/bias"]), least):
            self.assertAlmostEqual(got, wanted, delta=1e-4)
        errors = [least[0] * a + least[1] * b + least[2] - c for a, b, c in test]
        mse, mean = sum(e * e for e in errors) / len(errors), sum(c for _, _, c in test) / len(test)
        spread = sum((c - mean) ** 2 for _, _, c in test) / len(test)
        measured = self.central()
        self.assertAlmostEqual(measured["test/mse"], mse, delta=1e-4)
        self.assertAlmostEqual(measured["test/loss"], mse, delta=1e-4)
        self.assertAlmostEqual(measured["test/mae"], sum(map(abs, errors)) / len(errors), delta=1e-4)
        self.assertAlmostEqual(measured["test/r2"], 1 - mse / spread, delta=1e-4)
        told = json.loads(self.run_rivulet("model", "evaluate", "latest", "--db", self.path("runs.sqlite"), "--json", code=0).out)
        for name, value in measured.items():
            self.assertEqual(told[name], value)
        self.assert_refused(self.run_rivulet("model", "evaluate", "latest", "--classes", "--db", self.path("runs.sqlite")), "numbers", "classes")
        self.run_rivulet("runs", "export", "latest", "--tensorboard", self.path("events"), "--db", self.path("runs.sqlite"), code=0)

    def test_clients_measure_numbers_too(self):
        self.houses()
        self.train(2, "--set", "evaluation.federated_every=1", target="numbers", units=1, rate=0.1)
        measured = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'federated' AND round = 2"))
        self.assertAlmostEqual(measured["evaluate/mse"], measured["evaluate/loss"], places=5)
        self.assertIn("evaluate/mae", measured)

    def test_what_a_model_explains_to_each_client(self):
        """By hand: clients by key, each with targets of its own variance, over what they train on and over the test set."""
        draw = random.Random(3)
        rows = [(a, b, 2 * a + b + draw.gauss(0, 0.5), "east" if i % 2 else "west")
                for i in range(120) for a, b in [(draw.gauss(0, 1 + i % 2), draw.gauss(1, 1))]]
        self.write("table.csv", "a,b,price,town\n" + "".join(f"{a!r},{b!r},{c!r},{town}\n" for a, b, c, town in rows))
        self.run_rivulet("data", "import", "csv", "--from", self.path("table.csv"), "--target", "price", "--key", "town", "--test-every", 5,
                         "--out", self.path("table"), code=0)
        by_key = [word for key, value in {"data.partition.kind": "by_key", "data.partition.key": "town", "data.partition.clients": 2,
                                          "server.clients_per_round": 2}.items() for word in ("--set", f"{key}={value}")]
        self.train(20, *by_key, target="numbers", units=1, rate=0.1)
        weights = self.weights()
        (w, v), (bias,) = weights["dense1/kernel"], weights["dense1/bias"]
        for data, chosen in (((), lambda i: i % 5 != 4), (("--data", self.path("table/test.tfrecord")), lambda i: i % 5 == 4)):
            told = json.loads(self.run_rivulet("model", "evaluate", "latest", "--clients", *data, "--db", self.path("runs.sqlite"), "--json",
                                               code=0).out)
            explained = {}
            for town in ("east", "west"):
                own = [row for i, row in enumerate(rows) if chosen(i) and row[3] == town]
                mean = sum(row[2] for row in own) / len(own)
                explained[town] = 1 - sum((w * a + v * b + bias - c) ** 2 for a, b, c, _ in own) / sum((c - mean) ** 2 for _, _, c, _ in own)
            self.assertEqual([client["client_id"] for client in told["clients"]], ["east", "west"])
            for client in told["clients"]:
                self.assertAlmostEqual(client["evaluate/r2"], explained[client["client_id"]], delta=1e-4)
            self.assertAlmostEqual(told["spread"]["evaluate/r2/worst_decile"], min(explained.values()), delta=1e-4)
            self.assertAlmostEqual(told["spread"]["evaluate/mse/worst_decile"], max(client["evaluate/mse"] for client in told["clients"]))
        table = self.run_rivulet("model", "evaluate", "latest", "--clients", "--db", self.path("runs.sqlite"), code=0).out
        self.assertRegex(table, r"of each client +mean +p10 +p50 +p90 +worst_decile")
        self.assertRegex(table, r"\neast +48 ")
        self.train(1, target="numbers", units=1, rate=0.1)
        self.assert_refused(self.run_rivulet("model", "evaluate", "latest", "--clients", "--data", self.path("table/test.tfrecord"), "--db",
                                             self.path("runs.sqlite")), "by_key", code=2)

    def test_moon_of_a_model_of_one_layer_is_fedavg(self):
        """What its layer takes is the input, which all models see alike: there is nothing to be told apart."""
        self.houses()
        scenario = self.write("table.toml", MODEL.format(target="numbers", units=1, rate=0.1))
        for algorithm in ("fedavg", "moon"):
            self.run_rivulet("simulate", scenario, "--db", self.path(f"{algorithm}.sqlite"), "--rounds", 2, "--set",
                             f"algorithm.name={algorithm}", code=0)
        self.assertEqual(self.digests("moon.sqlite"), self.digests("fedavg.sqlite"))

    def test_shares_of_numbers_are_told_without_classes(self):
        self.houses()
        scenario = self.write("table.toml", MODEL.format(target="numbers", units=1, rate=0.1))
        told = self.run_rivulet("data", "partition", scenario, code=0).out
        self.assertEqual(told, "clients   4\nexamples  100; at one client 25 to 25, the median 25\n")
        self.assert_refused(self.run_rivulet("data", "partition", scenario, "--plot", self.path("x.svg")), "model.target", "numbers")

    def test_labels_are_decided_each_by_itself(self):
        draw = random.Random(5)
        rows = []
        for _ in range(100):
            a, b = draw.gauss(0, 1), draw.gauss(0, 1)
            rows.append((a, b, int(a > 0), int(a + b > 0), int(b < 0.5)))
        said = self.table(("a", "b", "rain", "wind", "fog"), rows,
                          ("--label", "rain", "--label", "wind", "--label", "fog", "--test-every", 5))
        self.assertIn("80 examples of 2 features and 3 labels", said)
        self.train(1, target="labels", units=3, rate=0.3)
        train = [row for i, row in enumerate(rows) if i % 5 != 4]
        kernel = self.weights()["dense1/kernel"]  # [2, 3], a step from sigmoid(0) = 1/2
        for i in range(2):
            for label in range(3):
                gradient = sum((0.5 - row[2 + label]) * row[i] for row in train) / len(train) / 3
                self.assertAlmostEqual(kernel[3 * i + label], -0.3 * gradient, delta=2e-6)
        self.train(60, "--set", "client.optimizer.learning_rate=5.0", target="labels", units=3, rate=0.3)
        measured, weights = self.central(), self.weights()
        right = []
        for row in rows[4::5]:
            scores = [weights["dense1/bias"][label] + sum(row[i] * weights["dense1/kernel"][3 * i + label] for i in range(2)) for label in range(3)]
            right.append([(score > 0) == bool(row[2 + label]) for label, score in enumerate(scores)])
        self.assertAlmostEqual(measured["test/accuracy"], sum(map(sum, right)) / 60)
        self.assertAlmostEqual(measured["test/exact_match"], sum(map(all, right)) / 20)
        self.assertGreater(measured["test/accuracy"], 0.9)
        self.assertFalse(math.isnan(measured["test/loss"]))
        self.assert_refused(self.run_rivulet("model", "evaluate", "latest", "--classes", "--db", self.path("runs.sqlite")), "several labels")
        self.run_rivulet("runs", "export", "latest", "--tensorboard", self.path("events"), "--db", self.path("runs.sqlite"), code=0)

    def test_what_the_records_do_not_hold_is_said(self):
        self.houses()
        scenario = self.write("table.toml", MODEL.format(target="numbers", units=2, rate=0.1))
        refused = self.run_rivulet("simulate", scenario, "--db", self.path("runs.sqlite"), "--rounds", 1)
        self.assert_refused(refused, "record 0", "label")
        self.assert_refused(self.run_rivulet("data", "import", "csv", "--from", self.path("table.csv"), "--out", self.path("x")),
                            "--label", "--target")


if __name__ == "__main__":
    main()
