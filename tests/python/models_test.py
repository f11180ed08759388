"""safetensors files: the bytes of docs/internals/formats.md, what is refused, and the digest of a run's model."""

import contextlib
import json
import struct

import packaged
import harness
import rivulet

# docs/internals/formats.md's own sample: the tensor w = [1.0].
SAMPLE = (
    bytes.fromhex("3800000000000000")
    + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
    + bytes.fromhex("0000803f")
)


def file_of(header, data=b""):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@packaged.needs_numpy
class Safetensors(harness.RivuletTest):
    def setUp(self):
        super().setUp()
        import numpy

        self.np = numpy

    def test_documented_sample_its_bytes_both_ways(self):
        path = self.path("w.safetensors")
        rivulet.save_safetensors(path, {"w": self.np.float32([1])})
        self.assertEqual((self.folder / "w.safetensors").read_bytes(), SAMPLE)
        loaded = rivulet.load_safetensors(path)
        self.assertEqual({name: array.tolist() for name, array in loaded.items()}, {"w": [1.0]})
        self.assertEqual(loaded["w"].dtype, self.np.float32)

    def test_every_type_and_shape_comes_back_in_order(self):
        np = self.np
        arrays = {
            str(np.dtype(kind)): np.arange(6).reshape(2, 3).astype(kind)
            for kind in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
        }
        arrays["scalar"] = np.array(3.5)
        arrays["empty"] = np.zeros((0, 4), np.float32)
        arrays["columns first"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        arrays["every second"] = np.arange(10)[::2]
        arrays["big-endian Zoë"] = np.arange(3, dtype=">i4")
        path = self.path("all.safetensors")
        rivulet.save_safetensors(path, arrays, {"made": "by Zoë"})
        loaded = rivulet.load_safetensors(path)
        self.assertEqual(list(loaded), list(arrays))
        self.assertEqual(loaded.metadata, {"made": "by Zoë"})
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array, name)
            self.assertEqual(loaded[name].dtype, array.dtype.newbyteorder("="), name)
            self.assertTrue(loaded[name].flags.writeable and loaded[name].flags.c_contiguous, name)
        self.assertIn("17", self.run_rivulet("model", "inspect", path, code=0).out)
        again = self.path("again.safetensors")
        rivulet.save_safetensors(again, loaded)
        self.assertEqual(
            (self.folder / "again.safetensors").read_bytes(), (self.folder / "all.safetensors").read_bytes()
        )

    def test_what_a_file_does_not_hold_is_refused_by_name(self):
        np = self.np
        for array, kind in [
            (np.zeros(1, complex), "complex128"),
            (np.array(["a"]), "<U1"),
            (np.array([None]), "object"),
        ]:
            with self.assertRaisesRegex(rivulet.RivuletError, f"tensor 'w' is {kind}, which"):
                rivulet.save_safetensors(self.path("refused"), {"w": array})
        self.assertFalse((self.folder / "refused").exists())

    def test_bfloat16_is_refused_or_widened_exactly(self):
        path = self.write("b.safetensors", file_of({"b": tensor("BF16", [2], 0, 4)}, bytes.fromhex("803f 40c0")))
        with self.assertRaisesRegex(
            rivulet.RivuletError, "tensor 'b' is BF16, which NumPy does not have; widen_bfloat16"
        ):
            rivulet.load_safetensors(path)
        widened = rivulet.load_safetensors(path, widen_bfloat16=True)["b"]
        self.assertEqual((widened.tolist(), widened.dtype), ([1.0, -3.0], self.np.float32))

    def test_damaged_files_are_refused(self):
        four = tensor("F32", [1], 0, 4)
        for content, sentence in [
            (b"1234567", "it has 7 bytes, and its header's length takes 8"),
            (struct.pack("<Q", 2**63), "its header says it has 9223372036854775808 bytes, the file has 8"),
            (file_of("[1]"), "its header is no JSON object"),
            (file_of("{"), "damaged: "),
            (file_of('{"w":1,"w":2}'), "'w' is given twice"),
            (file_of({"w": 1}), "tensor 'w' has no dtype, shape and data_offsets"),
            (file_of({"w": tensor("F32", [-1], 0, 4)}), "tensor 'w' has no dtype, shape and data_offsets"),
            (file_of({"w": tensor("F32", [2], 0, 4)}, bytes(4)), "tensor 'w' of F32\\[2\\] takes 8 bytes"),
            (file_of({"w": four, "v": four}, bytes(4)), "tensor '[vw]' begins at byte 0 of the data and not at 4"),
            (
                file_of({"w": tensor("F32", [1], 4, 8)}, bytes(8)),
                "tensor 'w' begins at byte 4 of the data and not at 0",
            ),
            (file_of({"w": tensor("F32", [1 << 62, 0], 0, 0)}), "tensor 'w' has the dimensions .*, which no memory holds"),
            (file_of({"w": tensor("F32", [0] * 33, 0, 0)}), "tensor 'w' has 33 dimensions, and at most 32 are read"),
            (file_of('{"w":' + "[" * 100_000), "its header is nested too deeply"),
            (file_of({"w": four}, bytes(3)), "its tensors take 4 bytes, and 3 are there"),
            (file_of({"w": four}, bytes(5)), "its tensors take 4 bytes, and 5 are there"),
            (file_of({"__metadata__": {"a": 1}}), "its __metadata__ are not texts by name"),
            (
                file_of({"w": tensor("F8_E4M3", [4], 0, 4)}, bytes(4)),
                "tensor 'w' is F8_E4M3, which NumPy does not have",
            ),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.load_safetensors(self.write("bad.safetensors", content))
        with self.assertRaisesRegex(rivulet.RivuletError, "cannot open '.*none'"):
            rivulet.load_safetensors(self.path("none"))

    def test_damaged_anyhow_is_read_or_refused(self):
        path = self.path("whole.safetensors")
        rivulet.save_safetensors(path, {"a": self.np.ones((2, 3)), "b": self.np.zeros(3, bool)}, {"key": "value"})
        for damaged in packaged.mutations((self.folder / "whole.safetensors").read_bytes(), 400):
            with contextlib.suppress(rivulet.RivuletError):
                rivulet.load_safetensors(self.write("damaged.safetensors", damaged))

    @packaged.needs_safetensors
    def test_the_package_safetensors_reads_what_is_read_here_and_the_same(self):
        import safetensors
        import safetensors.numpy

        np = self.np
        draws = np.random.default_rng(3)
        tensors = {
            f"{kind}/{number}": np.array(100 * draws.normal(size=shape)).astype(kind)
            for kind in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
            for number, shape in enumerate(((), (3,), (2, 0, 4), (2, 3, 4)))
        }
        ours, theirs = self.path("ours.safetensors"), self.path("theirs.safetensors")
        rivulet.save_safetensors(ours, tensors, {"key": "value"})
        safetensors.numpy.save_file(tensors, theirs, {"key": "value"})
        for read in (rivulet.load_safetensors(theirs), safetensors.numpy.load_file(ours)):
            self.assertEqual(set(read), set(tensors))
            for name, array in read.items():
                np.testing.assert_array_equal(array, tensors[name], name)
                self.assertEqual((array.dtype, array.shape), (tensors[name].dtype, tensors[name].shape))
        self.assertEqual(rivulet.load_safetensors(theirs).metadata, {"key": "value"})
        small = self.path("small.safetensors")
        rivulet.save_safetensors(small, {"a": np.ones((2, 3)), "b": np.zeros(3, bool)}, {"key": "value"})
        read = 0
        for damaged in packaged.mutations((self.folder / "small.safetensors").read_bytes(), 400):
            path = self.write("damaged.safetensors", damaged)
            with contextlib.suppress(rivulet.RivuletError):
                found = rivulet.load_safetensors(path)
                read += 1
                self.assertEqual(set(safetensors.numpy.load_file(path)), set(found))
        self.assertGreater(read, 5)

    def test_model_digest_is_the_histories(self):
        self.simulate("--set", "run.keep_models=all")
        run = rivulet.open(self.path("runs.sqlite")).run()
        self.assertEqual([rivulet.model_digest(run.model(round)) for round in range(1, 5)], self.digests())
        model = run.model()
        self.assertEqual(
            {name: array.shape for name, array in model.items()}, {"dense1/kernel": (784, 10), "dense1/bias": (10,)}
        )
        self.assertEqual(model.metadata["rivulet.round"], "4")
        self.assertFalse(run.model(0)["dense1/bias"].any())
        copy = self.path("copy.safetensors")
        rivulet.save_safetensors(copy, model)
        self.run_rivulet("model", "diff", run.model_path(), copy, code=0)

    def test_what_a_server_keeps_is_no_part_of_the_model(self):
        self.simulate("--set", "algorithm.name=fedadam", "--set", "server.learning_rate=0.01")
        run = rivulet.open(self.path("runs.sqlite")).run()
        self.assertIn("server/m", rivulet.load_safetensors(run.model_path()))
        model = run.model()
        self.assertEqual(list(model), ["dense1/kernel", "dense1/bias"])
        self.assertEqual(rivulet.model_digest(model), self.digests()[-1])
        self.assertNotIn("server", model.metadata["rivulet.segments"])

    def test_a_changed_models_digest_is_not_carried_over(self):
        self.simulate()
        model = rivulet.open(self.path("runs.sqlite")).run().model()
        model["dense1/bias"] += 1
        rivulet.save_safetensors(self.path("changed.safetensors"), model)
        metadata = rivulet.load_safetensors(self.path("changed.safetensors")).metadata
        self.assertNotIn("rivulet.model_digest", metadata)
        self.assertEqual(metadata["rivulet.round"], "4")


if __name__ == "__main__":
    harness.main()
