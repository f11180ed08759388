#!/usr/bin/env bash
# Builds, tests and measures Rivulet on a GPU, in parts of at most 8 minutes each, so that it can be done on a machine
# that is lent for a while and reaches nothing. Each part says what it did, or why it was skipped, and ends well either way
# unless something failed. What a part has done is kept in --out: a part that is done is not done again, and a figure that
# was cut short goes on from the round that it had reached. --out/report.md is all that is known so far.
#   scripts/gpu.sh --part build        librivulet_cuda.so, rivulet and the tests labelled gpu
#   scripts/gpu.sh --part tests        the tests labelled gpu
#   scripts/gpu.sh --part sanitizer    the same under compute-sanitizer: memcheck, racecheck, initcheck, synccheck
#   scripts/gpu.sh --part kernels      products and convolutions of the presets, ours beside cuBLASLt and im2col: the table's rows
#   scripts/gpu.sh --part bench        ops of the presets' steps and whole steps, against what the device can do
#   scripts/gpu.sh --part cifar        a figure: WORK of simulations/comparisons/gpu/works.py; so femnist, resnet, shakespeare
#   scripts/gpu.sh --part cifar-tf32   the same by TF32; so femnist-tf32
#   scripts/gpu.sh --part mcmahan      100 clients at once against one at a time on the same device
#   scripts/gpu.sh --part fold         1,000 updates of 1.66 M folded, by the driver's records
#   scripts/gpu.sh --part peers-cifar  a figure's work as PyTorch does it (peers.py, five ways); so peers-femnist, …, peers-cifar-tf32
#   scripts/gpu.sh                     all parts, one after the other
# --out FOLDER: where reports and data go [build/gpu]. --dry-run: print what would be run. --again: also what is done.
# --small: a hundredth of each figure, two rounds, on the processor where no GPU is: to see that it runs.
# RIVULET_GPU_PYTHON: an interpreter with PyTorch [python3].
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.sh

figures=(cifar cifar-tf32 femnist femnist-tf32 resnet shakespeare)
all_parts=(build tests sanitizer kernels bench "${figures[@]}" mcmahan fold peers-cifar peers-cifar-tf32 peers-femnist peers-femnist-tf32 peers-resnet
  peers-shakespeare peers-mcmahan)
parts=() out=build/gpu dry='' again='' small='' python=${RIVULET_GPU_PYTHON:-python3}
while [ $# -gt 0 ]; do
  case $1 in
    --part) parts+=("$2"); shift 2 ;;
    --out) out=$2; shift 2 ;;
    --dry-run) dry=1; shift ;;
    --again) again=1; shift ;;
    --small) small=--small; shift ;;
    *) sed -n '2,20s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
for part in "${parts[@]}"; do
  case " ${all_parts[*]} " in
    *" $part "*) ;;
    *) echo "$0: there is no part '$part'; there are ${all_parts[*]}" >&2; exit 2 ;;
  esac
done
mkdir -p "$out"
rivulet=${RIVULET:-build/release/rivulet}
works=simulations/comparisons/gpu/works.py
most_seconds=450 # of what is measured in a part; the rest is for data and its report

skip() { echo "skipped: $*"; skipped=1; }
has_gpu() { nvidia-smi -L >/dev/null 2>&1; }
device() { nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "no GPU"; }
# run COMMAND…: runs it, or with --dry-run prints it.
run() {
  if [ -n "$dry" ]; then echo "+ $*"; else "$@"; fi
}
# Whether a figure can be taken; where it cannot, says so.
can_measure() {
  [ -n "$dry" ] && return
  [ -x "$rivulet" ] || { skip "no $rivulet here; run --part build first"; return 1; }
  [ -n "$small" ] || has_gpu || { skip "no GPU here"; return 1; }
}
# What --small runs on where there is no GPU.
on_device() { if [ -n "$small" ] && ! has_gpu; then echo "--device cpu"; else echo "--device gpu"; fi; }

