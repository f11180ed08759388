"""Opacus's cost of protecting single examples, beside a plain step of PyTorch: what `example_step/PRESET/64` is for ours.

    opacus_peer.py [PRESET…]    mlp, mnist_cnn [both]

Prints a line of JSON for each preset: the medians in milliseconds of processor time, on one thread, of a plain step, of Opacus's with a
gradient of each example ("hooks"), and of its ghost clipping, and their ratios to the plain step. A step is zero the gradients, forward,
backward, clip, noise and SGD, of one batch of 64; the three take turns. Needs PyTorch and Opacus.
"""
import json
import statistics
import sys
import time
import warnings

import torch_peer
import torch
import torch.nn.functional as F
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

BATCH, TURNS, WARM = 64, 40, 5
PRESETS = {"mlp": torch_peer.mlp, "mnist_cnn": torch_peer.MnistCnn}


def plain(build, images, labels):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return step


def private(build, images, labels, mode):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(images, labels), batch_size=BATCH)
    arguments = {"criterion": torch.nn.CrossEntropyLoss()} if mode == "ghost" else {}
    made = PrivacyEngine().make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
                                        poisson_sampling=False, grad_sample_mode=mode, **arguments)
    model, optimizer = made[0], made[1]
    criterion = made[2] if mode == "ghost" else torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
    return step


def main():
    warnings.simplefilter("ignore")
    for preset in sys.argv[1:] or PRESETS:
        torch.manual_seed(1)
        images, labels = torch.rand(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))
        steps = {"plain": plain(PRESETS[preset], images, labels)}
        steps.update({mode: private(PRESETS[preset], images, labels, mode) for mode in ("hooks", "ghost")})
        taken = {name: [] for name in steps}
        for turn in range(WARM + TURNS):
            for name, step in steps.items():
                start = time.process_time()
                step()
                if turn >= WARM:
                    taken[name].append(time.process_time() - start)
        row = {name: round(1e3 * statistics.median(seconds), 3) for name, seconds in taken.items()}
        print(json.dumps({"preset": preset, **row, "hooks_over_plain": round(row["hooks"] / row["plain"], 2),
                          "ghost_over_plain": round(row["ghost"] / row["plain"], 2)}), flush=True)


if __name__ == "__main__":
    main()
