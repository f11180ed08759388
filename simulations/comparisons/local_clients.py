#!/usr/bin/env python3
"""A round of many small local clients: Rivulet beside the bare loop that one would write in NumPy, PyTorch or JAX.

    local_clients.py --bench build/release/rivulet_bench [--turns N] [--rows REGEX] [--peers NAME …]

Each client of a round's cohort takes one step of SGD from the round's model on its six examples; the next model is the average
of theirs. A peer has its examples decoded in memory and keeps, checks, signs and stores nothing. It runs in a process of its
own on as many cores as it is given (affinity), in turns with Rivulet's rows of the same workload (rivulet_bench, round/); what
is printed are medians over turns of medians over rounds. All peers start from one model, take the same cohorts and must end at
one model. compare.sh makes the environment that this runs in.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

# name: (units of the layers, clients, cohort), as in tests/bench/round_bench.cc
WORKLOADS = {
    "2nn": ([784, 200, 200, 10], 10_000, 1000),
    "logistic50": ([4, 10], 10_000, 1000),
    "6.65MB": ([784, 2092, 10], 1000, 50),
}
PEERS = ("numpy", "torch", "jax_scan", "jax_at_once")
EXAMPLES = 6
RATE = 0.1
WARM, ROUNDS = 2, 7


# ---- one peer in a process of its own -------------------------------------------------------------------------------


def numpy_round(np, units, x, y):
    """Gives round(flat model, members by client) -> the next flat model, in place."""
    shapes = [s for a, b in zip(units, units[1:]) for s in ((a, b), (b,))]
    sizes = [int(np.prod(s)) for s in shapes]
    local, total = np.empty(sum(sizes), np.float32), np.empty(sum(sizes), np.float32)
    ends = np.cumsum(sizes)
    params = [local[end - size:end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes)]
    rows = np.arange(EXAMPLES)

    def step(x, y):
        inputs = [x]
        for layer in range(0, len(params), 2):
            z = inputs[-1] @ params[layer] + params[layer + 1]
            inputs.append(z if layer + 2 == len(params) else np.maximum(z, 0, out=z))
        logits = inputs.pop()
        d = np.exp(logits - logits.max(1, keepdims=True))
        d /= d.sum(1, keepdims=True)
        d[rows, y] -= 1
        d *= np.float32(RATE / len(y))
        for layer in range(len(params) - 2, -1, -2):
            back = (d @ params[layer].T) * (inputs[-1] > 0) if layer else None
            params[layer] -= inputs.pop().T @ d
            params[layer + 1] -= d.sum(0)
            d = back

    def round_(model, cohort):
        total.fill(0)
        for members in cohort:
            np.copyto(local, model)
            step(x[members], y[members])
            total.__iadd__(local)
        np.multiply(total, np.float32(1 / len(cohort)), out=model)
        return model

    return round_


def torch_round(np, units, x, y, threads):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    local = torch.empty(sum(a * b + b for a, b in zip(units, units[1:])))
    total, params, at = torch.empty_like(local), [], 0
    for a, b in zip(units, units[1:]):
        params += [local[at:at + a * b].view(a, b), local[at + a * b:at + a * b + b]]
        at += a * b + b
    params = [p.requires_grad_() for p in params]

    def forward(h):
        for layer in range(0, len(params), 2):
            h = torch.addmm(params[layer + 1], h, params[layer])
            if layer + 2 < len(params):
                h = h.relu_()
        return h

    def round_(model, cohort):
        model = torch.from_numpy(model)
        total.zero_()
        for members in torch.from_numpy(cohort):
            local.copy_(model)
            loss = F.cross_entropy(forward(x[members]), y[members])
            with torch.no_grad():
                torch._foreach_add_(params, torch.autograd.grad(loss, params), alpha=-RATE)
            total.add_(local)
        return total.div(len(cohort)).numpy()

    return round_


def jax_round(np, units, x, y, at_once):
    import jax
    import jax.numpy as jnp

    x, y = jnp.asarray(x), jnp.asarray(y, dtype=jnp.int32)
    bounds = np.cumsum([0] + [n for a, b in zip(units, units[1:]) for n in (a * b, b)]).tolist()

    def layers(flat):  # a pair for each, because slices of one vector cost a copy in every client
        return [(flat[bounds[2 * i]:bounds[2 * i + 1]].reshape(a, b), flat[bounds[2 * i + 1]:bounds[2 * i + 2]])
                for i, (a, b) in enumerate(zip(units, units[1:]))]

    def loss(params, x, y):
        h = x
        for w, bias in params[:-1]:
            h = jax.nn.relu(h @ w + bias)
        logits = h @ params[-1][0] + params[-1][1]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def client(params, members):
        gradients = jax.grad(loss)(params, x[members], y[members])
        return jax.tree_util.tree_map(lambda p, g: p - RATE * g, params, gradients)

    def round_at_once(params, cohort):  # clients are equally large and take one step: theirs is one step on all examples
        return client(params, cohort.reshape(-1))

    def round_scan(params, cohort):
        def add(total, members):
            return jax.tree_util.tree_map(jnp.add, total, client(params, members)), None

        total, _ = jax.lax.scan(add, jax.tree_util.tree_map(jnp.zeros_like, params), cohort)
        return jax.tree_util.tree_map(lambda p: p / len(cohort), total)

    compiled = jax.jit(round_at_once if at_once else round_scan)
    held = []

    def round_(model, cohort):
        if not held:
            held.append(layers(jnp.asarray(model)))
        held[0] = jax.block_until_ready(compiled(held[0], jnp.asarray(cohort)))
        return held[0]

    return round_


def peer(name, workload, threads):
    """Prints {"seconds": a round's median, "norm": how far the model went}."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    import numpy as np

    units, clients, cohort = WORKLOADS[workload]
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (clients * EXAMPLES, units[0]), dtype=np.uint8).astype(np.float32) / 255
    y = rng.integers(0, units[-1], clients * EXAMPLES)
    shares = rng.permutation(clients * EXAMPLES).reshape(clients, EXAMPLES)
    first = np.concatenate([part for a, b in zip(units, units[1:])
                            for part in (rng.uniform(-(6 / (a + b))**0.5, (6 / (a + b))**0.5, a * b), np.zeros(b))]).astype(np.float32)
    round_ = {
        "numpy": lambda: numpy_round(np, units, x, y),
        "torch": lambda: torch_round(np, units, x, y, threads),
        "jax_scan": lambda: jax_round(np, units, x, y, False),
        "jax_at_once": lambda: jax_round(np, units, x, y, True),
    }[name]()
    model, times = first.copy(), []
    for _ in range(WARM + ROUNDS):
        begin = time.perf_counter()
        model = round_(model, shares[rng.choice(clients, cohort, replace=False)])
        times.append(time.perf_counter() - begin)
    if isinstance(model, list):
        model = np.concatenate([np.asarray(part).ravel() for layer in model for part in layer])
    print(json.dumps({"seconds": statistics.median(times[WARM:]), "norm": float(np.linalg.norm(model - first))}))


