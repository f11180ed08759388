#!/usr/bin/env bash
# Runs the tests of clients written in Python with old and new grpcio, protobuf and NumPy, each in an environment of its own (build/python-matrix, from
# PyPI), and checks types, packaging and what an import costs. Prints one line for each.
#   scripts/python-matrix.sh [PYTHON…]   interpreters that have more, such as PyTorch and Flower, to run the tests with
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$root/build/python-matrix
export RIVULET_BINARY=${RIVULET_BINARY-$root/build/release/rivulet} PYTHONDONTWRITEBYTECODE=1
mkdir -p "$work"
failed=0

# report WHAT COMMAND…: one line for the run, and its output where it fails.
report() {
  local what=$1 log begin=$SECONDS
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    printf '%-76s %s (%d s)\n' "$what" "$(grep -E '^OK|^Success|^0 errors' "$log" | tail -1)" $((SECONDS - begin))
  else
    printf '%-76s FAILED\n' "$what"
    tail -n 40 "$log"
    failed=1
  fi
  rm -f "$log"
}

# environment NAME PACKAGE…: an interpreter with these packages.
environment() {
  local folder=$work/$1
  shift
  "$folder/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$folder"
  "$folder/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 && echo "$folder/bin/python"
}

versions() {
  "$1" -c 'import sys, importlib.metadata as m
def has(name):
    try:
        return [f"{name} {m.version(name)}"]
    except m.PackageNotFoundError:
        return []
print("Python %d.%d" % sys.version_info[:2], *sum(map(has, ("grpcio", "protobuf", "numpy", "cloudpickle", "crc32c", "safetensors", "torch", "flwr")), []), sep=", ")'
}

tests() {
  local test
  for test in records_test models_test connection_test kit_test client_test held_test arrays_test virtual_test fuzz_test frameworks_test notebooks_test; do
    report "$test: $(versions "$1")" "$1" "tests/python/$test.py"
  done
}

# with NAME PACKAGE…: the tests in an environment of these packages.
with() {
  local python
  if python=$(environment "$@"); then tests "$python"; else failed=1; fi
}

with oldest grpcio==1.51.1 protobuf==3.20.3 numpy==1.24.2
with debian grpcio==1.51.1 protobuf==4.21.12 numpy==1.24.2 cloudpickle==2.2.0 crc32c
with six grpcio==1.76.0 protobuf==6.33.1 numpy==2.2.6
with newest grpcio protobuf numpy cloudpickle crc32c safetensors atheris pandas matplotlib nbclient nbformat ipykernel
for python in "$@"; do tests "$python"; done

checker=$(environment checkers mypy basedpyright numpy grpcio protobuf) || exit 1
# To stubtest PyTorch is a name: what it asks is how the package's own modules are annotated.
mkdir -p "$work/names" && echo "class Tensor: ..." >"$work/names/torch.py"
report "mypy --strict" env --chdir=python "$checker" -m mypy --strict -p rivulet --cache-dir "$work/mypy"
report "stubtest" env --chdir=python PYTHONPATH="$work/names" "$checker" -m mypy.stubtest rivulet --mypy-config-file pyproject.toml \
  --allowlist "$root/scripts/stubtest_allowed.txt"
report "pyright" "$checker" -m basedpyright --pythonpath "$checker" --level error -p scripts/pyright.json

packed() {
  local python
  rm -rf "$work/dist" "$work/installed" "$work/source" && cp -r python "$work/source" &&
    python=$(environment installed pip) &&
    "$python" -m pip wheel -q --no-deps -w "$work/dist" "$work/source" &&
    "$python" -m pip install -q "$(echo "$work"/dist/*.whl)[client]" &&
    env --chdir="$work" "$python" -c 'import rivulet._agent, rivulet.flower; print("OK")'
}
report "the wheel, installed where nothing else is" packed

carried() {
  local python
  rm -rf "$work/carried" "$work/carries" && scripts/python-wheel.sh "$work/carries" && python=$(environment carried pip) &&
    "$python" -m pip install -q "$work"/carries/*.whl && mkdir -p "$work/there" &&
    env -u RIVULET_BINARY -u PYTHONPATH PATH=/usr/bin:/bin --chdir="$work/there" "$python" - <<'RUN'
import rivulet
from rivulet import _program
assert "/carried/" in _program.program(), _program.program()
run = rivulet.simulate({
    "run": {"name": "carried", "rounds": 2},
    "model": {"preset": "logistic_regression"},
    "data": {"train": "train.tfrecord", "test": "test.tfrecord", "partition": {"kind": "iid", "clients": 4},
             "synth": {"kind": "digits", "writers": 4, "test_writers": 2, "examples_per_writer": 10}},
    "server": {"clients_per_round": 2},
})
print("OK:", run.status)
RUN
}
report "the wheel that carries the program, where nothing else is" carried

import_cost() {
  "$work/newest/bin/python" - <<'TIMES'
import os, resource, statistics, subprocess, sys
env = {**os.environ, "PYTHONPATH": "python"}
def cost(code):  # of the processor, which other work on the machine changes least
    times = []
    for _ in range(31):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], env=env, check=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)
    return 1000 * statistics.median(times)
beyond = cost("import rivulet") - cost("pass")
print(f"OK: {beyond:.1f} ms beyond the interpreter's start")
sys.exit(beyond > 15)
TIMES
}
report "import rivulet" import_cost
exit $failed
