#!/usr/bin/env bash
# A command once on each node of a job, with all CPUs and GPUs that the job has there. Snakemake's own step, which runs
# this, is one task on one node: of its variables the new step would take its size (SLURM_NTASKS), its GPUs (SLURM_GPUS)
# and its node (SLURM_JOB_NODELIST), so they are unset, and everything is said. A step shares with that one (--overlap).
#   each_node.sh NODES COMMAND...
set -euo pipefail
nodes=$1
shift
words=(--jobid "$SLURM_JOB_ID" --overlap --nodes "$nodes" --ntasks "$nodes" --ntasks-per-node 1)
words+=(--cpus-per-task "${SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}" --kill-on-bad-exit=1)
[ -z "${SLURM_GPUS_ON_NODE:-}" ] || words+=(--gres "gpu:$SLURM_GPUS_ON_NODE")
for name in "${!SLURM_@}"; do
    [ "$name" = SLURM_CONF ] || unset "$name"
done
exec srun "${words[@]}" "$@"
