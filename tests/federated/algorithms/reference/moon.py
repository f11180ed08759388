"""One round of MOON (Li et al. 2021, arXiv:2103.16257) in float64: what the mean of two clients' changes must be.

Prints the 43 parameters of a model of four pixels, five hidden units of tanh and three classes, a number a line:

    python3 moon.py > moon.txt
"""
import numpy as np

EPOCHS, BATCH, RATE, MU, TEMPERATURE = 2, 2, 0.5, 2.0, 0.5
EXAMPLES = (5, 3)  # of the two clients


def parts(values):
    return values[:20].reshape(4, 5), values[20:25], values[25:40].reshape(5, 3), values[40:]


pattern = lambda n, factor, size: np.float32(n * factor % size - size // 2) * np.float32(0.01)
base = np.array([pattern(n, 37, 101) for n in range(43)], np.float64)
previous = np.array([pattern(n, 53, 97) for n in range(43)], np.float64)  # what both clients kept


def similarity(a, b):
    """Of rows, and its gradient by a."""
    na, nb = np.sqrt((a * a).sum(1, keepdims=True) + 1e-16), np.sqrt((b * b).sum(1, keepdims=True) + 1e-16)
    s = (a * b).sum(1, keepdims=True) / (na * nb)
    return s, b / (na * nb) - s * a / na**2


def gradient(w, x, y):
    w1, b1, w2, b2 = parts(w)
    seen = lambda v: np.tanh(x @ parts(v)[0] + parts(v)[1])
    z = seen(w)
    logits = z @ w2 + b2
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    (to_previous, by_previous), (to_base, by_base) = similarity(z, seen(previous)), similarity(z, seen(base))
    pull = MU / (1 + np.exp((to_base - to_previous) / TEMPERATURE)) / TEMPERATURE / len(y)
    dz = (p @ w2.T + pull * (by_previous - by_base)) * (1 - z * z)
    return np.concatenate([(x.T @ dz).ravel(), dz.sum(0), (z.T @ p).ravel(), p.sum(0)])


def client_update(client):
    x = np.array([[(71 * k + 37 * i + 113 * client) % 256 for k in range(4)] for i in range(EXAMPLES[client])]) / 255
    y = np.array([(i + client) % 3 for i in range(EXAMPLES[client])])
    w = base.copy()
    for _ in range(EPOCHS):
        for begin in range(0, len(x), BATCH):
            w = w - RATE * gradient(w, x[begin:begin + BATCH], y[begin:begin + BATCH])
    return w - base


mean = sum(n * client_update(client) for client, n in enumerate(EXAMPLES)) / sum(EXAMPLES)
for value in mean:
    print(repr(float(value)))
