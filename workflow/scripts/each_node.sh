#!/usr/bin/env bash
# Runs a command once on each node of a job, with all CPUs and GPUs that the job has there. Snakemake's own step, which
# runs this, is one task on one node; the new step would inherit its size (SLURM_NTASKS), GPUs (SLURM_GPUS) and node
# (SLURM_JOB_NODELIST), so its variables are unset and everything is given. Both steps share the nodes (--overlap).
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
