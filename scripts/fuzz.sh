#!/usr/bin/env bash
# Looks for bytes that break our parsers: scripts/fuzz.sh SECONDS [TARGET…], by clang's libFuzzer under the address and
# undefined-behaviour sanitizers. A line a target: how many inputs, how many a second, how many edges of the program, and
# whether it is finished: one that found a new edge in the last fifth of its inputs is not.
#
# What is found lies in build/fuzz/found/TARGET-…; put it into tests/fuzz/cases/TARGET/, where every build tries it, and
# mend the parser. The inputs that a search goes on with stay in build/fuzz/corpus/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/build.sh

seconds=${1:?"usage: scripts/fuzz.sh SECONDS [TARGET…]"}; shift
install_packages "${build_packages[@]}" "${test_packages[@]}" "${fuzz_packages[@]}"
build fuzz -DRIVULET_TESTS=ON -DRIVULET_BENCH=OFF -- rivulet_fuzz
fuzz=$PWD/build/fuzz/rivulet_fuzz
[ $# -gt 0 ] || mapfile -t targets < <("$fuzz")
[ $# = 0 ] || targets=("$@")
mkdir -p build/fuzz/found build/fuzz/logs
export UBSAN_OPTIONS=print_stacktrace=1

search() {
  local target=$1 corpus=build/fuzz/corpus/$1 log=build/fuzz/logs/$1.log status=0
  mkdir -p "$corpus"
  "$fuzz" "$target" --seeds "$corpus"
  [ ! -d "tests/fuzz/cases/$target" ] || cp "tests/fuzz/cases/$target"/* "$corpus"
  "$fuzz" "$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$target-" "$corpus" >"$log" 2>&1 || status=$?
  awk -v target="$target" -v status=$status '
    /^#[0-9]+/ { run = substr($1, 2) + 0 }
    /^#[0-9]+.* (NEW|INITED) / { for (i = 1; i < NF; ++i) if ($i == "cov:" && $(i + 1) > edges) { edges = $(i + 1); last = run } }
    /stat::number_of_executed_units/ { total = $2 }
    /stat::average_exec_per_sec/ { rate = $2 }
    END {
      state = status != 0 ? "BROKEN: see build/fuzz/logs/" target ".log" : last > 0.8 * total ? "not finished" : "finished"
      printf "%-20s %10d inputs %8d a second %7d edges  %s\n", target, total, rate, edges, state
    }' "$log"
  return $status
}

failed=0
for target in "${targets[@]}"; do
  search "$target" || failed=1
done
exit $failed