# ---- all of them in turns -------------------------------------------------------------------------------------------


def ours(bench, workload):
    """Seconds a round by workers."""
    done = subprocess.run([bench, f"--benchmark_filter=^round/{re.escape(workload)}/", "--benchmark_format=json"],
                          check=True, capture_output=True, text=True)
    seconds = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row.get("error_occurred"):
            raise SystemExit(f"{row['name']}: {row['error_message']}")
        seconds[int(row["name"].split("/")[2])] = row["real_time"] / 1e3
    return seconds


def compare(arguments):
    threads = sorted({1, min(2, len(os.sched_getaffinity(0)))})
    print(f"{'ms a round, median':22}" + "".join(f"{n:>12}" for n in ("cores", "rivulet", *arguments.peers, "/ best loop")))
    for workload in (w for w in WORKLOADS if re.search(arguments.rows, w)):
        found, norms = {}, {}
        for _ in range(arguments.turns):
            for workers, seconds in ours(arguments.bench, workload).items():
                found.setdefault(("rivulet", workers), []).append(seconds)
            for name in arguments.peers:
                for count in threads:
                    done = subprocess.run([sys.executable, __file__, "--peer", name, workload, str(count)], check=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                    answer = json.loads(done.stdout)
                    found.setdefault((name, count), []).append(answer["seconds"])
                    norms[name] = answer["norm"]
        if max(norms.values()) > 1.01 * min(norms.values()):
            raise SystemExit(f"{workload}: the peers do not compute the same: {norms}")
        medians = {key: statistics.median(values) for key, values in found.items()}
        for count in threads:
            of_peers = {name: medians[name, count] for name in arguments.peers}
            own = medians["rivulet", count]
            loops = [seconds for name, seconds in of_peers.items() if name != "jax_at_once"]
            print(f"{workload:22}{count:12}{1e3 * own:12.1f}" + "".join(f"{1e3 * seconds:12.1f}" for seconds in of_peers.values())
                  + (f"{own / min(loops):12.2f}" if loops else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/release/rivulet_bench")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", default="", help="a regular expression of workloads")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(arguments.peer[0], arguments.peer[1], int(arguments.peer[2]))
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
