#!/usr/bin/env bash
# Builds, tests and measures Rivulet on a GPU, in parts of at most 8 minutes each, so that it can be done on a machine
# that is lent for a while and reaches nothing. Each part says what it did, or why it was skipped, and ends well either way
# unless something failed.
#   scripts/gpu.sh --part build       librivulet_cuda.so, rivulet and the tests labelled gpu
#   scripts/gpu.sh --part tests       the tests labelled gpu
#   scripts/gpu.sh --part sanitizer   the same under compute-sanitizer: memcheck, racecheck, initcheck
#   scripts/gpu.sh --part kernels     products and convolutions of the presets, ours beside cuBLASLt and cuDNN: the table's rows
#   scripts/gpu.sh --part cifar       1,000 clients × 50 of CIFAR-10's shape, 50 a round, batch 10: the figures
#   scripts/gpu.sh --part femnist     3,400 clients of FEMNIST's shape, 10 a round, batch 20: the figures
#   scripts/gpu.sh --part peers       both as PyTorch does them on the same device (simulations/comparisons/gpu)
#   scripts/gpu.sh                    all parts, one after the other
# --out FOLDER: where reports and data go [build/gpu]. --rounds N: of a figure [1500]. RIVULET_GPU_PYTHON: an interpreter with
# PyTorch [python3].
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.sh

parts=() out=build/gpu rounds=1500 python=${RIVULET_GPU_PYTHON:-python3}
while [ $# -gt 0 ]; do
  case $1 in
    --part) parts+=("$2"); shift 2 ;;
    --out) out=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    *) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(build tests sanitizer kernels cifar femnist peers)
mkdir -p "$out"
rivulet=build/release/rivulet
most_seconds=470  # of a part; what it has told by then stands

skip() { echo "skipped: $*"; }
has_gpu() { nvidia-smi -L >/dev/null 2>&1; }
device() { nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "no GPU"; }

