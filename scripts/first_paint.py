#!/usr/bin/env python3
"""How soon a page of a large history is seen: `rivulet dashboard` over the runs that history_million.py makes (5,000
rounds, 10,000 clients), looked at by a running headless Chromium.

    scripts/first_paint.py HISTORY.sqlite [--times 5]

HISTORY is what `scripts/history_million.py FILE --rounds 5000 --cohort 200` leaves. Prints for each page the median of
the first contentful paint and of the server's own time, in milliseconds; the goal is a second.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import chromium  # noqa: E402

RIVULET = os.environ.get("RIVULET_BINARY") or str(ROOT / "build/release/rivulet")
GOAL_MS = 1000


def served_in_ms(address):
    begin = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return (time.perf_counter() - begin) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("history")
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    if chromium.CHROMIUM is None:
        sys.exit("first_paint.py: there is no chromium here; install it (apt-get install chromium)")
    server = subprocess.Popen([RIVULET, "dashboard", "--db", arguments.history, "--http", "127.0.0.1:0"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        told = ""
        while not (found := re.search(r"http://\S+", told)):
            line = server.stdout.readline()
            if not line:
                sys.exit(f"first_paint.py: the dashboard ended: {told}")
            told += line
        root = found.group(0).rstrip("/")
        with urllib.request.urlopen(root + "/") as page:
            links = re.findall(r'href="(/[^"#]*)"', page.read().decode())
        run = next(link for link in links if link.startswith("/run?id=million"))
        worst = 0
        with chromium.Browser() as browser:
            browser.open(root + "/")  # the browser is running by now
            for name, path in (("all runs", "/"), ("a run", run)):
                paints, served = [], []
                for _ in range(arguments.times):
                    browser.open("about:blank#")
                    browser.open(root + path)
                    paints.append(browser.first_paint_ms())
                    served.append(served_in_ms(root + path))
                worst = max(worst, statistics.median(paints))
                print(f"{name:10} first paint {statistics.median(paints):6.0f} ms (of {min(paints):.0f} to {max(paints):.0f}), "
                      f"served in {statistics.median(served):.0f} ms")
        print(f"slowest {worst:.0f} ms, {GOAL_MS} allowed")
    finally:
        server.kill()
        server.wait()
    return int(worst > GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
