#!/usr/bin/env bash
# From a bare Debian 12 to a trained federated model: installs what is missing, builds the Release binary, and simulates
# 100 clients, each with handwritten-like digits of its own. Needs no download besides the packages.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh
. scripts/build.sh

[ $# -eq 0 ] || { echo "usage: ./quickstart.sh" >&2; exit 2; }
install_packages "${build_packages[@]}"

# A build that is there is brought up to date as it was configured. A new one leaves out tests and benchmarks.
echo "Building build/release/rivulet"
if [ -f build/release/build.ninja ]; then
  build release -- rivulet
else
  build release -DRIVULET_TESTS=OFF -DRIVULET_BENCH=OFF -- rivulet
fi

echo "Training: FedAvg over 100 simulated clients"
build/release/rivulet simulate simulations/scenarios/quickstart.toml

rivulet=build/release/rivulet quickstart=simulations/scenarios/quickstart.toml
cat <<END

Try next:
  $rivulet runs rounds latest
  $rivulet simulate $quickstart --set model.preset=mlp
  $rivulet up $quickstart --clients 4 --set server.clients_per_round=2 --rounds 5
END
