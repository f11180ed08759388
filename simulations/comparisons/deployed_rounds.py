#!/usr/bin/env python3
"""A round with ten clients in processes of their own: `rivulet up` beside `rivulet simulate` of the same scenario, with the
FedAvg CNN (600 images a client, batches of 10) and with logistic regression (60 images a client), and Flower as its defaults
deploy it: a SuperLink, ten SuperNodes, and an app that trains logistic regression in NumPy.

    deployed_rounds.py [--rivulet FILE] [--flower PYTHON] [--rows logistic cnn] [--rounds 10] [--turns 3] [--flower-rounds 2]

PYTHON is an interpreter with flwr and NumPy. Everything runs on the same cores (--cores). Seconds are of a round: ours from one
commit to the next, by the history; Flower's from one aggregation to the next, as its strategy sees them. Nothing is evaluated.
"""
import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent / "gpu"))

import works  # noqa: E402

CLIENTS = 10
# A preset, and the images of each client.
ROWS = {"logistic": ("logistic_regression", 60), "cnn": ("mnist_cnn", 600)}

SCENARIO = """
[model]
preset = "{preset}"
[data]
synth = {{ kind = "digits", writers = {writers}, test_writers = 1, examples_per_writer = 60 }}
partition = {{ kind = "iid", clients = 10 }}
[client]
batch_size = 10
optimizer = {{ learning_rate = 0.03 }}
[server]
clients_per_round = 10
[evaluation]
every = 0
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def our_rounds(rivulet, command, row, rounds, folder):
    preset, images = ROWS[row]
    scenario = folder / f"{row}.toml"
    scenario.write_text(SCENARIO.format(preset=preset, writers=CLIENTS * images // 60))
    history = folder / f"{row}-{command}-{time.monotonic_ns()}.sqlite"
    options = ["--clients", str(CLIENTS)] if command == "up" else []
    subprocess.run([rivulet, command, scenario, "--quiet", "--rounds", str(rounds + 1), "--db", history, *options], check=True,
                   cwd=folder, stdout=subprocess.DEVNULL)
    return works.rounds_of(history, "cifar")


# ---- Flower ---------------------------------------------------------------------------------------------------------

FLOWER_APP = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "rounds"
        version = "1.0.0"
        license = "Apache-2.0"
        dependencies = []
        [tool.hatch.build.targets.wheel]
        packages = ["."]
        [tool.flwr.app]
        publisher = "comparison"
        [tool.flwr.app.components]
        serverapp = "rounds.server:app"
        clientapp = "rounds.client:app"
        [tool.flwr.app.config]
        num-server-rounds = 2
        told = ""
        """,
    "rounds/__init__.py": "",
    "rounds/client.py": """
        import numpy as np
        from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
        from flwr.clientapp import ClientApp

        IMAGES = 60
        app = ClientApp()

        @app.train()
        def train(message: Message, context: Context):
            draws = np.random.default_rng(int(context.node_config["partition-id"]))
            pixels = draws.random((IMAGES, 784), np.float32)
            labels = draws.integers(0, 10, IMAGES)
            kernel, bias = (array.copy() for array in message.content["arrays"].to_numpy_ndarrays())
            for begin in range(0, IMAGES, 10):
                batch = slice(begin, begin + 10)
                scores = pixels[batch] @ kernel + bias
                shares = np.exp(scores - scores.max(axis=1, keepdims=True))
                shares /= shares.sum(axis=1, keepdims=True)
                shares[np.arange(10), labels[batch]] -= 1
                kernel -= 0.003 * pixels[batch].T @ shares
                bias -= 0.003 * shares.sum(axis=0)
            content = {"arrays": ArrayRecord([kernel, bias]), "metrics": MetricRecord({"num-examples": IMAGES})}
            return Message(RecordDict(content), reply_to=message)
        """,
    "rounds/server.py": """
        import time

        import numpy as np
        from flwr.app import ArrayRecord, Context
        from flwr.serverapp import Grid, ServerApp
        from flwr.serverapp.strategy import FedAvg

        app = ServerApp()

        class Timed(FedAvg):
            def aggregate_train(self, server_round, replies):
                done = super().aggregate_train(server_round, replies)
                with open(self.told, "a") as file:
                    file.write(f"{time.time()}\\n")
                return done

        @app.main()
        def main(grid: Grid, context: Context):
            strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=10, min_available_nodes=10)
            strategy.told = context.run_config["told"]
            first = ArrayRecord([np.zeros((784, 10), np.float32), np.zeros(10, np.float32)])
            strategy.start(grid=grid, initial_arrays=first, num_rounds=context.run_config["num-server-rounds"])
        """,
}


