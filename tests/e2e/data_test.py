"""Data sets through the binary: made, divided, looked at, checked; and every way in which a file can be bad."""
import gzip
import json
import os
import pathlib
import signal
import sqlite3
import struct
import subprocess
import xml.dom.minidom
import zlib

from harness import RIVULET, RivuletTest, example, main, masked_crc, tfrecord

PIXELS = bytes(784)


def read_records(path):
    data, at, records = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        length = struct.unpack_from("<Q", data, at)[0]
        body = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked_crc(body)
        records.append(body)
        at += 16 + length
    return records


def idx(magic, dims, data):
    return struct.pack(">I", magic) + b"".join(struct.pack(">I", dim) for dim in dims) + data


class Data(RivuletTest):
    def records(self, count=3):
        return [example(bytes([i]) * 784, i % 10) for i in range(count)]

    def test_import_mnist(self):
        self.write("in/train-images-idx3-ubyte", idx(0x803, [3, 28, 28], bytes(range(3)) * 784))
        self.write("in/train-labels-idx1-ubyte.gz", gzip.compress(idx(0x801, [3], bytes([5, 0, 4]))))
        self.write("in/t10k-images-idx3-ubyte.gz", gzip.compress(idx(0x803, [1, 28, 28], PIXELS)))
        self.write("in/t10k-labels-idx1-ubyte", idx(0x801, [1], bytes([7])))
        self.run_rivulet("data", "import", "mnist", "--from", "in", "--out", "out", code=0)
        told = json.loads(self.run_rivulet("data", "inspect", "out/train.tfrecord", "--json", code=0).out)
        self.assertEqual(told["examples"], 3)
        self.assertEqual(told["labels"], {"0": 1, "4": 1, "5": 1})
        self.assertEqual(told["features"]["image"]["dtype"], "bytes")
        self.assertEqual(told["features"]["image"]["shape"], [784])
        self.assertEqual(told["bytes"], os.path.getsize(self.path("out/train.tfrecord")))
        self.assertIn("image  bytes[784]", self.run_rivulet("data", "inspect", "out/test.tfrecord", code=0).out)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["test.tfrecord", "train.tfrecord"])
        self.write("in/t10k-labels-idx1-ubyte", idx(0x801, [1], bytes([10])))
        refused = self.run_rivulet("data", "import", "mnist", "--from", "in", "--out", "other")
        self.assert_refused(refused, "t10k-labels-idx1-ubyte", "label 0 is 10", code=1)
        self.assertFalse(os.path.exists(self.path("other")))

    def train_on(self, folder, features, classes, key, clients):
        """Trains a linear model on an imported data set, a client per value of `key`; its last accuracy."""
        scenario = self.write("linear.toml", f'''
[run]
name = "linear"
rounds = 5

[data]
train = "{folder}/train.tfrecord"
test = "{folder}/test.tfrecord"
input_feature = "features"
partition = {{ kind = "by_key", key = "{key}" }}

[server]
clients_per_round = {clients}

[client]
epochs = 5

[model]
input = {{ shape = [{features}], kind = "values" }}
[[model.layers]]
type = "dense"
units = {classes}
''')
        self.run_rivulet("simulate", scenario, "--db", self.path("linear.sqlite"), code=0)
        with sqlite3.connect(self.path("linear.sqlite")) as db:
            return db.execute("SELECT value FROM metrics WHERE name = 'test/accuracy' ORDER BY round DESC").fetchone()[0]

    def test_a_table_is_imported_and_trains(self):
        rows = [f"{'north' if i % 3 else 'south'},{i % 7 - 3},{'mf'[i % 2]},{'ill' if i % 7 > 3 else 'well'}" for i in range(200)]
        self.write("visits.csv", "\n".join(["ward,pulse,sex,outcome", *rows]))
        said = self.run_rivulet("data", "import", "csv", "--from", "visits.csv", "--label", "outcome", "--key", "ward",
                                "--standardise", "--test-every", 5, "--out", "visits", code=0).out
        self.assertIn("visits/train.tfrecord: 160 examples of 3 features and 2 classes", said)
        self.assertIn("visits/test.tfrecord: 40 examples", said)
        columns = json.loads((self.folder / "visits/columns.json").read_text())
        self.assertEqual([column["kind"] for column in columns["features"]], ["number", "category"])
        self.assertEqual(columns["label"]["classes"], ["ill", "well"])
        self.assertGreater(self.train_on("visits", 3, 2, "ward", 2), 0.9)
        self.write("more.tsv", "sex\tpulse\tward\toutcome\nm\t1\teast\till\n")
        self.run_rivulet("data", "import", "csv", "--from", "more.tsv", "--label", "outcome", "--key", "ward", "--columns",
                         "visits/columns.json", "--out", "more", code=0)
        refused = self.run_rivulet("data", "import", "csv", "--from", "visits.csv", "--label", "outcom", "--out", "no")
        self.assert_refused(refused, "visits.csv has no column 'outcom'. Did you mean 'outcome'?", code=1)
        refused = self.run_rivulet("data", "import", "csv", "--from", "visits.csv", "--label", "outcome", "--out", "no",
                                   "--delimiter", "both")
        self.assert_refused(refused, "--delimiter is 'both'; give one character, or tab", code=2)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_leaf_is_imported_and_trains_by_user(self):
        def leaf(users, samples):
            data = {f"u{user}": {"x": [[(i + k + user) % 3 - 1 for k in range(4)] for i in range(samples)],
                                 "y": [float((i + user) % 3) for i in range(samples)]} for user in range(users)}
            return json.dumps({"users": list(data), "num_samples": [samples] * users, "user_data": data})
        self.write("leaf/train/a.json", leaf(6, 30))
        self.write("leaf/test/a.json", leaf(3, 10))
        said = self.run_rivulet("data", "import", "leaf", "--from", "leaf", "--out", "out", code=0).out
        self.assertIn("out/train.tfrecord: 180 examples of 6 users\nout/test.tfrecord: 30 examples of 3 users", said)
        self.assertGreater(self.train_on("out", 4, 3, "user", 3), 0.9)
        self.write("leaf/train/a.json", leaf(2, 2)[:-20])
        refused = self.run_rivulet("data", "import", "leaf", "--from", "leaf", "--out", "other")
        self.assert_refused(refused, "leaf/train/a.json: byte ", "no JSON", code=1)
        self.assertFalse(os.path.exists(self.path("other")))

    def test_text_arrays_and_images_are_imported(self):
        def features(path):
            told = json.loads(self.run_rivulet("data", "inspect", path, "--json", code=0).out)
            return told["examples"], {name: feature["shape"] for name, feature in told["features"].items()}

        self.write("letters/ann.txt", "Dear Bob,\nall is well.\n")
        self.write("letters/bob.txt", "Dear Ann,\n")
        self.run_rivulet("data", "import", "text", "--from", "letters", "--by-line", "--test-every", 3, "--out", "text", code=0)
        self.assertEqual(features("text/train.tfrecord"), (2, {"label": [80], "source": [3], "tokens": [80]}))
        self.assertEqual(features("text/test.tfrecord")[0], 1)

        def npy(descr, shape, values):
            header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
            return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values
        self.write("arrays/x.npy", npy("<f4", (3, 2), struct.pack("<6f", *range(6))))
        self.write("arrays/y.npy", npy("|u1", (3,), bytes([0, 1, 2])))
        said = self.run_rivulet("data", "import", "numpy", "--from", "arrays", "--out", "numpy", code=0).out
        self.assertEqual(said, "numpy/train.tfrecord: 3 examples of 2 values\nrivulet simulate numpy/scenario.toml\n")
        self.assertEqual(features("numpy/train.tfrecord"), (3, {"features": [2], "label": []}))
        self.write("arrays/y.npy", npy("|u1", (2,), bytes([0, 1])))
        refused = self.run_rivulet("data", "import", "numpy", "--from", "arrays", "--out", "no")
        self.assert_refused(refused, "arrays: 'y' has the shape [2]", code=1)

        def png(width, height):
            def chunk(kind, data):
                return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            rows = (b"\0" + bytes(3 * width)) * height
            return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                    chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        self.write("leaves/oak/1.png", png(4, 2))
        self.write("leaves/elm/1.png", png(4, 2))
        imported = self.run_rivulet("data", "import", "images", "--from", "leaves", "--out", "leaves-records")
        if "built without" not in imported.err:
            self.assertIn("2 examples of 2 classes, 4 × 2 pixels in colour", imported.out)
            self.assertEqual(features("leaves-records/train.tfrecord"), (2, {"image": [24], "label": []}))
            self.write("leaves/oak/2.png", png(4, 3))
            refused = self.run_rivulet("data", "import", "images", "--from", "leaves", "--out", "no")
            self.assert_refused(refused, "leaves/oak/2.png: 4 × 3 pixels", code=1)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_synth_digits_is_a_function_of_its_seed(self):
        for out, seed in (("a", 1), ("b", 1), ("c", 2)):
            self.run_rivulet("data", "synth", "digits", "--writers", 4, "--examples-per-writer", 5, "--seed", seed,
                             "--out", out, code=0)
        a, b, c = ((self.folder / out / "train.tfrecord").read_bytes() for out in "abc")
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)
        self.assertEqual(len(read_records(self.path("a/train.tfrecord"))), 20)
        self.assertEqual(len(read_records(self.path("a/test.tfrecord"))), 5)
        told = json.loads(self.run_rivulet("data", "inspect", "a/train.tfrecord", "--json", code=0).out)
        self.assertEqual(told["features"]["writer"]["dtype"], "bytes")

    def test_partition_divides_every_record_once(self):
        self.run_rivulet("data", "partition", self.scenario, "--out", "clients", code=0)
        names = sorted(os.listdir(self.path("clients")))
        self.assertEqual(names, [f"client-{i:05}.tfrecord" for i in range(6)])
        divided = [record for name in names for record in read_records(self.path("clients/" + name))]
        self.assertEqual(sorted(divided), sorted(read_records(self.path("data/train.tfrecord"))))
        self.run_rivulet("data", "partition", self.scenario, "--out", "writers", "--set",
                         "data.partition.kind=by_key", "--set", "data.partition.clients=12", code=0)
        self.assertEqual(sorted(os.listdir(self.path("writers"))), [f"writer-{i:04}.tfrecord" for i in range(12)])
        again = self.run_rivulet("data", "partition", self.scenario, "--out", "writers")
        self.assert_refused(again, "writers", "writer-0000.tfrecord", "empty folder", code=1)

    def test_class_names_travel_with_the_clients_files(self):
        self.run_rivulet("data", "partition", self.scenario, "--out", "nameless", code=0)
        self.assertFalse((self.folder / "nameless/classes.txt").exists())
        names = "".join(f"digit {digit}\n" for digit in range(10))
        (self.folder / "data/classes.txt").write_text(names)
        self.run_rivulet("data", "partition", self.scenario, "--out", "clients", code=0)
        self.run_rivulet("data", "partition", self.scenario, "--out", "split", "--split", "75/25", code=0)
        for folder in ("clients", "split/train", "split/test"):
            self.assertEqual((self.folder / folder / "classes.txt").read_text(), names)
        self.assertIn("digit 3", self.run_rivulet("data", "inspect", "clients/client-00000.tfrecord", code=0).out)

    def test_partition_splits_each_client(self):
        self.run_rivulet("data", "partition", self.scenario, "--out", "clients", "--split", "75/25", code=0)
        parts = {name: len(read_records(path)) for part in ("train", "test")
                 for path in (self.folder / "clients" / part).iterdir() for name in [f"{part}/{path.name}"]}
        self.assertEqual(sorted(set(parts.values())), [4, 12])
        self.assertEqual(len(parts), 12)
        divided = [record for name in parts for record in read_records(self.path("clients/" + name))]
        self.assertEqual(sorted(divided), sorted(read_records(self.path("data/train.tfrecord"))))
        self.run_rivulet("data", "partition", self.scenario, "--out", "three", "--split", "50/25/25", code=0)
        self.assertEqual(sorted(os.listdir(self.path("three"))), ["test", "train", "validation"])
        for split, words in (("80", "two or three"), ("80/x", "two or three"), ("80/10", "add up to 90"), ("100/0", "0 percent"),
                             ("25/25/25/25", "two or three"), ("80//20", "two or three")):
            self.assert_refused(self.run_rivulet("data", "partition", self.scenario, "--out", "no", "--split", split), words, code=2)
        self.assert_refused(self.run_rivulet("data", "partition", self.scenario, "--split", "80/20"), "only with --out", code=2)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_partition_is_shown_and_drawn(self):
        shown = self.run_rivulet("data", "partition", self.scenario, code=0).out
        self.assertIn("clients   6\nexamples  96; at one client 16 to 16, the median 16\nlabels    10; ", shown)
        self.assertEqual(len(shown.splitlines()), 4 + 2 + 10)
        self.assertEqual(os.listdir(self.folder / "data").count("train.tfrecord"), 1)
        said = self.run_rivulet("data", "partition", self.scenario, "--plot", "p.svg", "--set", "run.name=<a&b>", code=0).out
        self.assertEqual(said, "p.svg: 10 labels by 6 clients\n")
        picture = xml.dom.minidom.parse(self.path("p.svg"))
        titles = [title.firstChild.data for title in picture.getElementsByTagName("title")]
        counts = [int(title.rsplit(": ", 1)[1]) for title in titles if title.startswith("label ")]
        self.assertEqual(sum(counts), 96)
        self.assertIn("<a&b>: iid over 6 clients", [text.firstChild.data for text in picture.getElementsByTagName("text")])
        told = json.loads(self.run_rivulet("data", "partition", self.scenario, "--json", "--set",
                                           "data.partition.sizes=linear", code=0).out)
        self.assertEqual((told["clients"], told["examples"], told["smallest"], told["labels"]), (6, 96, 5, 10))
        self.run_rivulet("data", "partition", self.scenario, "--plot", "p.png", code=0)
        png = (self.folder / "p.png").read_bytes()
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", png[16:24]), (2 * 560, 2 * (130 + 10 * 28 + 60)))  # two pixels a point
        self.assert_refused(self.run_rivulet("data", "partition", self.scenario, "--plot", "p.gif"), "ends in .png or .svg", code=2)

    def test_synthetic_sets_follow_from_their_seed(self):
        for out, *more in (("a",), ("b",), ("c", "--seed", 2), ("d", "--alpha", 1), ("e", "--iid")):
            self.run_rivulet("data", "synth", "synthetic", "--clients", 3, "--beta", "0.5", *more, "--out", out, code=0)
        sets = [(self.folder / out / "train.tfrecord").read_bytes() for out in "abcde"]
        self.assertEqual(sets[0], sets[1])
        self.assertEqual(len({sets[0], sets[2], sets[4]}), 3)
        self.assertEqual(sets[3], sets[0])  # alpha moves all classes alike, and so no label
        told = json.loads(self.run_rivulet("data", "inspect", "a/test.tfrecord", "--json", code=0).out)
        self.assertEqual((told["features"]["features"]["dtype"], told["features"]["features"]["shape"]), ("float", [60]))
        self.run_rivulet("data", "synth", "blobs", "--classes", 4, "--examples", 40, "--deviation", 0.5, "--out", "f", code=0)
        told = json.loads(self.run_rivulet("data", "inspect", "f/train.tfrecord", "--json", code=0).out)
        self.assertEqual(told["labels"], {str(label): 10 for label in range(4)})
        for more in (["--alpha", "much"], ["--alpha", "-1"], ["--iid", "--alpha", "1"]):
            self.assert_refused(self.run_rivulet("data", "synth", "synthetic", *more, "--out", "g"), "alpha")
        self.assertFalse(os.path.exists(self.path("g")))

    def test_verify_names_file_record_and_byte(self):
        good = tfrecord(self.records())
        frame = len(good) // 3
        path = self.write("good", good)
        self.assertIn("3 records", self.run_rivulet("data", "verify", path, code=0).out)
        for name, packed in (("good.gz", gzip.compress(good)), ("good.zlib", zlib.compress(good))):
            self.assertIn("3 records", self.run_rivulet("data", "verify", self.write(name, packed), code=0).out)

        def flip(at):
            return good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]
        absurd = struct.pack("<Q", 1 << 60)
        absurd += struct.pack("<I", masked_crc(absurd))
        endless = gzip.compress(tfrecord([bytes(60000)]) * 1000, 1) * 20  # 1.2 GB of valid records
        for name, content, fragment in [
            ("length", flip(frame), f"length: record 1 at byte {frame}: the length's checksum is wrong"),
            ("data", flip(2 * frame + 100), f"data: record 2 at byte {2 * frame}: the data's checksum is wrong"),
            ("packed.gz", gzip.compress(flip(frame + 100)), f"packed.gz: record 1 at byte {frame}: the data's checksum"),
            ("header", good[:frame + 5], f"header: record 1 at byte {frame}: cut off: 5 of the header's 12 bytes"),
            ("tail", good[:-7], f"tail: record 2 at byte {2 * frame}: the record says it has {frame - 16} bytes"),
            ("absurd", good + absurd, f"absurd: record 3 at byte {3 * frame}: the record says it has {1 << 60} bytes"),
            ("absurd.gz", gzip.compress(good + absurd), f"absurd.gz: record 3 at byte {3 * frame}: the record says"),
            ("cut.gz", gzip.compress(good)[:-9], "cut.gz: record "),
            ("zeros.gz", gzip.compress(bytes(1 << 28)), "zeros.gz: record 0 at byte 0: "),
            ("bomb.gz", endless, "if it is meant to, unpack it first"),
        ]:
            with self.subTest(name=name):
                refused = self.run_rivulet("data", "verify", self.write(name, content))
                self.assert_refused(refused, fragment, code=1)
        for name, fragment in [("missing", "missing: no such file"), (".", "record 0 at byte 0: a folder, not a file")]:
            self.assert_refused(self.run_rivulet("data", "verify", self.path(name)), fragment, code=1)
        os.mkfifo(self.path("pipe"))
        for command in ("verify", "inspect"):
            refused = self.run_rivulet("data", command, self.path("pipe"), timeout=20)
            self.assert_refused(refused, "pipe: record 0 at byte 0: a pipe cannot be read by position", code=1)

    def test_verify_goes_on_after_a_bad_file(self):
        good, bad = self.write("good", tfrecord(self.records())), self.write("bad", b"not records at all")
        result = self.run_rivulet("data", "verify", bad, good, code=1)
        self.assertIn("good: 3 records", result.out)
        self.assertIn("bad: record 0 at byte 0: ", result.err)
        self.assertIn("1 of 2 files are bad", result.err)

    def test_inspect_of_other_records_is_no_error(self):
        path = self.write("f", tfrecord([b"some text", b"\x12\x00"]))
        told = json.loads(self.run_rivulet("data", "inspect", path, "--json", code=0).out)
        self.assertEqual((told["examples"], told["sequence_examples"], told["other_records"]), (0, 1, 1))

    def test_interrupt_leaves_nothing_half_written(self):
        os.mkdir(self.path("out"))
        process = subprocess.Popen([RIVULET, "data", "synth", "digits", "--writers", "100000", "--examples-per-writer",
                                    "1000", "--out", self.path("out")], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.processes.append(process)
        self.wait_for(lambda: os.listdir(self.path("out")), "the temporary file")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"stopped while drawing digits", err)
        self.assertEqual(os.listdir(self.path("out")), [])


if __name__ == "__main__":
    main()
