#!/usr/bin/env python3
"""Rivulet beside other simulators and bare loops, one table in one run: the same models, clients, cohorts and batches, on the same
cores, each program by itself, in turns.

    side_by_side.py install --peers FOLDER [--only NAME …]
        makes an environment for each peer from the package index (FOLDER/NAME) and says how that came out
    side_by_side.py run --peers FOLDER --mnist IDX_FOLDER [--rows …] [--only NAME …] [--turns 1] [--cores 2] [--rivulet FILE]
        the rows, with whatever is installed; IDX_FOLDER has MNIST's four files, raw or .gz

| row | model | clients × examples | a round | what is told |
| logistic | logistic regression on MNIST | 1,000 × 60 | 10 clients, batches of 10 | 100 rounds, five evaluations: the whole program |
| cnn | FedAvg's CNN on MNIST | 100 × 600 | 10 clients, batches of 10, and the test set | s a round |
| 2nn | 784-200-200-10, random pixels | 10,000 × 6 | 1,000 clients, one step each | s a round |
| cifar | pfl-research's CIFAR-10 benchmark, random pixels | 1,000 × 50 | 50 clients, batches of 10 | s a round |
| deployed | logistic regression and the CNN, random digits | 10 in processes of their own | all | s a round (deployed_rounds.py) |

A round's seconds are the median of all but the first, which compiles and warms up; "whole" is the program from its start to its end,
"processor" what it and all that it started took of the processor. Ours come from its history, with what it checks, folds, signs and
stores; frameworks/ has the others. A program that fails is told with its last line, and the rest goes on.
"""
import argparse
import ctypes
import gzip
import json
import os
import pathlib
import resource
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE / "gpu")]

import deployed_rounds  # noqa: E402
import works  # noqa: E402

# What pip is asked for, and whether PyTorch comes from the environment `torch` (several gigabytes, once).
ENVIRONMENTS = {
    "torch": (("torch", "numpy"), False),
    "jax": (("jax", "numpy"), False),
    "pfl": (("pfl",), True),
    "flower": (("flwr[simulation]",), True),
    "fedlab": (("fedlab",), True),
    "fedml": (("fedml", "setuptools<81"), True),  # it imports pkg_resources
    "fedjax": (("fedjax", "dm-haiku==0.0.10", "jax==0.4.19", "jaxlib==0.4.19", "numpy<2", "scipy<1.13"), False),  # what it was made with, in 2023
    "nvflare": (("nvflare", "numpy"), False),
    "blazefl": (("blazefl", "numpy"), False),  # by the newest Python there is: it wants 3.12 at least
    "flute": (("msrflute",), False),
}
# Who runs a row, by which environment's interpreter.
PEERS = {"numpy": "torch", "torch": "torch", "jax": "jax", "pfl": "pfl", "fedlab": "fedlab", "fedml": "fedml", "fedjax": "fedjax",
         "flower": "flower", "blazefl": "blazefl"}
ROWS = {
    "logistic": ("numpy", "torch", "jax", "pfl", "fedlab", "fedml", "fedjax", "blazefl", "flower"),
    "cnn": ("torch", "pfl", "flower", "fedlab", "fedml", "blazefl", "fedjax"),
    "2nn": ("numpy", "torch", "jax", "pfl", "fedlab", "fedjax", "flower"),
    "cifar": ("torch", "pfl", "flower"),
    "deployed": ("flower", "nvflare"),
}

# Ours of each row: the preset, clients, cohort, batch, rate, rounds, and the rounds between evaluations, as in frameworks/rows.py.
SCENARIO = """
[model]
preset = "{preset}"
[data]
train = "{folder}/train.tfrecord"
test = "{folder}/test.tfrecord"
partition = {{ kind = "iid", clients = {clients} }}
[client]
batch_size = {batch}
optimizer = {{ learning_rate = {rate} }}
[server]
clients_per_round = {cohort}
[evaluation]
every = {every}
"""
OURS = {
    "logistic": dict(preset="logistic_regression", clients=1000, cohort=10, batch=10, rate=0.03, rounds=100, every=20),
    "cnn": dict(preset="mnist_cnn", clients=100, cohort=10, batch=10, rate=0.215, rounds=4, every=1),
    "2nn": dict(preset="mlp", clients=10_000, cohort=1000, batch=6, rate=0.1, rounds=8, every=0),
    "cifar": dict(preset="cifar_cnn", clients=1000, cohort=50, batch=10, rate=0.1, rounds=4, every=0),
}


# ---- environments ---------------------------------------------------------------------------------------------------


