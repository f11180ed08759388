"""Flower's clients, in a module of their own, which Ray's actors import."""
import functools

import rows
import torch
import torch_models
from flwr.client import NumPyClient


@functools.cache
def held(name):
    """Of an actor: its model, and the data, once."""
    torch.set_num_threads(1)
    work = rows.WORKS[name]
    return torch_models.MODELS[work.model](), *torch_models.tensors(work, "train"), work.shares()


class Local(NumPyClient):
    def __init__(self, name, number):
        self.name, self.number = name, number

    def fit(self, parameters, config):
        model, images, labels, shares = held(self.name)
        own = list(model.parameters())
        with torch.no_grad():
            for mine, given in zip(own, parameters):
                mine.copy_(torch.from_numpy(given))
        share = shares[self.number]
        torch_models.train(model, own, images[share], labels[share], rows.WORKS[self.name])
        return [part.detach().numpy() for part in own], len(share), {}
