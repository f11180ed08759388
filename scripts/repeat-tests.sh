#!/usr/bin/env bash
# Runs the whole suite again and again, each time in another random order and beside other work, and names every test that
# failed even once. Wants a built tree; a second call goes on where the first one stopped.
#   scripts/repeat-tests.sh [--times N] [--load N] [--jobs N] [--only REGEX] [--seed N] [--results FOLDER] [--anew] [TREE]
# The order, the load and the results are told at the head of scripts/repeat_tests.py.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 scripts/repeat_tests.py "$@"
