#!/usr/bin/env python3
"""Whole programs that train on MNIST: `rivulet simulate` beside the loop that one would write in PyTorch
(simulations/papers/fedavg_torch.py), in turns, on one thread each: by the clock and by the processor, of which other work takes
nothing. Start, reading the data and evaluating are part of both; ours keeps, checks and signs what it does besides.

    whole_runs.py --mnist IDX_FOLDER --data TFRECORD_FOLDER --torch PYTHON [--rows logistic 2nn cnn] [--turns 3] [--rivulet FILE]

IDX_FOLDER has MNIST's files, TFRECORD_FOLDER what `rivulet data import mnist --from IDX_FOLDER --out TFRECORD_FOLDER` made of them;
PYTHON is an interpreter with torch and numpy.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]

# A scenario's name, how many rounds of it, and what the loop is told to do the same.
ROWS = {
    "logistic": ("mnist-logistic", 100, ["--model", "logistic", "--clients", 1000, "--rate", 0.03, "--every", 20]),
    "2nn": ("mnist-2nn", 20, ["--model", "2nn", "--rate", 0.1]),
    "cnn": ("mnist-fedavg", 3, ["--model", "cnn", "--rate", 0.215]),
}


def timed(command):
    """Seconds by the clock, and of the processor."""
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    after = os.times()
    return time.perf_counter() - begin, after.children_user + after.children_system - before.children_user - before.children_system


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", required=True, help="the folder of MNIST's own files")
    parser.add_argument("--data", required=True, help="the folder of train.tfrecord and test.tfrecord")
    parser.add_argument("--torch", required=True, help="an interpreter that has torch and numpy")
    parser.add_argument("--rivulet", default=ROOT / "build/release/rivulet")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    data = pathlib.Path(options.data).resolve()
    print("row       rounds  rivulet: s, of the processor  PyTorch loop: s, of the processor  times as long, of the processor")
    for row in options.rows:
        scenario, rounds, loop = ROWS[row]
        ours, theirs = [], []
        for turn in range(options.turns):
            with tempfile.TemporaryDirectory() as folder:
                ours.append(timed([options.rivulet, "simulate", ROOT / f"simulations/scenarios/{scenario}.toml", "--rounds", rounds, "--workers", 1,
                                   "--db", f"{folder}/runs.sqlite", "--set", f"data.train={data}/train.tfrecord", "--set",
                                   f"data.test={data}/test.tfrecord"]))
            theirs.append(timed([options.torch, ROOT / "simulations/papers/fedavg_torch.py", "--data", options.mnist, "--rounds", rounds,
                                 "--target", 2, *loop]))
        (our_clock, our_processor), (clock, processor) = ([statistics.median(times) for times in zip(*side)] for side in (ours, theirs))
        print(f"{row:<9} {rounds:>6}  {our_clock:>10.2f} {our_processor:>18.2f}  {clock:>15.2f} {processor:>18.2f}  "
              f"{clock / our_clock:>13.2f} {processor / our_processor:>17.2f}", flush=True)


if __name__ == "__main__":
    main()
