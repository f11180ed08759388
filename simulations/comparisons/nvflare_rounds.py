#!/usr/bin/env python3
"""Rounds of logistic regression (785 × 10, 60 images a client, batches of 10) in NVFlare's simulator, by its FedAvg recipe for
NumPy: ten clients who all take part, on as many threads as there are clients, which then keep their processes, and on two,
where each task waits for its client to be swapped in. `rivulet simulate` and `rivulet up` of the same work are rows of
deployed_rounds.py.

    nvflare_rounds.py --nvflare PYTHON [--clients 10] [--threads 10 2] [--rounds 5]

PYTHON is an interpreter with nvflare (`pip install nvflare`) and NumPy. Seconds are of a round without the first, in which the
clients are started, from one task of the first client to its next.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TRAIN = '''
import pathlib
import sys
import time

import numpy as np
import nvflare.client as flare

flare.init()
number = int(flare.get_site_name().rsplit("-", 1)[1])
draws = np.random.default_rng(number)
pixels, labels = draws.random((60, 785), np.float32), draws.integers(0, 10, 60)
while flare.is_running():
    given = flare.receive()
    if given is None:
        break
    if number == 1:
        with open(sys.argv[1], "a") as file:
            file.write(f"{time.time()}\\n")
    weights = np.array(given.params["numpy_key"], np.float32)
    for begin in range(0, 60, 10):
        batch = slice(begin, begin + 10)
        shares = np.exp(pixels[batch] @ weights)
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(10), labels[batch]] -= 1
        weights -= 0.003 * pixels[batch].T @ shares
    flare.send(flare.FLModel(params={"numpy_key": weights}, meta={"NUM_STEPS_CURRENT_ROUND": 6}))
'''

JOB = '''
import sys

import numpy as np
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe.sim_env import SimEnv

clients, rounds, threads, told, folder = sys.argv[1:]
recipe = NumpyFedAvgRecipe(name="rounds", model=np.zeros((785, 10)).tolist(), min_clients=int(clients), num_rounds=int(rounds),
                           train_script="train.py", train_args=told)
recipe.execute(SimEnv(num_clients=int(clients), num_threads=int(threads), workspace_root=folder)).get_result()
'''


def rounds_of(python, clients, threads, rounds):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("train.py", TRAIN), ("job.py", JOB)):
            pathlib.Path(folder, name).write_text(text.lstrip())
        told = f"{folder}/told"
        done = subprocess.run([python, "job.py", str(clients), str(rounds + 1), str(threads), told, f"{folder}/work"], cwd=folder,
                              capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "HOME": folder})
        if done.returncode != 0 or not os.path.exists(told):
            sys.exit(f"NVFlare failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        begins = [float(line) for line in pathlib.Path(told).read_text().split()]
    return [after - before for before, after in zip(begins, begins[1:])][1 if len(begins) > 2 else 0:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvflare", required=True, help="an interpreter that has nvflare and numpy")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--threads", type=int, nargs="+", default=[10, 2])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for threads in options.threads:
        seconds = rounds_of(options.nvflare, options.clients, threads, options.rounds)
        print(f"NVFlare, {options.clients} clients on {threads} threads: {statistics.median(seconds):.2f} s a round "
              f"(median of {', '.join(format(each, '.2f') for each in seconds)})", flush=True)


if __name__ == "__main__":
    main()
