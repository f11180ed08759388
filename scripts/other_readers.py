#!/usr/bin/env python3
"""What others see of a history while a run writes it: sqlite3 of Python's own library, pandas and DuckDB, each in a
process of its own and without a pause.

    scripts/other_readers.py [--seconds 20] [--python PYTHON]

PYTHON has what of pandas, duckdb and duckdb-extension-sqlite-scanner (all three from the Python package index) is to be
tried; what it lacks is left out by name. Every look must find whole rounds alone: as many folded tasks as the round
says. Prints how often each looked, how many rounds the run made meanwhile, and how many it makes alone.
"""

import argparse
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RIVULET = os.environ.get("RIVULET_BINARY") or str(ROOT / "build/release/rivulet")
SCENARIO = """
run = { name = "read", rounds = 10000000, durability = "round" }
model = { preset = "logistic_regression" }
data = { synth = { kind = "digits", writers = 40, test_writers = 1, examples_per_writer = 4 }, partition = { clients = 40 } }
server = { clients_per_round = 20 }
evaluation = { every = 0 }
"""
# DuckDB takes columns of views for texts: a number is said to be one.
WHOLE = ("SELECT CAST(r.round AS BIGINT), CAST(r.folded AS BIGINT), (SELECT count(*) FROM {0}client_rounds c WHERE "
         "c.run_id = r.run_id AND c.round = r.round AND c.status = 'folded') AS tasks FROM {0}rounds r WHERE "
         "CAST(r.round AS BIGINT) > (SELECT max(CAST(round AS BIGINT)) - 5 FROM {0}rounds) ORDER BY 1")

READERS = {
    "sqlite3": """
import sqlite3
connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
def look():
    return connection.execute(query.format("")).fetchall()
""",
    "pandas": """
import pandas, sqlite3
connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
def look():
    return [tuple(row) for row in pandas.read_sql(query.format(""), connection).itertuples(index=False)]
""",
    "duckdb": """
import duckdb, duckdb_extension_sqlite_scanner, glob, os
extension, = glob.glob(os.path.dirname(duckdb_extension_sqlite_scanner.__file__) + "/extensions/*/*.duckdb_extension")
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute(f"LOAD '{extension}'")
connection.execute(f"ATTACH '{db}' AS history (TYPE sqlite, READ_ONLY)")
def look():
    return connection.execute(query.format("history.")).fetchall()
""",
}
LOOP = """
import json, sys, time
db, query, until = sys.argv[1], sys.argv[2], time.monotonic() + float(sys.argv[3])
{reader}
looks, newest, halves = 0, 0, []
while time.monotonic() < until:
    rows = look()
    looks += 1
    newest = max([newest] + [int(row[0]) for row in rows])
    halves += [tuple(map(int, row)) for row in rows if row[1] != row[2]]
print(json.dumps([looks, newest, halves[:3]]))
"""


def rounds_of(db):
    with sqlite3.connect(db) as connection:
        return connection.execute("SELECT coalesce(max(round), 0) FROM rounds").fetchone()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        db, scenario = os.path.join(folder, "runs.sqlite"), os.path.join(folder, "read.toml")
        pathlib.Path(scenario).write_text(SCENARIO)
        run = subprocess.Popen([RIVULET, "simulate", scenario, "--db", db, "--workers", "1", "--quiet"], cwd=folder)
        try:
            while not os.path.exists(db) or not rounds_of(db):
                time.sleep(0.2)
            before = rounds_of(db)
            time.sleep(arguments.seconds / 2)
            alone = (rounds_of(db) - before) / (arguments.seconds / 2)
            before, readers = rounds_of(db), {}
            for name, reader in READERS.items():
                readers[name] = subprocess.Popen(
                    [arguments.python, "-c", LOOP.replace("{reader}", reader), db, WHOLE, str(arguments.seconds)],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for name, reader in readers.items():
                told, error = reader.communicate()
                if reader.returncode != 0 and "ModuleNotFoundError" in error:
                    print(f"{name:8} left out: {error.strip().splitlines()[-1]}")
                    continue
                if reader.returncode != 0:
                    print(f"{name:8} FAILED: {error.strip()[-600:]}")
                    failed = True
                    continue
                looks, newest, halves = json.loads(told)
                failed |= bool(halves) or looks == 0
                print(f"{name:8} looked {looks} times, up to round {newest}, "
                      + (f"SAW HALF A ROUND {halves}" if halves else "whole rounds alone"))
            together = (rounds_of(db) - before) / arguments.seconds
            print(f"the run made {alone:.0f} rounds a second alone and {together:.0f} beside them")
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(timeout=60)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
