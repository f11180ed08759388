#!/usr/bin/env bash
# Kills a run at every durable operation of every case of tests/coordinator/kill_test.cc and resumes it, and says how
# many there were. The tests try every ninth of most cases. Wants a built tree: build/release, or the folder it is given.
set -euo pipefail
cd "$(dirname "$0")/.."
results=$(mktemp)
trap 'rm -f "$results"' EXIT
RIVULET_KILL_POINTS=all "${1:-build/release}/coordinator_test" --gtest_filter='Matrix/KillTest.*' --gtest_brief=1 \
  --gtest_output="json:$results"
python3 - "$results" <<'PYTHON'
import json
import sys

points = {}
for suite in json.load(open(sys.argv[1]))["testsuites"]:
    for test in suite["testsuite"]:
        works, durability, algorithm = test["name"].rsplit("/", 1)[1].split("_")
        points[works, algorithm, durability] = int(test["points"])
print("who works, algorithm: points killed at with durability round, second, end")
for works, algorithm in sorted({key[:2] for key in points}):
    print(f"{works}, {algorithm}:", ", ".join(str(points[works, algorithm, d]) for d in ("round", "second", "end")))
print("in all", sum(points.values()))
PYTHON
