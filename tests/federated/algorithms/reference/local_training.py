"""Three rounds of algorithms that say how clients train, or how far the server goes, in float64: FedNova (Wang et al.
2020, arXiv:2007.07481), FedExP (Jhunjhunwala et al. 2023, arXiv:2301.09604), FedDyn (Acar et al. 2021, arXiv:2111.04263),
MimeLite and Mime (Karimireddy et al. 2021, arXiv:2008.03606), FedSGD (McMahan et al. 2017, arXiv:1602.05629), q-FedAvg (Li et al.
2020, arXiv:1905.10497), signSGD with majority vote (Bernstein et al. 2018, arXiv:1802.04434), Per-FedAvg of first order and Hessian-free
(Fallah et al. 2020, arXiv:2002.07948), TERM (Li et al. 2021, arXiv:2007.01162), FedAsync in time (Xie et al. 2019,
arXiv:1903.03934), APFL (Deng et al. 2020, arXiv:2003.13461), of which every client's mixture follows, with a fixed share and with one that
each client learns, FedRep (Collins
et al. 2021, arXiv:2102.07078) with biases that begin at zero and are each client's own, agnostic federated learning (Mohri et al. 2019,
arXiv:1902.00146), FedProx with a mu that moves (Li et al. 2020, arXiv:1812.06127, appendix C.3.3), and of three models each, one after the
other, IFCA (Ghosh et al. 2020, arXiv:2006.04088) and HypCluster (Mansour et al. 2020, arXiv:2002.10619).

Prints the fifteen parameters of a softmax regression of four pixels, a number a line:

    for name in fednova fedexp feddyn mimelite fedsgd q_fedavg signsgd fedrep per_fedavg term fedasync apfl apfl_adaptive agnostic adaptive_mu download mime per_fedavg_hf ifca hypcluster; do python3 local_training.py $name > $name.txt; done
"""
import sys

import numpy as np

EPOCHS, BATCH, RATE, SERVER_RATE = 2, 2, 0.5, 0.75
EXAMPLES, COHORTS = (5, 3, 4), ((0, 1), (1, 2), (0, 2))


def data(client):
    x = np.array([[(71 * k + 37 * i + 113 * client) % 256 for k in range(4)] for i in range(EXAMPLES[client])]) / 255
    return x, np.array([(i + client) % 3 for i in range(EXAMPLES[client])])


def gradient(v, x, y):
    w, b = v[:12].reshape(4, 3), v[12:]
    logits = x @ w + b
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    return np.concatenate([(x.T @ p).ravel(), p.sum(axis=0)])


def train(client, w, rule=lambda g, v: g, epochs=EPOCHS):
    """What the client changes, and its number of steps."""
    (x, y), v, steps = data(client), w.copy(), 0
    for _ in range(epochs):
        for begin in range(0, len(x), BATCH):
            v -= RATE * rule(gradient(v, x[begin:begin + BATCH], y[begin:begin + BATCH]), v)
            steps += 1
    return v - w, steps


def fednova(w, cohort, p, kept):
    results = [train(client, w) for client in cohort]
    tau = sum(pk * steps for pk, (_, steps) in zip(p, results))
    return w + SERVER_RATE * tau * sum(pk * d / steps for pk, (d, steps) in zip(p, results))


def fedexp(w, cohort, p, kept, epsilon=1e-3):
    deltas = [train(client, w)[0] for client in cohort]
    d = sum(pk * dk for pk, dk in zip(p, deltas))
    squares = sum(pk * (dk**2).sum() for pk, dk in zip(p, deltas))
    return w + SERVER_RATE * max(1, squares / (2 * ((d**2).sum() + epsilon))) * d


def feddyn(w, cohort, p, kept, alpha=0.3):
    deltas = []
    for client in cohort:
        h = kept.get(client, np.zeros(15))
        deltas.append(train(client, w, lambda g, v: g - h + alpha * (v - w))[0])
        kept[client] = h - alpha * deltas[-1]
    kept["h"] = kept.get("h", np.zeros(15)) - alpha * sum(deltas) / len(EXAMPLES)
    return w + SERVER_RATE * sum(deltas) / len(deltas) - kept["h"] / alpha


def mimelite(w, cohort, p, kept, beta=0.6):
    m = kept.get("m", np.zeros(15))
    deltas = [train(client, w, lambda g, v: (1 - beta) * g + beta * m)[0] for client in cohort]
    whole = sum(gradient(w, *data(client)) for client in cohort) / len(cohort)
    kept["m"] = (1 - beta) * whole + beta * m
    return w + SERVER_RATE * sum(deltas) / len(deltas)


