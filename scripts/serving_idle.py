#!/usr/bin/env python3
"""What an idle model server costs a run that trains into the same history: runs with and without `rivulet serve` beside them, in
turns: the median ratio of their times, and the processor time of the server meanwhile. docs/internals/results.md has the figure. Wants a built tree.

  scripts/serving_idle.py [--pairs 9] [--rounds 20] [--program build/release/rivulet]"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

SCENARIO = """
[run]
name = "beside"
rounds = {rounds}
seed = 7
keep_models = "all"
[model]
preset = "mnist_cnn"
[data]
train = "data/train.tfrecord"
test = "data/test.tfrecord"
synth = {{ kind = "digits", writers = 40, test_writers = 4, examples_per_writer = 20, seed = 3 }}
partition = {{ kind = "iid", clients = 20 }}
[client]
batch_size = 10
optimizer = {{ kind = "sgd", learning_rate = 0.1 }}
[server]
clients_per_round = 5
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--program", default="build/release/rivulet")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "beside.toml").write_text(SCENARIO.format(rounds=arguments.rounds))

        def call(*words):
            subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def train():
            begin = time.monotonic()
            call("simulate", "beside.toml")
            return time.monotonic() - begin

        def processor_time(process):
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        train()
        call("model", "point", "digits", "latest")
        times, used = {"alone": [], "beside a server": []}, 0
        for pair in range(arguments.pairs):
            # Who is first changes, so that a machine that becomes slower or faster favours neither.
            for name in sorted(times, reverse=pair % 2 == 1):
                server = None
                if name != "alone":
                    server = subprocess.Popen([program, "serve", "--model", "digits", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
                                               "--insecure"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                    server.stdout.readline()
                    used -= processor_time(server)
                times[name].append(train())
                if server is not None:
                    used += processor_time(server)
                    server.terminate()
                    server.communicate()
        for name, taken in times.items():
            print(f"{name}: median {statistics.median(taken):.3f} s of {', '.join(f'{t:.3f}' for t in sorted(taken))}")
        print(f"the server's processor time: {100 * used / sum(times['beside a server']):.2f} % of a core")
        ratios = [beside / alone for alone, beside in zip(times["alone"], times["beside a server"])]
        print(f"beside a server over alone: median of {len(ratios)} pairs {statistics.median(ratios):.4f}")


if __name__ == "__main__":
    main()
