#!/usr/bin/env python3
"""How long the runs of a history would have taken to an accuracy on devices that are all equally fast, each with its own data: a task takes as
long as its examples times its epochs. A synchronous round waits for its slowest; an asynchronous run always has server.in_flight tasks under
way, so a version comes when these have done its share of all examples.

usage: virtual_time.py rivulet.sqlite ACCURACY [TAG]
"""
import sqlite3
import sys
import tomllib


def versions(history, run, config):
    """Version and the virtual time at which it is made."""
    asynchronous = config["server"].get("base") == "latest" or config["algorithm"]["name"] in ("fedbuff", "fedasync")
    under_way = config["server"]["in_flight"] or config["server"]["clients_per_round"]
    now = 0
    for version, longest, examples in history.execute(
            "SELECT coalesce(committed_round, round), max(examples), sum(examples) FROM client_rounds "
            "WHERE run_id = ? AND kind = 'train' AND status = 'folded' GROUP BY 1 ORDER BY 1", (run,)):
        now += config["client"]["epochs"] * (examples / under_way if asynchronous else longest)
        yield version, now


def main(path, accuracy, tag=None):
    history = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    runs = "SELECT run_id, config FROM runs WHERE ? IS NULL OR run_id IN (SELECT run_id FROM tags WHERE tag = ?) ORDER BY created_at"
    for run, text in history.execute(runs, (tag, tag)).fetchall():
        config = tomllib.loads(text)
        made = dict(versions(history, run, config))
        measured = history.execute("SELECT round, value FROM metrics WHERE run_id = ? AND scope = 'central' AND name = 'test/accuracy' "
                                   "ORDER BY round", (run,)).fetchall()
        first = next((version for version, value in measured if value >= float(accuracy)), None)
        what = f"at {made[first]:.0f}, version {first}" if first else f"never, until {max(made.values(), default=0):.0f}"
        print(f"{run} {config['algorithm']['name']}: {accuracy} {what}")


if __name__ == "__main__":
    main(*sys.argv[1:])
