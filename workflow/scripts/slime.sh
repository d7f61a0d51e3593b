#!/usr/bin/env bash
# One node's part of a training by slime under srun: the first node heads the Ray cluster and submits the job, the others
# join and stay until the head is gone.
#   slime.sh NODES GPUS COMMAND...
set -euo pipefail
nodes=$1 gpus=$2
shift 2
# Ray takes the addresses of nodes for IP addresses; a node may know its own name as 127.0.1.1.
address() { { getent ahostsv4 "$1" || true; } | awk '$1 !~ /^127\./ && !found++ { print $1 }'; }
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
head=$(address "$first")
if [ -z "$head" ] && [ "$SLURM_NODEID" = 0 ]; then head=$(hostname -I | awk '{ print $1 }'); fi
if [ -z "$head" ]; then
    echo "slime.sh: node $(hostname) finds no IP address of the first node, $first; add it to DNS or /etc/hosts" >&2
    exit 1
fi
if [ "$SLURM_NODEID" != 0 ]; then
    until ray health-check --address "$head:6379" 2> /dev/null; do sleep 5; done
    ray start --address "$head:6379" --num-gpus "$gpus" --disable-usage-stats --block || true
    exit 0
fi
ray start --head --node-ip-address "$head" --port 6379 --num-gpus "$gpus" --disable-usage-stats \
    --dashboard-host 0.0.0.0 --dashboard-port 8265
trap 'ray stop' EXIT
python3 - "$nodes" <<'PYTHON'
import sys, time, ray
ray.init(address="auto")
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]):
    time.sleep(5)
PYTHON
variables=$(python3 -c 'import json, os; names = ("PYTHONPATH", "CUDA_DEVICE_MAX_CONNECTIONS", "COCAL_SLIME")
print(json.dumps({"env_vars": {name: os.environ[name] for name in names}}))')
ray job submit --address http://127.0.0.1:8265 --runtime-env-json "$variables" -- "$@"