def install(options):
    options.peers.mkdir(parents=True, exist_ok=True)
    beside = None
    for name, (packages, with_torch) in ENVIRONMENTS.items():
        if options.only and name not in options.only:
            continue
        folder = options.peers / name
        newest = next(filter(None, map(shutil.which, ("python3.14", "python3.13", "python3.12"))), sys.executable)
        subprocess.run([newest if name == "blazefl" else sys.executable, "-m", "venv", str(folder)], check=True)
        site = next((folder / "lib").glob("python*")) / "site-packages"
        if with_torch:
            beside = beside or next((options.peers / "torch/lib").glob("python*")) / "site-packages"
            (site / "torch-beside.pth").write_text(f"{beside}\n")
        done = subprocess.run([str(folder / "bin/pip"), "install", "--quiet", "--no-cache-dir", *packages], capture_output=True, text=True)
        last = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        got = subprocess.run([str(folder / "bin/pip"), "list", "--format=freeze"], capture_output=True, text=True).stdout.splitlines()
        wanted = packages[0].split("[")[0]
        version = next((line for line in got if line.lower().startswith(f"{wanted}==")), wanted)
        print(f"{name:9} {version if done.returncode == 0 else 'not installed: ' + (last or ['?'])[-1]}", flush=True)


# ---- data: what frameworks read, and the same as records --------------------------------------------------------------


def idx(folder, name):
    plain = folder / name
    raw = plain.read_bytes() if plain.exists() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    return raw[4 + 4 * raw[3]:]


def mnist(source, folder):
    for part, file in (("train", "train"), ("test", "t10k")):
        pixels, labels = idx(source, f"{file}-images-idx3-ubyte"), idx(source, f"{file}-labels-idx1-ubyte")
        works.write_npy(folder / f"x_{part}.npy", "|u1", (len(labels), 28, 28, 1), [pixels])
        works.write_npy(folder / f"y_{part}.npy", "<i8", (len(labels),), [struct.pack("<q", label) for label in labels])


def random_images(folder, side, channels, examples):
    work = {"side": side, "channels": channels, "classes": 10, "clients": 1, "size": works.even(examples), "tested": 1000}
    works.write_images(work, folder, False)


def prepare(row, options):
    """The folder of a row's arrays, with records beside them; made once. frameworks/rows.py has the names."""
    folder = options.data / {"2nn": "digits", "cifar": "cifar"}.get(row, "mnist")
    if (folder / "train.tfrecord").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if folder.name == "mnist":
        mnist(options.mnist, folder)
    else:
        random_images(folder, *((28, 1, 60_000) if row == "2nn" else (32, 3, 50_000)))
    subprocess.run([options.rivulet, "data", "import", "numpy", "--quiet", "--from", folder, "--out", folder], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


# ---- one program ------------------------------------------------------------------------------------------------------


def used():
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took.ru_utime + took.ru_stime


def reap():
    """Ends what a program left behind, so that its time counts and it does not run beside the next."""
    while True:
        try:
            gone, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if gone == 0:
            for child in pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            time.sleep(0.05)


def timed(command, environment, patience):
    """What it printed, seconds by the clock and of the processor; or why not."""
    before, began = used(), time.perf_counter()
    program = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **environment}, cwd=environment.get("HOME"), start_new_session=True)
    try:
        printed, errors = program.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate()
        reap()
        return f"not done after {patience:.0f} s"
    whole = time.perf_counter() - began
    reap()
    if program.returncode != 0:
        return (errors.strip().splitlines() or ["no word"])[-1][:160]
    return printed, whole, used() - before


def ours(row, options, folder):
    of = OURS[row]
    scenario = folder / f"{row}.toml"
    scenario.write_text(SCENARIO.format(folder=folder, **of))
    with tempfile.TemporaryDirectory() as temporary:
        history = f"{temporary}/runs.sqlite"
        done = timed([options.rivulet, "simulate", scenario, "--json", "--rounds", of["rounds"], "--workers", options.cores, "--db", history],
                     {}, options.patience)
        if isinstance(done, str):
            return done
        result = json.loads(done[0].strip().splitlines()[-1])
        seconds = works.rounds_of(history, "cifar")
    return {"rounds": [seconds[0], *seconds], "whole": done[1], "processor": done[2],
            "accuracy": result.get("test/accuracy") if of["every"] else None}


