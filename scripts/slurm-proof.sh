#!/bin/bash
# Starts Slurm (Debian's slurm-wlm and munge) on this machine alone, runs a simulation as a job of 2 and of 4 ranks by
# srun --mpi=pmix, and by mpirun within a job, and compares the models with those of one process. As root, in a container or a
# machine that is nobody else's: it starts munged, slurmctld and slurmd by hand with a configuration of its own, and ends them.
#
#   scripts/slurm-proof.sh [BUILD] [SCENARIO] [ARGUMENTS…]     default: build/release quickstart
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build/release}")
scenario=${2:-simulations/scenarios/quickstart.toml}
shift $(($# < 2 ? $# : 2))
rivulet=$build/rivulet

missing=()
for program in slurmctld slurmd srun munged mpirun; do
  command -v $program > /dev/null || [ -x /usr/sbin/$program ] || missing+=("$program")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "there is no ${missing[*]}: apt-get install slurm-wlm munge openmpi-bin libopenmpi-dev" >&2
  exit 2
fi
[ "$(id -u)" = 0 ] || { echo "Slurm's daemons are started as root; start this as root" >&2; exit 2; }
[ -e "$build/librivulet-mpi.so" ] || { echo "$build has no librivulet-mpi.so; build it where libopenmpi-dev is" >&2; exit 2; }

folder=$(mktemp -d /tmp/rivulet-slurm-XXXXXX)
cleanup() {
  for daemon in slurmd slurmctld munged; do
    [ -e "$folder/$daemon.pid" ] && kill "$(cat "$folder/$daemon.pid")" 2> /dev/null
  done
  rm -rf "$folder"
}
trap cleanup EXIT

# munged wants folders and a key that nobody else can write to.
chmod 755 "$folder"
mkdir -m 700 "$folder/munge" "$folder/spool" "$folder/state"
mkdir -m 755 "$folder/run"
dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 status=none
chmod 400 "$folder/munge/key"
munged --key-file="$folder/munge/key" --socket="$folder/run/munge.socket" --pid-file="$folder/munged.pid" \
       --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" --force
host=$(hostname -s)
cores=$(nproc)
cat > "$folder/slurm.conf" << END
ClusterName=proof
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
SlurmdSpoolDir=$folder/spool
StateSaveLocation=$folder/state
SlurmctldPort=26817
SlurmdPort=26818
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cores RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
echo "CgroupAutomount=no" > "$folder/cgroup.conf"
export SLURM_CONF=$folder/slurm.conf
slurmctld
slurmd -N "$host"
for _ in $(seq 50); do
  sinfo -h -o %T 2> /dev/null | grep -q idle && break
  sleep 0.2
done
echo "Slurm $(sinfo --version | cut -d' ' -f2), $(mpirun --version | head -1), node $(sinfo -h -o '%n, %c processors, %T')"

# digest NAME: of the last model in its history, and how long it took.
digest() {
  "$rivulet" runs sql "SELECT model_digest FROM rounds WHERE status = 'committed' ORDER BY round DESC LIMIT 1" \
             --db "$folder/$1.sqlite" | tail -1 | tr -d ' '
}
run() { # NAME COMMAND…
  local name=$1 begin=$(date +%s.%N)
  shift
  "$@" "$rivulet" simulate "$scenario" --db "$folder/$name.sqlite" --quiet "${arguments[@]}" > "$folder/$name.out" 2>&1 ||
    { cat "$folder/$name.out" >&2; tail -5 "$folder"/*.log >&2; exit 1; }
  printf '%-36s %s  %6.1f s\n' "$name" "$(digest "$name")" "$(echo "$(date +%s.%N) - $begin" | bc)"
}
arguments=("$@")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run "one process" env
for ranks in 2 4; do
  run "srun --mpi=pmix -n $ranks" srun --mpi=pmix -n $ranks --overcommit
done
run "salloc, mpirun -n 2" salloc -Q -n 2 --overcommit mpirun --oversubscribe -n 2
expected=$(digest "one process")
for name in "srun --mpi=pmix -n 2" "srun --mpi=pmix -n 4" "salloc, mpirun -n 2"; do
  [ "$(digest "$name")" = "$expected" ] || { echo "$name makes another model" >&2; exit 1; }
done
echo "all make the same model"
