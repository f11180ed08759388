"""Some of the catalogue's modules, each by an exporter of PyTorch's: one step as in PyTorch. outside.py has all of them."""

import importlib.util
import logging
import pathlib
import sys
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "python")]


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


if __name__ == "__main__":
    unittest.main()