def mime(w, cohort, p, kept, beta=0.6):
    m, c, deltas = kept.get("m", np.zeros(15)), kept.get("c"), []
    for client in cohort:
        (x, y), v = data(client), w.copy()
        for _ in range(EPOCHS):
            for begin in range(0, len(x), BATCH):
                rows, labels = x[begin:begin + BATCH], y[begin:begin + BATCH]
                g = gradient(v, rows, labels)
                if c is not None:
                    g = g - gradient(w, rows, labels) + c
                v = v - RATE * ((1 - beta) * g + beta * m)
        deltas.append(v - w)
    kept["c"] = sum(gradient(w, *data(client)) for client in cohort) / len(cohort)
    kept["m"] = (1 - beta) * kept["c"] + beta * m
    return w + SERVER_RATE * sum(deltas) / len(deltas)


def fedsgd(w, cohort, p, kept):
    return w - SERVER_RATE * RATE * sum(pk * gradient(w, *data(client)) for pk, client in zip(p, cohort))


def loss(v, x, y):
    logits = x @ v[:12].reshape(4, 3) + v[12:]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return -np.log((p / p.sum(axis=1, keepdims=True))[np.arange(len(y)), y]).mean()


def q_fedavg(w, cohort, p, kept, q=1.5):
    steps, h, lipschitz = np.zeros(15), 0, 1 / RATE
    for client in cohort:
        f, delta = loss(w, *data(client)) + 1e-10, lipschitz * -train(client, w)[0]
        steps += f**q * delta
        h += q * f**(q - 1) * (delta**2).sum() + lipschitz * f**q
    return w - SERVER_RATE * steps / h


def signsgd(w, cohort, p, kept):
    return w - SERVER_RATE * np.sign(sum(np.sign(gradient(w, *data(client))) for client in cohort))


def fedrep(w, cohort, p, kept, head_epochs=3):
    after, own = w.copy(), np.arange(15) >= 12
    for pk, client in zip(p, cohort):
        v = np.concatenate([w[:12], kept.get(client, np.zeros(3))])
        v = v + train(client, v, lambda g, v: g * own, head_epochs)[0]
        v = v + train(client, v, lambda g, v: g * ~own)[0]
        kept[client] = v[12:]
        after[:12] += SERVER_RATE * pk * (v - w)[:12]
    return after


def per_fedavg(w, cohort, p, kept, alpha=0.3):
    deltas = []
    for client in cohort:
        (x, y), v = data(client), w.copy()
        batches = [slice(begin, begin + BATCH) for _ in range(EPOCHS) for begin in range(0, len(x), BATCH)]
        for first, second in zip(batches[::2], batches[1::2]):
            ahead = v - alpha * gradient(v, x[first], y[first])
            v = v - RATE * gradient(ahead, x[second], y[second])
        deltas.append(v - w)
    return w + SERVER_RATE * sum(deltas) / len(deltas)


def per_fedavg_hf(w, cohort, p, kept, alpha=0.3, probe=0.05):
    """Per-FedAvg, Hessian-free: three batches a step; what is left over of the last is for nothing."""
    deltas = []
    for client in cohort:
        (x, y), v = data(client), w.copy()
        batches = [slice(begin, begin + BATCH) for _ in range(EPOCHS) for begin in range(0, len(x), BATCH)]
        for first, second, third in zip(batches[::3], batches[1::3], batches[2::3]):
            ahead = gradient(v - alpha * gradient(v, x[first], y[first]), x[second], y[second])
            sides = [gradient(v + sign * probe * ahead, x[third], y[third]) for sign in (1, -1)]
            v = v - RATE * (ahead - alpha * (sides[0] - sides[1]) / (2 * probe))
        deltas.append(v - w)
    return w + SERVER_RATE * sum(deltas) / len(deltas)


def term(w, cohort, p, kept, t=1.5):
    tilts = [np.exp(t * loss(w, *data(client))) for client in cohort]
    return w + SERVER_RATE * sum(e * train(client, w)[0] for e, client in zip(tilts, cohort)) / sum(tilts)


def fedasync(w, cohort, p, kept, rho=0.3):
    models = [w + train(client, w, lambda g, v: g + rho * (v - w))[0] for client in cohort]
    return (1 - SERVER_RATE) * w + SERVER_RATE * sum(models) / len(models)


def apfl(w, cohort, p, kept, alpha=0.4):
    after = w.copy()
    for pk, client in zip(p, cohort):
        (x, y), (v, _), local = data(client), kept.get(client, (w, None)), w + train(client, w)[0]
        for _ in range(EPOCHS):
            for begin in range(0, len(x), BATCH):
                mixture = alpha * v + (1 - alpha) * local
                v = v - RATE * alpha * gradient(mixture, x[begin:begin + BATCH], y[begin:begin + BATCH])
        kept[client] = v, alpha * v + (1 - alpha) * local
        after += SERVER_RATE * pk * (local - w)
    return after


