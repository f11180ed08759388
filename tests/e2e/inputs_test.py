"""Models of several inputs, and clients that see their inputs shifted. What training comes to is computed here a second time, in plain
Python."""
import json
import random
import struct

import harness
from harness import RivuletTest, field, main

MODEL = """
[run]
seed = 3
[model]
target = "numbers"
[[model.inputs]]
name = "numbers"
shape = [2]
kind = "values"
feature = "features"
[[model.inputs]]
name = "shop"
shape = [1]
kind = "tokens"
[[model.layers]]
type = "embedding"
from = "shop"
name = "row"
vocabulary = 4
units = 2
initializer = "ones"
[[model.layers]]
type = "flatten"
name = "flat"
[[model.layers]]
type = "concat"
from = "numbers"
with = "flat"
[[model.layers]]
type = "dense"
units = 1
initializer = "zeros"
[data]
train = "table/train.tfrecord"
test = "table/test.tfrecord"
partition = { clients = 4 }
[client]
batch_size = 1000
optimizer = { kind = "sgd", learning_rate = 0.1 }
[server]
clients_per_round = 4
"""

SHIFTED = """
[model]
preset = "logistic_regression"
[data]
train = "digits.tfrecord"
partition = { clients = 4 }
[data.shift]
kind = "rotation"
groups = 2
[server]
clients_per_round = 4
[evaluation]
every = 0
"""


def packed(name, kind, payload):
    return field(1, field(1, name) + field(2, field(kind, field(1, payload))))


