"""Writes example_norms.json: the norm of the gradient of each example's loss, of presets whose examples can be protected. By PyTorch in
float64, one example after the other, and by Opacus in float32 where it knows all layers.

  python make_example_norms.py     (PyTorch and Opacus)

First values and batches follow from the formula of make_training_reference.py. An example's loss is that of a batch of it alone: for
sequences, the mean over its tokens that are no padding. Opacus's modules have this project's values; its LSTM has a second bias in each
layer, which counts in no norm here.
"""
import json
import math
import pathlib
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from make_training_reference import CASES, Model, batch

FILE = pathlib.Path(__file__).with_name("example_norms.json")
PRESETS = ["logistic_regression", "mlp", "lenet5", "mnist_cnn", "resnet20", "char_lstm", "tiny_transformer"]


def loss_of(case, scores, label):
    if case.get("tokens"):
        return F.cross_entropy(scores.reshape(-1, case["classes"]), label.reshape(-1), ignore_index=0)
    return F.cross_entropy(scores, label)


def by_pytorch(forward, case):
    model = Model(torch.float64)
    inputs, labels = batch(case, 0)
    norms = []
    for i in range(case["batch"]):
        x = torch.tensor(inputs[i:i + 1])
        scores = forward(model, x if case.get("tokens") else x.double(), case["classes"])
        gradients = torch.autograd.grad(loss_of(case, scores, torch.tensor(labels[i:i + 1])), list(model.trained.values()))
        norms.append(math.sqrt(sum((gradient ** 2).sum().item() for gradient in gradients)))
    return norms, {name: value.detach().float() for name, value in model.trained.items()}


class Flat(nn.Module):
    """Rows in this project's order of axes."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1) if x.dim() == 4 else x.reshape(x.shape[0], -1)


class Padded(nn.Module):
    """SAME padding of a 5 × 5 convolution, or none. Opacus 1.6 unfolds activations of torch.channels_last wrongly, so they are made contiguous."""

    def __init__(self, padding=2):
        super().__init__()
        self.padding = padding

    def forward(self, x):
        return F.pad(x, [self.padding] * 4).contiguous(memory_format=torch.contiguous_format)


def dense(values, name):
    kernel = values[name + "/kernel"]
    layer = nn.Linear(*kernel.shape)
    layer.weight.data, layer.bias.data = kernel.T.contiguous(), values[name + "/bias"].clone()
    return layer


def conv(values, name):
    kernel = values[name + "/kernel"]
    layer = nn.Conv2d(kernel.shape[2], kernel.shape[3], kernel.shape[0])
    layer.weight.data, layer.bias.data = kernel.permute(3, 2, 0, 1).contiguous(), values[name + "/bias"].clone()
    return layer


class CharLstm(nn.Module):
    def __init__(self, values):
        super().__init__()
        from opacus.layers import DPLSTM
        self.table = nn.Embedding(*values["embedding/embeddings"].shape)
        self.table.weight.data = values["embedding/embeddings"].clone()
        self.layers = nn.ModuleList()
        for name, inner in (("lstm1", 8), ("lstm2", 256)):
            layer = DPLSTM(inner, 256, batch_first=True)
            state = {"weight_ih_l0": values[f"{name}/kernel"].T, "weight_hh_l0": values[f"{name}/recurrent_kernel"].T,
                     "bias_ih_l0": values[f"{name}/bias"], "bias_hh_l0": torch.zeros(1024)}
            layer.load_state_dict(state)
            self.layers.append(layer)
        self.head = dense(values, "dense")

    def forward(self, x):
        x = self.table(x)
        for layer in self.layers:
            x, _ = layer(x)
        return self.head(x)


def module_of(preset, values):
    pool, relu = nn.MaxPool2d(2), nn.ReLU()
    if preset == "logistic_regression":
        return nn.Sequential(Flat(), dense(values, "dense1"))
    if preset == "mlp":
        return nn.Sequential(Flat(), dense(values, "dense1"), relu, dense(values, "dense2"), nn.ReLU(), dense(values, "dense3"))
    if preset == "lenet5":
        return nn.Sequential(Padded(), conv(values, "conv1"), relu, pool, Padded(0), conv(values, "conv2"), nn.ReLU(), nn.MaxPool2d(2),
                             Flat(), dense(values, "dense1"), nn.ReLU(), dense(values, "dense2"), nn.ReLU(), dense(values, "dense3"))
    if preset == "mnist_cnn":
        return nn.Sequential(Padded(), conv(values, "conv1"), relu, pool, Padded(), conv(values, "conv2"), nn.ReLU(), nn.MaxPool2d(2),
                             Flat(), dense(values, "dense1"), nn.ReLU(), dense(values, "dense2"))
    return CharLstm(values) if preset == "char_lstm" else None


def by_opacus(preset, case, values):
    from opacus import GradSampleModule
    module = module_of(preset, values)
    if module is None:
        return []
    module = GradSampleModule(module, loss_reduction="sum")
    inputs, labels = batch(case, 0)
    x, labels = torch.tensor(inputs), torch.tensor(labels)
    scores = module(x if case.get("tokens") else x.permute(0, 3, 1, 2))
    sum(loss_of(case, scores[i:i + 1], labels[i:i + 1]) for i in range(case["batch"])).backward()
    squares = torch.zeros(case["batch"], dtype=torch.float64)
    for name, parameter in module.named_parameters():
        if "hh" in name and "bias" in name:
            continue
        squares += (parameter.grad_sample.double() ** 2).flatten(1).sum(1)
    return squares.sqrt().tolist()


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results = []
    for preset in PRESETS:
        forward, case = CASES[preset]
        norms, values = by_pytorch(forward, case)
        opacus = by_opacus(preset, case, values)
        apart = max((abs(theirs / norm - 1) for norm, theirs in zip(norms, opacus)), default=0)
        print(preset, f"{len(norms)} examples, norms {min(norms):.4g} to {max(norms):.4g}; Opacus within {apart:.1e}", flush=True)
        results.append({"preset": preset, **case, "pytorch": [float(f"{x:.12g}") for x in norms],
                        "opacus": [float(f"{x:.12g}") for x in opacus]})
    FILE.write_text("[\n" + ",\n".join(json.dumps(c) for c in results) + "\n]\n")


if __name__ == "__main__":
    main()
