#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test.
#   ./test.sh                 all of them (labels unit, conformance, e2e)
#   ./test.sh -L unit         further arguments go to ctest
#   ./test.sh --sanitize      the same under address and undefined-behaviour sanitizers, and what threads touch under the
#                             thread sanitizer
# RIVULET_TEST_DATA names a folder of real data; tests that need it are skipped by name without it.
set -euo pipefail
cd "$(dirname "$0")"
source scripts/packages.sh

jobs=$(nproc)
install_packages "${build_packages[@]}" "${test_packages[@]}" "${bench_packages[@]}"

if [ "${1:-}" = --sanitize ]; then
  shift
  build asan -DRIVULET_BENCH=OFF -- all
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    ctest --test-dir build/asan -j "$jobs" --output-on-failure --timeout 900 "$@"
  build tsan -DRIVULET_BENCH=OFF -- all
  # gRPC and oneDNN are not instrumented (docs/building.md): the thread sanitizer sees the engine, aggregation, the coordinator
  # and the simulator, whose threads meet in our code.
  TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1" \
    ctest --test-dir build/tsan -j "$jobs" --output-on-failure --timeout 900 -L unit -E 'Grpc|Transport' "$@"
  exit 0
fi

echo "Building"
build release -DRIVULET_TESTS=ON -DRIVULET_BENCH=ON -- all
echo "Built in $SECONDS s"
ctest --test-dir build/release -j "$jobs" --output-on-failure "$@"
