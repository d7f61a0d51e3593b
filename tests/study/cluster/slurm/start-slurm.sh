#!/usr/bin/env bash
# A real SLURM for `make rehearsal`: munge, slurmctld and two slurmd from Debian packages, without systemd, cgroups or
# accounting. Each slurmd advertises a node with eight B200, of which nothing exists, so that the requests of the paper
# study are scheduled unchanged. The second node belongs to the partition "pair" alone. Idempotent. Ends with status 77 where it cannot be had (no root, a real cluster,
# no packages). State, logs and pid files: $REHEARSAL_SLURM (default /var/tmp/cocal-slurm).
set -euo pipefail
STATE=${REHEARSAL_SLURM:-/var/tmp/cocal-slurm}
CONFIG=/etc/slurm # no other place: job steps are started without SLURM_CONF
MARK="# written by start-slurm.sh: a cluster to throw away"
CPUS=112 MEMORY=2000000 GPUS=8 # a DGX B200
NODES="127.0.0.1 127.0.0.2" # names that are addresses, so that the nodes find each other without DNS

say() { printf '[start-slurm] %s\n' "$*"; }
cannot() { say "no rehearsal here: $*"; exit 77; }
# A daemon is ours if its pid file and the name of the process agree.
alive() { [ -s "$STATE/$1.pid" ] && [ "$(cat "/proc/$(cat "$STATE/$1.pid")/comm" 2>/dev/null)" = "${1%-*}" ]; }
wait_for() {
  local seconds=$1; shift
  for _ in $(seq $((seconds * 5))); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done
  say "not within $seconds s: $*"; return 1
}

[ "$(id -u)" = 0 ] || cannot "daemons of SLURM need root"
if [ -e $CONFIG/slurm.conf ] && ! grep -qF "$MARK" $CONFIG/slurm.conf; then
  cannot "$CONFIG/slurm.conf belongs to a real cluster"
fi

# --- packages
for program in munged slurmctld slurmd sbatch; do command -v $program >/dev/null || missing=yes; done
if [ "${missing:-}" ]; then
  command -v apt-get >/dev/null || cannot "SLURM is not installed, and there is no apt-get"
  say "installing munge, slurmctld, slurmd, slurm-client"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends munge slurmctld slurmd slurm-client; } \
    >/dev/null 2>&1 || cannot "apt-get does not install slurmctld and slurmd"
fi
mkdir -p "$STATE"/{ctld,dev} $CONFIG

# --- munge, which authenticates
if ! munge -n 2>/dev/null | unmunge >/dev/null 2>&1; then
  if [ ! -s /etc/munge/munge.key ]; then
    dd if=/dev/urandom of=/etc/munge/munge.key bs=1 count=1024 status=none
    chmod 600 /etc/munge/munge.key
  fi
  mkdir -p /run/munge
  chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
  chmod 755 /run/munge
  rm -f /run/munge/munge.socket.2*
  setpriv --reuid=munge --regid=munge --init-groups /usr/sbin/munged
  touch "$STATE/munged.started"
  wait_for 10 sh -c 'munge -n | unmunge'
fi

# --- configuration
cat > "$STATE/slurm.conf" <<CONF
$MARK
ClusterName=rehearsal
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# a requeued job waits until its old credential has expired: seconds, not two minutes
AuthInfo=cred_expire=10
StateSaveLocation=$STATE/ctld
SlurmdSpoolDir=$STATE/slurmd-%n
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/slurmd-%n.pid
SlurmctldLogFile=$STATE/slurmctld.log
SlurmdLogFile=$STATE/slurmd-%n.log
# neither cgroups nor systemd: memory is sampled once a second
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill,UsePss
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# nodes may claim more than the machine has
SlurmdParameters=config_overrides
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
# jobs of the partition "urgent" preempt others, which are requeued
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=2
# finished jobs stay visible
MinJobAge=7200
DefMemPerCPU=1000
NodeName=DEFAULT CPUs=$CPUS Boards=1 SocketsPerBoard=1 CoresPerSocket=$CPUS ThreadsPerCore=1 RealMemory=$MEMORY Gres=gpu:b200:$GPUS State=UNKNOWN
$(for node in $NODES; do echo "NodeName=$node NodeHostname=$(hostname -s) NodeAddr=$node Port=1700${node##*.}"; done)
PartitionName=cpu Nodes=${NODES% *} Default=YES MaxTime=1-00:00:00 DefaultTime=00:10:00 State=UP
PartitionName=b200 Nodes=${NODES% *} MaxTime=2-00:00:00 DefaultTime=00:10:00 State=UP
PartitionName=pair Nodes=${NODES/ /,} MaxTime=2-00:00:00 DefaultTime=00:10:00 State=UP
PartitionName=urgent Nodes=${NODES% *} MaxTime=00:10:00 PriorityTier=10 State=UP
CONF
# GPUs need device files of their own, or they register as none: clones of /dev/null
for i in $(seq 0 $((GPUS - 1))); do
  [ -e "$STATE/dev/gpu$i" ] || mknod "$STATE/dev/gpu$i" c 1 3 || cannot "device files cannot be made"
done
echo "Name=gpu Type=b200 File=$STATE/dev/gpu[0-$((GPUS - 1))]" > "$STATE/gres.conf"
for file in slurm.conf gres.conf; do
  cmp -s "$STATE/$file" $CONFIG/$file || { cp "$STATE/$file" $CONFIG/$file; changed=yes; }
done
if [ "${changed:-}" ]; then
  for daemon in ${NODES//127/slurmd-127} slurmctld; do
    if alive $daemon; then kill "$(cat "$STATE/$daemon.pid")"; sleep 1; fi
  done
fi

# --- daemons
alive slurmctld || slurmctld
wait_for 20 scontrol ping
for node in $NODES; do alive "slurmd-$node" || slurmd -N "$node"; done
ready() { ! sinfo -h -N -o '%T' | grep -qvE '^(idle|mixed|allocated)$'; }
wait_for 8 ready || { scontrol update nodename="${NODES/ /,}" state=resume || :; wait_for 15 ready; }

# --- a job on each partition
for request in "-p cpu" "-p b200 --gres=gpu:b200:$GPUS" "-p pair --nodes 2 --gres=gpu:b200:$GPUS"; do
  # shellcheck disable=SC2086
  timeout 60 sbatch --wait -J health -o /dev/null -D / -t 1 --mem 50 $request --wrap true >/dev/null
done
sinfo -o '%P %T %c %m %G'
