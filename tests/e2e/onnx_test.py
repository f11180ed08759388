"""ONNX models as the users of `rivulet model` and of model.onnx meet them."""
import json
import os
import pathlib
import shutil
import struct

from harness import RivuletTest, main

SMALL_CNN = str(pathlib.Path(__file__).parent.parent / "conformance" / "onnx" / "torch" / "small_cnn.onnx")
MASKED = str(pathlib.Path(__file__).parent.parent / "conformance" / "onnx" / "torch" / "masked.onnx")
CASES = pathlib.Path(__file__).parent.parent / "conformance" / "onnx" / "cases"


def message(*fields):
    """A protocol buffer of (number, value): an integer, a text, bytes, or a message made so."""
    def varint(value):
        return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def product_model(name, weight):
    """An ONNX model of one product x · W with a square W, whose rows are `weight`."""
    size = len(weight)
    values = struct.pack(f"<{size * size}f", *(value for row in weight for value in row))
    def described(tensor):
        shape = message((1, message((2, "n"))), (1, message((1, size))))
        return message((1, tensor), (2, message((1, message((1, 1), (2, shape))))))
    graph = message((1, message((1, "x"), (1, name), (2, "scores"), (4, "MatMul"))), (2, "g"),
                    (5, message((1, size), (1, size), (2, 1), (8, name), (9, values))), (11, described("x")), (12, described("scores")))
    return message((1, 8), (7, graph), (8, message((1, ""), (2, 17))))


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

    def test_a_batch_is_not_open_where_an_inputs_value_must_be_known(self):
        # The amounts of a pad that an input gives: `import` refuses the model, and `check` gives the input as a constant.
        case = str(CASES / "pads_as_input")
        report = json.loads(self.run_rivulet("model", "check", "--open-batch", "--json", case, code=0).out)
        self.assertEqual((report["passed"], report["open_batch"]), (True, False))
        refused = self.run_rivulet("model", "import", str(CASES / "pads_as_input" / "model.onnx"), "--out", self.path("net"))
        self.assert_refused(refused, "Pad '' (opset 17)", "it depends on the values of the input 'pads'", "with --value")
        given = self.run_rivulet("model", "import", str(CASES / "pads_as_input" / "model.onnx"), "--out", self.path("net"),
                                 "--value", "pads=0,1,1,0", "--json", code=0)
        self.assertEqual(json.loads(given.out)["outputs"], "y float32[3,4]")
        for value, fragment in [("pads=0,1", "2 numbers are given to an input [4]"), ("pad=1", "no input 'pad'"),
                                ("pads=0,x,1,0", "'x' is no number"), ("pads", "must be NAME=NUMBERS")]:
            refused = self.run_rivulet("model", "import", str(CASES / "pads_as_input" / "model.onnx"), "--out",
                                       self.path("other"), "--value", value)
            self.assertNotEqual(refused.code, 0)
            self.assertIn(fragment, refused.err)

    def test_import_tells_the_role_of_each_initializer(self):
        out = self.run_rivulet("model", "import", MASKED, "--out", self.path("net"), code=0).out
        self.assertRegex(out, r"tensor +role +why\n")
        self.assertRegex(out, r"attn_mask +constant +its name is that of a buffer\n")
        self.assertRegex(out, r"layer.weight +weight +input 1 of Gemm '/layer/Gemm'\n")
        self.assertEqual(sorted(self.weights(self.path("net/model.safetensors"))), ["layer.bias", "layer.weight"])

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

    def weights(self, file):
        """Name to (shape, bytes) of a safetensors file."""
        data = pathlib.Path(file).read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        return {name: (entry["shape"], data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
                for name, entry in header.items() if name != "__metadata__"}

    def test_export_says_opset_and_operators(self):
        report = json.loads(self.run_rivulet("model", "export", "lenet5", "--out", self.path("m.onnx"), "--json", code=0).out)
        self.assertEqual((report["opset"], report["inputs"], report["outputs"]), (18, "image", "logits"))
        self.assertIn("Conv", report["operators"])
        self.assertTrue(os.path.exists(self.path("m.onnx")))
        # Of weights in a file of their own nothing is said where there is none.
        self.assertIsNone(report["data"])
        self.assertNotIn("data", self.run_rivulet("model", "export", "lenet5", "--out", self.path("m.onnx"), code=0).out)

    def test_the_model_of_a_run_is_exported_and_comes_back_bit_for_bit(self):
        self.simulate("--set", "run.rounds=2")
        newest = str(sorted(self.folder.glob("runs.sqlite.models/*/round-000002.safetensors"))[0])
        self.run_rivulet("model", "export", self.scenario, "--weights", newest, "--out", self.path("m.onnx"), code=0)
        self.run_rivulet("model", "import", self.path("m.onnx"), "--out", self.path("net"), code=0)
        self.assertEqual(self.weights(self.path("net/model.safetensors")), self.weights(newest))
        # A folder of `import` is exported again: the same file but for what it says of its origin.
        self.run_rivulet("model", "export", self.path("net"), "--out", self.path("again.onnx"), code=0)
        self.run_rivulet("model", "import", self.path("again.onnx"), "--out", self.path("net2"), code=0)
        self.assertEqual(self.weights(self.path("net2/model.safetensors")), self.weights(newest))

    def test_weights_of_another_model_are_refused_by_name(self):
        self.run_rivulet("model", "import", SMALL_CNN, "--out", self.path("net"), code=0)
        run = self.run_rivulet("model", "export", "mlp", "--weights", self.path("net/model.safetensors"), "--out", self.path("m.onnx"))
        self.assert_refused(run, "0.weight", "mlp", code=1)

    def test_wrong_formats_and_outputs_are_usage_errors(self):
        for arguments, fragments in ((["mlp", "--out", "m.xyz"], ["m.xyz", ".onnx"]),
                                     (["mlp", "--out", "m.onnx", "--format", "onyx"], ["onyx", "onnx"]),
                                     (["mlp", "--out", "m.onnx", "--output", "logit"], ["logit", "logits"]),
                                     (["mlp", "--out", "m.pt", "--format", "pytorch"], ["m.pt", "pickle", ".safetensors"]),
                                     (["mlp", "--out", "m.keras"], ["m.keras", "rivulet.keras.scenario"]),
                                     (["mlp", "--out", "m.pth"], ["m.pth", "pickle", "--format pytorch"]),
                                     (["mlp", "--out", "m.onnx", "--format", "pytorch"], ["m.onnx", "onnx", "pytorch"]),
                                     (["mlp", "--out", "m.npz", "--format", "safetensors"], ["m.npz", "npz", "safetensors"]),
                                     (["mpl", "--out", "m.onnx"], ["mpl", "mlp"])):
            run = self.run_rivulet("model", "export", *arguments)
            self.assertFalse(os.path.exists(arguments[2]), arguments)
            self.assert_refused(run, *fragments, code=2)

    def test_a_matrix_under_pytorchs_name_is_exported_as_it_came(self):
        """GPT-2's Conv1D keeps [in, out]: no transposition, although the product is one that a Linear would have too."""
        weight = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
        for name, expected in (("attn.c_attn.weight", weight), ("MatMul_7", list(map(list, zip(*weight))))):
            with self.subTest(name):
                self.write("m.onnx", product_model(name, weight))
                self.run_rivulet("model", "export", self.path("m.onnx"), "--format", "pytorch", "--out", self.path("m.safetensors"), code=0)
                data = pathlib.Path(self.path("m.safetensors")).read_bytes()[-36:]
                self.assertEqual(list(struct.unpack("<9f", data)), [float(value) for row in expected for value in row])

    def test_what_evaluation_computes_has_a_form(self):
        self.run_rivulet("model", "export", "logistic_regression", "--out", self.path("m.pb"), code=0)
        run = self.run_rivulet("model", "export", self.path("m.pb"), "--output", "accuracy", "--out", self.path("m.onnx"))
        self.assertEqual(run.code, 0, run)  # what evaluation computes has one

    TORCH = ["--set", f"model.onnx={SMALL_CNN}", "--set", "client.epochs=3", "--set", "client.optimizer.learning_rate=0.05"]

    def test_a_model_of_pytorchs_learns_and_its_frozen_layer_stays(self):
        self.simulate(*self.TORCH, "--rounds", 12, "--set", "model.freeze=[\"0.*\"]", "--set", "run.keep_models=all")
        accuracy = self.metric("test/accuracy")
        self.assertGreater(accuracy[-1], accuracy[0] + 0.2)
        files = sorted(self.folder.glob("runs.sqlite.models/*/*.safetensors"))
        first, last = self.weights(files[0]), self.weights(files[-1])
        for name in first:
            (self.assertEqual if name.startswith("0.") else self.assertNotEqual)(first[name], last[name], name)

    def test_deployed_it_gives_the_simulations_bits(self):
        simulation = ["--rounds", 3, *self.TORCH, "--set", "server.clients_per_round=2", "--set", "data.partition.clients=3"]
        self.simulate(*simulation)
        self.run_rivulet("up", self.scenario, "--clients", 3, "--db", self.path("up.sqlite"), "--rounds", 3, *self.TORCH,
                         "--set", "server.clients_per_round=2", code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests())


if __name__ == "__main__":
    main()
