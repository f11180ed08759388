"""rivulet model inspect, diff, and weights that come from and go to other tools."""
import io
import json
import os
import pathlib
import unittest

try:
    import numpy
except ImportError:
    numpy = None

from harness import RivuletTest, main

FROZEN = pathlib.Path(__file__).parents[1] / "engine/graphdef/tensorflow/frozen.pb"


@unittest.skipUnless(numpy, "NumPy is not installed")
class Models(RivuletTest):
    def model_files(self):
        folders = list(self.folder.glob("runs.sqlite.models/*"))
        return [str(file) for file in sorted(folders[0].glob("*.safetensors"))]

    def test_inspect_tells_what_numpy_tells(self):
        weights = self.path("w.npz")
        self.run_rivulet("model", "export", "mlp", "--out", weights, code=0)
        shown = json.loads(self.run_rivulet("model", "inspect", weights, "--json", code=0).out)
        arrays = numpy.load(weights)
        self.assertEqual(shown["tensors"], len(arrays.files))
        self.assertEqual(shown["elements"], 199210)
        for row in shown["values"]:
            array = arrays[row["tensor"]]
            self.assertEqual(row["shape"], "[" + ",".join(map(str, array.shape)) + "]")
            self.assertAlmostEqual(row["mean"], float(array.mean(dtype="f8")), places=6)
            self.assertAlmostEqual(row["norm"], float(numpy.linalg.norm(array.astype("f8"))), places=4)
            self.assertEqual(row["zeros"], int((array == 0).sum()))
        text = self.run_rivulet("model", "inspect", weights, code=0).out
        self.assertIn("199210", text)
        self.assertIn("float32", text)

    def test_inspect_counts_what_is_not_finite(self):
        path = self.path("bad.npz")
        numpy.savez_compressed(path, **{"a/b": numpy.array([1, numpy.nan, numpy.inf], "f4"), "n": numpy.int64(3)})
        shown = json.loads(self.run_rivulet("model", "inspect", path, "--json", code=0).out)
        self.assertEqual(shown["not_finite"], 2)
        self.assertEqual([row["tensor"] for row in shown["values"]], ["a/b", "n"])

    def test_inspect_of_a_history_s_model_has_its_digest(self):
        self.simulate("--rounds", "1")
        files = self.model_files()
        text = self.run_rivulet("model", "inspect", files[-1], code=0).out
        self.assertIn(self.digests()[-1], text)

    def test_diff_finds_the_one_tensor_that_changed(self):
        first = self.path("first.safetensors")
        self.run_rivulet("model", "export", "mlp", "--out", self.path("first.npz"), code=0)
        self.run_rivulet("model", "import", self.path("first.npz"), "--out", first, code=0)
        same = self.run_rivulet("model", "diff", first, self.path("first.npz"), "--json", code=0)
        self.assertEqual(json.loads(same.out)["changed"], 0)
        arrays = dict(numpy.load(self.path("first.npz")))
        changed = sorted(arrays)[0]
        arrays[changed] = arrays[changed] + numpy.float32(0.5)
        removed = sorted(arrays)[1]
        del arrays[removed]
        arrays["new"] = numpy.zeros(3, "f4")
        numpy.savez(self.path("second.npz"), **arrays)
        result = self.run_rivulet("model", "diff", first, self.path("second.npz"), "--json", code=1)
        shown = json.loads(result.out)
        status = {row["tensor"]: row["status"] for row in shown["tensors"]}
        self.assertEqual(status, {changed: "changed", removed: "only in the first", "new": "only in the second"})
        self.assertAlmostEqual(next(r for r in shown["tensors"] if r["tensor"] == changed)["largest"], 0.5, places=5)
        self.assertIn("3 of", result.err)

    def test_diff_of_two_rounds_and_a_tolerance(self):
        self.simulate("--rounds", "2", "--set", "run.keep_models=all")
        files = self.model_files()
        self.run_rivulet("model", "diff", files[0], files[0], code=0)
        self.run_rivulet("model", "diff", files[-2], files[-1], code=1)
        self.run_rivulet("model", "diff", files[-2], files[-1], "--tolerance", "1000", code=0)
        self.assert_refused(self.run_rivulet("model", "diff", files[0], files[1], "--tolerance", "much"), "'much'")

    def test_weights_travel_between_formats_unchanged(self):
        one, two, three = self.path("one.safetensors"), self.path("two.npz"), self.path("three.safetensors")
        self.run_rivulet("model", "export", "lenet5", "--out", one, code=0)
        self.run_rivulet("model", "import", one, "--out", two, code=0)
        self.run_rivulet("model", "import", two, "--out", three, code=0)
        self.run_rivulet("model", "diff", one, three, code=0)
        self.assert_refused(self.run_rivulet("model", "import", one, "--out", self.path("folder")), ".safetensors", ".npz")
        self.write("broken.npz", b"PK\x03\x04 nothing")
        self.assert_refused(self.run_rivulet("model", "inspect", self.path("broken.npz")), "broken.npz")

    @unittest.skipUnless(os.environ.get("RIVULET_TEST_DATA"), "RIVULET_TEST_DATA is not set")
    def test_weights_of_pytorch_are_read(self):
        for name, tensors in (("mnist", 20), ("multi_layer", 9)):
            file = pathlib.Path(os.environ["RIVULET_TEST_DATA"]) / "safetensors" / f"{name}.safetensors"
            shown = json.loads(self.run_rivulet("model", "inspect", file, "--json", code=0).out)
            self.assertEqual((shown["tensors"], shown["not_finite"]), (tensors, 0))
            self.run_rivulet("model", "import", file, "--out", self.path("w.npz"), code=0)
            self.run_rivulet("model", "diff", file, self.path("w.npz"), code=0)

    def test_a_frozen_graph_of_tensorflow_gets_its_variables_back(self):
        out = json.loads(self.run_rivulet("model", "import", FROZEN, "--out", self.path("model"), "--json", code=0).out)
        self.assertEqual(out["variables"], 8)
        roles = {row["tensor"]: (row["role"], row["why"]) for row in out["tensors"]}
        self.assertEqual(roles["conv/kernel"][0], "weight")
        self.assertIn("Conv2D", roles["conv/kernel"][1])
        self.assertEqual({roles[name][0] for name in ("bn/mean", "bn/variance")}, {"running statistic"})
        shown = json.loads(self.run_rivulet("model", "inspect", self.path("model/model.safetensors"), "--json", code=0).out)
        names = [row["tensor"] for row in shown["values"]]
        self.assertEqual(names, ["conv/kernel", "conv/bias", "bn/gamma", "bn/beta", "bn/mean", "bn/variance",
                                 "dense/kernel", "dense/bias"])
        listed = self.run_rivulet("graph", "inspect", self.path("model/graph.pb"), code=0).out
        self.assertIn("VarHandleOp", listed)


if __name__ == "__main__":
    main()
