#!/usr/bin/env python3
"""What is measured on a GPU (docs/internals/gpu.md): the works of our own figures and of the peers', their data and scenarios, and
what a run's history and trace say of it. Needs nothing but Python.

    works.py prepare WORK --out FOLDER --rivulet PROGRAM [--small]   random data of its shape, and FOLDER/WORK.toml
    works.py rounds HISTORY WORK                                     the time of a round, by the history, as one line
    works.py fold TRACE WORK                                         the fold's share of what memory can move, by the trace

Data are random of those shapes, from a fixed seed; client sizes follow a stated law. --small is a hundredth of it, to see
that everything runs.
"""

import argparse
import datetime
import json
import math
import pathlib
import random
import sqlite3
import statistics
import struct
import subprocess
import sys


def lognormal(median, deviation):
    """The law of a work's client sizes, one of each."""
    return lambda draws: max(1, round(math.exp(draws.gauss(math.log(median), deviation))))


def even(count):
    return lambda draws: count


# `published`: what others wrote of the same work, with their device. `full`: rounds of the whole work, of which `rounds` are
# run here, the first `warm` of them not counted; equal: it is run in full.
WORKS = {
    "cifar": dict(side=32, channels=3, classes=10, clients=1000, cohort=50, batch=10, epochs=1, rate=0.1,
                  law="50 each", size=even(50), full=1500, rounds=1500, warm=0, goal_seconds=30, flop=423e12,
                  model=dict(preset="cifar_cnn"), evaluate=10, published="pfl-research on an A100: about 600 s"),
    "femnist": dict(side=28, channels=1, classes=62, clients=3400, cohort=10, batch=20, epochs=1, rate=0.1,
                    law="round(exp(N(5.2, 0.4²))), at least 1", size=lognormal(math.exp(5.2), 0.4), full=1500,
                    rounds=1500, warm=0, goal_seconds=30, flop=213e12, model=dict(preset="emnist_cnn"), evaluate=0,
                    published="FLUTE 502 s; FedML 20,992 s"),
    "resnet": dict(side=32, channels=3, classes=100, clients=500, cohort=10, batch=20, epochs=1, rate=0.1,
                   law="100 each", size=even(100), full=4000, rounds=55, warm=5, goal_seconds=600,
                   model=dict(layers="resnet18"), evaluate=0, published="FLUTE 6,121 s; FedML 57,336 s"),
    "shakespeare": dict(classes=90, clients=715, cohort=10, batch=4, epochs=1, rate=0.8,
                        law="round(exp(N(log 16, 0.8²))) windows of 80, at least 1", size=lognormal(16, 0.8), full=1200,
                        rounds=55, warm=5, goal_seconds=180, model=dict(preset="char_lstm"), evaluate=0,
                        published="FLUTE 1,310 s; FedML 24,381 s"),
    # One client at a time is the same with --lanes 1.
    "mcmahan": dict(side=28, channels=1, classes=10, clients=100, cohort=100, batch=10, epochs=5, rate=0.1,
                    law="600 each", size=even(600), full=6, rounds=6, warm=1, goal_seconds=None,
                    model=dict(preset="mnist_cnn"), evaluate=0, published=""),
    # A thousand updates a round, with as little training as there can be.
    "fold": dict(side=28, channels=1, classes=10, clients=1000, cohort=1000, batch=10, epochs=1, rate=0.1,
                 law="10 each", size=even(10), full=3, rounds=3, warm=1, goal_seconds=None,
                 model=dict(preset="mnist_cnn"), evaluate=0, published="", parameters=1663370),
}


def resnet18_layers():
    """ResNet-18 for small images (He et al. 2016; a 3×3 stem without pooling), group norm of 2 groups in the place of batch
    norm, as federated benchmarks have it (Hsieh et al. 2020)."""
    layers = []

    def add(layer, **keys):
        layers.append({"type": layer, **keys})

    def convolution(filters, size, stride, name=None, source=None):
        keys = dict(filters=filters, size=size, stride=stride, padding="same", bias=False, initializer="he_normal")
        if source:
            keys["from"] = source
        add("conv2d", **keys)
        add("group_norm", groups=2, **({"name": name} if name else {}))

    convolution(64, 3, 1)
    add("activation", function="relu", name="block0")
    last, channels = "block0", 64
    for block in range(1, 9):
        filters = 64 << ((block - 1) // 2)
        stride = 2 if filters != channels else 1
        shortcut = last
        if filters != channels:
            shortcut = f"shortcut{block}"
            convolution(filters, 1, stride, shortcut, last)
        convolution(filters, 3, stride, None, last)
        add("activation", function="relu")
        convolution(filters, 3, 1)
        last, channels = f"block{block}", filters
        layers.append({"type": "add", "with": shortcut, "activation": "relu", "name": last})
    add("global_avg_pool")
    add("dense", units=100)
    return layers


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value)


def scenario_text(name, folder, small):
    """The scenario of a work, whose data lie in `folder`."""
    work = WORKS[name]
    clients = sized(work["clients"], small, work["cohort"] if not small else 2)
    cohort = min(work["cohort"], clients)
    lines = ["[run]", f'name = "{name}"', f"rounds = {2 if small else work['rounds']}", "seed = 1", ""]
    if "preset" in work["model"]:
        lines += ["[model]", f'preset = "{work["model"]["preset"]}"', ""]
    else:
        lines += ["[model]", f"input = {{ shape = [{work['side']}, {work['side']}, {work['channels']}] }}", ""]
    lines += ["[data]", f'train = "{folder}/train.tfrecord"']
    if work["evaluate"]:
        lines += [f'test = "{folder}/test.tfrecord"']
    if name == "shakespeare":
        lines += ['partition = { kind = "by_key", key = "source" }']
    elif work["law"].endswith("each"):
        lines += [f'partition = {{ kind = "iid", clients = {clients} }}']
    else:
        lines += [f'partition = {{ kind = "iid", clients = {clients}, sizes = "lognormal", skew = 0.4 }}']
    lines += ["", "[client]", f"epochs = {work['epochs']}", f"batch_size = {work['batch']}",
              f'optimizer = {{ kind = "sgd", learning_rate = {work["rate"]} }}', "",
              "[server]", f"clients_per_round = {cohort}", "", "[evaluation]", f"every = {work['evaluate']}", ""]
    for layer in resnet18_layers() if "layers" in work["model"] else []:
        lines += ["[[model.layers]]", *(f"{key} = {toml(value)}" for key, value in layer.items()), ""]
    return "\n".join(lines)


