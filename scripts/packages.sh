# The distribution's packages Rivulet is built from, and the function that installs those that are missing. Sourced by
# quickstart.sh, test.sh and bench.sh.

# What the binary needs: package and why.
build_packages=(
  "g++:C++20 compiler"
  "cmake:build"
  "ninja-build:build"
  "pkg-config:finds libraries"
  "libgrpc++-dev:remote calls between coordinator and clients"
  "protobuf-compiler-grpc:generates their code"
  "libprotobuf-dev:wire and file formats"
  "protobuf-compiler:generates their code"
  "libabsl-dev:status values"
  "libeigen3-dev:reference kernels"
  "libdnnl-dev:convolutions and larger products on the CPU"
  "libhwy-dev:own vector kernels"
  "libssl-dev:digests"
  "libsqlite3-dev:history"
  "libcli11-dev:command line"
  "libtomlplusplus-dev:scenario files"
  "libfmt-dev:messages"
  "libspdlog-dev:logs"
  "nlohmann-json3-dev:JSON output"
  "zlib1g-dev:compressed records"
)
test_packages=(
  "libgtest-dev:tests"
  "libgmock-dev:tests"
  "sqlite3:end-to-end tests read the history"
  "python3-minimal:end-to-end tests"
  "python3-numpy:checks models without our code"
)
bench_packages=(
  "libbenchmark-dev:benchmarks"
)

# install_packages "package:why" …: says what is missing and why, then installs it. Runs as root or through sudo.
install_packages() {
  local missing=() entry package
  for entry in "$@"; do
    package=${entry%%:*}
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$entry")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "Packages are missing and this is neither root nor is there sudo: ${missing[*]%%:*}" >&2; return 1; }
    sudo=(sudo)
  fi
  echo "Installing ${#missing[@]} packages:"
  for entry in "${missing[@]}"; do printf '  %-24s %s\n' "${entry%%:*}" "${entry#*:}"; done
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -qq &&
         "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]%%:*}"; } >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "The packages could not be installed; the whole log is in $log" >&2
    return 1
  fi
  rm -f "$log"
}

# build PRESET [CMAKE_ARGUMENT …] -- TARGET …: configures and builds; the output is shown only when something fails.
build() {
  local preset=$1 arguments=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do arguments+=("$1"); shift; done
  shift
  local log=build/$preset.log
  mkdir -p build
  if ! cmake --preset "$preset" "${arguments[@]}" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    return 1
  fi
  # On a terminal one line moves; in a log a line every 30 seconds is enough to see that it lives.
  local last=0 now
  if ! cmake --build "build/$preset" --target "$@" 2>&1 | tee -a "$log" | while IFS= read -r line; do
      case $line in
        \[*)
          if [ -t 1 ]; then
            printf '\r\033[K%.*s' "$(( ${COLUMNS:-80} - 1 ))" "$line"
          else
            now=$SECONDS
            if [ $((now - last)) -ge 30 ]; then echo "${line%% *} $(( now ))s"; last=$now; fi
          fi ;;
      esac
    done; then
    grep -nE 'error|Error|FAILED|undefined' "$log" | head -n 30 >&2
    echo "The build failed; the whole log is in $log" >&2
    return 1
  fi
  if [ -t 1 ]; then printf '\r\033[K'; fi
}
