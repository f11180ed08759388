#!/usr/bin/env python3
"""What a simulation of very many clients takes: 15 million with one record of 53 bytes each, of whom 1,000 train in each of
1,000 rounds. Says the largest RssAnon + RssShmem that was seen, sampled every 5 ms, how it went on from round to round, and the
seconds. Writes 0.8 GB of records to a temporary folder.

    scripts/many_clients.py [--clients 15000000] [--rounds 1000] [--rivulet build/release/rivulet]
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402
import rivulet  # noqa: E402

SCENARIO = """
[run]
rounds = {rounds}
[model]
input = {{ shape = [2], kind = "values" }}
[data]
train = "train.tfrecord"
image_feature = "x"
partition = {{ kind = "iid", clients = {clients} }}
[server]
clients_per_round = 1000
[evaluation]
every = 0
[[model.layers]]
type = "dense"
units = 2
"""


def write_records(folder, clients):
    examples = [{"x": np.array([value, 1], np.float32), "label": np.int64(value > 0)} for value in (0.5, -0.5, 0.7, -0.9)]
    rivulet.write_records(folder / "four", [rivulet.encode_example(example) for example in examples])
    four = (folder / "four").read_bytes()
    with open(folder / "train.tfrecord", "wb") as file:
        for begin in range(0, clients, 100_000):
            file.write((four * 25_000)[:len(four) // 4 * min(100_000, clients - begin)])
    return len(four) // 4


def kilobytes(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return sum(int(re.search(rf"{name}:\s+(\d+)", status)[1]) for name in ("RssAnon", "RssShmem"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=15_000_000)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--rivulet", default=str(ROOT / "build/release/rivulet"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        size = write_records(folder, options.clients)
        (folder / "many.toml").write_text(SCENARIO.format(rounds=options.rounds, clients=options.clients))
        begin, seen = time.monotonic(), []
        process = subprocess.Popen([os.path.abspath(options.rivulet), "simulate", "many.toml", "--quiet"], cwd=folder, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            try:
                seen.append(kilobytes(process) / 1024)
            except (OSError, TypeError):  # it has just ended
                pass
            time.sleep(0.005)
        seconds = time.monotonic() - begin
    if process.returncode != 0:
        sys.exit(f"the simulation ended with {process.returncode}")
    tenths = ", ".join(f"{seen[len(seen) * part // 10 - 1]:.0f}" for part in range(1, 11))
    print(f"{options.clients} clients with a record of {size} bytes each, {options.rounds} rounds of 1,000: {seconds:.1f} s, at most "
          f"{max(seen):.0f} MiB; after each tenth of the time {tenths}")


if __name__ == "__main__":
    main()
