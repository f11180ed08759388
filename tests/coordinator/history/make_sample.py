"""Makes version-3.sql and those after it, a history as a program of that version wrote it: one small run.

    python3 make_sample.py RIVULET >version-6.sql

RIVULET must be a program whose histories are of that version. A page was made once and is never made again: a migration
has to read what was written then. Paths in it are those of a temporary folder.
"""
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

DIGITS = """
[run]
name = "digits"
rounds = 2
seed = 7

[model]
preset = "logistic_regression"

[data]
train = "data/train.tfrecord"
test = "data/test.tfrecord"
synth = { kind = "digits", writers = 6, test_writers = 2, examples_per_writer = 4, seed = 3 }
partition = { kind = "iid", clients = 4 }

[client]
batch_size = 4
optimizer = { kind = "sgd", learning_rate = 0.1 }

[server]
clients_per_round = 3
"""


def main():
    rivulet = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "digits.toml").write_text(DIGITS)

        def run(*arguments):
            done = subprocess.run([rivulet, *arguments], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

        run("simulate", "digits.toml", "--db", "runs.sqlite")
        run("runs", "note", "latest", "the first of many", "--db", "runs.sqlite")
        db = sqlite3.connect(folder / "runs.sqlite")
        # A tier, which is a name without times, and a certificate's fingerprint.
        db.executescript("""
INSERT INTO client (client_id, status) VALUES ('tier/east', 0);
UPDATE task SET parent = (SELECT client FROM client WHERE client_id = 'tier/east') WHERE task = 1;
UPDATE client SET fingerprint = 'ab:cd' WHERE client = 1;
""")
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'audit_entry'").fetchone():
            db.execute("INSERT INTO audit_entry (at, action, operator_id, detail) VALUES (1, 4, 'office', 'a short break')")
        db.commit()
        for pragma in ("application_id", "user_version"):
            print(f"PRAGMA {pragma} = {db.execute(f'PRAGMA {pragma}').fetchone()[0]};")
        for line in db.iterdump():
            print(line)


main()
