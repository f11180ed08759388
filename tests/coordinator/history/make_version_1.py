"""Makes version-1.sql, a history as program 0.1.0 wrote it: four small runs, and a few rows that its schema has room for and
no small run writes.

    python3 make_version_1.py RIVULET >version-1.sql

RIVULET must be a program whose histories are of version 1. The page was made once and is never made again: a migration has
to read what was written then. Paths in it are those of a temporary folder.
"""
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

DIGITS = """
[run]
name = "digits"
rounds = 3
seed = 7

[model]
preset = "logistic_regression"

[data]
train = "data/train.tfrecord"
test = "data/test.tfrecord"
synth = { kind = "digits", writers = 12, test_writers = 2, examples_per_writer = 8, seed = 3 }
partition = { kind = "iid", clients = 20 }

[client]
batch_size = 5
optimizer = { kind = "sgd", learning_rate = 0.1 }

[server]
clients_per_round = 5
"""

TEXT = """
[run]
name = "text"
rounds = 2
seed = 5

[model]
preset = "tiny_transformer"

[data]
train = "plays/train.tfrecord"
test = "plays/test.tfrecord"
partition = { kind = "by_key", key = "speaker" }

[client]
batch_size = 4

[server]
clients_per_round = 4
"""

# The last is a name that looks like the end of a task's id.
SPEAKERS = {"FIRST LORD": "aye, my lord, ", "Aase Ærø": "no, my lord, ", "王子": "hey ho, the wind, ", "x-r1-a1-y-0": "he comes, "}

# Other ends of a task, a tier, a measuring task, a value that is no number, an event of no run.
MORE = """
UPDATE client_rounds SET status = 'failed', committed_round = NULL, staleness = NULL, examples = NULL, steps = NULL,
  train_loss = NULL, update_norm = NULL, update_digest = NULL, weight = NULL, bytes_up = 0, wait_seconds = NULL,
  train_seconds = NULL, upload_seconds = NULL, error = 'its disk is full'
  WHERE rowid = (SELECT min(rowid) FROM client_rounds WHERE status = 'refused');
UPDATE rounds SET refused = refused - 1, reported = reported - 1, failed = failed + 1
  WHERE (run_id, round, attempt) = (SELECT run_id, round, attempt FROM client_rounds WHERE status = 'failed');
UPDATE client_rounds SET parent_id = 'tier/east', weight = examples + 1
  WHERE rowid = (SELECT min(rowid) FROM client_rounds WHERE status = 'folded');
UPDATE client_rounds SET status = 'dropped', examples = 8, steps = 2, train_loss = 2.5, update_norm = 1.25, weight = 8,
  update_digest = lower(hex(randomblob(32))), error = 'the round was abandoned'
  WHERE rowid = (SELECT max(rowid) FROM client_rounds WHERE status = 'refused');
UPDATE rounds SET refused = refused - 1, folded = folded + 1
  WHERE (run_id, round, attempt) = (SELECT run_id, round, attempt FROM client_rounds WHERE status = 'dropped');
UPDATE models SET path = 'runs.sqlite.models/' || run_id || '/round-' || printf('%06d', round) || '.safetensors' WHERE rowid =
  (SELECT max(rowid) FROM models);
UPDATE clients SET fingerprint = 'ab:cd' WHERE client_id = 'client-00003';
UPDATE metrics SET value = NULL WHERE rowid = (SELECT max(rowid) FROM metrics WHERE name = 'test/loss');
INSERT INTO metrics SELECT run_id, round, 'client', client_id, 'test/accuracy', 0.25 FROM client_rounds
  WHERE status = 'folded' LIMIT 1;
INSERT INTO events VALUES (NULL, NULL, '2026-01-02T03:04:05.006Z', 'warning', 'run', 'it''s of no run');
"""


def main():
    rivulet = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "digits.toml").write_text(DIGITS)
        (folder / "text.toml").write_text(TEXT)
        (folder / "play.txt").write_text("\n".join(f"{speaker}:\n{(words * 40)[:200]}\n" for _ in range(11)
                                                   for speaker, words in SPEAKERS.items()))

        def run(*arguments, code=0):
            done = subprocess.run([rivulet, *arguments], cwd=folder, capture_output=True, text=True)
            assert done.returncode == code, done.stderr

        def simulate(scenario, *sets, code=0):
            run("simulate", scenario, "--db", "runs.sqlite", *[word for s in sets for word in ("--set", s)], code=code)

        run("data", "import", "shakespeare", "--from", "play.txt", "--out", "plays")
        simulate("text.toml")
        # Some updates are beyond the bound: refused ones beside folded ones, and round 1 without an evaluation.
        simulate("digits.toml", "server.value_bits=0", "server.min_reports=3", "client.optimizer.learning_rate=2.5",
                 "server.max_attempts=9", "evaluation.every=2", "run.rounds=2", "run.keep_models=all")
        # All are: attempts abandoned, the run failed.
        simulate("digits.toml", "server.value_bits=0", "client.optimizer.learning_rate=20.0", "server.max_attempts=2", code=1)
        process = subprocess.Popen([rivulet, "simulate", "digits.toml", "--db", "runs.sqlite", "--rounds", "100000"],
                                   cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        process.wait()
        db = sqlite3.connect(folder / "runs.sqlite")
        latest = db.execute("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1").fetchone()
        # As if stopped after three rounds.
        for table in ("client_rounds", "metrics", "models", "events", "rounds"):
            db.execute(f"DELETE FROM {table} WHERE run_id = ? AND round > 3", latest)
        db.executescript(MORE)
        db.commit()
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        for pragma in ("application_id", "user_version"):
            print(f"PRAGMA {pragma} = {db.execute(f'PRAGMA {pragma}').fetchone()[0]};")
        for line in db.iterdump():
            print(line)


main()
