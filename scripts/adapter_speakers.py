#!/usr/bin/env python3
"""Adapters beside full fine-tuning: `tiny_transformer` learns half of a text's speakers centrally, and the others federate, once with all weights and
once with adapters. Prints both losses, and the bytes of one update.

  scripts/adapter_speakers.py PLAYS.txt [--rank 8] [--rounds 40] [--central 15] [--program build/release/rivulet]

PLAYS.txt is plain text as `rivulet data import shakespeare` reads it. Speakers alternate between the halves, in the order of their first speech."""
import argparse
import json
import pathlib
import sqlite3
import subprocess
import tempfile

SCENARIO = """
[run]
name = "{name}"
rounds = {rounds}
seed = 7
[model]
preset = "tiny_transformer"
{model}
[data]
train = "{data}/train.tfrecord"
test = "{data}/test.tfrecord"
partition = {partition}
[client]
epochs = 1
batch_size = {batch}
optimizer = {{ kind = "adam", learning_rate = {rate} }}
[server]
clients_per_round = {clients}
[evaluation]
every = {every}
"""


def halves(text):
    """Speeches of every other speaker, and of the rest."""
    speeches = [speech for speech in text.split("\n\n") if ":\n" in speech]
    half = {}
    for speech in speeches:
        half.setdefault(speech.split(":\n", 1)[0], len(half) % 2)
    return ["\n\n".join(speech for speech in speeches if half[speech.split(":\n", 1)[0]] == which) + "\n" for which in (0, 1)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plays")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--central", type=int, default=15, help="passes over the first half")
    parser.add_argument("--program", default="build/release/rivulet")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def rivulet(*words):
            subprocess.run([program, *map(str, words)], cwd=folder, check=True, stdout=subprocess.DEVNULL)

        for which, text in zip("ab", halves(pathlib.Path(arguments.plays).read_text())):
            (folder / f"{which}.txt").write_text(text)
            rivulet("data", "import", "shakespeare", "--from", f"{which}.txt", "--out", which)

        def run(name, **settings):
            usual = {"model": "", "batch": 4, "clients": 10, "rounds": arguments.rounds, "every": arguments.rounds, "data": "b",
                     "partition": '{ kind = "by_key", key = "speaker" }', "rate": 0.001}
            (folder / f"{name}.toml").write_text(SCENARIO.format(name=name, **{**usual, **settings}))
            rivulet("simulate", f"{name}.toml", "--db", f"{name}.sqlite", "--quiet")
            with sqlite3.connect(folder / f"{name}.sqlite") as db:
                rows = db.execute("SELECT value FROM metrics WHERE scope = 'central' AND name = 'test/loss' ORDER BY round").fetchall()
            content = sorted((folder / f"{name}.sqlite.models").glob("*/*.safetensors"))[-1].read_bytes()
            header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
            # A simulation sends nothing: an update's values are those of the trained variables, four bytes each.
            trained = [entry["data_offsets"] for tensor, entry in header.items()
                       if tensor != "__metadata__" and ("lora" not in settings.get("model", "") or "/lora_" in tensor)]
            return {"before": rows[0][0], "loss": rows[-1][0], "update_bytes": sum(end - begin for begin, end in trained)}

        central = run("central", data="a", partition='{ kind = "iid", clients = 1 }', clients=1, rounds=arguments.central,
                      every=arguments.central, batch=16, rate=0.003)
        rivulet("model", "export", "latest", "--db", "central.sqlite", "--out", "central.safetensors")
        weights = 'weights = "central.safetensors"'
        full = run("full", model=weights)
        lora = f'{weights}\n[model.lora]\ntargets = ["*attention*kernel", "*hidden/kernel", "block*/output/kernel"]\nrank = {arguments.rank}\nalpha = {2 * arguments.rank}'
        adapters = run("adapters", model=lora, rate=0.005)
        print(json.dumps({"central": central, "full": full, "adapters": adapters,
                          "loss ratio": adapters["loss"] / full["loss"], "bytes ratio": adapters["update_bytes"] / full["update_bytes"]}, indent=1))


if __name__ == "__main__":
    main()
