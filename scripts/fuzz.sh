#!/usr/bin/env bash
# Looks for bytes that break our parsers, by clang's libFuzzer under the address and undefined-behaviour sanitizers:
#   scripts/fuzz.sh SECONDS [TARGET…]   each target [all] for so long, as many at a time as there are cores. A line a
#                                       target, of all its runs so far: seconds of a core, inputs, how many a second,
#                                       edges of the program, and whether it is finished: one that saw a new edge in the
#                                       last fifth of its inputs is not
#   scripts/fuzz.sh --table             those lines as a table
#   scripts/fuzz.sh --keep [TARGET…]    puts small inputs that reach new edges into tests/fuzz/corpora
#
# Runs go on where those before have ended: their inputs stay in build/fuzz/corpus/TARGET, their numbers in
# build/fuzz/tally.tsv; without these files all starts over. What is found lies in build/fuzz/found/TARGET-…; put it into
# tests/fuzz/cases/TARGET/, where every build tries it, and mend the parser.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/build.sh

what=${1:?"usage: scripts/fuzz.sh SECONDS|--table|--keep [TARGET…]"}; shift
fuzz=$PWD/build/fuzz/rivulet_fuzz tally=build/fuzz/tally.tsv
export UBSAN_OPTIONS=print_stacktrace=1

search() {
  local target=$1 corpus=build/fuzz/corpus/$1 log=build/fuzz/logs/$1.log status=0 spent TIMEFORMAT='%U %S'
  mkdir -p "$corpus"
  "$fuzz" "$target" --begin "$corpus" "tests/fuzz/corpora/$target"
  [ ! -d "tests/fuzz/cases/$target" ] || cp "tests/fuzz/cases/$target"/* "$corpus"
  spent=$({ time "$fuzz" "$target" -max_total_time="$what" -timeout=20 -rss_limit_mb=3000 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" "$corpus" >"$log" 2>&1; } 2>&1) || status=$?
  python3 scripts/fuzz_tally.py add $tally "$target" "$spent" $status "$log"
  return $status
}

# Of a corpus as few inputs as reach what all of it reaches, and of these the smallest.
keep() {
  local target=$1 least=build/fuzz/least/$1
  [ -d "build/fuzz/corpus/$target" ] || return 0
  rm -rf "$least" && mkdir -p "$least" tests/fuzz/corpora
  "$fuzz" "$target" -merge=1 -max_len=2048 "$least" "build/fuzz/corpus/$target" >"build/fuzz/logs/$target.merge" 2>&1
  "$fuzz" "$target" --pack "$least" "tests/fuzz/corpora/$target"
}

if [ "$what" = --table ]; then exec python3 scripts/fuzz_tally.py table $tally; fi
install_packages "${build_packages[@]}" "${test_packages[@]}" "${fuzz_packages[@]}"
build fuzz -DRIVULET_TESTS=ON -DRIVULET_BENCH=OFF -- rivulet_fuzz
[ $# -gt 0 ] || mapfile -t targets < <("$fuzz")
[ $# = 0 ] || targets=("$@")
mkdir -p build/fuzz/found build/fuzz/logs

failed=0 running=0
for target in "${targets[@]}"; do
  if [ $running -ge "$(nproc)" ]; then wait -n || failed=1; running=$((running - 1)); fi
  if [ "$what" = --keep ]; then keep "$target" & else search "$target" & fi
  running=$((running + 1))
done
while [ $running -gt 0 ]; do wait -n || failed=1; running=$((running - 1)); done
exit $failed
