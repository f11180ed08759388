"""Makes masked.onnx: digits of 28 by 28 pixels, pooled and masked by a buffer that is no parameter, and one layer.

    python3 tests/conformance/onnx/torch/make_masked.py     (PyTorch and its onnx package)
"""
import pathlib

import torch


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("attn_mask", torch.linspace(0, 1, 16).reshape(1, 16))
        self.layer = torch.nn.Linear(16, 10)

    def forward(self, image):
        return self.layer(torch.nn.functional.avg_pool2d(image, 7).flatten(1) * self.attn_mask)


torch.manual_seed(3)
torch.onnx.export(Masked(), torch.zeros(2, 1, 28, 28), str(pathlib.Path(__file__).parent / "masked.onnx"), opset_version=17,
                  input_names=["image"], output_names=["scores"], dynamic_axes={"image": {0: "batch"}, "scores": {0: "batch"}},
                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False)
