# The one list of Debian packages, and their installation; sourced by quickstart.sh, test.sh and
# bench.sh.
# Each entry is "package|why".

build_packages=(
  "g++|compiles Rivulet (C++20)"
  "cmake|describes the build"
  "ninja-build|runs the build"
  "pkg-config|finds libraries"
  "libgrpc++-dev|calls between coordinator and clients"
  "protobuf-compiler-grpc|generates the calls' code"
  "libprotobuf-dev|messages and file formats"
  "protobuf-compiler|generates the messages' code"
  "libabsl-dev|errors as values"
  "libdnnl-dev|convolutions and matrix products on the CPU"
  "libeigen3-dev|reference kernels"
  "libhwy-dev|vectorised kernels"
  "libssl-dev|certificates and SHA-256 digests"
  "libsqlite3-dev|the history"
  "zlib1g-dev|compressed record files"
  "libzstd-dev|models and updates that are packed on their way"
  "libcli11-dev|the command line"
  "libtomlplusplus-dev|scenario files"
  "nlohmann-json3-dev|JSON output"
  "libspdlog-dev|logs"
  "libfmt-dev|text"
  "libedit-dev|line editing in rivulet debug (optional)"
  "libboost-dev|pages of runs: rivulet dashboard and --http (optional)"
  "libcurl4-openssl-dev|data sets over HTTPS: rivulet data fetch (optional)"
  "libpng-dev|folders of PNG images, and pictures as PNG (optional)"
  "libjpeg-dev|folders of JPEG images (optional)"
)
test_packages=(
  "libopenmpi-dev|one simulation on several machines by mpirun (optional)"
  "libgtest-dev|unit tests"
  "libgmock-dev|matchers of the unit tests"
  "clang-format|tells whether the sources are formatted"
  "mold|links the test programs quickly"
  "libfaketime|a client whose clock is set while it waits"
  "python3|end-to-end tests"
  "python3-numpy|checks model files without our code"
  "python3-protobuf|clients written in Python"
  "python3-grpcio|their calls, and what stands between them and a coordinator in tests"
  "python3-cryptography|a client of secure sums that is none of ours, in tests (optional)"
  "python3-yaml|reads the manifests of deploy/ in tests (optional)"
  "python3-cloudpickle|functions of notebooks for the processes that train (optional)"
)
fuzz_packages=(
  "clang-16|the fuzzer's compiler (older ones capture no structured bindings)"
  "libclang-rt-16-dev|libFuzzer"
)
bench_packages=(
  "libbenchmark-dev|benchmarks"
)

# install_packages "package|why" …: says which are missing and why, then installs exactly those.
install_packages() {
  local entry package missing=()
  for entry in "$@"; do
    package=${entry%%|*}
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      [ ${#missing[@]} -gt 0 ] || echo "Installing the Debian packages that are missing:"
      printf '  %-24s %s\n' "$package" "${entry#*|}"
      missing+=("$package")
    fi
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "$0: installing packages needs root or sudo; as root run: apt-get install ${missing[*]}" >&2
      return 1
    }
    as_root=(sudo)
  fi
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -qq &&
         "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
           apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "$0: apt-get could not install the packages above" >&2
    return 1
  fi
  rm -f "$log"
}
