#!/usr/bin/env python3
"""How long Python waits: for `import rivulet`, from `simulate()` to its first round, and for a million rows as a table.

    PYTHONPATH=python python3 scripts/python_marks.py [HISTORY]

Each beside a ruler that is measured in turns with it, since machines differ and do other things: the interpreter's own
start; the same run by the program alone; sqlite3's rows of the same question. HISTORY is one that
`scripts/history_million.py FILE` made; without it there are no rows to read. The runs are to have their code compiled:
PYTHONDONTWRITEBYTECODE is taken away.
"""

import contextlib
import datetime
import os
import pathlib
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import rivulet
from rivulet import _program

TURNS = 5
IMPORT_MS, FIRST_ROUND_MS, ROWS_MS = 15, 500, 3000
PARTITION = {"kind": "iid", "clients": 4}
SYNTH = {"kind": "digits", "writers": 4, "test_writers": 2, "examples_per_writer": 10}
NATIVE = {
    "run": {"name": "first", "rounds": 1},
    "model": {"preset": "logistic_regression"},
    "data": {"train": "train.tfrecord", "test": "test.tfrecord", "synth": SYNTH, "partition": PARTITION},
    "server": {"clients_per_round": 2},
}
FOREIGN = {
    "run": {"name": "first", "rounds": 1},
    "model": {"arrays": {"w": np.zeros(10, np.float32)}},
    "data": {"partition": {"clients": 4}},
    "server": {"clients_per_round": 2},
}
COLUMNS = "client_id, round, status, examples, steps, train_loss, update_norm, bytes_up"
ROWS = f"SELECT {COLUMNS} FROM client_rounds"


class Nothing(rivulet.Client):
    def fit(self, params, context):
        return rivulet.Params(dict(params), examples=1, metrics={"train_loss": 0.0})


def medians(*actions, turns=TURNS):
    """Of what each action gives, by turns."""
    given = [[action() for action in actions] for _ in range(turns)]
    return [statistics.median(each) for each in zip(*given)]


def processor(code):
    """Milliseconds of the processor that an interpreter takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def until_first_round(db, begin):
    """Milliseconds from `begin` to the end of the history's newest first round."""
    began = time.time()
    begin()
    with contextlib.closing(sqlite3.connect(db)) as connection:
        (at,) = connection.execute("SELECT max(finished_at) FROM rounds WHERE round = 1").fetchone()
    return 1000 * (datetime.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() - began)


def by_python(**more):
    return until_first_round("python.sqlite", lambda: rivulet.simulate(db="python.sqlite", **more))


def by_program():
    command = [_program.program(), "simulate", "first.toml", "--db", "program.sqlite"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return until_first_round("program.sqlite", lambda: subprocess.run(command, check=True, **quiet))


def milliseconds(action):
    """By the clock, and of the processor."""
    began, used = time.perf_counter(), time.process_time()
    action()
    return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - used)


def count_of(path):
    """Each row as a tuple that is thrown away."""
    count = 0
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute(ROWS)
        while some := rows.fetchmany(8192):
            count += len(some)
    return count


def told(what, took, most, ruler, by):
    print(f"{what:58} {took:8.1f} ms of {most}; {ruler:8.1f} ms {by}", flush=True)


def main():
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    path = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    package = str(pathlib.Path(rivulet.__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    processor("import rivulet")  # which compiles it
    loaded, start = medians(lambda: processor("import rivulet"), lambda: processor("pass"), turns=31)
    told("import rivulet, of the processor", loaded - start, IMPORT_MS, start, "the interpreter's start")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        from rivulet._scenario import scenario_file

        with scenario_file(NATIVE) as file:
            pathlib.Path("first.toml").write_bytes(pathlib.Path(file.path).read_bytes())
        by_program()  # which makes the data set
        simulated, virtual, program = medians(
            lambda: by_python(scenario=NATIVE), lambda: by_python(scenario=FOREIGN, client_fn=lambda name: Nothing()), by_program
        )
        told("simulate() to the end of its first round", simulated, FIRST_ROUND_MS, program, "the program alone")
        told("the same with clients in Python", virtual, FIRST_ROUND_MS, program, "the program alone")
        os.chdir(package)
    if path is not None:
        history = rivulet.open(path)
        count = count_of(path)
        turns = [[milliseconds(lambda: history.sql(ROWS)), milliseconds(lambda: count_of(path))] for _ in range(TURNS)]
        for what, kind in (("", 0), (", of the processor", 1)):
            table, bare = (statistics.median(turn[which][kind] for turn in turns) for which in (0, 1))
            told(f"{count} rows of eight columns as a table{what}", table, ROWS_MS, bare, "sqlite3's tuples")


if __name__ == "__main__":
    main()