def apfl_adaptive(w, cohort, p, kept, alpha=0.4, rate=0.8):
    after = w.copy()
    for pk, client in zip(p, cohort):
        (x, y), (v, _, share), local = data(client), kept.get(client, (w, None, alpha)), w + train(client, w)[0]
        for _ in range(EPOCHS):
            for begin in range(0, len(x), BATCH):
                mixture = share * v + (1 - share) * local
                v = v - RATE * share * gradient(mixture, x[begin:begin + BATCH], y[begin:begin + BATCH])
        slope = gradient(share * v + (1 - share) * local, x, y) @ (v - local)
        share = min(max(share - rate * slope, 1e-3), 1)
        kept[client] = v, share * v + (1 - share) * local, share
        after += SERVER_RATE * pk * (local - w)
    return after


def download(w, cohort, p, kept):
    """Federated averaging whose clients train from the model in half precision, which the server does not."""
    sent = w.astype(np.float32).astype(np.float16).astype(np.float64)
    return w + SERVER_RATE * sum(pk * train(client, sent)[0] for pk, client in zip(p, cohort))


def agnostic(w, cohort, p, kept, rate=0.2, least=0.1):
    """Clients count by weights that rise with the loss of the model that they were given (Mohri et al. 2019)."""
    weights, losses = kept.setdefault("weights", {}), kept.setdefault("losses", {})
    lam = [np.rint(4096 * weights.get(client, 1.0)) / 4096 for client in cohort]  # as sums in fixed point have them
    after = w + SERVER_RATE * sum(l * train(client, w)[0] for l, client in zip(lam, cohort)) / sum(lam)
    for client in cohort:
        losses[client] = loss(w, *data(client))
    known = sorted(losses)
    raised = np.array([weights.get(client, 1.0) + rate * len(known) * losses[client] for client in known])
    low, high = raised.min() - len(known), raised.max()
    for _ in range(200):  # the projection by halving, where the program sorts
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(least, raised - middle).sum() > len(known) else (low, middle)
    kept["weights"] = dict(zip(known, np.maximum(least, raised - low)))
    return after


def adaptive_mu(w, cohort, p, kept, first=0.3, step=0.2, falls=1):
    """FedProx whose mu follows the mean loss of the last epoch of each round's clients."""
    mu, losses, after = kept.get("mu", first), [], w.copy()
    for pk, client in zip(p, cohort):
        (x, y), v = data(client), w.copy()
        for epoch in range(EPOCHS):
            total = 0
            for begin in range(0, len(x), BATCH):
                rows, labels = x[begin:begin + BATCH], y[begin:begin + BATCH]
                total += loss(v, rows, labels) * len(labels)
                v = v - RATE * (gradient(v, rows, labels) + mu * (v - w))
        losses.append(total / len(x))
        after += SERVER_RATE * pk * (v - w)
    now, last = sum(pk * l for pk, l in zip(p, losses)), kept.get("loss")
    if last is not None and now != last:
        mu = mu + step if now > last else max(0, mu - step)  # falls = 1: each fall lowers it
    kept["mu"], kept["loss"] = mu, now
    return after


def clustered(w, cohort, kept, by_examples):
    """Models w_0, w_1, w_2: each client trains the one of least loss and counts towards that alone."""
    models = [w] + kept.setdefault("models", [first_values(7 * i) for i in (1, 2)])
    sums, weights = [np.zeros(15) for _ in models], [0] * len(models)
    for client in cohort:
        chosen = min(range(len(models)), key=lambda i: loss(models[i], *data(client)))
        weight = EXAMPLES[client] if by_examples else 1
        sums[chosen] += weight * train(client, models[chosen])[0]
        weights[chosen] += weight
        print(f"client {client} takes {chosen}", file=sys.stderr)
    moved = [m + SERVER_RATE * s / n if n else m for m, s, n in zip(models, sums, weights)]
    kept["models"] = moved[1:]
    return moved[0]


def ifca(w, cohort, p, kept):
    return clustered(w, cohort, kept, False)


def hypcluster(w, cohort, p, kept):
    return clustered(w, cohort, kept, True)


def first_values(shift):
    return np.array([np.float32((n + shift) * 37 % 101 - 50) * np.float32(0.01) for n in range(15)], np.float64)


w, kept = first_values(0), {}
for cohort in COHORTS:
    n = sum(EXAMPLES[client] for client in cohort)
    w = globals()[sys.argv[1]](w, cohort, [EXAMPLES[client] / n for client in cohort], kept)
own = [kept[client][1] for client in range(3)] if sys.argv[1].startswith("apfl") else kept.get("models", [])
for value in np.concatenate([w] + own):
    print(repr(float(value)))