class Inputs(RivuletTest):
    def visits(self, scale=1.0, *options):
        draw = random.Random(7)
        rows = []
        for _ in range(50):
            a, b, shop = draw.gauss(0, 1), draw.gauss(1, 1), draw.choice("xyz")
            rows.append((a * scale, b, shop, 2 * a - b + {"x": 0, "y": 1, "z": -1}[shop]))
        self.write("table.csv", "a,b,shop,sold\n" + "".join(f"{a!r},{b!r},{shop},{sold!r}\n" for a, b, shop, sold in rows))
        said = self.run_rivulet("data", "import", "csv", "--from", self.path("table.csv"), "--target", "sold", "--index", "shop",
                                "--test-every", 5, *options, "--out", self.path("table"), code=0).out
        self.assertIn("40 examples of 2 numbers in 'features', 1 integer below 4 in 'shop' and 1 target", said)
        return [row for i, row in enumerate(rows) if i % 5 != 4], rows[4::5]

    def train(self, rounds, *sets, text=MODEL, code=0):
        scenario = self.write("inputs.toml", text)
        return self.run_rivulet("simulate", scenario, "--db", self.path("runs.sqlite"), "--rounds", rounds, *sets, code=code)

    def weights(self):
        run, = self.query("SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1")[0]
        file = sorted(self.folder.glob(f"runs.sqlite.models/{run}/*.safetensors"))[-1].read_bytes()
        size, = struct.unpack("<Q", file[:8])
        header, body = json.loads(file[8:8 + size]), file[8 + size:]
        return {name: struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 4}f", body[slice(*entry["data_offsets"])])
                for name, entry in header.items() if name != "__metadata__"}

    def test_rounds_are_steps_down_the_gradient_of_both_branches(self):
        train, test = self.visits()
        self.train(3)
        # Four clients of ten rows make one step each, so that a round is one step over all forty.
        table, kernel, bias = [[1.0, 1.0] for _ in range(4)], [0.0] * 4, 0.0

        def predict(row):
            seen = [*row[:2], *table["xyz".index(row[2]) + 1]]
            return seen, sum(w * x for w, x in zip(kernel, seen)) + bias
        for _ in range(3):
            of_kernel, of_bias, of_table = [0.0] * 4, 0.0, [[0.0, 0.0] for _ in range(4)]
            for row in train:
                seen, predicted = predict(row)
                error = 2 * (predicted - row[3]) / len(train)
                of_bias += error
                for i in range(4):
                    of_kernel[i] += error * seen[i]
                for i in range(2):
                    of_table["xyz".index(row[2]) + 1][i] += error * kernel[2 + i]
            bias -= 0.1 * of_bias
            kernel = [w - 0.1 * g for w, g in zip(kernel, of_kernel)]
            table = [[w - 0.1 * g for w, g in zip(*rows)] for rows in zip(table, of_table)]
        weights = self.weights()
        for got, wanted in ((weights["dense1/kernel"], kernel), (weights["dense1/bias"], [bias]),
                            (weights["row/embeddings"], sum(table, []))):
            self.assertEqual(len(got), len(wanted))
            for one, other in zip(got, wanted):
                self.assertAlmostEqual(one, other, delta=1e-5)
        measured = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'central' AND round = 3"))
        self.assertAlmostEqual(measured["test/mse"], sum((predict(row)[1] - row[3]) ** 2 for row in test) / len(test), delta=1e-4)
        told = json.loads(self.run_rivulet("model", "evaluate", "latest", "--db", self.path("runs.sqlite"), "--json", code=0).out)
        self.assertEqual(told["test/mse"], measured["test/mse"])

    def test_deployed_it_is_what_was_simulated(self):
        self.visits()
        self.train(2)
        self.run_rivulet("up", self.path("inputs.toml"), "--db", self.path("up.sqlite"), "--rounds", 2, "--clients", 4, code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests())

    def test_graph_and_onnx_of_the_model_are_trained_as_it_is(self):
        self.visits()
        self.train(2)
        wanted = self.weights()
        scenario = self.write("inputs.toml", MODEL)
        inputs = '[{ name = "numbers", kind = "values", feature = "features" }, { name = "shop", kind = "tokens" }]'
        said = self.run_rivulet("model", "export", scenario, "--out", self.path("model.pb"), code=0).out
        self.assertIn("inputs numbers, shop, label", said)
        graph = {"model.graph": self.path("model.pb"), "model.metrics": '["mse"]', "model.inputs": inputs}
        self.train(2, *(word for key, value in graph.items() for word in ("--set", f"{key}={value}")))
        self.assertEqual(self.weights(), wanted)
        self.run_rivulet("model", "export", scenario, "--format", "onnx", "--out", self.path("model.onnx"), code=0)
        onnx = {"model.onnx": self.path("model.onnx"), "model.inputs": inputs}
        self.train(2, *(word for key, value in onnx.items() for word in ("--set", f"{key}={value}")))
        got = self.weights()
        self.assertEqual(sorted(len(v) for v in got.values()), sorted(len(v) for v in wanted.values()))
        for name in got:
            for one, other in zip(sorted(got[name]), sorted(wanted[name])):
                self.assertAlmostEqual(one, other, delta=1e-5)

    def test_pixels_and_numbers_are_read_from_one_example(self):
        draw = random.Random(2)
        records = []
        for i in range(40):
            pixels, ages = bytes(draw.randrange(256) for _ in range(4)), struct.pack("<2f", i % 2, draw.random())
            records.append(field(1, packed("age", 2, ages) + packed("label", 3, i % 2) + field(1, field(1, "photo") + field(2, field(1, field(1, pixels))))))
        self.write("photos.tfrecord", harness.tfrecord(records))
        layers = ('[{ type = "flatten" }, { type = "concat", with = "age" }, { type = "dense", units = 2 }]')
        text = ('[model]\ninputs = [{ name = "photo", shape = [2, 2, 1] }, { name = "age", shape = [2], kind = "values" }]\n'
                f'layers = {layers}\n[data]\ntrain = "photos.tfrecord"\ntest = "photos.tfrecord"\npartition = {{ clients = 2 }}\n'
                '[client]\nepochs = 30\n[server]\nclients_per_round = 2\n')
        self.train(10, text=text)
        measured = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'central' AND round = 10"))
        self.assertEqual(measured["test/accuracy"], 1.0)
        self.assert_refused(self.train(1, "--set", "model.inputs=" + '[{ name = "photo", shape = [2, 2, 1] }, { name = "age", shape = [3], kind = "values" }]',
                                       text=text, code=None), "age", "record 0")
        self.assert_refused(self.train(1, "--set", "data.input_feature=photo", text=text, code=None), "model.inputs", "data.input_feature")
        self.assert_refused(self.train(1, "--set", "model.input.shape=[4]", text=text, code=None), "model.inputs", "model.input.shape")

    def test_means_in_the_plan_are_those_of_the_import(self):
        self.visits(1000, "--standardise")
        self.train(4)
        standardised = self.weights()
        self.visits(1000)
        columns = self.path("table/columns.json")
        self.train(4, "--set", f"model.columns={columns}")
        for name, values in self.weights().items():
            for got, wanted in zip(values, standardised[name]):
                self.assertAlmostEqual(got, wanted, delta=1e-4)
        self.visits(1000, "--standardise")
        self.assert_refused(self.train(1, "--set", f"model.columns={columns}", code=None), "model.columns", "standardised when they were imported")
        self.visits(1000)
        self.assert_refused(self.train(1, "--set", f"model.columns={columns}", text=MODEL.replace("shape = [2]", "shape = [3]"), code=None),
                            "model.columns", "has 3 values, and 2 means")
        self.assert_refused(self.train(1, "--set", f"model.columns={columns}", text=MODEL.replace('"features"', '"numbers"'), code=None),
                            "model.columns", "numbers, shop")

    def test_a_turned_clients_files_hold_what_the_simulation_trains_on(self):
        draw = random.Random(4)
        photos = [bytes(draw.randrange(1, 255) for _ in range(784)) for _ in range(20)]
        self.write("digits.tfrecord", harness.tfrecord([harness.example(photo, i % 10) for i, photo in enumerate(photos)]))
        scenario = self.write("shifted.toml", SHIFTED)
        said = self.run_rivulet("data", "partition", scenario, code=0).out
        self.assertIn("shift     rotation by 0 to 180 degrees, in 2 groups", said)
        self.run_rivulet("data", "partition", scenario, "--out", self.path("clients"), code=0)
        self.run_rivulet("data", "partition", scenario, "--set", "data.shift.kind=", "--out", self.path("straight"), code=0)
        for client in range(4):
            name = f"client-{client:05d}.tfrecord"
            turned, straight = ((self.folder / folder / name).read_bytes() for folder in ("clients", "straight"))
            for photo in photos:
                self.assertEqual((photo[::-1] if client % 2 else photo) in turned, photo in straight)
        # What is in the files is what the simulation trains on: a run over the files of all clients is the same run.
        db = self.path("shifted.sqlite")
        self.run_rivulet("simulate", scenario, "--db", db, "--rounds", 2, code=0)
        records = []
        for client in range(4):
            raw, at = (self.folder / "clients" / f"client-{client:05d}.tfrecord").read_bytes(), 0
            while at < len(raw):
                length, = struct.unpack_from("<Q", raw, at)
                record = raw[at + 12:at + 12 + length]
                records.append(self.owned(record, client))
                at += 16 + length
        self.write("digits.tfrecord", harness.tfrecord(records))
        self.run_rivulet("simulate", scenario, "--db", self.path("files.sqlite"), "--rounds", 2, "--set", "data.shift.kind=",
                         "--set", "data.partition.kind=by_key", "--set", "data.partition.key=owner", code=0)
        self.assertEqual(self.digests("files.sqlite"), self.digests("shifted.sqlite"))
        self.write("digits.tfrecord", harness.tfrecord([harness.example(photo, i % 10) for i, photo in enumerate(photos)]))
        self.run_rivulet("up", scenario, "--db", self.path("up.sqlite"), "--rounds", 2, "--clients", 4, code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests("shifted.sqlite"))

    @staticmethod
    def owned(record, client):
        """An example with one more feature: Protobuf merges what is written one after the other."""
        return record + field(1, field(1, field(1, "owner") + field(2, field(1, field(1, f"client-{client:05d}")))))


if __name__ == "__main__":
    main()
