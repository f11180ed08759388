"""The works of the table (side_by_side.py) as frameworks see them: data in memory, who has which examples, and the clock.

A file by_NAME.py of this folder trains one of them in one framework: `python by_NAME.py ROW`. It calls `clock.lap()` at the end of each
round, its evaluation (`work.measured(round)`) with it, and ends with `clock.tell(accuracy)`. Nothing else is asked of it, and nothing
that it does not need for that is in it.
"""
import dataclasses
import json
import os
import pathlib
import sys
import time

import numpy as np


@dataclasses.dataclass(frozen=True)
class Work:
    name: str
    data: str  # the folder of its arrays
    model: str  # a name of MODELS in torch_models.py
    shape: tuple  # of an image: height, width, channels
    clients: int
    examples: int  # of each client
    cohort: int
    batch: int
    rate: float
    rounds: int
    every: int  # rounds between evaluations; 0: none

    def measured(self, number):
        return self.every > 0 and number % self.every == 0

    def arrays(self, part):
        """Images as float32 from 0 to 1, [number, height, width, channels], and labels."""
        folder = pathlib.Path(os.environ["RIVULET_ROWS"]) / self.data
        return np.load(folder / f"x_{part}.npy").astype(np.float32) / 255, np.load(folder / f"y_{part}.npy")

    def shares(self):
        """Which examples each client has, [clients, examples]."""
        order = np.random.default_rng(1).permutation(self.clients * self.examples)
        return order.reshape(self.clients, self.examples)

    def cohorts(self):
        """Of each round."""
        draws = np.random.default_rng(2)
        for _ in range(self.rounds):
            yield draws.choice(self.clients, self.cohort, replace=False)


WORKS = {
    work.name: work
    for work in (
        Work("logistic", "mnist", "logistic", (28, 28, 1), 1000, 60, 10, 10, 0.03, 100, 20),
        Work("cnn", "mnist", "cnn", (28, 28, 1), 100, 600, 10, 10, 0.215, 3, 1),
        Work("2nn", "digits", "2nn", (28, 28, 1), 10_000, 6, 1000, 6, 0.1, 3, 0),
        Work("cifar", "cifar", "cifar", (32, 32, 3), 1000, 50, 50, 10, 0.1, 4, 0),
    )
}


def asked():
    """The work that the command line names, with as many rounds as it says."""
    work = WORKS[sys.argv[1]]
    return dataclasses.replace(work, rounds=int(sys.argv[2])) if len(sys.argv) > 2 else work


def cores():
    return len(os.sched_getaffinity(0))


class Clock:
    """Seconds of each round, from one lap to the next."""

    def __init__(self):
        self.last, self.seconds = time.perf_counter(), []

    def lap(self):
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now

    def tell(self, accuracy=None):
        print(json.dumps({"rounds": self.seconds, "accuracy": None if accuracy is None else float(accuracy)}))
