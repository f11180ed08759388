#!/usr/bin/env python3
"""What a simulation of very many clients takes: 15 million with one record of 53 bytes each, of whom 1,000 train in each of
1,000 rounds. Says the largest RssAnon + RssShmem that was seen, sampled every 5 ms, how it went on from round to round, and the
seconds. Writes 0.8 GB of records to a temporary folder.

    scripts/many_clients.py [--clients 15000000] [--rounds 1000] [--rivulet build/release/rivulet]
    scripts/many_clients.py --states [--clients 1000000] [--folder DIR]

--states: 10,000 a round take part in turns until each has once, and each keeps SCAFFOLD's control variate on the disk from then on. Says how
many states there are in the end, and what they take there.
"""
import argparse
import os
import pathlib
import re
import statistics
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
input_feature = "x"
partition = {{ kind = "iid", clients = {clients} }}
[server]
clients_per_round = {cohort}
{keeps}
[evaluation]
every = 0
[[model.layers]]
type = "dense"
units = 2
"""

KEEPS = """
[selection]
name = "round_robin"
[algorithm]
name = "scaffold"
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
    parser.add_argument("--clients", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--states", action="store_true", help="clients that keep something")
    parser.add_argument("--folder", help="where the temporary folder is made: states take 4 KB each there, or what a file takes")
    parser.add_argument("--rivulet", default=str(ROOT / "build/release/rivulet"))
    options = parser.parse_args()
    cohort = 10_000 if options.states else 1000
    clients = options.clients or (1_000_000 if options.states else 15_000_000)
    rounds = options.rounds or (clients // cohort if options.states else 1000)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        size = write_records(folder, clients)
        (folder / "many.toml").write_text(SCENARIO.format(rounds=rounds, clients=clients, cohort=cohort, keeps=KEEPS if options.states else ""))
        begin, seen = time.monotonic(), []
        process = subprocess.Popen([os.path.abspath(options.rivulet), "simulate", "many.toml", "--quiet"], cwd=folder, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            try:
                seen.append(kilobytes(process) / 1024)
            except (OSError, TypeError):  # it has just ended
                pass
            time.sleep(0.005)
        seconds = time.monotonic() - begin
        kept = [file.stat() for file in folder.rglob("*") if "state" in file.relative_to(folder).parts and file.is_file()]
    if process.returncode != 0:
        sys.exit(f"the simulation ended with {process.returncode}")
    tenths = ", ".join(f"{seen[len(seen) * part // 10 - 1]:.0f}" for part in range(1, 11))
    print(f"{clients} clients with a record of {size} bytes each, {rounds} rounds of {cohort}: {seconds:.1f} s, at most "
          f"{max(seen):.0f} MiB; after each tenth of the time {tenths}")
    if options.states:
        on_disk = sum(file.st_blocks for file in kept) * 512
        print(f"{len(kept)} states of {statistics.median(file.st_size for file in kept)} bytes, {on_disk / 1e9:.2f} GB on the disk; the processor "
              f"took {sum(os.times()[2:4]):.1f} s")


if __name__ == "__main__":
    main()
