"""A client of a federation, written with NumPy: digits, by a network of dense layers.

    rivulet coordinator SCENARIO.toml --listen 127.0.0.1:7000 --insecure
    PYTHONPATH=python python3 examples/numpy_client.py 127.0.0.1:7000 NAME FILE.tfrecord

It takes part beside clients of every kind. The model's graph it does not look at: it trains by itself what the
variables' names and shapes say, as long as they are dense layers with ReLU between.
"""

import logging
import sys

import numpy as np

import rivulet


class Dense(rivulet.Client):
    """Stochastic gradient descent on the mean cross-entropy."""

    learning_rate = np.float32(0.1)

    def __init__(self, file):
        examples = rivulet.read_examples(file, shapes={"image": (28 * 28,)})
        self.pixels = examples["image"].astype(np.float32) / np.float32(255)
        self.labels = examples["label"]
        self.examples = len(self.labels)

    def fit(self, params, context):
        params = {name: array.copy() for name, array in params.items()}  # what is given cannot be written to
        draws = np.random.default_rng(context.seed)
        for _ in range(context.numbers["epochs"]):
            order = draws.permutation(self.examples)
            losses = []
            for begin in range(0, self.examples, context.numbers["batch_size"]):
                batch = order[begin : begin + context.numbers["batch_size"]]
                loss, gradients = self.gradients(params, self.pixels[batch], self.labels[batch])
                for name, gradient in gradients.items():
                    params[name] -= self.learning_rate * gradient
                losses.append(loss)
        return rivulet.Params(params, examples=self.examples, metrics={"train_loss": np.mean(losses)})

    @staticmethod
    def gradients(params, pixels, labels):
        layers = [name.rsplit("/", 1)[0] for name in params if name.endswith("/kernel")]
        inputs = [pixels]
        for layer in layers:
            scores = inputs[-1] @ params[f"{layer}/kernel"] + params[f"{layer}/bias"]
            inputs.append(np.maximum(scores, 0))
        scores -= scores.max(axis=1, keepdims=True)
        log_probabilities = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        rows = np.arange(len(labels))
        loss = -log_probabilities[rows, labels].mean()
        errors = np.exp(log_probabilities)
        errors[rows, labels] -= 1
        errors /= np.float32(len(labels))
        gradients = {}
        for layer, given in zip(reversed(layers), reversed(inputs[:-1])):
            gradients[f"{layer}/kernel"] = given.T @ errors
            gradients[f"{layer}/bias"] = errors.sum(axis=0)
            errors = (errors @ params[f"{layer}/kernel"].T) * (given > 0)
        return loss, gradients


def main():
    coordinator, name, file = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(rivulet.run_client(Dense(file), coordinator, name=name))


if __name__ == "__main__":
    main()
