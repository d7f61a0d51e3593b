"""The command that starts `cocal train`: directly, or through a launcher on every GPU of every node."""

from pathlib import Path

from cocal_study.config.policy import TrlSettings

_FSDP = (
    *("--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"),
    *("--fsdp_cpu_ram_efficient_loading", "false"),  # it would fill host memory with an empty model per process
    *("--fsdp_reshard_after_forward", "true", "--fsdp_state_dict_type", "SHARDED_STATE_DICT"),
)
"""Flags that shard the weights. Every process writes its own shards of a checkpoint to resume from; the policies of
stages are ordinary checkpoints (`cocal_study.policy.trainer`)."""


def train_command(settings: TrlSettings, per_node: str) -> list[str]:
    """The command in front of the flags of `cocal train`.

    One process needs no launcher. On several nodes, SLURM starts the script `per_node` once on each, by the
    `each_node.sh` that lies beside it; it calls `accelerate launch` with the node's rank and the first node's address.
    The trainer itself chooses the precision.
    """
    processes = settings.nodes * settings.devices
    if processes == 1:
        return ["cocal", "train"]
    start = ["accelerate", "launch", "--main_process_port", "0"]  # any free port: jobs may share a node
    if settings.nodes > 1:
        each_node = str(Path(per_node).with_name("each_node.sh"))
        start = ["bash", each_node, str(settings.nodes), "bash", per_node]
    return [
        *start,
        *("--num_machines", str(settings.nodes), "--num_processes", str(processes)),
        *("--mixed_precision", "no", "--dynamo_backend", "no"),
        *(_FSDP if settings.shard else ["--multi_gpu"]),
        *("--module", "cocal", "train"),
    ]
