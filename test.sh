#!/usr/bin/env bash
# Installs what the tests need, builds everything and runs every test.
#   ./test.sh                 all tests
#   ./test.sh -L unit         arguments go to ctest (labels: unit, conformance, e2e)
#   ./test.sh --sanitize      the tests under AddressSanitizer + UBSan, then under ThreadSanitizer
#   ./test.sh --fuzz          a minute of each target of tests/fuzz (scripts/fuzz.sh takes other times)
#   ./test.sh --hostile [SECONDS [SEED]]   every caller on every call, changed uploads and requests to pages: each search so
#                             long [60], by a seed that is printed; the suite runs the same for a minute in all
# RIVULET_TEST_DATA names a folder of real data sets; tests that need it are skipped by name without it.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh
. scripts/build.sh

if [ "${1:-}" = --fuzz ]; then exec scripts/fuzz.sh 60; fi
hostile=0
if [ "${1:-}" = --hostile ]; then
  hostile=1
  export RIVULET_HOSTILE_SECONDS=${2:-60} RIVULET_HOSTILE_SEED=${3:-$(date +%s)} RIVULET_HOSTILE_UPDATES=1500
  set -- -R '^hostile\.|^HostileUpdates\.' --verbose
fi
sanitize=0
[ "${1:-}" != --sanitize ] || { sanitize=1; shift; }
install_packages "${build_packages[@]}" "${test_packages[@]}" "${bench_packages[@]}"

run_tests() {
  local preset=$1; shift
  local status=0 results=$PWD/build/$preset/tests.xml
  ctest --test-dir "build/$preset" -j "$(nproc)" --output-on-failure --no-tests=error --output-junit "$results" "$@" || status=$?
  grep -h '^conformance: ' "build/$preset/Testing/Temporary/LastTest.log" || true
  count_conformance "$preset" "$results" || true
  return $status
}

# Cases made by others (ONNX, PyTorch, TensorFlow, NumPy), each a test labelled conformance.
count_conformance() {
  ctest --test-dir "build/$1" -N -L conformance | sed -n 's/^ *Test *#[0-9]*: //p' | awk -v results="$2" '
    BEGIN {
      while ((getline line < results) > 0)
        if (match(line, /<testcase name="[^"]*"/)) {
          name = substr(line, RSTART + 16, RLENGTH - 17)
          gsub(/&quot;/, "\"", name); gsub(/&lt;/, "<", name); gsub(/&gt;/, ">", name); gsub(/&apos;/, "\047", name)
          gsub(/&amp;/, "\\&", name)
          match(line, / status="[^"]*"/)
          status[name] = substr(line, RSTART + 9, RLENGTH - 10)
        }
    }
    $0 in status { ++count[status[$0]] }
    END { printf "Conformance cases: %d passed, %d skipped, %d failed\n", count["run"], count["notrun"], count["fail"] }'
}

[ $hostile = 0 ] || echo "Hostile searches of $RIVULET_HOSTILE_SECONDS s each with seed $RIVULET_HOSTILE_SEED"
if [ $sanitize = 0 ]; then
  echo "Building build/release"
  build release -DRIVULET_TESTS=ON -DRIVULET_BENCH=ON -- all
  run_tests release "$@"
  exit
fi

echo "Building build/asan"
build asan -DRIVULET_TESTS=ON -DRIVULET_BENCH=OFF -- all
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export LSAN_OPTIONS=suppressions=$PWD/tests/leaks.supp
failed=0
run_tests asan "$@" || failed=1
# Debian's gRPC, oneDNN and OpenMP are not instrumented, and what is handed over inside them is reported falsely: the
# thread sanitizer runs our own threads (engine, aggregation, coordinator, simulations) and leaves the network out.
echo "Building build/tsan"
build tsan -DRIVULET_TESTS=ON -DRIVULET_BENCH=OFF -- all
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1
run_tests tsan -L unit -E 'Grpc|Process' "$@" || failed=1
exit $failed
