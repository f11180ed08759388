"""One round of FedProx (Li et al. 2020, arXiv:1812.06127) in float64: what the mean of two clients' changes must be.

Prints the twelve weights and three biases of a softmax regression of four pixels, a number a line:

    python3 fedprox.py > fedprox.txt
"""
import numpy as np

EPOCHS, BATCH, RATE, MU = 2, 2, 0.5, 0.3
EXAMPLES = (5, 3)  # of the two clients

values = np.array([np.float32(n * 37 % 101 - 50) * np.float32(0.01) for n in range(15)], np.float64)
base_w, base_b = values[:12].reshape(4, 3), values[12:]


def client_update(client):
    x = np.array([[(71 * k + 37 * i + 113 * client) % 256 for k in range(4)] for i in range(EXAMPLES[client])]) / 255
    y = np.array([(i + client) % 3 for i in range(EXAMPLES[client])])
    w, b = base_w.copy(), base_b.copy()
    for _ in range(EPOCHS):
        for begin in range(0, len(x), BATCH):
            rows, labels = x[begin:begin + BATCH], y[begin:begin + BATCH]
            logits = rows @ w + b
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(labels)), labels] -= 1
            p /= len(labels)
            grad_w, grad_b = rows.T @ p + MU * (w - base_w), p.sum(axis=0) + MU * (b - base_b)
            w, b = w - RATE * grad_w, b - RATE * grad_b
    return np.concatenate([(w - base_w).ravel(), b - base_b])


mean = sum(n * client_update(client) for client, n in enumerate(EXAMPLES)) / sum(EXAMPLES)
for value in mean:
    print(repr(float(value)))
