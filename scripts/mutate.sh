#!/usr/bin/env bash
# Would the tests notice? scripts/mutate.sh FOLDER [--mutants N] [--seed S] [--results FILE] [--again] [--jobs N]: plants single changes
# in a folder's code, one at a time in a copy under build/mutate (every file compiled by itself), runs the folder's tests,
# and lists those that nobody noticed. Results are a line of JSON each; a second call goes on where the first one stopped,
# and with --again tries those that nobody noticed once more.
# The folders and their tests stand in scripts/mutate.py.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}"
exec python3 scripts/mutate.py "$@"
