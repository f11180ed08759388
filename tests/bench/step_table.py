#!/usr/bin/env python3
"""The training-step table: Rivulet, the machine's limit and PyTorch, measured in turns in one run on one thread.

    tests/bench/step_table.py [--rounds N] [--minutes M] [--seconds S] [--rows REGEX] [--torch PYTHON …]
                              [--ruler NAME=ROW=COMMAND …] [--profile] [--json FILE]

Each round times every row with build/release/rivulet_bench (./bench.sh builds it), with each PyTorch, and with each
ruler, one after the other, so that a machine that slows down slows all of them down. The figures are medians over the
rounds. --profile adds where each preset's step spends its time, and which share of the roofline it reaches there, as
`rivulet graph profile` has it.

--torch names a Python that has PyTorch (repeatable); without it every one of "/usr/bin/python3" and "python3" that has
it. A ruler is any program that times the same step and prints the milliseconds as its last number followed by "ms".
The limit is the step's arithmetic over the peak of float32 multiply-adds (depthwise rows: bytes over the speed of a
copy), both measured by rivulet_bench in the same round.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build/release"
BENCH = BUILD / "rivulet_bench"
ROW_PATTERN = "^(step|depthwise)/"
UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Peer:
    """A PyTorch that answers torch_peer.py's protocol."""

    def __init__(self, python):
        self.process = subprocess.Popen(
            [python, HERE / "torch_peer.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=ENVIRONMENT)
        first = self.process.stdout.readline()
        self.version = json.loads(first)["torch"] if first else None

    def time(self, row, seconds):
        self.process.stdin.write(f"{row} {seconds}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {}


def run_bench(pattern, seconds):
    """{row: (ms, {counter: value})} of one run of rivulet_bench."""
    output = subprocess.run(
        [BENCH, f"--benchmark_filter={pattern}", f"--benchmark_min_time={seconds}", "--benchmark_format=json"],
        capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout
    rows = {}
    for entry in json.loads(output)["benchmarks"]:
        if entry.get("error_occurred"):
            sys.exit(f"{entry['name']}: {entry['error_message']}")
        rows[entry["name"]] = (entry["real_time"] * UNITS[entry["time_unit"]], entry)
    return rows


def list_rows(pattern):
    listed = subprocess.run([BENCH, "--benchmark_list_tests=true", f"--benchmark_filter={pattern}"], capture_output=True,
                            text=True, check=True).stdout
    return listed.split()


def peers_of(pythons):
    if not pythons:
        pythons = []
        for python in ("/usr/bin/python3", "python3"):
            has = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0
            real = subprocess.run([python, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True,
                                  check=False).stdout
            if has and real not in [r for r, _ in pythons]:
                pythons.append((real, python))
        pythons = [python for _, python in pythons]
    peers = [Peer(python) for python in pythons]
    missing = [python for python, peer in zip(pythons, peers) if peer.version is None]
    if missing:
        sys.exit(f"{missing[0]} has no PyTorch; --torch names a Python that has it")
    return peers


def run_ruler(command):
    output = subprocess.run(command, shell=True, capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout
    found = re.findall(r"([0-9.]+) ?ms", output)
    return float(found[-1])


def limit_ms(ms, counters):
    """What the machine allows, from the shares that rivulet_bench reports."""
    for share in ("peak_share", "bandwidth_share"):
        if counters.get(share):
            return ms * counters[share]
    return None


def time_round(rows, peers, rulers, seconds, samples):
    for row in rows:
        ms, counters = run_bench(f"^{re.escape(row)}$", seconds)[row]
        samples[row, "rivulet"].append(ms)
        limit = limit_ms(ms, counters)
        if limit is not None:
            samples[row, "limit"].append(limit)
        for peer in peers:
            for variant, value in peer.time(row, seconds).items():
                samples[row, f"torch {peer.version} {variant}"].append(value)
        for name, ruled, command in rulers:
            if ruled == row:
                samples[row, name].append(run_ruler(command))


def profile_preset(row):
    """What `graph profile` says of a row step/PRESET/BATCH: the whole step's share of the roofline, and its ops by time."""
    _, preset, batch = row.split("/")
    output = subprocess.run([BUILD / "rivulet", "graph", "profile", preset, "--batch", batch, "--steps", "10", "--json"],
                            capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout
    ops = [op for op in json.loads(output)["ops"] if op["ms"] > 0]
    total = sum(op["ms"] for op in ops)
    return sum(op["ms"] * op["roofline_percent"] for op in ops) / total, sorted(ops, key=lambda op: -op["ms"])


def print_profiles(rows):
    print("\nOf the roofline, in percent; beside it the five ops that take most of the step, with their own shares.\n")
    print("| step | whole | ops |\n| --- | ---: | --- |")
    for row in rows:
        whole, ops = profile_preset(row)
        told = ", ".join(f"{op['op']} {op['percent']:.0f} % at {op['roofline_percent']:.0f}" for op in ops[:5])
        print(f"| {row} | {whole:.0f} | {told} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=0, metavar="M",
                        help="begin no round that would end later than this, going by the last one")
    parser.add_argument("--profile", action="store_true", help="also print shares of the roofline")
    parser.add_argument("--seconds", type=float, default=0.4, help="spent on each figure of each round")
    parser.add_argument("--rows", default=ROW_PATTERN)
    parser.add_argument("--torch", action="append", default=[], metavar="PYTHON")
    parser.add_argument("--ruler", action="append", default=[], metavar="NAME=ROW=COMMAND")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    if not BENCH.exists():
        sys.exit(f"{BENCH} is not there: ./bench.sh builds it")

    rows = list_rows(arguments.rows)
    peers = peers_of(arguments.torch)
    rulers = [ruler.split("=", 2) for ruler in arguments.ruler]
    samples = collections.defaultdict(list)  # (row, column) → values of the rounds
    begin = last = time.monotonic()
    for done in range(arguments.rounds):
        now = time.monotonic()
        if done > 0 and 0 < arguments.minutes * 60 < now - begin + (now - last):
            break
        last = now
        print(f"round {done + 1} of {arguments.rounds}", file=sys.stderr)
        time_round(rows, peers, rulers, arguments.seconds, samples)
    rounds = max(len(values) for values in samples.values())

    medians = {key: statistics.median(values) for key, values in samples.items()}
    print("Milliseconds on one thread, medians of", rounds, "rounds; in brackets how many times Rivulet's.\n")
    columns = ["limit"]
    for peer in peers:
        columns += [f"torch {peer.version} {v}" for v in ("eager", "channels_last", "compiled", "careful")]
    columns += [name for name, _, _ in rulers]
    columns = [c for c in dict.fromkeys(columns) if any((row, c) in medians for row in rows)]
    print("| step | Rivulet | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * (len(columns) + 1))
    for row in rows:
        ours = medians[row, "rivulet"]
        cells = [f"{medians[row, c]:.4g} ({medians[row, c] / ours:.2f})" if (row, c) in medians else "–" for c in columns]
        print(f"| {row} | {ours:.4g} | " + " | ".join(cells) + " |", flush=True)
    if arguments.profile:
        presets = [row for row in rows if row.startswith("step/") and not re.search("_(bf16|portable)/", row)]
        print_profiles(presets)
    if arguments.json:
        record = {row: {column: medians[row, column] for r, column in medians if r == row} for row in rows}
        pathlib.Path(arguments.json).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
