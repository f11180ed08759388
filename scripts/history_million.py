#!/usr/bin/env python3
"""The history of a large run, and how long questions about it take: 1,000 rounds of 1,000 of 10,000 clients, a million
rows of tasks, each with all that a deployed client says.

    scripts/history_million.py [FILE] [--rounds 1000] [--cohort 1000] [--clients 10000] [--ask-only]

The program (RIVULET_BINARY, else build/release/rivulet) makes the database of a run of one round, whose rows stay in it;
the large run's are written into the same tables. FILE stays where it is named. Prints how large the file is, and the
least of three times of each question: those over totals and rounds, those that look at every task, and the program's
own pages. The answers are compared with what was written.
"""

import argparse
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RIVULET = os.environ.get("RIVULET_BINARY") or str(ROOT / "build/release/rivulet")
RUN = "million-20250101T000000Z-00000000"
SCENARIO = """
run = { name = "tiny", rounds = 1 }
model = { preset = "logistic_regression" }
data = { synth = { kind = "digits", writers = 2, test_writers = 1, examples_per_writer = 4 }, partition = { clients = 2 } }
server = { clients_per_round = 2 }
"""
BEGAN_MS, ROUND_MS = 1735689600000, 4000
QUICK_MS, SCAN_MS, BYTES = 100, 2000, 250 << 20

OVER_TOTALS_AND_ROUNDS = {
    "the runs": "SELECT * FROM runs",
    "the best runs": "SELECT * FROM run_leaderboard",
    "a run's rounds": f"SELECT * FROM rounds WHERE run_id = '{RUN}'",
    "its rounds with their accuracy": f"SELECT * FROM round_summary WHERE run_id = '{RUN}'",
    "a metric over rounds": f"SELECT round, value FROM metrics WHERE run_id = '{RUN}' AND scope = 'central' AND name = 'test/loss'",
    "bytes of a run": f"SELECT sum(bytes_up), sum(bytes_down) FROM rounds WHERE run_id = '{RUN}'",
    "the least reliable clients": f"SELECT * FROM client_reliability WHERE run_id = '{RUN}' ORDER BY reliability LIMIT 10",
    "one round's clients": f"SELECT * FROM client_rounds WHERE run_id = '{RUN}' AND round = 500",
    "one client's tasks": f"SELECT * FROM client_rounds WHERE run_id = '{RUN}' AND client_id = 'site-00042'",
}
OVER_ALL_TASKS = {
    "all tasks, counted by how they ended": f"SELECT status, count(*) FROM client_rounds WHERE run_id = '{RUN}' GROUP BY status",
    "the mean loss of each round": f"SELECT round, avg(train_loss) FROM client_rounds WHERE run_id = '{RUN}' GROUP BY round",
    "the largest update": f"SELECT max(update_norm) FROM client_rounds WHERE run_id = '{RUN}'",
}
PAGES = [["list"], ["show", RUN], ["profile", RUN], ["rounds", RUN], ["clients", RUN], ["plot", RUN, "--terminal"]]


def insert(database, table, rows, **constant):
    """Rows as dicts; columns that the table has and a row does not say keep their defaults."""
    rows = iter(rows)
    first = next(rows)
    names = [*first, *constant]
    sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    values = tuple(constant.values())
    database.execute(sql, (*first.values(), *values))
    database.executemany(sql, ((*row.values(), *values) for row in rows))


