"""Three rounds of Ditto (Li et al. 2021, arXiv:2012.04221) in float64: the shared model and every client's own.

Prints the fifteen parameters of a softmax regression of four pixels, of w, then of v of each of three clients:

    python3 ditto.py > ditto.txt
"""
import numpy as np

EPOCHS, BATCH, RATE, LAMBDA = 2, 2, 0.5, 0.3
EXAMPLES, COHORTS = (5, 3, 4), ((0, 1), (1, 2), (0, 2))


def gradient(v, x, y):
    w, b = v[:12].reshape(4, 3), v[12:]
    logits = x @ w + b
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    return np.concatenate([(x.T @ p).ravel(), p.sum(axis=0)])


def train(client, begin_with, pull):
    x = np.array([[(71 * k + 37 * i + 113 * client) % 256 for k in range(4)] for i in range(EXAMPLES[client])]) / 255
    y = np.array([(i + client) % 3 for i in range(EXAMPLES[client])])
    v = begin_with.copy()
    for _ in range(EPOCHS):
        for begin in range(0, len(x), BATCH):
            v -= RATE * (gradient(v, x[begin:begin + BATCH], y[begin:begin + BATCH]) + pull(v))
    return v


w = np.array([np.float32(n * 37 % 101 - 50) * np.float32(0.01) for n in range(15)], np.float64)
own = {}
for cohort in COHORTS:
    total = sum(EXAMPLES[client] for client in cohort)
    change = np.zeros(15)
    for client in cohort:
        change += EXAMPLES[client] / total * (train(client, w, lambda v: 0) - w)
        own[client] = train(client, own.get(client, w), lambda v: LAMBDA * (v - w))
    w = w + change
for value in np.concatenate([w] + [own[client] for client in range(3)]):
    print(repr(float(value)))