def theirs(peer, row, options):
    python = options.peers / PEERS[peer] / "bin/python"
    with tempfile.TemporaryDirectory() as home:
        environment = {"RIVULET_ROWS": str(options.data), "HOME": home, "OMP_NUM_THREADS": str(options.cores), "TF_CPP_MIN_LOG_LEVEL": "3",
                       "OPENBLAS_NUM_THREADS": str(options.cores), "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0",
                       "PYTHONPATH": str(HERE / "frameworks"), "PYTHONPYCACHEPREFIX": str(options.data / "compiled"),
                       "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
        done = timed([python, HERE / f"frameworks/by_{peer}.py", row], environment, options.patience)
    if isinstance(done, str):
        return done
    told = [line for line in done[0].splitlines() if line.startswith('{"rounds"')]  # a framework may have words of its own around it
    if not told:
        return "it told nothing"
    return {**json.loads(told[-1]), "whole": done[1], "processor": done[2]}


# ---- the table --------------------------------------------------------------------------------------------------------


def tell(row, found):
    """A line for each; `found` has what came of each turn, or why nothing did."""
    whole_counts = row == "logistic"

    def figure(name):
        turns = [turn for turn in found[name] if isinstance(turn, dict)]
        if not turns:
            return None
        if whole_counts:
            return statistics.median(turn["whole"] for turn in turns)
        return statistics.median(seconds for turn in turns for seconds in turn["rounds"][1:])

    def processor(name):
        return statistics.median(turn["processor"] for turn in found[name] if isinstance(turn, dict))

    own = figure("rivulet")
    for name, turns in found.items():
        good = [turn for turn in turns if isinstance(turn, dict)]
        if not good:
            print(f"| {row} | {name} | {turns[-1]} | | | | | |", flush=True)
            continue
        rounds = statistics.median(sum(turn["rounds"]) for turn in good) if whole_counts else figure(name)
        accuracy = good[-1].get("accuracy")
        times = (figure(name) / own, processor(name) / processor("rivulet")) if own and name != "rivulet" else ()
        clock, used_up = (format(each, ".2f") for each in times) if times else ("", "")
        print(f"| {row} | {name} | {rounds:.3g} | {clock} | {statistics.median(turn['whole'] for turn in good):.2f} | {processor(name):.2f} | "
              f"{used_up} | {'' if accuracy is None else format(accuracy, '.4f')} |", flush=True)


def deployed(options):
    """Ours simulated and deployed, Flower deployed as its defaults do it, NVFlare in its simulator: s a round."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for row in deployed_rounds.ROWS:
            seconds = {}
            for _ in range(options.turns):
                for command in ("simulate", "up"):
                    seconds.setdefault(command, []).extend(deployed_rounds.our_rounds(options.rivulet, command, row, 8, folder))
            simulated, up = (statistics.median(seconds[command]) for command in ("simulate", "up"))
            print(f"| deployed, {row} | rivulet | {up:.4g} | {up / simulated:.2f} of simulated, {simulated:.4g} | | | | |", flush=True)
            if row == "logistic" and "flower" in options.asked and (options.peers / "flower").exists():
                try:
                    rounds = deployed_rounds.flower_rounds(options.peers / "flower/bin/python", 2, folder, options.patience)
                except SystemExit as failed:
                    last = (str(failed).splitlines() or ["no word"])[-1]
                    print(f"| deployed, {row} | flower | {last[:160]} | | | | | |", flush=True)
                    continue
                if rounds:
                    each = statistics.median(rounds)
                    print(f"| deployed, {row} | flower | {each:.4g} | {each / up:.0f} | | | | |", flush=True)
    if "nvflare" in options.asked and (options.peers / "nvflare").exists():
        done = subprocess.run([sys.executable, HERE / "nvflare_rounds.py", "--nvflare", options.peers / "nvflare/bin/python", "--threads", "10",
                               "--rounds", "3"], capture_output=True, text=True)
        last = (done.stdout.strip() or done.stderr.strip() or "no word").splitlines()[-1]
        print(f"| deployed, logistic | nvflare | {last[:160]} | | | | | |", flush=True)


def run(options):
    if options.mnist is None and {"logistic", "cnn"} & set(options.rows):
        sys.exit("side_by_side.py: --mnist FOLDER of MNIST's files, for the rows logistic and cnn")
    options.rivulet = str(pathlib.Path(options.rivulet).resolve())
    options.peers, options.data = options.peers.resolve(), (options.data or options.peers / "data").resolve()
    options.asked = options.only or list(ENVIRONMENTS) + ["numpy"]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.cores])
    options.cores = len(os.sched_getaffinity(0))
    set_subreaper = 36  # of prctl: whoever is left behind by a program becomes this process's child
    ctypes.CDLL(None).prctl(set_subreaper, 1, 0, 0, 0)
    print(f"{options.cores} cores, {options.turns} turns; s a round, of logistic s of all rounds; times: a peer's over ours, of logistic the whole "
          "program's\n")
    print("| row | who | s | times | whole, s | processor, s | times | accuracy |\n" + "| --- " * 8 + "|", flush=True)
    for row in options.rows:
        if row == "deployed":
            deployed(options)
            continue
        folder = prepare(row, options)
        found = {}
        for _ in range(options.turns):
            found.setdefault("rivulet", []).append(ours(row, options, folder))
            for peer in ROWS[row]:
                if peer in options.asked and (options.peers / PEERS[peer]).exists():
                    found.setdefault(peer, []).append(theirs(peer, row, options))
        tell(row, found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in (("install", "environments"), ("run", "the table")):
        each = commands.add_parser(name, help=about)
        each.add_argument("--peers", type=pathlib.Path, required=True, help="the folder of the environments")
        each.add_argument("--only", nargs="+", choices=[*ENVIRONMENTS, "numpy"], help="these peers alone")
        if name == "run":
            each.add_argument("--mnist", type=pathlib.Path, help="the folder of MNIST's own files")
            each.add_argument("--data", type=pathlib.Path, help="where data are prepared, once [FOLDER/data]")
            each.add_argument("--rivulet", default=str(ROOT / "build/release/rivulet"))
            each.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
            each.add_argument("--turns", type=int, default=1)
            each.add_argument("--cores", type=int, default=2)
            each.add_argument("--patience", type=float, default=300, help="seconds, after which a program is ended")
    options = parser.parse_args()
    {"install": install, "run": run}[options.command](options)


if __name__ == "__main__":
    main()
