"""./bench.sh --large-model: rounds of a large model whose clients change nothing, so that only the exchange costs something.

A coordinator and clients in Python, each a process, in plaintext over loopback. Memory is the peak of anonymous and shared resident
memory, in multiples of the model, without pages of mapped files; a client's is counted from what Python and gRPC take before it joins.
Both ends share the machine's cores: of the seconds the ratio to bare gRPC counts, which moves the same bytes before and after."""

import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("RIVULET_BUILD", ROOT / "build/release"))
sys.path.insert(0, str(ROOT / "python"))
import rivulet  # noqa: E402

MOST_COORDINATOR = {"memory": 3.5, "disk": 2.3}
MOST_CLIENT, MOST_TIME = 3.0, 2.0
TENSORS = 24
SECONDS = 1_800  # after which a run has failed

SCENARIO = """
[run]
name = "large"
rounds = {rounds}

[model]
arrays = "first.safetensors"

[data]
partition = {{ clients = {clients} }}

[server]
clients_per_round = {clients}
partial = "{partial}"
"""

CLIENT = """
import json, pathlib, resource, sys
import rivulet

def anonymous():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))

class Same(rivulet.Client):
    examples = 10
    def fit(self, params, context):
        return rivulet.Params(params, examples=10, metrics={"train_loss": 1.0})

rivulet.Client  # all is loaded
print(anonymous(), flush=True)
rivulet.run_client(Same(), sys.argv[1], name=sys.argv[2])
"""


def row(what, *figures, mark=None, reached=None):
    words = [f"{what:<34}", *figures]
    if mark:
        words.append(f"(mark {mark}: {'reached' if reached else 'not reached'})")
    print("  ".join(words), flush=True)


def bare(clients, size):
    """Seconds that gRPC takes for the bytes of a round."""
    server = subprocess.Popen([BUILD / "deploy_load", "serve", "bare"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = server.stdout.readline().strip()
    words = [BUILD / "deploy_load", "exchange", port, str(clients), str(size)]
    done = json.loads(subprocess.run(words, check=True, capture_output=True, text=True, timeout=SECONDS).stdout)
    server.stdin.close()
    server.wait()
    if done["failed"]:
        sys.exit(f"bare gRPC: {done['failed']} of {clients} clients failed")
    return done["seconds"]


def anonymous(process):
    """Bytes of anonymous and shared resident memory of a process, 0 of one that has ended."""
    try:
        lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def processor(process):
    """(user, system) seconds of a process that runs, or nothing."""
    try:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return None
    return tuple(int(each) / os.sysconf("SC_CLK_TCK") for each in fields[11:13])


def seconds_of_rounds(db):
    columns = "SELECT round, julianday(finished_at) - julianday(started_at) FROM rounds WHERE status = 'committed' ORDER BY round"
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as history:
        return [86_400 * seconds for _, seconds in history.execute(columns)]


def exchange(folder, size, clients, rounds, partial):
    values = np.random.default_rng(0).standard_normal(size // 4 // TENSORS, dtype=np.float32)
    rivulet.save_safetensors(folder / "first.safetensors", {f"layer_{i}": values for i in range(TENSORS)})
    (folder / "large.toml").write_text(SCENARIO.format(rounds=rounds, clients=clients, partial=partial))
    (folder / "client.py").write_text(CLIENT)
    words = [BUILD / "rivulet", "coordinator", "large.toml", "--listen", "127.0.0.1:0", "--insecure", "--db", "runs.sqlite"]
    with open(folder / "coordinator.err", "w") as errors:
        coordinator = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
    said = coordinator.stdout.readline().split()
    if not said:
        sys.exit((folder / "coordinator.err").read_text())
    address = said[-1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "RIVULET": str(BUILD / "rivulet")}
    joined = [
        subprocess.Popen(
            [sys.executable, "client.py", address, f"client-{i}"], cwd=folder, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        for i in range(clients)
    ]
    loaded = [1024 * int(client.stdout.readline()) for client in joined]
    watched = [coordinator, *joined]
    peaks, used, began = [0] * len(watched), (0.0, 0.0), time.monotonic()
    while coordinator.poll() is None:
        peaks = [max(peak, anonymous(process)) for peak, process in zip(peaks, watched)]
        used = processor(coordinator) or used
        if time.monotonic() - began > SECONDS:
            coordinator.kill()
        time.sleep(0.02)
    for client in joined:
        client.wait(timeout=60)
    if coordinator.returncode != 0:
        sys.exit((folder / "coordinator.err").read_text())
    of_clients = [(peak - before) / size for peak, before in zip(peaks[1:], loaded)]
    return seconds_of_rounds(folder / "runs.sqlite"), used, peaks[0] / size, max(of_clients)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--megabytes", type=int, default=756)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--partial", choices=MOST_COORDINATOR, default="memory", help="server.partial: where the coordinator's sums are")
    parser.add_argument("--folder", help="where the models are written [a temporary folder]")
    options = parser.parse_args()
    size = options.megabytes * 1_000_000 // 4 // TENSORS * TENSORS * 4
    row("model", f"{size / 1e6:.0f} MB float32, {options.clients} clients, {options.rounds} rounds")
    before = bare(options.clients, size)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        seconds, (user, system), coordinator, client = exchange(folder, size, options.clients, options.rounds, options.partial)
    ruler = statistics.mean((before, bare(options.clients, size)))
    most = MOST_COORDINATOR[options.partial]
    usual = statistics.median(seconds[1:] or seconds)
    row("seconds a round", " ".join(f"{each:.1f}" for each in seconds))
    row("bare gRPC, the same bytes", f"{ruler:.1f} s")
    row("round, over bare gRPC", f"{usual / ruler:.2f}", mark=MOST_TIME, reached=usual <= MOST_TIME * ruler)
    row("coordinator's memory", f"{coordinator:.2f} models", mark=most, reached=coordinator <= most)
    row("a client's memory", f"{client:.2f} models", mark=MOST_CLIENT, reached=client <= MOST_CLIENT)
    row("coordinator's processor time", f"{user + system:.1f} s", f"{100 * system / max(user + system, 1e-9):.0f} % in the kernel")


if __name__ == "__main__":
    main()
