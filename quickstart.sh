#!/usr/bin/env bash
# From a bare Debian 12 to a trained federated model: installs what is missing, builds the Release binary, and simulates
# 100 clients, each with handwritten-like digits of its own. Needs no download besides the packages.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh

[ $# -eq 0 ] || { echo "usage: ./quickstart.sh" >&2; exit 2; }
install_packages "${build_packages[@]}"

mkdir -p build
log=build/quickstart.log
if [ ! -f build/release/build.ninja ]; then
  echo "Configuring (log: $log)"
  cmake --preset release -DRIVULET_TESTS=OFF -DRIVULET_BENCH=OFF >"$log" 2>&1 ||
    { tail -n 30 "$log" >&2; echo "quickstart.sh: configuring failed; the whole log is $log" >&2; exit 1; }
fi
echo "Building build/release/rivulet"
if [ -t 1 ]; then
  ninja -C build/release -j "$(build_jobs)" rivulet
else
  ninja -C build/release -j "$(build_jobs)" rivulet >"$log" 2>&1 ||
    { tail -n 60 "$log" >&2; echo "quickstart.sh: the build failed; the whole log is $log" >&2; exit 1; }
fi

echo "Training: FedAvg over 100 simulated clients"
build/release/rivulet simulate simulations/scenarios/quickstart.toml

cat <<'END'

Try next:
  build/release/rivulet runs rounds latest                                       # the history, round by round
  build/release/rivulet up simulations/scenarios/quickstart.toml --clients 4 --set server.clients_per_round=2   # deployed, over gRPC
  build/release/rivulet data inspect simulations/scenarios/digits/train.tfrecord # what the clients learn from
END
