#!/usr/bin/env bash
# Installs what the benchmarks need, builds build/release/rivulet_bench and runs it; arguments go to it.
#   ./bench.sh                                          everything
#   ./bench.sh --benchmark_filter=step                  training steps
#   ./bench.sh --benchmark_format=json                  for programs
#   ./bench.sh --deploy                                 what a deployment costs, beside bare gRPC (tests/bench/deploy.py)
#   ./bench.sh --cluster                                graphs over several processes, beside bare gRPC and TensorFlow (tests/bench/cluster.py)
#   ./bench.sh --large-model                            rounds of a model of gigabytes, beside bare gRPC (tests/bench/large_model.py)
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh
. scripts/build.sh
install_packages "${build_packages[@]}" "${bench_packages[@]}" >&2
deploy=()
script=
case "${1:-}" in
  --deploy) deploy=(rivulet rivulet-client deploy_load many_names) script=deploy.py ;;
  --large-model) deploy=(rivulet deploy_load) script=large_model.py ;;
  --cluster) deploy=(rivulet cluster_load) script=cluster.py ;;
esac
echo "Building build/release/rivulet_bench ${deploy[*]}" >&2
# Without the tests in a new folder; one that is there keeps them.
tests=-DRIVULET_TESTS=OFF
[ ! -f build/release/build.ninja ] || tests=
# many_names is one of theirs.
[ ${#deploy[@]} = 0 ] || tests=-DRIVULET_TESTS=ON
build release $tests -DRIVULET_BENCH=ON -- rivulet_bench "${deploy[@]}" >&2
if [ -n "$script" ]; then exec python3 "tests/bench/$script" "${@:2}"; fi
exec build/release/rivulet_bench "$@"
