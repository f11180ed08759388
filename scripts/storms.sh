#!/usr/bin/env bash
# Whole federations under virtual time, through many seeds of each kind of tests/system/system_test.cc; says how many
# there were, how long one takes, and what befell them. docs/results.md has the last ones. Wants a built tree.
#   scripts/storms.sh [SEEDS] [FOLDER]    seeds "17" or "1-1000" [1-1000] of the tree in FOLDER [build/release]
set -euo pipefail
cd "$(dirname "$0")/.."
RIVULET_SEEDS=${1:-1-1000} exec "${2:-build/release}/system_test" --gtest_filter='-*OneSeedTwice*'
