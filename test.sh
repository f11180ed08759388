#!/usr/bin/env bash
# Installs what the tests need, builds everything and runs every test.
#   ./test.sh                 all tests
#   ./test.sh -L unit         arguments go to ctest (labels: unit, conformance, e2e)
#   ./test.sh --sanitize      the tests under AddressSanitizer + UBSan, then under ThreadSanitizer
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh

sanitize=0
[ "${1:-}" != --sanitize ] || { sanitize=1; shift; }
install_packages "${build_packages[@]}" "${test_packages[@]}"

# build PRESET: configures and builds, quietly unless it fails.
build() {
  local preset=$1 log=build/test-$1.log
  mkdir -p build
  echo "Building build/$preset (log: $log)"
  cmake --preset "$preset" -DRIVULET_TESTS=ON -DRIVULET_BENCH=OFF >"$log" 2>&1 &&
    ninja -C "build/$preset" -j "$(build_jobs)" >>"$log" 2>&1 ||
    { grep -n -A20 -E 'FAILED|CMake Error' "$log" | head -n 100 >&2 || tail -n 60 "$log" >&2
      echo "test.sh: building build/$preset failed; the whole log is $log" >&2; exit 1; }
}

run_tests() {
  local preset=$1; shift
  ctest --test-dir "build/$preset" -j "$(nproc)" --output-on-failure --no-tests=error "$@"
}

if [ $sanitize = 0 ]; then
  build release
  run_tests release "$@"
  exit
fi

build asan
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
run_tests asan "$@"
# Debian's gRPC, oneDNN and OpenMP are not instrumented, and what is handed over inside them is reported falsely: the
# thread sanitizer runs our own threads (engine, aggregation, coordinator, simulations) and leaves the network out.
build tsan
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1
run_tests tsan -L unit -E 'Grpc|Process' "$@"
