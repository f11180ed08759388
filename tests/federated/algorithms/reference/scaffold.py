"""Three rounds of SCAFFOLD (Karimireddy et al. 2020, arXiv:1910.06378, option II) in float64: the model and the server's c.

Prints the fifteen parameters of a softmax regression of four pixels, then those of c, a number a line:

    python3 scaffold.py > scaffold.txt
"""
import numpy as np

EPOCHS, BATCH, RATE, SERVER_RATE = 2, 2, 0.5, 0.75
EXAMPLES, COHORTS = (5, 3, 4), ((0, 1), (1, 2), (0, 2))
N = len(EXAMPLES)


def gradient(v, x, y):
    w, b = v[:12].reshape(4, 3), v[12:]
    logits = x @ w + b
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    return np.concatenate([(x.T @ p).ravel(), p.sum(axis=0)])


def client_update(client, x0, c, ci):
    x = np.array([[(71 * k + 37 * i + 113 * client) % 256 for k in range(4)] for i in range(EXAMPLES[client])]) / 255
    y = np.array([(i + client) % 3 for i in range(EXAMPLES[client])])
    v, steps = x0.copy(), 0
    for _ in range(EPOCHS):
        for begin in range(0, len(x), BATCH):
            v -= RATE * (gradient(v, x[begin:begin + BATCH], y[begin:begin + BATCH]) - ci + c)
            steps += 1
    return v - x0, ci - c + (x0 - v) / (steps * RATE)


x = np.array([np.float32(n * 37 % 101 - 50) * np.float32(0.01) for n in range(15)], np.float64)
c, own = np.zeros(15), np.zeros((N, 15))
for cohort in COHORTS:
    dx, dc = np.zeros(15), np.zeros(15)
    for client in cohort:
        change, after = client_update(client, x, c, own[client])
        dx += change / len(cohort)
        dc += (after - own[client]) / N
        own[client] = after
    x, c = x + SERVER_RATE * dx, c + dc
for value in np.concatenate([x, c]):
    print(repr(float(value)))
