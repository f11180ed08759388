# build PRESET [CMAKE_ARGUMENT…] -- TARGET…: configures and builds build/PRESET. A terminal shows ninja's one moving line.
# Elsewhere stderr gets a line every RIVULET_BUILD_REPORT_SECONDS (30 by default), and the log's end if the build fails.
# Sourced after packages.sh.
build() {
  local preset=$1 arguments=()
  shift
  while [ "$1" != -- ]; do arguments+=("$1"); shift; done
  shift
  local log=build/$preset.log
  mkdir -p build
  if ! cmake --preset "$preset" "${arguments[@]}" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "$0: configuring build/$preset failed; the whole log is $log" >&2
    return 1
  fi
  if [ -t 1 ]; then
    ninja -C "build/$preset" -j "$(build_jobs)" "$@" && return 0
    echo "$0: building build/$preset failed" >&2
    return 1
  fi
  ninja -C "build/$preset" -j "$(build_jobs)" "$@" >>"$log" 2>&1 &
  if ! report_build $! "$log"; then
    grep -E -A15 '^FAILED|error:' "$log" | head -n 80 >&2
    echo "$0: building build/$preset failed; the whole log is $log" >&2
    return 1
  fi
}

# report_build PID LOG: waits for the build PID, which writes to LOG, and returns its exit status. Says on stderr how far
# it is: "Building: 43 % after 120 s, about 160 s left". Ninja counts steps of unequal length, so the rest is a guess.
report_build() {
  local pid=$1 log=$2 every=${RIVULET_BUILD_REPORT_SECONDS:-30} began=$SECONDS reported=$SECONDS
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    [ $((SECONDS - reported)) -ge "$every" ] || continue
    reported=$SECONDS
    tail -c 4096 "$log" | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -n 1 | tr -d '[]' |
      awk -F/ -v seconds=$((SECONDS - began)) '$1 > 0 {
        printf "Building: %d %% after %d s, about %d s left\n", 100 * $1 / $2, seconds, seconds * ($2 - $1) / $1 }' >&2
  done
  wait "$pid"
}

# How many compilers may run at once: one per core, and no more than memory allows (up to 1.6 GB each).
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable:/ {print int($2 / 1024 / 1600)}' /proc/meminfo 2>/dev/null || true)
  [ "${by_memory:=$cores}" -ge 1 ] || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}
