"""Makes the files beside it: a run that a program of another version began and did not end, with the plan that it keeps.

    python3 make_stored_run.py RIVULET FOLDER

Its plan has clients train for three epochs and its configuration says two, as if the program of then had built another
plan of the same words: who builds it anew gets other models. The files were made once and are never made again: a
program has to go on with what was written then. digests.json has the models of all rounds, of a run that was not cut off.
"""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

VERSION_OF_THEN = "0.0.9"
ROUNDS, DONE = 4, 2
SCENARIO = """
[run]
name = "stored"
rounds = 4
seed = 7
keep_models = "last"

[model]
input = { shape = [60], kind = "values" }

[[model.layers]]
type = "dense"
units = 10

[data]
train = "data/train.tfrecord"
image_feature = "features"
partition = { kind = "by_key", key = "user" }

[client]
epochs = 2
batch_size = 5
optimizer = { kind = "sgd", learning_rate = 0.1 }

[server]
clients_per_round = 3
"""
DATA = ["--alpha", "1", "--beta", "1", "--clients", "6", "--seed", "3", "--out", "data"]


def main():
    rivulet, target = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "stored.toml").write_text(SCENARIO)

        def run(*arguments):
            done = subprocess.run([rivulet, *arguments], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

        def simulate(rounds, db):
            run("simulate", "stored.toml", "--rounds", str(rounds), "--set", "client.epochs=3", "--kernels", "portable",
                "--db", db)
            return sqlite3.connect(folder / db)

        run("data", "synth", "synthetic", *DATA)
        rows = simulate(ROUNDS, "whole.sqlite").execute("SELECT model_digest FROM rounds ORDER BY round").fetchall()
        (target / "digests.json").write_text(json.dumps([digest for (digest,) in rows], indent=1) + "\n")

        db = simulate(DONE, "runs.sqlite")
        db.execute("DELETE FROM blob")  # the program of then had another snapshot of its machine, or none
        db.execute("UPDATE run SET version = ?, status = ?, config = replace(replace(config, 'epochs = 3', 'epochs = 2'), ?, ?)",
                   (VERSION_OF_THEN, 2, f"rounds = {DONE}", f"rounds = {ROUNDS}"))
        db.commit()
        with (target / "history.sql").open("w") as sql:
            for pragma in ("application_id", "user_version"):
                print(f"PRAGMA {pragma} = {db.execute(f'PRAGMA {pragma}').fetchone()[0]};", file=sql)
            for line in db.iterdump():
                print(line, file=sql)
        models, = (folder / "runs.sqlite.models").iterdir()
        shutil.copytree(models, target / "models", ignore=shutil.ignore_patterns("lock"), dirs_exist_ok=True)


if __name__ == "__main__":
    main()
