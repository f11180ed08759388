#!/usr/bin/env bash
# Every command of --help through faults of files and memory, many of each kind (tests/e2e/faulty_world_test.py); prints a
# table. docs/internals/results.md has the result.
#   scripts/faulty-world.sh [FAULTS A KIND]     of each kind at most so many calls fail, one a run [40]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.sh
build release -DRIVULET_TESTS=ON -- rivulet faulty_world
RIVULET_FAULTS_A_KIND=${1:-40} RIVULET_BINARY=$PWD/build/release/rivulet \
  RIVULET_FAULTY_WORLD=$PWD/build/release/tests/e2e/libfaulty_world.so exec python3 tests/e2e/faulty_world_test.py