part_build() {
  local nvcc
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
  [ -n "$nvcc" ] || { skip "no nvcc here, so librivulet_cuda.so cannot be built; install the CUDA toolkit"; return; }
  local missing=()
  for tool in cmake ninja g++; do command -v "$tool" >/dev/null || missing+=("$tool"); done
  [ ${#missing[@]} -eq 0 ] || { skip "no ${missing[*]} here; scripts/packages.sh lists what a build needs"; return; }
  build release -DRIVULET_TESTS=ON -DRIVULET_BENCH=OFF -DRIVULET_CUDA=ON -- rivulet rivulet_cuda gpu_tests
  "$rivulet" doctor || true
}

part_tests() {
  has_gpu || { skip "no GPU here"; return; }
  ctest --test-dir build/release -L '^gpu$' --output-on-failure --no-tests=error
}

part_sanitizer() {
  has_gpu || { skip "no GPU here"; return; }
  local sanitizer tests
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  [ -n "$sanitizer" ] || { skip "no compute-sanitizer here"; return; }
  tests=$(ls build/release/gpu_device_test 2>/dev/null || true)
  [ -n "$tests" ] || { skip "no tests here; run --part build first"; return; }
  local tool
  for tool in memcheck racecheck initcheck; do
    echo "compute-sanitizer --tool $tool"
    "$sanitizer" --tool "$tool" --error-exitcode 1 "$tests" --gtest_brief=1
  done
}

part_kernels() {
  has_gpu || { skip "no GPU here"; return; }
  [ -x build/release/gpu_kernels ] || { skip "no gpu_kernels here; run --part build first"; return; }
  timeout "$most_seconds" build/release/gpu_kernels | tee "$out/kernels.txt"
}

# Of random pixels, once: figures depend on shapes, not on values.
random_cifar() {
  [ -f "$out/cifar/train.tfrecord" ] && return
  mkdir -p "$out/cifar-raw"
  "$python" - "$out/cifar-raw" <<'PYTHON'
import os, random, sys
draws = random.Random(1)
for name, count in [*((f"data_batch_{i}.bin", 10000) for i in range(1, 6)), ("test_batch.bin", 10000)]:
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        for _ in range(count):
            file.write(bytes([draws.randrange(10)]) + draws.randbytes(3072))
with open(os.path.join(sys.argv[1], "batches.meta.txt"), "w") as file:
    file.write("".join(f"class{i}\n" for i in range(10)))
PYTHON
  "$rivulet" data import cifar10 --quiet --from "$out/cifar-raw" --out "$out/cifar"
}

random_femnist() {
  [ -f "$out/femnist/train.tfrecord" ] && return
  mkdir -p "$out/femnist-raw"
  "$python" - "$out/femnist-raw" <<'PYTHON'
import os, random, struct, sys
def npy(name, dtype, shape, pieces):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        for piece in pieces:
            file.write(piece)
draws = random.Random(1)
for name, count in [("train", 670000), ("test", 20000)]:
    npy(f"x_{name}.npy", "|u1", (count, 28, 28, 1), (draws.randbytes(784 * 1000) for _ in range(count // 1000)))
    npy(f"y_{name}.npy", "<i8", (count,), (struct.pack("<q", draws.randrange(62)) for _ in range(count)))
PYTHON
  "$rivulet" data import numpy --quiet --from "$out/femnist-raw" --out "$out/femnist"
}

# figure NAME ARGUMENT…: one run of `rivulet simulate`, by the clock and by what its history says.
figure() {
  local name=$1 begin end
  shift
  begin=$(date +%s.%N)
  if timeout $most_seconds "$rivulet" simulate "$@" --db "$out/$name.sqlite" --json >"$out/$name.json" 2>"$out/$name.log"; then
    end=$(date +%s.%N)
    echo "$name: $(echo "$end - $begin" | bc) s for $rounds rounds, the program's start to its end"
  else
    echo "$name: failed or took more than $most_seconds s; the last it said:"
    tail -n 3 "$out/$name.log"
    return 1
  fi
}

part_cifar() {
  has_gpu || { skip "no GPU here"; return; }
  [ -x "$rivulet" ] || { skip "no $rivulet here; run --part build first"; return; }
  random_cifar
  figure cifar simulations/scenarios/cifar10-iid.toml --rounds "$rounds" --device gpu \
    --set "data.train=$PWD/$out/cifar/train.tfrecord" --set "data.test=$PWD/$out/cifar/test.tfrecord"
}

part_femnist() {
  has_gpu || { skip "no GPU here"; return; }
  [ -x "$rivulet" ] || { skip "no $rivulet here; run --part build first"; return; }
  random_femnist
  figure femnist simulations/scenarios/cifar10-iid.toml --rounds "$rounds" --device gpu --set run.name=femnist \
    --set model.preset=emnist_cnn --set "data.train=$PWD/$out/femnist/train.tfrecord" \
    --set "data.test=$PWD/$out/femnist/test.tfrecord" --set data.partition.clients=3400 \
    --set data.partition.sizes=lognormal --set data.partition.skew=0.4 --set client.batch_size=20 \
    --set server.clients_per_round=10
}

part_peers() {
  local work
  for work in cifar femnist; do
    timeout $((most_seconds / 2)) "$python" simulations/comparisons/gpu/peers.py --work "$work" --json "$out/peers.json" ||
      echo "$work: the peers failed or took more than $((most_seconds / 2)) s"
  done
}

for part in "${parts[@]}"; do
  case $part in
    build | tests | sanitizer | kernels | cifar | femnist | peers) ;;
    *) echo "$0: there is no part '$part'; there are build, tests, sanitizer, kernels, cifar, femnist and peers" >&2; exit 2 ;;
  esac
  echo "== $part, $(device), $(date -u +%FT%TZ)"
  "part_$part" 2>&1 | tee "$out/$part.txt"
done