part_build() {
  local nvcc missing=() tool
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
  [ -n "$dry" ] || [ -n "$nvcc" ] ||
    { skip "no nvcc here, so librivulet_cuda.so cannot be built; install the CUDA toolkit"; return; }
  for tool in cmake ninja g++; do command -v "$tool" >/dev/null || missing+=("$tool"); done
  [ ${#missing[@]} -eq 0 ] || { skip "no ${missing[*]} here; scripts/packages.sh lists what a build needs"; return; }
  run build release -DRIVULET_TESTS=ON -DRIVULET_BENCH=OFF -DRIVULET_CUDA=ON -- rivulet rivulet_cuda gpu_tests
  run "$rivulet" doctor
}

part_tests() {
  [ -n "$dry" ] || has_gpu || { skip "no GPU here"; return; }
  run timeout $most_seconds ctest --test-dir build/release -L '^gpu$' --output-on-failure --no-tests=error
}

part_sanitizer() {
  [ -n "$dry" ] || has_gpu || { skip "no GPU here"; return; }
  local sanitizer tests=build/release/gpu_device_test tool
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  [ -n "$dry" ] || [ -n "$sanitizer" ] || { skip "no compute-sanitizer here"; return; }
  [ -n "$dry" ] || [ -x "$tests" ] || { skip "no $tests here; run --part build first"; return; }
  # A client's vector comes to the host as a whole, with the gaps between its tensors, which nobody has written and nobody
  # reads: initcheck looks at kernels, not at copies. racecheck follows each access to shared memory, and
  # takes longer than a part has for any but the smallest.
  local more
  for tool in memcheck racecheck initcheck synccheck; do
    more=(--gtest_brief=1)
    [ $tool != racecheck ] || more+=(--gtest_filter='*SeededNoise*:*LogisticRegression*')
    local of_tool=()
    [ $tool != initcheck ] || of_tool=(--check-api-memory-access no)
    run timeout $((most_seconds / 4)) "${sanitizer:-compute-sanitizer}" --tool "$tool" "${of_tool[@]}" --error-exitcode 1 \
      "$tests" "${more[@]}"
  done
}

part_kernels() {
  [ -n "$dry" ] || has_gpu || { skip "no GPU here"; return; }
  [ -n "$dry" ] || [ -x build/release/gpu_kernels ] || { skip "no gpu_kernels here; run --part build first"; return; }
  run timeout $most_seconds build/release/gpu_kernels
}

part_bench() {
  can_measure || return 0
  local on op
  on=$(on_device)
  [ "$on" = "--device cpu" ] || on="--device gpu --lanes 50"
  # An op a line: its shapes are those of the presets' steps at batch 10.
  while read -r op; do
    # Words of the line are arguments.
    # shellcheck disable=SC2086
    run timeout 60 "$rivulet" bench op $op $on
  done <<'OPS'
MatMul --shape 10x784 --shape 784x200
MatMul --shape 10x12544 --shape 12544x128
MatMul --shape 784x10 --shape 10x200
Conv2D --shape 10x32x32x3 --shape 3x3x3x32 --attr strides=1,1,1,1 --attr padding=VALID
Conv2D --shape 10x30x30x32 --shape 3x3x32x64 --attr strides=1,1,1,1 --attr padding=VALID
Conv2D --shape 10x28x28x32 --shape 5x5x32x64 --attr strides=1,1,1,1 --attr padding=SAME
Relu --shape 10x28x28x64
Softmax --shape 10x62
OPS
  local preset
  for preset in cifar_cnn emnist_cnn mnist_cnn char_lstm; do
    # shellcheck disable=SC2086
    run timeout 60 "$rivulet" graph profile "$preset" $on --trace "$out/step-$preset.json"
  done
}

# simulated NAME SCENARIO ARGUMENT…: a run, on from where it stands; false where it was cut short or failed.
simulated() {
  local name=$1 scenario=$2 resume=() on ended=0
  shift 2
  on=$(on_device)
  [ ! -f "$out/$name.sqlite" ] || resume=(--resume latest)
  # shellcheck disable=SC2086
  run timeout --signal=INT $most_seconds "$rivulet" simulate "$scenario" $on "${resume[@]}" "$@" --db "$out/$name.sqlite" \
    --quiet 2>"$out/$name.log" || ended=$?
  [ $ended -eq 0 ] && return
  echo "$name: stopped after $most_seconds s at the most ($ended); the same part goes on from there. The last it said:"
  tail -n 3 "$out/$name.log"
  return 1
}

prepared() { run "$python" "$works" prepare "$1" --out "$out" --rivulet "$rivulet" $small; }
scenario_of() { echo "$out/$1${small:+-small}.toml"; }

# figure WORK[-tf32]
figure() {
  can_measure || return 0
  local work=${1%-tf32} whole=0 by=()
  prepared "$work"
  # Without a GPU --small says what runs, and a processor has no TF32.
  [ "$work" = "$1" ] || [ "$(on_device)" = "--device cpu" ] || by=(--tf32)
  simulated "$1" "$(scenario_of "$work")" "${by[@]}" || whole=1
  run "$python" "$works" rounds "$out/$1.sqlite" "$work"
  return $whole
}

part_mcmahan() {
  can_measure || return 0
  prepared mcmahan
  simulated mcmahan "$(scenario_of mcmahan)"
  run "$python" "$works" rounds "$out/mcmahan.sqlite" mcmahan
  local lanes=()
  [ "$(on_device)" = "--device cpu" ] || lanes=(--lanes 1)
  simulated mcmahan-alone "$(scenario_of mcmahan)" --rounds 2 "${lanes[@]}"
  echo "one client at a time:"
  run "$python" "$works" rounds "$out/mcmahan-alone.sqlite" mcmahan
}

part_fold() {
  can_measure || return 0
  prepared fold
  simulated fold "$(scenario_of fold)" --trace "$out/fold-trace.json"
  run "$python" "$works" rounds "$out/fold.sqlite" fold
  run "$python" "$works" fold "$out/fold-trace.json" fold
}

peers() {
  local on=()
  if [ -n "$small" ]; then on=(--small --rounds 1); has_gpu || on+=(--device cpu); fi
  [ "${1%-tf32}" = "$1" ] || on+=(--tf32)
  run timeout $most_seconds "$python" simulations/comparisons/gpu/peers.py --work "${1%-tf32}" --json "$out/peers.json" "${on[@]}"
}

perform() {
  case $1 in
    peers-*) peers "${1#peers-}" ;;
    cifar* | femnist* | resnet | shakespeare) figure "$1" ;;
    *) "part_$1" ;;
  esac
}

# All parts that were run, in their order.
report() {
  local part
  echo "# On $(device), $(date -u +%FT%TZ)"
  for part in "${all_parts[@]}"; do
    [ -f "$out/$part.txt" ] || continue
    printf '\n## %s%s\n\n```\n' "$part" "$([ -f "$out/$part.done" ] || echo ' (not to its end)')"
    cat "$out/$part.txt"
    echo '```'
  done
}

failed=0
for part in "${parts[@]}"; do
  echo "== $part, $(device), $(date -u +%FT%TZ)"
  if [ -n "$dry" ]; then perform "$part"; continue; fi
  if [ -z "$again" ] && [ -f "$out/$part.done" ]; then echo "done before; --again does it again"; continue; fi
  rm -f "$out/$part.done"
  # Not behind `||`, where a command that fails would not end the part.
  set +e
  (set -e; skipped=; perform "$part"; [ -n "$skipped" ] || touch "$out/$part.done") >"$out/$part.txt" 2>&1
  ended=$?
  set -e
  cat "$out/$part.txt"
  [ $ended -eq 0 ] || failed=1
  report >"$out/report.md"
done
exit $failed
