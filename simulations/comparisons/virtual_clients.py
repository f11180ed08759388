#!/usr/bin/env python3
"""A thousand virtual clients written in Python, in rivulet.simulate(client_fn=), in Flower's simulation, in pfl-research
and in BlazeFL: logistic regression in NumPy (784 inputs, 10 classes), 60 examples a client, one epoch in batches of 10, a
cohort of 100, the same code for all. The examples lie in one file, of which a client reads its own. Each runs as a process of its
own, in turns; the time is that of the whole program, from its start to its end, and that of its rounds; and the
processor's, of the program and all that it started. One more process trains the same clients one after the other with no
framework at all: what no framework can do without.

    virtual_clients.py [--rounds 10] [--clients 1000] [--cohort 100] [--turns 3]
                       [--rivulet PYTHON] [--flower PYTHON] [--pfl PYTHON] [--blazefl PYTHON]

PYTHON is an interpreter that has NumPy and protobuf, flwr[simulation], pfl or blazefl; "" leaves one out, as the last two
are where nothing is said. pfl-research trains on one core, as it does without Horovod or the like; BlazeFL hands updates
over in shared memory.
"""

import argparse
import ctypes
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

PIXELS, CLASSES, EXAMPLES, BATCH = 784, 10, 60, 10
LEARNING_RATE = np.float32(0.1)


def write_examples(folder, clients):
    """Of all clients: classes whose means are alike for all."""
    draws = np.random.default_rng(0)
    means = draws.normal(128, 12, (CLASSES, PIXELS)).astype(np.float32)
    labels = draws.integers(0, CLASSES, (clients, EXAMPLES))
    pixels = np.empty((clients, EXAMPLES, PIXELS), np.uint8)
    for number in range(clients):
        noise = draws.normal(0, 40, (EXAMPLES, PIXELS)).astype(np.float32)
        pixels[number] = np.clip(means[labels[number]] + noise, 0, 255)
    pixels.tofile(folder / "pixels")
    labels.tofile(folder / "labels")


def stored(name, number, kind, count):
    file = os.environ["EXAMPLES"] + "/" + name
    return np.fromfile(file, kind, count, offset=number * count * np.dtype(kind).itemsize)


def examples(number):
    """The examples of a client."""
    pixels = stored("pixels", number, np.uint8, EXAMPLES * PIXELS).reshape(EXAMPLES, PIXELS)
    return pixels / np.float32(255) - np.float32(0.5), stored("labels", number, np.int64, EXAMPLES)


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


def pfl_run(options):
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import FederatedAlgorithm
    from pfl.common_types import Population
    from pfl.context import CentralContext
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams
    from pfl.internal.ops import numpy_ops
    from pfl.internal.ops.selector import set_framework_module
    from pfl.metrics import Metrics, Weighted
    from pfl.model.base import Model
    from pfl.stats import MappedVectorStatistics

    set_framework_module(numpy_ops)
    losses = []

    class Regression(Model):
        weights = dict(zip(("kernel", "bias"), first()))

        def apply_model_update(self, statistics):
            statistics.average()
            self.weights = {name: self.weights[name] + change for name, change in statistics.items()}
            return self, Metrics()

    class Averaging(FederatedAlgorithm):
        def get_next_central_contexts(self, model, iteration, algorithm_params, train_params, eval_params=None):
            if iteration == options.rounds:
                return None, model, Metrics()
            context = CentralContext(
                current_central_iteration=iteration,
                do_evaluation=False,
                cohort_size=options.cohort,
                population=Population.TRAIN,
                model_train_params=train_params,
                model_eval_params=eval_params,
                algorithm_params=algorithm_params,
                seed=iteration,
            )
            return (context,), model, Metrics()

        def simulate_one_user(self, model, user_dataset, central_context):
            number = int(user_dataset.user_id)
            seed = number + central_context.current_central_iteration * 100_000
            kernel, bias, loss = train(*model.weights.values(), number, seed)
            change = {"kernel": kernel - model.weights["kernel"], "bias": bias - model.weights["bias"]}
            metrics = Metrics([("train_loss", Weighted.from_unweighted(loss))])
            return MappedVectorStatistics(change, weight=1), metrics  # all have as many examples

        def process_aggregated_statistics(self, central_context, aggregate_metrics, model, statistics):
            losses.append(aggregate_metrics["train_loss"].overall_value)
            return model.apply_model_update(statistics)

    sampler = get_user_sampler("random", [str(number) for number in range(options.clients)])
    users = FederatedDataset(lambda user: Dataset((np.zeros(EXAMPLES),), user_id=user), sampler)
    began = time.monotonic()
    Averaging().run(AlgorithmHyperParams(), SimulatedBackend(users, users), Regression(), ModelHyperParams())
    return {"seconds": time.monotonic() - began, "first_loss": losses[0], "last_loss": losses[-1]}


class BlazeUpdate:
    def __init__(self, cid, weights, loss):
        self.cid, self.weights, self.loss = cid, weights, loss


def blaze_worker(config, payload, device, stop_event, *, shm_buffer=None):
    from blazefl.core import SHMHandle

    number, seed = config
    kernel, bias, loss = train(*(part.numpy() for part in payload), number, seed)
    for room, trained in zip(shm_buffer.weights, (kernel, bias)):
        room.numpy()[:] = trained
    return BlazeUpdate(number, [SHMHandle() for _ in shm_buffer.weights], loss)


