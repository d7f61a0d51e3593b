#!/usr/bin/env bash
# A command once on each node of a job, with all CPUs that the job has there: since SLURM 22.05, a step of one task gets one
# CPU unless it asks for more. --overlap: Snakemake's own job step holds the whole allocation.
#   each_node.sh NODES COMMAND...
set -euo pipefail
nodes=$1
shift
exec srun --overlap --nodes "$nodes" --ntasks-per-node 1 --cpus-per-task "${SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}" \
    --kill-on-bad-exit 1 "$@"
