#!/usr/bin/env python3
"""Rounds of federated averaging as PyTorch does them on one GPU, for the models, cohorts and client sizes of our own
figures (docs/internals/gpu.md): what a round costs without any framework around it.

    peers.py --work cifar|femnist|resnet|shakespeare|mcmahan [--ways eager compiled graphs vmap processes] [--rounds 50] [--tf32] [--json FILE]

    eager      client after client, step after step, as one would write it
    compiled   the same, the step through torch.compile
    graphs     the same, each step replayed as a CUDA graph (one for each batch size)
    vmap       all clients of a round at once, each with weights of its own (torch.func.vmap over grad)
    processes  five processes that share the device, each a fifth of the cohort, as frameworks do it

Examples are random, lie on the device before the clock starts, and their number a client follows a stated law, from a fixed
seed. Each way warms up, is then timed over whole rounds between two synchronisations, and ends with the mean of its
clients' models on the device. Nothing is checked, clipped, recorded or stored; nothing is evaluated.
"""

import argparse
import json
import random
import statistics
import sys
import time

from works import WORKS

try:
    import torch
    from torch import nn
    from torch.func import functional_call, grad, stack_module_state, vmap
except ImportError:
    print("skipped: no torch here; the peers need PyTorch with CUDA")
    sys.exit(0)


class Cnn(nn.Module):
    """Two 3×3 convolutions without padding, pooling, dropout, a hidden layer, dropout (arXiv 2404.06430; Reddi 2021)."""

    def __init__(self, side, channels, classes):
        super().__init__()
        inner = (side - 4) // 2
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
            nn.Flatten(), nn.Linear(64 * inner * inner, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, classes))

    def forward(self, images):
        return self.layers(images)


class McMahan(nn.Module):
    """Two 5×5 convolutions with pooling, and a hidden layer of 512 (McMahan et al. 2017)."""

    def __init__(self, side, channels, classes):
        super().__init__()
        inner = side // 4
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * inner * inner, 512), nn.ReLU(), nn.Linear(512, classes))

    def forward(self, images):
        return self.layers(images)


class Block(nn.Module):
    """Two convolutions beside a shortcut, each with a group norm behind it."""

    def __init__(self, channels, filters):
        super().__init__()
        stride = 1 if channels == filters else 2
        self.body = nn.Sequential(
            nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.GroupNorm(2, filters), nn.ReLU(),
            nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.GroupNorm(2, filters))
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(channels, filters, 1, stride, bias=False), nn.GroupNorm(2, filters))

    def forward(self, images):
        return torch.relu(self.body(images) + self.shortcut(images))