def flower_rounds(python, rounds, folder, patience):
    """Seconds of each round; the first begins with the app's start, and is not among them."""
    programs = pathlib.Path(python).parent
    app, told = folder / "app", folder / f"told-{time.monotonic_ns()}"
    for name, text in FLOWER_APP.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(textwrap.dedent(text).lstrip())
    port = free_port()
    home = folder / "home"
    (home / ".flwr").mkdir(parents=True, exist_ok=True)
    (home / ".flwr/config.toml").write_text(f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    environment = {**os.environ, "HOME": str(home), "FLWR_HOME": str(home / ".flwr"), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1",
                   "PATH": f"{programs}:{os.environ['PATH']}"}
    log = open(folder / "flower.log", "ab")
    processes = []

    def start(*command):
        processes.append(subprocess.Popen([str(word) for word in command], env=environment, cwd=folder, stdout=log, stderr=log,
                                          start_new_session=True))

    try:
        start(programs / "flower-superlink", "--insecure", "--port", port, "--disable-runtime-dependency-installation")
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        for number in range(CLIENTS):
            start(programs / "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", free_port(), "--node-config",
                  f"partition-id={number} num-partitions={CLIENTS}")
        begun = subprocess.run([programs / "flwr", "run", app, "here", "--run-config", f"num-server-rounds={rounds + 1} told='{told}'"],
                               env=environment, cwd=folder, capture_output=True, text=True)
        if begun.returncode != 0:
            sys.exit(f"flwr run failed: {begun.stdout[-2000:]}{begun.stderr[-2000:]}")
        until = time.monotonic() + patience
        while time.monotonic() < until:
            ends = [float(line) for line in told.read_text().split()] if told.exists() else []
            if len(ends) == rounds + 1:
                break
            time.sleep(0.2)
        else:
            print(f"Flower: {len(ends)} of {rounds + 1} rounds in {patience} s; {folder}/flower.log", file=sys.stderr)
        return [after - before for before, after in zip(ends, ends[1:])]
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        log.close()


# ---- all of them in turns -------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivulet", default=str(ROOT / "build/release/rivulet"))
    parser.add_argument("--flower", help="an interpreter that has flwr and numpy")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--cores", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--flower-rounds", type=int, default=2)
    parser.add_argument("--flower-patience", type=float, default=180, help="seconds, after which what there is counts")
    parser.add_argument("--folder", help="where everything lies, and stays [a temporary one]")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.cores])
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.folder or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for _ in range(options.turns):
            for row in options.rows:
                for command in ("simulate", "up"):
                    found.setdefault((row, command), []).extend(our_rounds(options.rivulet, command, row, options.rounds, folder))
        if options.flower and "logistic" in options.rows:
            found["logistic", "flower"] = flower_rounds(options.flower, options.flower_rounds, folder, options.flower_patience)
    print(json.dumps({" ".join(key): [round(s, 4) for s in seconds] for key, seconds in found.items()}), file=sys.stderr)
    medians = {key: statistics.median(seconds) for key, seconds in found.items() if seconds}
    print(f"{options.cores} cores, medians of {options.rounds} rounds in each of {options.turns} turns, s a round")
    print(f"{'row':10}{'simulated':>12}{'deployed':>12}{'times':>8}{'Flower':>10}{'times':>8}")
    for row in options.rows:
        simulated, deployed, flower = medians[row, "simulate"], medians[row, "up"], medians.get((row, "flower"))
        theirs = f"{flower:10.2f}{flower / deployed:8.0f}" if flower else ""
        print(f"{row:10}{simulated:12.4f}{deployed:12.4f}{deployed / simulated:8.2f}{theirs}")


if __name__ == "__main__":
    main()
