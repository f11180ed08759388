#!/usr/bin/env bash
# The test programs under a sanitizer in one go, each in one process: ctest's thousands of processes would cost more than the
# tests do. Prints a line a program: tests, how many passed, were skipped and failed, reports, and seconds of a core.
#   scripts/sanitize.sh asan|tsan|fuzz [PROGRAM…]     [all test programs; of the emulated GPU's under tsan none, see below]
#     asan, tsan: by GCC. fuzz: address and undefined behaviour by clang, in the build in which searches were made
#     (scripts/fuzz.sh), where only the tests themselves are left to compile; vector kernels of the baseline alone
# What sanitizer and tests say lies in build/PRESET/sanitized/. `./test.sh --sanitize` runs the same tests by ctest, with the
# end-to-end ones.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/build.sh

preset=${1:?"usage: scripts/sanitize.sh asan|tsan|fuzz [PROGRAM…]"}; shift
case $preset in asan | tsan | fuzz) ;; *) echo "no sanitizer's build '$preset': asan, tsan or fuzz" >&2; exit 2 ;; esac
folder=$PWD/build/$preset
logs=$folder/sanitized
packages=("${build_packages[@]}" "${test_packages[@]}")
[ "$preset" != fuzz ] || packages+=("${fuzz_packages[@]}")
install_packages "${packages[@]}"
# Of programs that are named only these are built.
targets=("$@")
build "$preset" -DRIVULET_TESTS=ON -DRIVULET_BENCH=OFF -- "${targets[@]:-all}"
mkdir -p "$logs"

# A report of the thread sanitizer neither ends a program nor hides behind the first: a run finds all there are. It looks at
# our own code alone: the distribution's gRPC, Abseil, protobuf and oneDNN are not instrumented, and what is handed over
# inside them would be reported falsely.
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$PWD/tests/leaks.supp
export TSAN_OPTIONS=ignore_noninstrumented_modules=1

run_program() {
  local name=$1 log=$logs/$1.log status=0 spent TIMEFORMAT='%U %S'
  local run=(timeout 3600 "./$name" --gtest_brief=1 "--gtest_output=xml:$logs/$name.xml")
  cd "$folder"
  [ "$preset:$name" != tsan:transport_test ] || TSAN_OPTIONS=$TSAN_OPTIONS:suppressions=$folder/../../tests/threads.supp
  spent=$({ time "${run[@]}" >"$log" 2>&1; } 2>&1) || status=$?
  # Its detector of deadlocks bears 64 locks of a thread, and a session holds one for each variable: without it, then.
  if [ $status != 0 ] && grep -q 'CHECK failed: sanitizer_deadlock_detector' "$log"; then
    status=0
    spent=$({ time TSAN_OPTIONS=$TSAN_OPTIONS:detect_deadlocks=0 "${run[@]}" >"$log" 2>&1; } 2>&1) || status=$?
  fi
  awk -v name="$name" -v spent="$spent" -v status=$status '
    /^\[  PASSED  \]/ { passed = $4 }
    /^\[  SKIPPED \] [0-9]+ test/ { skipped = $4 }
    /^\[  FAILED  \] .*ms\)/ { ++failed }
    /WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|runtime error:/ { ++reports }
    /^\[=+\] [0-9]+ tests? from .* ran/ { tests = $2 }
    END {
      split(spent, seconds, " ")
      printf "%-28s %5d tests %5d passed %3d skipped %3d failed %3d reports %6.0f s%s\n", name, tests, passed, skipped, failed,
             reports, seconds[1] + seconds[2], status ? ", exit " status : ""
    }' "$log"
  return $status
}

# Blocks of the emulated GPU are fibers of one thread, each of which the thread sanitizer follows by itself: minutes for each
# test, and no second thread to find.
emulated='client_gpu_test engine_gpu_program_test engine_gpu_test engine_kernels_cuda_test gpu_steps_test simulations_gpu_test'
if [ $# -gt 0 ]; then
  programs=("$@")
else
  mapfile -t programs < <(cd "$folder" && find . -maxdepth 1 -name '*_test' -type f -executable -printf '%f\n' | sort)
fi
failed=0 running=0
for program in "${programs[@]}"; do
  if [ $# = 0 ] && [ "$preset" = tsan ] && [[ " $emulated " = *" $program "* ]]; then continue; fi
  if [ $running -ge "$(nproc)" ]; then wait -n || failed=1; running=$((running - 1)); fi
  run_program "$program" &
  running=$((running + 1))
done
while [ $running -gt 0 ]; do wait -n || failed=1; running=$((running - 1)); done
exit $failed
