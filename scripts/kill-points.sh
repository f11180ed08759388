#!/usr/bin/env bash
# Kills a run at every durable operation of every case of tests/coordinator/kill_test.cc and resumes it, an upload between
# any two of its calls (transfer_kill_test.cc there), a client and an aggregator at every durable operation of every case of
# tests/system/kill_points_test.cc, and says how many there were. The tests try every third or ninth of most cases. Wants
# a built tree: build/release, or the folder it is given.
set -euo pipefail
cd "$(dirname "$0")/.."
results=$(mktemp) machines=$(mktemp)
trap 'rm -f "$results" "$machines"' EXIT
RIVULET_KILL_POINTS=all "${1:-build/release}/coordinator_test" --gtest_filter='Matrix/KillTest.*:Matrix/TransferKillTest.*' \
  --gtest_brief=1 --gtest_output="json:$results"
RIVULET_KILL_POINTS=all "${1:-build/release}/system_test" --gtest_filter='Matrix/KillPointsTest.*' --gtest_brief=1 \
  --gtest_output="json:$machines"
python3 - "$results" "$machines" <<'PYTHON'
import json
import sys

points, others = {}, {}
for suite in [suite for file in sys.argv[1:] for suite in json.load(open(file))["testsuites"]]:
    for test in suite["testsuite"]:
        name = test["name"].rsplit("/", 1)[1]
        if suite["name"] == "Matrix/KillTest":
            works, durability, algorithm = name.split("_")
            points[works, algorithm, durability] = int(test["points"])
        else:
            others[suite["name"].removeprefix("Matrix/"), name] = int(test["points"])
print("who works, algorithm: points killed at with durability round, second, end")
for works, algorithm in sorted({key[:2] for key in points}):
    print(f"{works}, {algorithm}:", ", ".join(str(points[works, algorithm, d]) for d in ("round", "second", "end")))
for (test, name), killed in others.items():
    print(f"{test} {name}: {killed}")
print("in all", sum(points.values()) + sum(others.values()))
PYTHON
