"""The loop that one would write in NumPy, for models of dense layers."""
import numpy as np
import rows

UNITS = {"logistic": (784, 10), "2nn": (784, 200, 200, 10)}


def forward(parameters, images):
    """The inputs of each layer, and the scores."""
    inputs = [images]
    for layer in range(0, len(parameters), 2):
        scores = inputs[-1] @ parameters[layer] + parameters[layer + 1]
        inputs.append(scores if layer + 2 == len(parameters) else np.maximum(scores, 0, out=scores))
    return inputs


def step(parameters, images, labels, rate):
    *inputs, scores = forward(parameters, images)
    errors = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1
    errors *= np.float32(rate / len(labels))
    for layer in range(len(parameters) - 2, -1, -2):
        back = (errors @ parameters[layer].T) * (inputs[-1] > 0) if layer else None
        parameters[layer] -= inputs.pop().T @ errors
        parameters[layer + 1] -= errors.sum(axis=0)
        errors = back


def main():
    work, clock, result = rows.asked(), rows.Clock(), None
    images, labels = work.arrays("train")
    images = images.reshape(len(labels), -1)
    test = work.arrays("test") if work.every else None
    shares, draws, units = work.shares(), np.random.default_rng(3), UNITS[work.model]
    model = [part for a, b in zip(units, units[1:])
             for part in (draws.uniform(-(6 / (a + b))**0.5, (6 / (a + b))**0.5, (a, b)).astype(np.float32), np.zeros(b, np.float32))]
    for number, cohort in enumerate(work.cohorts(), 1):
        total = [np.zeros_like(part) for part in model]
        for share in shares[cohort]:
            local = [part.copy() for part in model]
            for batch in draws.permutation(share).reshape(-1, work.batch):
                step(local, images[batch], labels[batch], work.rate)
            for part, trained in zip(total, local):
                part += trained
        model = [part / np.float32(len(cohort)) for part in total]
        if work.measured(number):
            result = (forward(model, test[0].reshape(len(test[1]), -1))[-1].argmax(axis=1) == test[1]).mean()
        clock.lap()
    clock.tell(result)


if __name__ == "__main__":
    main()
