#!/usr/bin/env bash
# Where a build's time went: slowest sources, precompiled headers and links, and totals per target.
#   scripts/build-times.sh                  of build/release
#   scripts/build-times.sh build/dev        of another build folder
#   scripts/build-times.sh --headers        and which of our headers cost most (compiles each alone; minutes)
#   scripts/build-times.sh --count 40       more lines
# After a full build without ccache: rm -r build/release, then CCACHE_DISABLE=1 ./quickstart.sh or ./test.sh.
set -euo pipefail
exec python3 "$(dirname "$0")/build_times.py" "$@"
