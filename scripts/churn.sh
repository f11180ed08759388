#!/usr/bin/env bash
# Whole federations under virtual time, through many seeds of each kind of tests/system/system_test.cc; says how many
# there were, how long one takes, and what befell them. docs/internals/results.md has results. Wants a built tree.
#   scripts/churn.sh [SEEDS] [FOLDER]                seeds "17" or "1-1000" [1-1000] of the tree in FOLDER [build/release]
#   scripts/churn.sh --thousands [SEEDS] [FOLDER]    of 1,000 to 2,000 clients each [1-100]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --thousands ]; then
  RIVULET_SEEDS=${2:-1-100} exec "${3:-build/release}/system_test" --gtest_filter='*ThousandsOfClients*'
fi
RIVULET_SEEDS=${1:-1-1000} exec "${2:-build/release}/system_test" --gtest_filter='SystemTest.*-*OneSeedTwice*:*ThousandsOfClients*'