def blazefl_run(options):
    import threading

    import torch
    from blazefl.core import IPCMode, ProcessPoolClientTrainer

    torch.multiprocessing.set_start_method("fork")

    class Trainer(ProcessPoolClientTrainer):
        num_parallels, device, device_count, ipc_mode = len(os.sched_getaffinity(0)), "cpu", 0, IPCMode.SHARED_MEMORY
        worker = staticmethod(blaze_worker)

        def __init__(self):
            self.cache, self.round = [], 0
            self.stop_event = torch.multiprocessing.Manager().Event()

        def get_client_config(self, cid):
            return cid, cid + self.round * 100_000

        def prepare_uplink_package_buffer(self):
            return BlazeUpdate(0, [torch.zeros(part.shape) for part in first()], 0.0)

        def uplink_package(self):
            package, self.cache = self.cache, []
            return package

    trainer, weights, losses = Trainer(), [torch.from_numpy(part) for part in first()], []
    draws = np.random.default_rng(2)
    began = time.monotonic()
    for trainer.round in range(options.rounds):
        cohort = draws.choice(options.clients, options.cohort, replace=False).tolist()
        trainer.local_process([part.clone() for part in weights], cohort)
        updates = trainer.uplink_package()
        weights = [torch.stack([update.weights[part] for update in updates]).mean(0) for part in range(len(weights))]
        losses.append(float(np.mean([update.loss for update in updates])))
    return {"seconds": time.monotonic() - began, "first_loss": losses[0], "last_loss": losses[-1]}


def bare_run(options):
    began = time.monotonic()
    kernel, bias = first()
    losses = []
    draws = np.random.default_rng(2)
    for round_ in range(options.rounds):
        cohort = draws.choice(options.clients, options.cohort, replace=False)
        trained = [train(kernel, bias, int(number), int(number) + round_ * 100_000) for number in cohort]
        kernel, bias = (np.mean([each[index] for each in trained], axis=0) for index in (0, 1))
        losses.append(float(np.mean([each[2] for each in trained])))
    return {"seconds": time.monotonic() - began, "first_loss": losses[0], "last_loss": losses[-1]}


def reap(seconds):
    """Waits for what a program has left behind, so that its time counts too: orphans are ours (main)."""
    until = time.monotonic() + seconds
    while True:
        try:
            gone, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if gone == 0:
            if time.monotonic() > until:
                for child in pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            time.sleep(0.05)


def processor():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def turn(python, mode, arguments, folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "EXAMPLES": str(folder)}
    root = pathlib.Path(__file__).resolve().parents[2]
    environment["PYTHONPATH"] = str(root / "python")
    # As where it is installed: what is compiled once stays compiled.
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began, used = time.monotonic(), processor()
    done = subprocess.run(
        [python, __file__, "--only", mode, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{mode} failed:\n{done.stderr[-4000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    result["whole"] = time.monotonic() - began
    reap(20)
    result["processor"] = processor() - used
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
    parser.add_argument("--pfl", default="")
    parser.add_argument("--blazefl", default="")
    runs = {"rivulet": rivulet_run, "flower": flower_run, "pfl": pfl_run, "blazefl": blazefl_run, "bare": bare_run}
    parser.add_argument("--only", choices=runs, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(runs[options.only](options)))
        return
    arguments = [f"--{name}={getattr(options, name)}" for name in ("rounds", "clients", "cohort")]
    if options.workers:
        arguments.append(f"--workers={options.workers}")
    set_subreaper = 36  # of prctl: whoever is left behind by a program becomes this process's child
    ctypes.CDLL(None).prctl(set_subreaper, 1, 0, 0, 0)
    programs = {mode: getattr(options, mode, options.rivulet) for mode in runs}
    times = {mode: [] for mode, python in programs.items() if python}
    with tempfile.TemporaryDirectory() as folder:
        write_examples(pathlib.Path(folder), options.clients)
        for number in range(-1, options.turns):  # the first finds nothing compiled and nothing in the disk's cache
            for mode, each in times.items():
                last = turn(programs[mode], mode, arguments, pathlib.Path(folder))
                if number >= 0:
                    each.append(last)
                    words = f"{mode}: {last['whole']:.2f} s, {last['processor']:.2f} s of the processor"
                    print(words, file=sys.stderr, flush=True)
    for mode, each in times.items():
        best = min(each, key=lambda one: one["whole"])
        print(
            f"{mode:8} {best['seconds']:7.2f} s, the whole program {best['whole']:7.2f} s (best of {len(each)}: "
            f"{', '.join(format(one['whole'], '.2f') for one in each)}), {best['processor']:7.2f} s of the processor; "
            f"loss {best['first_loss']:.4f} → {best['last_loss']:.4f}"
        )
    for mode in times.keys() - {"rivulet", "bare"} if "rivulet" in times else ():
        for key, what in (("whole", "the time"), ("processor", "the processor's time")):
            ratios = ", ".join(f"{theirs[key] / ours[key]:.1f}" for theirs, ours in zip(times[mode], times["rivulet"]))
            print(f"{mode} takes {ratios} times {what}, in each turn")


if __name__ == "__main__":
    main()
