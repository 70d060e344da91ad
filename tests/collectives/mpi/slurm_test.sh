#!/bin/bash
# Starts a Slurm of one host (munged, slurmctld and slurmd in a temporary folder, with ports of its
# own) and launches ranks with srun: over TCP, at a place that they work out from Slurm's variables,
# and over MPI where Slurm has PMIx. Nothing is left running.
#
#   slurm_test.sh PROGRAM [--mpi]
# PROGRAM  tests/collectives/connect/connect_rank.cc, which prints "rank R of N sum S, BACKEND:
# REASON"
#     --mpi    PROGRAM has MPI
#
# Exit code 77, which ctest counts as skipped, where a package is missing or this is not root.
set -euo pipefail

program=$1
with_mpi=${2:-}

skip() {
  echo "SKIPPED: $*"
  exit 77
}
fail() {
  echo "FAILED: $*"
  for log in "$folder"/*.log; do
    echo "--- $log"
    tail -n 20 "$log"
  done
  exit 1
}

for tool in munged slurmctld slurmd srun scontrol; do
  PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || skip "no $tool"
done
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
export PATH=$PATH:/usr/sbin
host=$(hostname -s)
getent hosts "$host" >/dev/null || skip "this host's name, $host, has no address"

folder=$(mktemp -d)
daemons=()
stop() {
  for daemon in "${daemons[@]}"; do
    kill "$daemon" 2>/dev/null || true
  done
  for daemon in "${daemons[@]}"; do
    for _ in $(seq 100); do
      kill -0 "$daemon" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 1' INT TERM HUP

# Ports that nobody has: below those that the kernel gives away, by the number of this process.
port=$((10000 + $$ % 4000 * 2))
mkdir "$folder/state" "$folder/spool"
dd if=/dev/urandom of="$folder/key" bs=128 count=1 status=none
chmod 600 "$folder/key"
cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
FirstJobId=$(($$ % 50000 + 1))
NodeName=$host NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes=$host Default=YES State=UP
CONF
cat >"$folder/cgroup.conf" <<CONF
CgroupPlugin=cgroup/v1
CONF
export SLURM_CONF=$folder/slurm.conf

munged --foreground --force --key-file="$folder/key" --socket="$folder/munge.socket" \
  --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/seed" \
  >"$folder/munged.out.log" 2>&1 &
daemons+=($!)
for _ in $(seq 100); do
  [ -S "$folder/munge.socket" ] && break
  sleep 0.1
done
slurmctld -D -c >"$folder/slurmctld.out.log" 2>&1 &
daemons+=($!)
slurmd -D -N "$host" >"$folder/slurmd.out.log" 2>&1 &
daemons+=($!)

state=none
for _ in $(seq 300); do
  state=$(sinfo -h -o %T 2>/dev/null || true)
  [ "$state" = idle ] && break
  kill -0 "${daemons[2]}" 2>/dev/null || fail "slurmd has ended"
  sleep 0.1
done
[ "$state" = idle ] || fail "the host is '$state', not idle, after 30 s"

# Runs two ranks and compares what they print, but for the reason.
check() {
  local name=$1 expected=$2
  shift 2
  local printed
  # Quiet: or it says so where it waits for what the last check has not given back yet.
  printed=$(timeout 60 srun --quiet --immediate=30 --ntasks=2 "$@" 2>&1 | sort) ||
    fail "$name: $printed"
  echo "$name:"
  echo "$printed"
  [ "$(sed 's/: .*//' <<<"$printed")" = "$expected" ] || fail "$name: not '$expected'"
}
check tcp $'rank 0 of 2 sum 3, tcp\nrank 1 of 2 sum 3, tcp' --mpi=none "$program"
if [ "$with_mpi" = --mpi ] && srun --mpi=list 2>&1 | grep -q pmix; then
  check mpi $'rank 0 of 2 sum 3, mpi\nrank 1 of 2 sum 3, mpi' --mpi=pmix "$program"
else
  echo "mpi: SKIPPED: no PMIx in this Slurm, or no MPI in this build"
fi
echo PASSED
