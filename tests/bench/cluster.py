"""./bench.sh --cluster: what graphs over several processes cost on this machine, beside gRPC alone and TensorFlow's tasks in the same run.
A row a line; those with a mark say what it is and whether it is reached. All ends share the machine's cores: of these figures the shares
count. TensorFlow's rows want a Python that has it: --tensorflow PYTHON. Its sessions drive both kinds of tasks there (cluster_peer.py).
`--quick` takes few turns, to see that all of it works."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("RIVULET_BUILD", ROOT / "build/release"))
SMALL, LARGE = 6_650_000, 665_000_000


def row(what, *figures, mark=None, reached=None):
    words = [f"{what:<40}", *figures]
    if mark:
        words.append(f"(mark {mark}: {'reached' if reached else 'not reached'})")
    print("  ".join(words), flush=True)


class Processes:
    def __init__(self):
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def start(self, *words):
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True)
        self.processes.append(process)
        return process

    def first_line(self, *words):
        line = self.start(*words).stdout.readline()
        if not line:
            sys.exit(f"{words[0]} {words[1]} has ended")
        return line.strip()


def addresses(count):
    """Of ports that nobody else is given: their sockets stay bound."""
    sockets = [socket.socket() for _ in range(count)]
    for reserved in sockets:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
    return [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in sockets], sockets


def load(*words):
    done = subprocess.run([BUILD / "cluster_load", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def beside_grpc(processes, quick):
    bare = processes.first_line(BUILD / "cluster_load", "bare")
    (first, second), _sockets = addresses(2)
    for task in range(2):
        processes.first_line(BUILD / "rivulet", "graph", "worker", "--cluster", f"worker={first},{second}", "--job", "worker", "--task", task,
                             "--insecure", "--transfers-mb", 1500)
    for line in load("steps", bare, f"grpc://{first}"):
        ratio = line["step_us"] / line["bare_call_us"]
        row("step of nothing over two tasks", f"{line['step_us'] / 1e3:.3f} ms, a call of gRPC alone {line['bare_call_us'] / 1e3:.3f}, ratio "
            f"{ratio:.2f}", mark="2.5 and 0.5 ms", reached=ratio <= 2.5 and line["step_us"] <= 500)
    for line in load("calls", bare, first, SMALL, *([] if quick else [LARGE])):
        share = min(line["share_of_bare_message"], line["share_of_bare_pieces"])
        row(f"RecvTensor, {line['bytes'] / 1e6:g} MB", f"{line['bytes'] / line['recv_tensor_us'] / 1e3:.2f} GB/s, gRPC alone "
            f"{line['bytes'] / line['bare_message_us'] / 1e3:.2f} in one message, {line['bytes'] / line['bare_pieces_us'] / 1e3:.2f} in pieces, "
            f"share of the better {share:.2f}", mark="0.75", reached=share >= 0.75)


class Tasks:
    """A parameter server and two workers, and a driver of each worker."""

    def __init__(self, processes, python, ours):
        self.ours = ours
        (ps, *workers), self.sockets = addresses(3)
        cluster = f"ps={ps};worker={','.join(workers)}"
        peer = ROOT / "tests/bench/cluster_peer.py"
        for job, task in (("ps", 0), ("worker", 0), ("worker", 1)):
            if ours:
                processes.first_line(BUILD / "rivulet", "graph", "worker", "--cluster", cluster, "--job", job, "--task", task, "--insecure",
                                     "--transfers-mb", 1500)
            else:
                processes.first_line(python, peer, "serve", cluster, job, task)
        self.drivers = [processes.start(python, peer, "drive", f"grpc://{address}", worker) for worker, address in enumerate(workers)]
        for driver in self.drivers:
            driver.stdout.readline()

    def ask(self, line, drivers=1):
        """Of the first drivers, all at once."""
        for driver in self.drivers[:drivers]:
            driver.stdin.write(line + "\n")
            driver.stdin.flush()
        answers = [driver.stdout.readline() for driver in self.drivers[:drivers]]
        if not all(answers):
            sys.exit(f"a driver of {'our' if self.ours else 'TensorFlow'} tasks has ended at '{line}'")
        return [json.loads(answer) for answer in answers]


def beside_tensorflow(processes, python, quick):
    sides = [Tasks(processes, python, ours) for ours in (True, False)]
    turns = 1 if quick else 3
    moves = [("step of nothing, TensorFlow's session", "nothing 300")]
    moves += [(f"step that moves {size / 1e6:g} MB", f"move {size} {20 if size == SMALL else 3}") for size in ([SMALL] if quick else [SMALL, LARGE])]
    for what, line in moves:
        times = [[side.ask(line)[0]["us"] for side in sides] for _ in range(turns)]
        ours, theirs = (statistics.median(each) for each in zip(*times))
        ratio = statistics.median(b / a for a, b in times)
        row(what, f"{ours / 1e3:.3f} ms, TensorFlow's tasks {theirs / 1e3:.3f}, {ratio:.2f} times as fast")
    for side in sides:
        side.ask("train 5")  # worker 0 initialises
        side.ask("train 5", drivers=2)
    steps = 5 if quick else 40
    rates = []
    for _ in range(turns):
        rates.append([2 * steps / max(answer["seconds"] for answer in side.ask(f"train {steps}", drivers=2)) for side in sides])
    ours, theirs = (statistics.median(each) for each in zip(*rates))
    ratio = statistics.median(a / b for a, b in rates)
    losses = [side.ask("train 1")[0]["last"] for side in sides]
    row("parameter server, mnist_cnn, 2 workers", f"{ours:.1f} steps/s, TensorFlow's tasks {theirs:.1f}, {ratio:.2f} times as many; losses "
        f"{losses[0]:.3f}, {losses[1]:.3f}", mark="1.5", reached=ratio >= 1.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorflow", metavar="PYTHON", help="compare with the TensorFlow of this Python")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    with Processes() as processes:
        beside_grpc(processes, arguments.quick)
    if arguments.tensorflow:
        with Processes() as processes:
            beside_tensorflow(processes, arguments.tensorflow, arguments.quick)


if __name__ == "__main__":
    main()
