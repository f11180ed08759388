"""Some of the catalogue's modules, each by an exporter of PyTorch's: one step as in PyTorch. outside.py has all of them."""

import importlib.util
import json
import logging
import os
import pathlib
import subprocess
import sys
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "python")]
RUNNER = os.environ.get("RIVULET_GRAPHS", "")  # conformance_tensorflow_graphs


def needs(*packages):
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)}")


class Outside(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)

    def agrees(self, exporter, *names):
        import torch_catalogue
        import torch_step

        entries = torch_catalogue.by_name()
        for name in names:
            with self.subTest(name):
                outcome, where, ratio = torch_step.compare(entries[name], exporter)
                self.assertEqual(outcome, "agrees", f"{where}: {ratio}")

    @needs("torch", "onnx")
    def test_modules_by_torchscript(self):
        self.agrees(
            "torchscript",
            *("view_behind_convolution", "channel_shuffle", "group_norm", "lstm", "gru", "multihead_attention"),
            *("transformer_encoder_layer", "class_token", "position_embedding", "conv_transpose2d", "pixel_shuffle", "unet"),
        )

    @needs("torch", "onnx", "onnxscript")
    def test_modules_by_dynamo(self):
        self.agrees("dynamo", "bilinear", "batch_norm2d", "lstm_cell", "transformer_decoder_layer", "class_token")

    @needs("torch", "onnx", "transformers")
    def test_a_padding_row_and_a_tied_head(self):
        self.agrees("torchscript", "bert")
        self.agrees("dynamo", "gpt2")

    @needs("torch", "onnx", "onnxscript", "transformers", "peft")
    def test_adapters_are_pefts(self):
        import peft_step

        for name, targets, saved in peft_step.MODELS:
            with self.subTest(name):
                row = peft_step.compare(name, targets, saved)
                self.assertTrue(peft_step.agrees(row), row)

    @needs("tensorflow", "keras")
    def test_keras_models_and_tensorflows_training_graphs(self):
        import keras_catalogue
        import keras_step

        entries = keras_catalogue.by_name()
        for name in ("separable", "batch_norm", "lstm", "embedding", "attention", "layer_norm", "wide_and_deep"):
            with self.subTest(name):
                row = keras_step.trained(entries[name], RUNNER)
                self.assertEqual((row.get("refused"), row["roles"]), (None, ""))
                self.assertLessEqual(row["forward"], 1)
                self.assertLessEqual(row["step"], 1, row["where"])
                row = keras_step.training(entries[name], RUNNER)
                for kind in ("frozen", "SGD", "Adam"):
                    self.assertIsInstance(row[kind], float, f"{kind}: {row[kind]}")
                    self.assertLessEqual(row[kind], 1, kind)

    @needs("tensorflow", "keras")
    def test_a_network_of_keras_applications(self):
        import keras_catalogue
        import keras_step

        entry = {entry.name: entry for entry in keras_catalogue.applications()}["MobileNetV3Small"]
        row = keras_step.trained(entry, RUNNER)
        self.assertEqual((row.get("refused"), row["roles"]), (None, ""))
        self.assertLessEqual(max(row["forward"], row["step"]), 1, row["where"])

    def test_recorded_graphs_of_tensorflow(self):
        file = HERE.parent / "tensorflow/sample/families.jsonl"
        done = subprocess.run([RUNNER, file], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-500:])
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer for answer in answers if answer["outcome"] != "agree"], [])
        families = file.with_suffix(".txt").read_text().split()
        self.assertEqual([answer["case"] for answer in answers], [f"{family}.0" for family in families])

    @needs("tensorflow")
    def test_random_graphs_of_tensorflow(self):
        families = "conv2d,conv2d_grads,cf_while_grad,keras_lstm,keras_mha,stateless_random,v1_while_grad,where1"
        script = HERE.parent / "tensorflow/random_graphs.py"
        done = subprocess.run(
            [sys.executable, script, RUNNER, "--only", families, "--each", "2"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-500:])
        self.assertNotIn("refused", done.stdout)


if __name__ == "__main__":
    unittest.main()
