"""Makes small_cnn.onnx: a small network as PyTorch exports it for training, for digits of 28 by 28 pixels.

    python3 tests/conformance/onnx/torch/make_small_cnn.py     (PyTorch and its onnx package)
"""
import pathlib

import torch

torch.manual_seed(3)
network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Dropout(0.25), torch.nn.Linear(16 * 4 * 4, 10))
torch.onnx.export(network, torch.zeros(2, 1, 28, 28), str(pathlib.Path(__file__).parent / "small_cnn.onnx"), opset_version=17,
                  input_names=["image"], output_names=["scores"], dynamic_axes={"image": {0: "batch"}, "scores": {0: "batch"}},
                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False)