def make(path, rounds, cohort, clients):
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder, "tiny.toml")
        scenario.write_text(SCENARIO)
        subprocess.run([RIVULET, "simulate", scenario, "--db", path], check=True, capture_output=True, cwd=folder)
    draws = random.Random(1)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    cursor = database.execute("SELECT * FROM run LIMIT 1")
    columns = [column[0] for column in cursor.description]
    run = dict(zip(columns, cursor.fetchone()))
    tiny = run.pop("run")
    run.update(run_id=RUN, name="million", started=BEGAN_MS, created=BEGAN_MS, finished=BEGAN_MS + rounds * ROUND_MS)
    insert(database, "run", [run])
    (key,) = database.execute("SELECT run FROM run WHERE run_id = ?", (RUN,)).fetchone()
    database.execute("INSERT INTO run_key SELECT ?, key, value FROM run_key WHERE run = ?", (key, tiny))
    (last,) = database.execute("SELECT max(client) FROM client").fetchone()
    insert(
        database,
        "client",
        ({"client": last + 1 + at, "client_id": f"site-{at:05d}", "status": 0, "first_seen": BEGAN_MS, "last_seen": BEGAN_MS} for at in range(clients)),
    )
    totals = [{"tasks": 0, "folded": 0, "refused": 0, "dropped": 0, "failed": 0, "examples": 0, "train_seconds": 0.0, "timed": 0} for _ in range(clients)]
    ends = ("folded", "refused", "dropped", "failed")
    (attempt_key,) = database.execute("SELECT max(attempt_key) FROM attempt").fetchone()
    for round_ in range(1, rounds + 1):
        attempt_key += 1
        tasks, counts = [], [0, 0, 0, 0]
        for at in sorted(draws.sample(range(clients), cohort)):
            chance = draws.random()
            status = 0 if chance < 0.96 else 2 if chance < 0.98 else 3 if chance < 0.995 else 1
            seconds = draws.lognormvariate(0, 0.5)
            task = {
                "attempt_key": attempt_key, "client": last + 1 + at, "ordinal": 0, "status": status, "base_round": round_ - 1,
                "examples": 600 if status == 0 else None, "steps": 60 if status == 0 else None,
                "train_loss": 2.3 / round_**0.5 * seconds if status == 0 else None,
                "update_norm": draws.random() if status == 0 else None,
                "update_digest": draws.randbytes(32) if status == 0 else None,
                "bytes_down": 800_000, "bytes_up": 800_000 if status == 0 else 0, "wait_seconds": draws.random(),
                "train_seconds": seconds, "upload_seconds": draws.random() / 10,
                "error": "its own code failed: fit (ValueError)" if status == 3 else "",
            }  # fmt: skip
            tasks.append(task)
            counts[status] += 1
            total = totals[at]
            total["tasks"] += 1
            total[ends[status]] += 1
            total["examples"] += task["examples"] or 0
            total["train_seconds"] += seconds
            total["timed"] += 1
        began = BEGAN_MS + (round_ - 1) * ROUND_MS
        attempt = {
            "attempt_key": attempt_key, "run": key, "round": round_, "attempt": 1, "kind": 0, "status": 0,
            "started": began, "finished": began + ROUND_MS - 100, "examples": 600 * counts[0], "train_loss": 2.3 / round_**0.5,
            "bytes_down": 800_000 * cohort, "bytes_up": 800_000 * counts[0], "train_seconds": 3.5, "aggregate_seconds": 0.1,
            "evaluate_seconds": 0.2, **dict(zip(ends, counts)), "reason": "",
        }  # fmt: skip
        insert(database, "attempt", [attempt])
        insert(database, "task", tasks)
        metrics = [{"run": key, "round": round_, "scope": 0, "name": name, "value": value / round_**0.5} for name, value in (("test/accuracy", 0.9), ("test/loss", 2.3))]
        insert(database, "metric", metrics)
    rows = ({"run": key, "client": last + 1 + at, "from_round": 1, "from_attempt": 1, **total} for at, total in enumerate(totals) if total["tasks"])
    insert(database, "membership", rows)
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def least(action, times=3):
    took = []
    for _ in range(times):
        began = time.perf_counter()
        answer = action()
        took.append(1000 * (time.perf_counter() - began))
    return min(took), answer


def ask(path, rounds, cohort):
    size = os.path.getsize(path)
    print(f"{path}: {size / 1e6:.0f} MB (at most {BYTES / 1e6:.0f})")
    missed = size > BYTES
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for questions, mark in ((OVER_TOTALS_AND_ROUNDS, QUICK_MS), (OVER_ALL_TASKS, SCAN_MS)):
        print(f"\nat most {mark} ms each:")
        for what, sql in questions.items():
            took, rows = least(lambda sql=sql: database.execute(sql).fetchall())
            missed |= took > mark
            print(f"  {what:42} {took:9.1f} ms, {len(rows)} rows")
    counted = dict(database.execute(OVER_ALL_TASKS["all tasks, counted by how they ended"]))
    if sum(counted.values()) != rounds * cohort:
        sys.exit(f"{sum(counted.values())} tasks were found of {rounds * cohort}")
    print("\nthe program's pages:")
    for page in PAGES:
        took, _ = least(lambda page=page: subprocess.run([RIVULET, "runs", *page, "--db", path], check=True, capture_output=True))
        print(f"  rivulet runs {page[0]:29} {took:9.1f} ms")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--cohort", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--ask-only", action="store_true", help="FILE is there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.abspath(options.file or os.path.join(folder, "million.sqlite"))
        if not options.ask_only:
            if os.path.exists(path):
                sys.exit(f"{path} is there already; --ask-only asks it, or name another")
            took, _ = least(lambda: make(path, options.rounds, options.cohort, options.clients), times=1)
            print(f"written in {took / 1000:.0f} s", flush=True)
        if ask(path, options.rounds, options.cohort):
            print("\na mark was missed")


if __name__ == "__main__":
    main()
