"""How `cocal train` starts: as it is, or on every GPU of every node."""

from cocal.config.policy import TrlSettings

_FSDP = (
    *("--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"),
    *("--fsdp_cpu_ram_efficient_loading", "false"),  # it fills host memory with as many empty models as processes
    *("--fsdp_reshard_after_forward", "true", "--fsdp_state_dict_type", "FULL_STATE_DICT"),
)
"""Weights are gathered whole where they are saved, so that every checkpoint is a plain one."""


def train_command(settings: TrlSettings, per_node: str) -> list[str]:
    """The command in front of `cocal train`'s flags.

    One process needs no launcher. On several nodes SLURM starts `per_node` once on each, which adds what differs
    between them. The trainer itself chooses the precision.

    Args:
        settings: nodes, GPUs, sharding.
        per_node: script that calls `accelerate launch` with the node's rank and the first node's address.
    """
    processes = settings.nodes * settings.devices
    if processes == 1:
        return ["cocal", "train"]
    start = ["accelerate", "launch", "--main_process_port", "0"]  # any free port: jobs may share a node
    if settings.nodes > 1:
        # --overlap: Snakemake's own job step holds the whole allocation
        start = ["srun", "--overlap", "--nodes", str(settings.nodes), "--ntasks-per-node", "1", "bash", per_node]
    return [
        *start,
        *("--num_machines", str(settings.nodes), "--num_processes", str(processes)),
        *("--mixed_precision", "no", "--dynamo_backend", "no"),
        *(_FSDP if settings.shard else ["--multi_gpu"]),
        *("--module", "cocal", "train"),
    ]
