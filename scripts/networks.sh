#!/usr/bin/env bash
# Every kind of deployment on a network of its own, and cables that are out for longer than a connection lives
# (tests/e2e/network_test.py). As root, or where anybody may make namespaces; wants a built tree. docs/internals/results.md has the result.
#   scripts/networks.sh [TEST…]     such as Cables
set -euo pipefail
cd "$(dirname "$0")/.."
RIVULET_NETWORK=whole exec python3 tests/e2e/network_test.py "$@"
