#!/usr/bin/env bash
# One node's part of `accelerate launch` under srun: its rank and the address of the first node, then the given flags.
set -euo pipefail
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
exec accelerate launch --machine_rank "$SLURM_NODEID" --main_process_ip "$first" \
    --main_process_port "${COCAL_PORT:-29500}" "$@"