def sized(count, small, least=1):
    return max(least, count // 100) if small else count


def write_npy(path, dtype, shape, pieces):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        for piece in pieces:
            file.write(piece)


def write_images(work, raw, small):
    draws = random.Random(1)
    clients = sized(work["clients"], small, 2)
    train = sum(work["size"](draws) for _ in range(clients))
    pixels = work["side"] ** 2 * work["channels"]
    for name, count in (("train", train), ("test", sized(work.get("tested", 10000), small))):
        write_npy(raw / f"x_{name}.npy", "|u1", (count, work["side"], work["side"], work["channels"]),
                  (draws.randbytes(pixels) for _ in range(count)))
        write_npy(raw / f"y_{name}.npy", "<i8", (count,),
                  (struct.pack("<q", draws.randrange(work["classes"])) for _ in range(count)))


def write_texts(work, raw, small):
    draws = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz     ,.;\n"
    for client in range(sized(work["clients"], small, 2)):
        text = "".join(draws.choices(letters, k=81 * work["size"](draws) + 81))
        (raw / f"client{client:04}.txt").write_text(text, encoding="ascii")


def prepare(name, out, rivulet, small):
    """Data once, the scenario each time. Returns the scenario's path."""
    folder = out / (f"{name}-small" if small else name)
    work = WORKS[name]
    if not (folder / "train.tfrecord").exists():
        raw = out / f"{folder.name}-raw"
        raw.mkdir(parents=True, exist_ok=True)
        texts = name == "shakespeare"
        (write_texts if texts else write_images)(work, raw, small)
        subprocess.run([rivulet, "data", "import", "text" if texts else "numpy", "--quiet", "--from", str(raw), "--out",
                        str(folder)], check=True, stdout=subprocess.DEVNULL)
    path = out / f"{folder.name}.toml"
    path.write_text(scenario_text(name, folder.resolve(), small), encoding="utf-8")
    return path


def rounds_of(history, name):
    """Seconds from one commit to the next, without the rounds that warm up."""
    with sqlite3.connect(f"file:{history}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT finished_at FROM rounds WHERE status = 'committed' ORDER BY run_id, round")
        ends = [datetime.datetime.fromisoformat(row[0].replace("Z", "+00:00")).timestamp() for row in rows]
    return [after - before for before, after in zip(ends, ends[1:])][max(0, WORKS[name]["warm"] - 1):]


def tell_rounds(history, name):
    work = WORKS[name]
    seconds = rounds_of(history, name)
    if not seconds:
        return f"{name}: the history has too few rounds"
    mean, median = statistics.fmean(seconds), statistics.median(seconds)
    line = (f"{name}: {mean * 1e3:.2f} ms a round (median {median * 1e3:.2f}, most {max(seconds) * 1e3:.2f}) over "
            f"{len(seconds)} rounds; {mean * work['full']:.1f} s for {work['full']}")
    if len(seconds) + 1 < work["full"]:
        line += ", by the mean"
    if work["goal_seconds"]:
        line += f"; goal {work['goal_seconds']} s"
    if work.get("flop"):
        line += f"; {work['flop'] / (mean * work['full']) / 1e12:.2f} TFLOP/s"
    if work["published"]:
        line += f"; published: {work['published']}"
    return line


def tell_fold(trace, name):
    """Each update is read once, and the base model at least once a launch; integers are written once."""
    updates, parameters = WORKS[name]["cohort"], WORKS[name]["parameters"]
    text = pathlib.Path(trace).read_text(encoding="utf-8").rstrip().rstrip(",")
    events = json.loads(text if text.endswith("]") else text + "]")
    kernels = [event for event in events if event.get("cat") == "gpu" and "fold" in event["name"].lower()]
    if not kernels:
        return f"{name}: the trace shows no kernel of a fold"
    seconds = sum(event["dur"] for event in kernels) * 1e-6 / WORKS[name]["rounds"]
    rate = updates * parameters * 4 / seconds
    return (f"{name}: {updates} updates of {parameters} in {seconds * 1e3:.2f} ms of kernels a round, "
            f"{rate / 1e12:.2f} TB/s of updates: {100 * rate / 4.8e12:.0f} % of 4.8 TB/s; goal 60 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("prepare")
    making.add_argument("work", choices=WORKS)
    making.add_argument("--out", type=pathlib.Path, required=True)
    making.add_argument("--rivulet", required=True)
    making.add_argument("--small", action="store_true")
    for name in ("rounds", "fold"):
        telling = commands.add_parser(name)
        telling.add_argument("file")
        telling.add_argument("work", choices=WORKS)
    options = parser.parse_args()
    if options.command == "prepare":
        print(prepare(options.work, options.out, options.rivulet, options.small))
    elif options.command == "rounds":
        print(tell_rounds(options.file, options.work))
    else:
        print(tell_fold(options.file, options.work))


if __name__ == "__main__":
    sys.exit(main())
