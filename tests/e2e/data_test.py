"""Data sets through the binary: made, divided, looked at, checked; and every way in which a file can be bad."""
import gzip
import json
import os
import pathlib
import signal
import struct
import subprocess
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
