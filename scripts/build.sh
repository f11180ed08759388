# build PRESET [CMAKE_ARGUMENT…] -- TARGET…: configures and builds build/PRESET. On a terminal ninja's one moving line is
# seen; elsewhere nothing is printed unless something fails. Sourced after packages.sh.
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
  if ! ninja -C "build/$preset" -j "$(build_jobs)" "$@" >>"$log" 2>&1; then
    grep -E -A15 '^FAILED|error:' "$log" | head -n 80 >&2
    echo "$0: building build/$preset failed; the whole log is $log" >&2
    return 1
  fi
}

# How many compilers may run at once: one per core, and no more than memory allows (up to 1.6 GB each).
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable:/ {print int($2 / 1024 / 1600)}' /proc/meminfo 2>/dev/null || true)
  [ "${by_memory:=$cores}" -ge 1 ] || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}
