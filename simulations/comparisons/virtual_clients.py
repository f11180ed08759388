#!/usr/bin/env python3
"""A thousand virtual clients written in Python, in rivulet.simulate(client_fn=) and in Flower's simulation: logistic
regression in NumPy (784 inputs, 10 classes), 60 examples a client, one epoch in batches of 10, a cohort of 100, the same
code for both. Both run as processes of their own, in turns; the time is that of the whole program, from its start to its
end, and that of its rounds.

    virtual_clients.py [--rounds 10] [--clients 1000] [--cohort 100] [--turns 3] [--flower PYTHON] [--rivulet PYTHON]

PYTHON is an interpreter that has flwr[simulation], or grpcio and protobuf; either may be left out as "".
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

PIXELS, CLASSES, EXAMPLES, BATCH = 784, 10, 60, 10
LEARNING_RATE = np.float32(0.1)


def examples(number):
    """The examples of a client: classes whose means are alike for all."""
    means = np.random.default_rng(0).normal(0, 1, (CLASSES, PIXELS)).astype(np.float32)
    draws = np.random.default_rng(1 + number)
    labels = draws.integers(0, CLASSES, EXAMPLES)
    return means[labels] + draws.normal(0, 4, (EXAMPLES, PIXELS)).astype(np.float32), labels


def train(kernel, bias, number, seed):
    """One epoch: what was changed, and the mean loss before each step."""
    kernel, bias = kernel.copy(), bias.copy()
    pixels, labels = examples(number)
    order = np.random.default_rng(seed).permutation(EXAMPLES)
    losses = []
    for begin in range(0, EXAMPLES, BATCH):
        batch = order[begin : begin + BATCH]
        scores = pixels[batch] @ kernel + bias
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=1, keepdims=True)
        rows = np.arange(len(batch))
        losses.append(-np.log(shares[rows, labels[batch]]).mean())
        shares[rows, labels[batch]] -= 1
        shares /= np.float32(len(batch))
        kernel -= LEARNING_RATE * (pixels[batch].T @ shares)
        bias -= LEARNING_RATE * shares.sum(axis=0)
    return kernel, bias, float(np.mean(losses))


def first():
    return [np.zeros((PIXELS, CLASSES), np.float32), np.zeros(CLASSES, np.float32)]


def rivulet_run(options):
    import rivulet

    class Regression(rivulet.Client):
        def __init__(self, name):
            self.number = int(name.rsplit("-", 1)[1])

        def fit(self, params, context):
            kernel, bias, loss = train(params["kernel"], params["bias"], self.number, context.seed)
            return rivulet.Params({"kernel": kernel, "bias": bias}, examples=EXAMPLES, metrics={"train_loss": loss})

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        scenario = {
            "run": {"name": "virtual", "rounds": options.rounds},
            "model": {"arrays": dict(zip(("kernel", "bias"), first()))},
            "data": {"partition": {"clients": options.clients}},
            "server": {"clients_per_round": options.cohort},
        }
        began = time.monotonic()
        run = rivulet.simulate(scenario, client_fn=Regression, workers=options.workers)
        seconds = time.monotonic() - began
        losses = [row["train_loss"] for row in run.history.rows("SELECT train_loss FROM rounds ORDER BY round")]
        return {"seconds": seconds, "first_loss": losses[0], "last_loss": losses[-1]}


def flower_run(options):
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    losses = []

    class Regression(NumPyClient):
        def __init__(self, number):
            self.number = number

        def fit(self, parameters, config):
            kernel, bias, loss = train(*parameters, self.number, self.number + config["round"] * 100_000)
            return [kernel, bias], EXAMPLES, {"train_loss": loss}

    def mean_loss(metrics):
        losses.append(sum(n * m["train_loss"] for n, m in metrics) / sum(n for n, _ in metrics))
        return {}

    strategy = FedAvg(
        fraction_fit=options.cohort / options.clients,
        min_fit_clients=options.cohort,
        min_available_clients=options.clients,
        fraction_evaluate=0.0,
        initial_parameters=ndarrays_to_parameters(first()),
        on_fit_config_fn=lambda round_: {"round": round_},
        fit_metrics_aggregation_fn=mean_loss,
    )
    server = ServerApp(
        server_fn=lambda context: ServerAppComponents(
            strategy=strategy, config=ServerConfig(num_rounds=options.rounds)
        )
    )
    client = ClientApp(client_fn=lambda context: Regression(int(context.node_config["partition-id"])).to_client())
    began = time.monotonic()
    run_simulation(
        server,
        client,
        num_supernodes=options.clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return {"seconds": time.monotonic() - began, "first_loss": losses[0], "last_loss": losses[-1]}


def turn(python, mode, arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = pathlib.Path(__file__).resolve().parents[2]
    environment["PYTHONPATH"] = str(root / "python")
    began = time.monotonic()
    done = subprocess.run(
        [python, __file__, "--only", mode, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{mode} failed:\n{done.stderr[-4000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    result["whole"] = time.monotonic() - began
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--flower", default=sys.executable)
    parser.add_argument("--rivulet", default=sys.executable)
    parser.add_argument("--only", choices=("rivulet", "flower"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps({"rivulet": rivulet_run, "flower": flower_run}[options.only](options)))
        return
    arguments = [f"--{name}={getattr(options, name)}" for name in ("rounds", "clients", "cohort")]
    if options.workers:
        arguments.append(f"--workers={options.workers}")
    times = {}
    for _ in range(options.turns):
        for mode, python in (("rivulet", options.rivulet), ("flower", options.flower)):
            if python:
                times.setdefault(mode, []).append(turn(python, mode, arguments))
                print(f"{mode}: {times[mode][-1]['whole']:.2f} s", file=sys.stderr, flush=True)
    for mode, each in times.items():
        best = min(each, key=lambda one: one["whole"])
        print(
            f"{mode:8} {best['seconds']:7.2f} s, the whole program {best['whole']:7.2f} s (best of {len(each)}: "
            f"{', '.join(format(one['whole'], '.2f') for one in each)}); "
            f"loss {best['first_loss']:.4f} → {best['last_loss']:.4f}"
        )
    if len(times) == 2:
        best = {mode: min(one["whole"] for one in each) for mode, each in times.items()}
        print(f"rivulet is {best['flower'] / best['rivulet']:.1f} times as fast")


if __name__ == "__main__":
    main()
