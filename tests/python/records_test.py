"""TFRecord files and examples: the bytes of docs/internals/formats.md, what is refused, and what the program makes of them."""

import contextlib
import gzip
import pathlib
import struct
import unittest
import unittest.mock
import zlib

import packaged
import harness
import rivulet

# docs/internals/formats.md's own sample: the record "abc".
ABC = bytes.fromhex("0300000000000000 b099490e 616263 6e57f121")


@packaged.needs_numpy
class Checksum(unittest.TestCase):
    def test_known_data_known_sum(self):
        from rivulet._crc32c import crc32c

        # RFC 3720, appendix B.4.
        self.assertEqual(
            crc32c([b"123456789", bytes(32), b"\xff" * 32, bytes(range(32)), b""]).tolist(),
            [0xE3069283, 0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0],
        )

    def test_records_of_any_length_as_byte_by_byte(self):
        from rivulet._crc32c import crc32c

        noise = bytes(value * 131 + value // 7 & 0xFF for value in range(70_000))
        records = [noise[7 : 7 + length] for length in [*range(300), 1023, 1024, 1025, 4097, 69_000]]
        self.assertEqual(crc32c(records).tolist(), [harness.crc32c(record) for record in records])

    def test_large_records_are_folded_to_the_same_sum(self):
        from rivulet import _crc32c

        noise = bytes(value * 131 + value // 7 & 0xFF for value in range(200_001))
        least = _crc32c._FOLDED_BYTES
        with unittest.mock.patch.object(_crc32c, "_of_one", None):  # also where the package crc32c would do it
            for lengths in ([least - 1], [least], [least + 1], [least + 63], [200_001], [least, 131_072]):
                records = [noise[5 : 5 + length] for length in lengths]
                self.assertEqual(_crc32c.crc32c(records).tolist(), [harness.crc32c(record) for record in records], lengths)


@packaged.needs_numpy
class Records(harness.RivuletTest):
    def refused(self, content, sentence):
        path = self.write("bad.tfrecord", content)
        read = []
        with self.assertRaises(rivulet.RivuletError) as raised:
            for record in rivulet.read_records(path):
                read.append(record)
        self.assertEqual(str(raised.exception), sentence.replace("FILE", path))
        return read

    def test_write_documented_sample_its_bytes(self):
        path = self.path("abc.tfrecord")
        self.assertEqual(rivulet.write_records(path, [b"abc"]), 1)
        self.assertEqual((self.folder / "abc.tfrecord").read_bytes(), ABC)
        self.assertEqual(list(rivulet.read_records(path)), [b"abc"])

    def test_read_what_was_written_the_same(self):
        records = [b"", b"x", bytes(5 << 20), *(str(number).encode() * 9 for number in range(9000))]
        path = self.path("many.tfrecord")
        self.assertEqual(rivulet.write_records(path, iter(records)), len(records))
        self.assertEqual(list(rivulet.read_records(path)), records)
        self.run_rivulet("data", "verify", path, code=0)

    def test_write_an_error_leaves_what_was_there(self):
        path = self.write("kept.tfrecord", ABC)

        def records():
            yield b"one"
            raise ValueError("no more")

        with self.assertRaises(ValueError):
            rivulet.write_records(path, records())
        self.assertEqual((self.folder / "kept.tfrecord").read_bytes(), ABC)
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["kept.tfrecord", "tiny.toml"])

    def test_write_into_a_missing_folder_a_sentence(self):
        with self.assertRaisesRegex(rivulet.RivuletError, "cannot write '.*/no/x': No such file or directory"):
            rivulet.write_records(self.path("no/x"), [b""])

    def test_read_packed_the_same(self):
        for content in (gzip.compress(ABC), zlib.compress(ABC), gzip.compress(ABC[:7]) + gzip.compress(ABC[7:])):
            self.assertEqual(list(rivulet.read_records(self.write("packed", content))), [b"abc"])

    def test_read_damaged_names_record_and_byte(self):
        good = rivulet._crc32c.masked_crc32c([ABC[:8], b"abc"]).tolist()
        changed = bytearray(ABC)
        changed[13] ^= 1
        computed = harness.masked_crc(bytes(changed[12:15]))
        self.assertEqual(
            self.refused(
                ABC + changed,
                f"FILE: record 1 at byte 19: the data's checksum is wrong (stored 0x{good[1]:08x}, computed "
                f"0x{computed:08x}): the record is damaged",
            ),
            [b"abc"],
        )
        changed = bytearray(ABC)
        changed[0] = 2  # the file still reaches as far
        computed = harness.masked_crc(bytes(changed[:8]))
        wrong_length = (
            f"the length's checksum is wrong (stored 0x{good[0]:08x}, computed 0x%08x): damaged, or not a TFRecord file"
        )
        self.refused(bytes(changed) + ABC, f"FILE: record 0 at byte 0: {wrong_length % computed}")
        changed[7] = 0x7F  # it does not
        computed = harness.masked_crc(bytes(changed[:8]))
        self.assertEqual(self.refused(ABC + changed, f"FILE: record 1 at byte 19: {wrong_length % computed}"), [b"abc"])

    def test_read_cut_off_names_record_and_byte(self):
        self.refused(ABC + ABC[:5], "FILE: record 1 at byte 19: cut off: 5 of the header's 12 bytes are there")
        self.refused(
            ABC[:16],
            "FILE: record 0 at byte 0: the record says it has 3 bytes of data, but the file ends 4 bytes after its "
            "header: cut off or damaged",
        )
        self.refused(gzip.compress(ABC)[:-9], "FILE: the gzip stream is cut off: copy the file again")

    def test_read_a_bomb_is_refused(self):
        from rivulet import _tfrecord

        self.addCleanup(setattr, _tfrecord, "_UNPACKED_BYTES", _tfrecord._UNPACKED_BYTES)
        _tfrecord._UNPACKED_BYTES = 1 << 16
        with self.assertRaisesRegex(rivulet.RivuletError, "unpacks to more than the [0-9]+ bytes allowed"):
            list(rivulet.read_records(self.write("bomb", gzip.compress(bytes(8 << 20)))))

    def test_read_what_is_no_file_a_sentence(self):
        with self.assertRaisesRegex(rivulet.RivuletError, "cannot open '.*none': No such file or directory"):
            list(rivulet.read_records(self.path("none")))
        with self.assertRaisesRegex(rivulet.RivuletError, "cannot open '.*': Is a directory"):
            list(rivulet.read_records(self.folder))


@packaged.needs_numpy
class Examples(harness.RivuletTest):
    def setUp(self):
        super().setUp()
        import numpy

        self.np = numpy

    def lists(self, features):
        return {name: list(value) for name, value in features.items()}

    def test_encode_known_features_known_bytes(self):
        self.assertEqual(rivulet.encode_example({"label": 7, "image": b"pixels"}), harness.example(b"pixels", b"\x07"))
        # As protobuf's own runtime serializes it with deterministic=True.
        self.assertEqual(
            rivulet.encode_example({"i": [-1, 300], "f": self.np.float32([1.5])}),
            bytes.fromhex("0a26 0a0d0a0166120812060a040000c03f 0a150a016912101a0e0a0cffffffffffffffffff01ac02"),
        )

    def test_decode_what_was_encoded_the_same(self):
        numbers = [0, 1, -1, 127, 128, 2**31, -(2**63), 2**63 - 1]
        record = rivulet.encode_example(
            {
                "numbers": numbers,
                "x": self.np.float32([[1, 2], [3, 4]]),
                "name": "Zoë",
                "raw": b"\0\xff",
                "pixels": self.np.arange(6, dtype=self.np.uint8).reshape(2, 3),
                "none": self.np.int64([]),
            }
        )
        self.assertEqual(
            self.lists(rivulet.decode_example(record)),
            {
                "name": ["Zoë".encode()],
                "none": [],
                "numbers": numbers,
                "pixels": [bytes(range(6))],
                "raw": [b"\0\xff"],
                "x": [1, 2, 3, 4],
            },
        )

    def test_decode_as_protocol_buffers_does(self):
        field, varint = harness.field, harness.varint

        def entry(name, feature):
            return field(1, field(1, field(1, name) + field(2, feature)))

        unpacked = b"\x08\x05\x08\x06" + field(1, varint(7) + varint(8))
        floats = b"\x0d" + struct.pack("<f", 1) + field(1, struct.pack("<2f", 2, 3))
        record = (
            entry("a", field(3, field(1, varint(1))))
            + field(9, b"unknown")
            + b"\x50\x01"
            + entry("a", field(3, unpacked))
            + entry("b", field(2, floats))
            + entry("c", b"")
        )
        self.assertEqual(self.lists(rivulet.decode_example(record)), {"a": [5, 6, 7, 8], "b": [1, 2, 3], "c": []})

    def test_decode_what_is_none_a_sentence(self):
        for record in (
            b"\x0a\x05abc",
            b"\x0a",
            b"\x07",
            b"\x00\x00",
            b"\xff" * 11,
            rivulet.encode_example({"a": 1})[:-1],
        ):
            with self.assertRaisesRegex(rivulet.RivuletError, "^no tf.train.Example: "):
                rivulet.decode_example(record)

    def test_damaged_anyhow_is_read_or_refused(self):
        path = self.path("whole.tfrecord")
        rivulet.write_examples(
            path, {"x": self.np.ones((3, 2), self.np.float32), "n": [1, -2, 3], "s": ["a", "b", "c"]}
        )
        for damaged in packaged.mutations((self.folder / "whole.tfrecord").read_bytes(), 200):
            with contextlib.suppress(rivulet.RivuletError):
                rivulet.read_examples(self.write("damaged.tfrecord", damaged))
        for damaged in packaged.mutations(
            rivulet.encode_example({"x": self.np.ones(2, self.np.float32), "n": [1, -2]}), 2000
        ):
            with contextlib.suppress(rivulet.RivuletError):
                rivulet.decode_example(damaged)

    def test_write_examples_columns_read_back_and_known_to_the_program(self):
        np = self.np
        columns = {
            "image": np.arange(5 * 12, dtype=np.uint8).reshape(5, 2, 2, 3),
            "label": np.array([3, 1, 4, 1, 5]),
            "x": np.linspace(0, 1, 10, dtype=np.float32).reshape(5, 2),
            "writer": ["ann", "bo", "ann", "bo", "cy"],
        }
        path = self.path("columns.tfrecord")
        self.assertEqual(rivulet.write_examples(path, columns), 5)
        told = self.run_rivulet("data", "inspect", path, code=0).out
        for part in ("examples  5", "bytes[12]", "int64", "float[2]"):
            self.assertIn(part, told)
        back = rivulet.read_examples(path, shapes={"image": (2, 2, 3)})
        for name, column in columns.items():
            if name != "writer":
                np.testing.assert_array_equal(back[name], column, name)
                self.assertEqual(back[name].dtype, column.dtype, name)
        self.assertEqual(back["writer"].tolist(), [name.encode() for name in columns["writer"]])
        again = self.path("again.tfrecord")
        rivulet.write_examples(again, back)
        self.assertEqual((self.folder / "again.tfrecord").read_bytes(), (self.folder / "columns.tfrecord").read_bytes())

    def test_write_examples_one_by_one_as_columns(self):
        np = self.np
        images = np.arange(5000 * 4, dtype=np.uint8).reshape(5000, 2, 2)
        labels = np.arange(5000) % 7
        columns, tuples, dicts = map(self.path, ("columns", "tuples", "dicts"))
        rivulet.write_examples(columns, {"image": images, "label": labels})
        rivulet.write_examples(tuples, zip(images, labels.tolist()), names=("image", "label"))
        rivulet.write_examples(dicts, [{"image": image, "label": label} for image, label in zip(images, labels)])
        first = (self.folder / "columns").read_bytes()
        self.assertEqual(first, (self.folder / "tuples").read_bytes())
        self.assertEqual(first, (self.folder / "dicts").read_bytes())

    def test_write_examples_nothing_is_cast_silently(self):
        np = self.np
        for data, sentence in [
            ({"x": np.zeros((2, 3))}, "feature 'x' is float64, which an example does not hold; convert it first"),
            ({"x": np.zeros(2, complex)}, "feature 'x' is complex128"),
            ({"x": np.array([2**63], np.uint64)}, "feature 'x' has values beyond int64"),
            ({"x": np.int64(3)}, "feature 'x' is one value and not one per example"),
            ({"x": ["a", 3.5]}, "feature 'x' holds a float"),
            ({"x": [[1], [2, 3]]}, "feature 'x' is no array"),
            ({"x": [1, 2], "y": [1]}, "features differ in their number of examples: 'x' has 2, 'y' has 1"),
            ([(1, 2)], "example 0 is a tuple; name its parts"),
            ([{"x": 1}, {"y": 1}], "example 1 has the features \\['y'\\], those before have \\['x'\\]"),
            ([{"x": [1]}, {"x": [1, 2]}], "feature 'x' of example 1 is int64\\[2\\], those before are int64\\[1\\]"),
            ([{"x": 1}, {"x": "one"}], "feature 'x' of example 1 is text, those before are int64\\[\\]"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.write_examples(self.path("refused"), data)
            self.assertFalse((self.folder / "refused").exists(), sentence)
        with self.assertRaisesRegex(rivulet.RivuletError, "example 0 has 3 parts, and names= has 2"):
            rivulet.write_examples(self.path("refused"), [(1, 2, 3)], names=("x", "y"))

    def test_read_examples_unlike_ones_a_sentence(self):
        path = self.path("unlike")
        for second, sentence in [
            ({"x": [1, 2]}, "feature 'x' of record 1 is not like those before"),
            ({"x": b"1"}, "feature 'x' of record 1 is not like those before"),
            ({"y": [1]}, "record 1 has the features \\['y'\\], those before have \\['x'\\]"),
        ]:
            rivulet.write_records(path, [rivulet.encode_example({"x": [1]}), rivulet.encode_example(second)])
            with self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.read_examples(path)
        rivulet.write_examples(path, {"x": self.np.zeros((2, 6), self.np.uint8)})
        with self.assertRaisesRegex(rivulet.RivuletError, "feature 'x' has 6 values in an example, which is no shape"):
            rivulet.read_examples(path, shapes={"x": (2, 2)})
        with self.assertRaisesRegex(rivulet.RivuletError, "has no feature 'z'; it has \\['x'\\]"):
            rivulet.read_examples(path, shapes={"z": (2, 2)})

    @packaged.needs_torch
    def test_write_examples_a_data_set_of_pytorch_as_its_arrays(self):
        import torch
        from torch.utils.data import Subset, TensorDataset

        pixels = torch.arange(24, dtype=torch.uint8).reshape(6, 2, 2, 1)
        data = Subset(TensorDataset(pixels, torch.arange(6)), [4, 1])
        rivulet.write_examples(self.path("torch"), data, names=("image", "label"))
        rivulet.write_examples(self.path("columns"), {"image": pixels.numpy()[[4, 1]], "label": [4, 1]})
        self.assertEqual((self.folder / "torch").read_bytes(), (self.folder / "columns").read_bytes())
        for data, sentence in [
            ({"x": torch.ones(2, requires_grad=True)}, "feature 'x' is no array: .*detach"),
            ([{"x": torch.ones(2, dtype=torch.bfloat16)}], "feature 'x' of example 0 is no array: .*BFloat16"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.write_examples(self.path("refused"), data)

    @packaged.needs_pandas
    def test_write_examples_a_dataframe_as_its_columns(self):
        import pandas

        frame = pandas.DataFrame({"label": [1, 2], "writer": ["ann", "bo"]})
        rivulet.write_examples(self.path("frame"), frame)
        rivulet.write_examples(self.path("columns"), {"label": [1, 2], "writer": ["ann", "bo"]})
        self.assertEqual((self.folder / "frame").read_bytes(), (self.folder / "columns").read_bytes())


@packaged.needs_numpy
class Partition(harness.RivuletTest):
    def setUp(self):
        super().setUp()
        self.data = {"label": [number % 10 for number in range(40)], "number": list(range(40)), "key": ["a", "b"] * 20}

    def numbers(self, files):
        return {client: rivulet.read_examples(file)["number"].tolist() for client, file in files.items()}

    def test_a_number_of_clients_dealt_as_a_simulation_would(self):
        rivulet.write_examples(self.path("train.tfrecord"), self.data)
        self.write(
            "whole.toml",
            """
            run.seed = 5
            model.preset = "mlp"
            data = { train = "train.tfrecord", partition = { kind = "dirichlet", clients = 4, alpha = 0.5 } }
            server.clients_per_round = 2""",
        )
        self.run_rivulet("data", "partition", self.path("whole.toml"), "--out", self.path("whole"), code=0)
        files = rivulet.partition(self.path("ours"), self.data, 4, kind="dirichlet", alpha=0.5, seed=5)
        self.assertEqual(list(files), [f"client-{number:05}" for number in range(4)])
        for client, file in files.items():
            self.assertEqual((self.folder / f"whole/{client}.tfrecord").read_bytes(), pathlib.Path(file).read_bytes())
        self.assertEqual(sorted(sum(self.numbers(files).values(), [])), list(range(40)))
        self.assertEqual(len(list((self.folder / "ours").iterdir())), 4)

    def test_by_key_a_client_of_each_value(self):
        files = rivulet.partition(self.path("keys"), self.data, 0, kind="by_key", key="key")
        self.assertEqual(self.numbers(files), {"a": list(range(0, 40, 2)), "b": list(range(1, 40, 2))})

    def test_names_of_clients_theirs_in_order(self):
        files = rivulet.partition(self.path("named"), self.data, ["x"] * 10 + ["y"] * 30)
        self.assertEqual(self.numbers(files), {"x": list(range(10)), "y": list(range(10, 40))})

    def test_what_cannot_be_a_sentence(self):
        for arguments, sentence in [
            ({"clients": ["x"]}, "40 examples have 1 names of clients"),
            ({"clients": ["../x"] * 40}, "a client cannot be called '../x'"),
            ({"clients": ["x"] * 40, "kind": "by_key"}, "kind= and its options deal examples to a number of clients"),
            ({"clients": 4, "kind": "dirichle"}, "data.partition.kind"),
            ({"clients": 4, "alpha": 0.5}, "data.partition.alpha"),
            ({"clients": 41}, "41"),
        ]:
            with self.assertRaisesRegex(rivulet.RivuletError, sentence) as raised:
                rivulet.partition(self.path("refused"), self.data, **arguments)
            self.assertNotIn(".rivulet-", str(raised.exception))


if __name__ == "__main__":
    harness.main()
