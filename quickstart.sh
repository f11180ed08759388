#!/usr/bin/env bash
# From a bare Debian 12 to a trained model: installs what is missing, builds the binary, and simulates federated averaging over
# 100 writers of synthetic digits. Run again, it only trains.
set -euo pipefail
cd "$(dirname "$0")"
source scripts/packages.sh

start=$SECONDS
install_packages "${build_packages[@]}"
echo "Building build/release/rivulet (a few minutes the first time)"
build release -DRIVULET_TESTS=OFF -DRIVULET_BENCH=OFF -- rivulet
echo "Built in $((SECONDS - start)) s. Training:"

mkdir -p build/quickstart
rivulet=build/release/rivulet
"$rivulet" simulate simulations/scenarios/quickstart.toml --db build/quickstart/runs.sqlite
cat <<TEXT

Try next:
  $rivulet runs rounds latest --db build/quickstart/runs.sqlite
  $rivulet simulate simulations/scenarios/quickstart.toml --set server.clients_per_round=20 --db build/quickstart/runs.sqlite
  $rivulet up simulations/scenarios/quickstart.toml --clients 10 --set server.clients_per_round=5 --rounds 3 --db build/quickstart/runs.sqlite
TEXT
