"""The models of the rows in PyTorch, and local training as one would write it: for the loop and for the frameworks that train with
PyTorch. Images are [number, channels, height, width] here."""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "papers"))
import fedavg_torch  # noqa: E402


def cifar():
    return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
                         nn.Linear(12544, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))


MODELS = {**fedavg_torch.MODELS, "cifar": cifar}


def tensors(work, part):
    images, labels = work.arrays(part)
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels)


def train(model, parameters, images, labels, work):
    """One epoch in batches."""
    for batch in torch.randperm(len(labels)).split(work.batch):
        gradients = torch.autograd.grad(functional.cross_entropy(model(images[batch]), labels[batch]), parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-work.rate)


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(1000), labels.split(1000)))
    model.train()
    return right / len(labels)