class ResNet18(nn.Module):
    """As works.py's resnet18_layers."""

    def __init__(self, side, channels, classes):
        super().__init__()
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.GroupNorm(2, 64), nn.ReLU(),
            *(Block(before, after) for before, after in zip(widths, widths[1:])),
            nn.AvgPool2d(side // 8), nn.Flatten(), nn.Linear(512, classes))

    def forward(self, images):
        return self.layers(images)


class CharLstm(nn.Module):
    """An embedding of 8 and two LSTMs of 256; each character's scores for the next (Reddi et al. 2021)."""

    def __init__(self, _side, _channels, classes):
        super().__init__()
        self.embedding = nn.Embedding(classes, 8)
        self.lstm = nn.LSTM(8, 256, 2, batch_first=True)
        self.dense = nn.Linear(256, classes)

    def forward(self, windows):
        return self.dense(self.lstm(self.embedding(windows))[0]).transpose(1, 2)


WINDOW = 80
MODELS = {"cifar": Cnn, "femnist": Cnn, "resnet": ResNet18, "shakespeare": CharLstm, "mcmahan": McMahan}


class Work:
    """The clients of a work and their data, on the device."""

    def __init__(self, name, device, seed=1, small=False):
        self.__dict__.update(WORKS[name])
        self.make, self.device = MODELS[name], device
        if small:
            self.clients, self.cohort, self.epochs = 10, 5, 1
            self.size = lambda draws: 2 * self.batch - 1
        draws = random.Random(seed)
        self.sizes = [self.size(draws) for _ in range(self.clients)]
        self.draws = draws
        rows = max(self.sizes)
        generator = torch.Generator(device=device).manual_seed(seed)
        # One stretch for all: a client's examples begin where its number says. Values do not matter, shapes do.
        if name == "shakespeare":
            self.images = torch.randint(self.classes, (rows + self.clients, WINDOW), generator=generator, device=device)
            self.labels = self.images.roll(1, 1)
            return
        shape = (rows + self.clients, self.channels, self.side, self.side)
        self.images = torch.rand(shape, generator=generator, device=device)
        self.labels = torch.randint(self.classes, (rows + self.clients,), generator=generator, device=device)

    def new_model(self):
        torch.manual_seed(7)
        work = self.__dict__
        return self.make(work.get("side"), work.get("channels"), self.classes).to(self.device)

    def cohort_of_round(self):
        return self.draws.sample(range(self.clients), self.cohort)

    def data(self, client):
        count = self.sizes[client]
        return self.images[client:client + count], self.labels[client:client + count]

    def batches(self, client):
        images, labels = self.data(client)
        order = torch.randperm(len(labels), device=self.device)
        for first in range(0, len(labels), self.batch):
            chosen = order[first:first + self.batch]
            yield images[chosen], labels[chosen]


def step(model, images, labels, rate):
    """One step of SGD."""
    for parameter in model.parameters():
        parameter.grad = None
    nn.functional.cross_entropy(model(images), labels).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= rate * parameter.grad


def one_by_one(work, take_step):
    """A round of clients, one after the other: `take_step` trains `model` in place."""
    start, model = work.new_model(), work.new_model()

    def run(cohort):
        total = [torch.zeros_like(parameter) for parameter in start.parameters()]
        weight = 0
        for client in cohort:
            with torch.no_grad():
                for to, origin in zip(model.parameters(), start.parameters()):
                    to.copy_(origin)
            for _ in range(work.epochs):
                for images, labels in work.batches(client):
                    take_step(model, images, labels, work.rate)
            weight += work.sizes[client]
            with torch.no_grad():
                for to, trained in zip(total, model.parameters()):
                    to.add_(trained, alpha=work.sizes[client])
        with torch.no_grad():
            for to, summed in zip(start.parameters(), total):
                to.copy_(summed / weight)

    return run


def eager(work):
    return one_by_one(work, step)


def compiled(work):
    return one_by_one(work, torch.compile(step))


def graphs(work):
    kept = {}

    def take_step(model, images, labels, rate):
        size = len(labels)
        if size not in kept:
            held_images, held_labels = images.clone(), labels.clone()
            saved = [parameter.detach().clone() for parameter in model.parameters()]
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    step(model, held_images, held_labels, rate)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step(model, held_images, held_labels, rate)
            with torch.no_grad():
                for to, origin in zip(model.parameters(), saved):
                    to.copy_(origin)
            kept[size] = graph, held_images, held_labels
        graph, held_images, held_labels = kept[size]
        held_images.copy_(images)
        held_labels.copy_(labels)
        graph.replay()

    return one_by_one(work, take_step)


def at_once(work):
    """All clients of a round in one vmap. Who has fewer batches goes on with a weight of 0; rests are masked."""
    start = work.new_model()
    names = [name for name, _ in start.named_parameters()]

    def loss(parameters, images, labels, mask):
        values = nn.functional.cross_entropy(functional_call(start, parameters, (images,)), labels, reduction="none")
        values = values.flatten(1).mean(1) if values.dim() > 1 else values
        return (values * mask).sum() / mask.sum().clamp(min=1)

    gradients = vmap(grad(loss), in_dims=(0, 0, 0, 0), randomness="different")

    def run(cohort):
        parameters, _ = stack_module_state([start] * len(cohort))
        parameters = {name: parameters[name].detach() for name in names}
        sizes = torch.tensor([work.sizes[client] for client in cohort], device=work.device)
        most = int(max(work.sizes[client] for client in cohort))
        for _ in range(work.epochs):
            # Orders of unlike lengths, filled with each client's first example, which the mask leaves out.
            order = torch.stack([torch.nn.functional.pad(client + torch.randperm(work.sizes[client], device=work.device),
                                                         (0, most - work.sizes[client]), value=client)
                                 for client in cohort])
            for first in range(0, most, work.batch):
                chosen = order[:, first:first + work.batch]
                places = torch.arange(first, first + chosen.shape[1], device=work.device)
                mask = (places[None, :] < sizes[:, None]).float()
                found = gradients(parameters, work.images[chosen], work.labels[chosen], mask)
                for name in names:
                    parameters[name] = parameters[name] - work.rate * found[name]
        shares = sizes / sizes.sum()
        with torch.no_grad():
            for name, to in start.named_parameters():
                to.copy_(torch.tensordot(shares, parameters[name], dims=1))

    return run


WAYS = {"eager": eager, "compiled": compiled, "graphs": graphs, "vmap": at_once}


def measure(name, way, rounds, device, small):
    """Seconds of a round: each, after a warm-up."""
    work = Work(name, torch.device(device), small=small)
    run = WAYS[way](work)
    synchronise = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(max(2, rounds // 10)):
        run(work.cohort_of_round())
    synchronise()
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run(work.cohort_of_round())
        synchronise()
        seconds.append(time.perf_counter() - begin)
    return seconds


def part_of(name, rounds, number, share, barrier, device, small, queue):
    queue.put(measure_together(name, rounds, number, share, barrier, device, small))


def measure_together(name, rounds, number, share, barrier, device, small):
    work = Work(name, torch.device(device), number, small)
    work.cohort = max(1, work.cohort // share)
    run = eager(work)
    for _ in range(max(2, rounds // 10)):
        run(work.cohort_of_round())
    seconds = []
    for _ in range(rounds):
        barrier.wait()
        begin = time.perf_counter()
        run(work.cohort_of_round())
        if device == "cuda":
            torch.cuda.synchronize()
        barrier.wait()
        seconds.append(time.perf_counter() - begin)
    return seconds


def measure_processes(name, rounds, device, small, share=5):
    """Every round ends when the last process has its part; the models are not even averaged."""
    context = torch.multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(share), context.Queue()
    workers = [context.Process(target=part_of, args=(name, rounds, number + 1, share, barrier, device, small, queue))
               for number in range(share)]
    for worker in workers:
        worker.start()
    seconds = [queue.get() for _ in workers]
    for worker in workers:
        worker.join()
    return [max(of_round) for of_round in zip(*seconds)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=MODELS, required=True)
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, "processes"], default=[*WAYS, "processes"])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--small", action="store_true", help="five clients a round of two batches, to see that it runs")
    parser.add_argument("--tf32", action="store_true", help="let products and convolutions round to TF32")
    parser.add_argument("--json", help="a file that an object a way is added to")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to see that it runs, not to measure")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: torch sees no GPU here")
        return
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    torch.backends.cudnn.allow_tf32 = options.tf32
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, {options.work}: {WORKS[options.work]['law']} examples a client,"
          f" {'TF32' if options.tf32 else 'float32'}, {options.rounds} rounds after warm-up")
    for way in options.ways:
        if way == "graphs" and options.device == "cpu":
            continue
        try:
            if way == "processes":
                seconds = measure_processes(options.work, options.rounds, options.device, options.small)
            else:
                seconds = measure(options.work, way, options.rounds, options.device, options.small)
        except RuntimeError as error:  # one way that fails is told, and the others are measured
            print(f"{way:<10} failed: {str(error).splitlines()[0]}")
            continue
        median = statistics.median(seconds)
        print(f"{way:<10} {median * 1e3:9.2f} ms a round (median; {min(seconds) * 1e3:.2f} to {max(seconds) * 1e3:.2f})")
        if options.json:
            with open(options.json, "a", encoding="utf-8") as file:
                file.write(json.dumps({"work": options.work, "way": way, "tf32": options.tf32, "device": name,
                                       "torch": torch.__version__, "rounds": options.rounds, "median_s": median,
                                       "min_s": min(seconds), "max_s": max(seconds)}) + "\n")


if __name__ == "__main__":
    main()
