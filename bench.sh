#!/usr/bin/env bash
# Installs what the benchmarks need, builds build/release/rivulet_bench and runs it; arguments go to it.
#   ./bench.sh                                          everything
#   ./bench.sh --benchmark_filter=step                  training steps
#   ./bench.sh --benchmark_format=json                  for programs
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh
. scripts/build.sh
install_packages "${build_packages[@]}" "${bench_packages[@]}" >&2
echo "Building build/release/rivulet_bench" >&2
# Without the tests in a new folder; one that is there keeps them.
tests=-DRIVULET_TESTS=OFF
[ ! -f build/release/build.ninja ] || tests=
build release $tests -DRIVULET_BENCH=ON -- rivulet_bench >&2
exec build/release/rivulet_bench "$@"
