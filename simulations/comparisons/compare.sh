#!/usr/bin/env bash
# Rivulet beside bare loops in NumPy, PyTorch and JAX, in one run (local_clients.py says what is compared; options go to it).
# Builds build/release/rivulet_bench, and once an environment with the three: in RIVULET_PEERS, else in the user's cache.
set -euo pipefail
cd "$(dirname "$0")/../.."
peers=${RIVULET_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/rivulet/peers}
if ! "$peers/bin/python" -c 'import numpy, torch, jax' 2>/dev/null; then
  echo "Installing numpy, torch and jax into $peers" >&2
  python3 -m venv "$peers"
  "$peers/bin/pip" install --quiet numpy torch jax
fi
./bench.sh --benchmark_list_tests >/dev/null
exec "$peers/bin/python" simulations/comparisons/local_clients.py "$@"
