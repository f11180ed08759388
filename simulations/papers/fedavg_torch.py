#!/usr/bin/env python3
"""The loop that one would write without a framework: FedAvg on MNIST in plain PyTorch, beside fedavg-cnn and fedavg-2nn.

    python3 simulations/papers/fedavg_torch.py --data MNIST_FOLDER --model 2nn --rate 0.1 --target 0.97

Prints a line a round, the test accuracy and the seconds of training, and at the end after how many rounds the target is reached: of
the best value so far, interpolated between two rounds as McMahan et al. measure, and the first round at or above it. Data are the four
IDX files of MNIST, plain or .gz. Needs PyTorch and NumPy; one thread, so that its seconds stand beside those of one core.
"""
import argparse
import gzip
import pathlib
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def idx(folder, name):
    plain = pathlib.Path(folder) / name
    raw = plain.read_bytes() if plain.exists() else gzip.decompress(plain.with_name(name + ".gz").read_bytes())
    sizes = np.frombuffer(raw, ">u4", raw[3], 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes)


def examples(folder, part):
    images = torch.from_numpy(idx(folder, f"{part}-images-idx3-ubyte").astype(np.float32) / 255).unsqueeze(1)
    return images, torch.from_numpy(idx(folder, f"{part}-labels-idx1-ubyte").astype(np.int64))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))


def two_nn():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))


def logistic():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


MODELS = {"2nn": two_nn, "cnn": cnn, "logistic": logistic}


def clients_of(labels, clients, shards, generator):
    """Which examples each client has: dealt after a shuffle, or in shards of examples sorted by label."""
    if shards == 0:
        return torch.randperm(len(labels), generator=generator).chunk(clients)
    cuts = torch.argsort(labels, stable=True).chunk(clients * shards)
    dealt = torch.randperm(len(cuts), generator=generator).view(clients, shards)
    return [torch.cat([cuts[shard] for shard in mine]) for mine in dealt]


def train(model, parameters, images, labels, options, generator):
    for _ in range(options.epochs):
        for batch in torch.randperm(len(labels), generator=generator).split(options.batch):
            gradients = torch.autograd.grad(F.cross_entropy(model(images[batch]), labels[batch]), parameters)
            with torch.no_grad():
                torch._foreach_add_(parameters, gradients, alpha=-options.rate)


@torch.no_grad()
def accuracy(model, images, labels):
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(1000), labels.split(1000)))
    return right / len(labels)


def rounds_to(values, target):
    """Of the best value so far, interpolated between rounds; None: it is not reached."""
    best = None
    for number, value in enumerate(values, 1):
        if value >= target:
            return number if best is None or value == best else number - 1 + (target - best) / (value - best)
        best = max(value, value if best is None else best)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="the folder of MNIST's files")
    parser.add_argument("--model", choices=list(MODELS), default="2nn")
    for name, kind, default in (("clients", int, 100), ("cohort", int, 10), ("epochs", int, 1), ("batch", int, 10), ("rounds", int, 100),
                                ("shards", int, 0), ("seed", int, 1), ("every", int, 1), ("rate", float, 0.1), ("target", float, 0.97)):
        parser.add_argument(f"--{name}", type=kind, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    images, labels = examples(options.data, "train")
    test = examples(options.data, "t10k")
    shares = clients_of(labels, options.clients, options.shards, generator)
    model = MODELS[options.model]()
    parameters = list(model.parameters())
    values, seconds = [], 0.0
    for number in range(1, options.rounds + 1):
        begin = time.perf_counter()
        base = [parameter.detach().clone() for parameter in parameters]
        mean = [torch.zeros_like(parameter) for parameter in base]
        cohort = [shares[i] for i in torch.randperm(options.clients, generator=generator)[:options.cohort].tolist()]
        everybody = sum(len(share) for share in cohort)
        for share in cohort:
            with torch.no_grad():
                torch._foreach_copy_(parameters, base)
            train(model, parameters, images[share], labels[share], options, generator)
            torch._foreach_add_(mean, [parameter.detach() for parameter in parameters], alpha=len(share) / everybody)
        with torch.no_grad():
            torch._foreach_copy_(parameters, mean)
        seconds += time.perf_counter() - begin
        if number % options.every != 0:
            continue
        values.append(accuracy(model, *test))
        print(f"round {number} accuracy {values[-1]:.4f} training {seconds:.2f} s", flush=True)
        if values[-1] >= options.target:
            break
    if options.every > 1:  # what lies between two evaluations nobody knows
        return
    reached = rounds_to(values, options.target)
    print(f"{options.target} after {reached:.1f} rounds (first at {len(values)})" if reached else f"{options.target} not in {len(values)} rounds")


if __name__ == "__main__":
    main()
