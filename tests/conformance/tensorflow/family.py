"""Registry of graph families: a builder draws one random graph, its inputs and how closely outputs must agree."""
import dataclasses
import os
import typing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
import numpy as np
import tensorflow as tf

FAMILIES = {}


@dataclasses.dataclass
class Drawn:
    """A function of tensors and its inputs; `graph` is set instead where the graph is written with tf.compat.v1."""
    function: typing.Callable = None
    inputs: list = dataclasses.field(default_factory=list)
    tolerance: float = 2e-5
    lower: bool = True  # control flow as Switch, Merge and Enter
    graph: typing.Callable = None  # (placeholders) -> outputs, in a tf.Graph
    freeze: bool = True


def family(name):
    def register(builder):
        assert name not in FAMILIES, name
        FAMILIES[name] = builder
        return builder
    return register


class Draw:
    """Random choices of one graph, from one seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def int(self, low, high):  # inclusive
        return int(self.rng.integers(low, high + 1))

    def bool(self):
        return bool(self.rng.integers(2))

    def choice(self, values):
        return values[int(self.rng.integers(len(values)))]

    def shape(self, low=1, high=3, most=5):
        return [self.int(1, most) for _ in range(self.int(low, high))]

    def floats(self, shape, low=-2.0, high=2.0, dtype=np.float32):
        return self.rng.uniform(low, high, shape).astype(dtype)

    def ints(self, shape, low=-9, high=9, dtype=np.int32):
        return self.rng.integers(low, high + 1, shape).astype(dtype)

    def bools(self, shape):
        return self.rng.integers(0, 2, shape).astype(bool)

    def dtype(self):
        return self.choice([np.float32, np.float64])

    def integer(self):
        return self.choice([np.int32, np.int64])

    def axis(self, rank):
        return self.int(-rank, rank - 1)

    def axes(self, rank):
        chosen = [i for i in range(rank) if self.bool()]
        return [i - rank if self.bool() else i for i in chosen]
