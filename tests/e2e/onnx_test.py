"""rivulet model check and rivulet model import, as their users meet them."""
import json
import os
import pathlib
import shutil

from harness import RivuletTest, main

CASES = pathlib.Path(__file__).parent.parent / "conformance" / "onnx" / "cases"


class Onnx(RivuletTest):
    def copy(self, name):
        folder = self.path(name)
        shutil.copytree(CASES / name, folder)
        return folder

    def test_a_case_that_passes_prints_its_largest_error(self):
        out = self.run_rivulet("model", "check", str(CASES / "conv_same_lower"), code=0).out
        self.assertRegex(out, r"conv_same_lower: passed; 1 output, largest error [0-9.e-]+")

    def test_many_cases_are_a_json_object_each(self):
        cases = sorted(str(case) for case in CASES.iterdir())
        lines = self.run_rivulet("model", "check", "--json", *cases, code=0).out.splitlines()
        reports = [json.loads(line) for line in lines]
        self.assertEqual([report["case"] for report in reports], cases)
        self.assertTrue(all(report["passed"] and report["outputs"] >= 1 for report in reports))

    def test_an_open_batch_is_tried_where_it_is_asked_for(self):
        case = str(CASES / "small_network")
        self.assertNotIn("open batch", self.run_rivulet("model", "check", case, code=0).out)
        self.assertIn("open batch", self.run_rivulet("model", "check", "--open-batch", case, code=0).out)

    def test_portable_kernels_sum_in_another_order(self):
        cases = sorted(str(case) for case in CASES.iterdir() if case.name.startswith("conv"))
        outputs = [self.run_rivulet("model", "check", *flags, *cases, code=0).out for flags in ([], ["--portable"])]
        self.assertNotEqual(*outputs)

    def test_another_value_is_named_with_its_place(self):
        folder = self.copy("elu_alpha")
        file = os.path.join(folder, "test_data_set_0", "output_0.pb")
        data = bytearray(pathlib.Path(file).read_bytes())
        data[-1] ^= 0x41  # the last float's sign and exponent
        pathlib.Path(file).write_bytes(data)
        run = self.run_rivulet("model", "check", folder, code=1)
        self.assertIn("output 'y' [6] differs", run.err)
        self.assertIn("1 of 7 elements", run.err)

    def test_a_looser_tolerance_lets_it_pass(self):
        folder = self.copy("elu_alpha")
        file = os.path.join(folder, "test_data_set_0", "output_0.pb")
        data = bytearray(pathlib.Path(file).read_bytes())
        data[-2] ^= 0x10  # an eighth of the last float, or a quarter
        pathlib.Path(file).write_bytes(data)
        self.run_rivulet("model", "check", folder, code=1)
        self.run_rivulet("model", "check", "--rtol", "0.5", folder, code=0)

    def test_a_missing_operator_is_named(self):
        folder = self.copy("elu_alpha")
        file = os.path.join(folder, "model.onnx")
        data = pathlib.Path(file).read_bytes()
        self.assertIn(b"Elu", data)
        pathlib.Path(file).write_bytes(data.replace(b"Elu", b"Ufo"))
        run = self.run_rivulet("model", "check", folder, code=1)
        self.assertIn("the operator Ufo is not supported", run.err)
        self.assertIn("not supported", run.out)

    def test_what_is_no_case_is_said(self):
        self.assertIn("model.onnx", self.run_rivulet("model", "check", self.path("nowhere"), code=1).err)
        folder = self.copy("elu_alpha")
        shutil.rmtree(os.path.join(folder, "test_data_set_0"))
        self.assertIn("test_data_set_0", self.run_rivulet("model", "check", folder, code=1).err)

    def test_wrong_usage_is_two(self):
        self.run_rivulet("model", "check", code=2)
        self.assertIn("--rtol", self.run_rivulet("model", "check", "--rtol", "much", "x", code=2).err)
        model = str(CASES / "small_network" / "model.onnx")
        self.assertIn("--out", self.run_rivulet("model", "import", model, code=2).err)
        for shape in ("x", "x=1,a", "=1"):
            run = self.run_rivulet("model", "import", model, "--out", self.path("o"), "--shape", shape, code=2)
            self.assertIn("--shape", run.err)

    def test_import_writes_graph_and_weights(self):
        model = str(CASES / "small_network" / "model.onnx")
        report = json.loads(self.run_rivulet("model", "import", model, "--out", self.path("net"), "--json", code=0).out)
        self.assertEqual(report["parameters"], 27 + 3 + 108 + 4)
        self.assertEqual(sorted(os.listdir(self.path("net"))), ["graph.pb", "model.safetensors"])
        data = pathlib.Path(self.path("net/model.safetensors")).read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        self.assertEqual(sorted(k for k in header if k != "__metadata__"), ["d", "db", "w", "wb"])
        self.assertEqual(header["__metadata__"]["onnx.input.x"], "x")

    def test_an_open_batch_stays_open(self):
        model = str(CASES / "small_network" / "model.onnx")
        report = json.loads(self.run_rivulet("model", "import", model, "--out", self.path("net"), "--shape", "x=?,1,6,6",
                                             "--json", code=0).out)
        self.assertIn("[?,1,6,6]", report["inputs"])
        self.assertIn("[?,4]", report["outputs"])


if __name__ == "__main__":
    main()
