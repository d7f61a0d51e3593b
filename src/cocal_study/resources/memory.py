"""The least memory that the jobs of a study need on each of their GPUs: weights, gradients, moments and vLLM's share.

Activations, caches and logits come on top; `make gpu` tries a card with them.
"""

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from cocal_study.config.backbone import BackboneSettings, DecoderSettings, PretrainingSettings
from cocal_study.config.study import Study

HALF, SINGLE = 2, 4
"""Bytes of a number in half and in single precision."""
GIB = 2**30
OVERHEAD = 1.5 * GIB
"""Bytes of the context of CUDA, of CUDA graphs and of what the allocator cannot use."""
AS_MUCH = 1.02
"""Cards of the same size differ by a percent in the memory that they state."""


OnGpu = Literal["update", "engine", "engine and policy", "policy", "companions"]
"""What a job holds on its GPUs: `update` a training with Adam's moments and its engine; `engine` one that samples;
`engine and policy` both; `policy` a model that reads responses; `companions` companions."""
HELD: dict[str, OnGpu] = {
    "train_": "update",
    "import_rollouts": "policy",
    "resample": "engine and policy",
    "responses": "engine",
    "features": "policy",
    "replay": "policy",
    "companions": "companions",
    "online": "companions",
    "latency": "engine and policy",
}
"""The kind by the rule's name. `train_` is a prefix; the others also match as suffixes, as `responses` does in
`factual_responses`."""


def held_by(rule: str) -> OnGpu | None:
    """What the jobs of a rule of the workflow hold on GPUs; None if they use none."""
    if rule.startswith(("table_", "figure_")):
        return None
    if f"{rule}_".startswith("train_"):
        return HELD["train_"]
    return next((held for key, held in HELD.items() if f"_{rule}".endswith(f"_{key}")), None)


def on_gpu(rules: Iterable[str]) -> set[OnGpu]:
    """What the jobs of these rules hold on GPUs."""
    return {held for rule in rules if (held := held_by(rule))}


class Gpu(NamedTuple):
    """A GPU: its name for readers, a part of its name as `nvidia-smi` and SLURM print it (in lower case without spaces
    and hyphens), and GiB of memory as `nvidia-smi` counts them."""

    label: str
    pattern: str
    memory: float


GPUS = (
    Gpu("RTX 4090", "rtx4090", 23.99),
    Gpu("A100 80 GB", "a100", 80.0),
    Gpu("H100 80 GB", "h100", 79.65),
    Gpu("H200", "h200", 140.4),
    Gpu("B200", "b200", 179.06),
)


def gpu_of(name: str) -> Gpu | None:
    """The GPU of a name of `nvidia-smi` or SLURM, such as "NVIDIA GeForce RTX 4090" or "h100"; None for another one.

    An A100 of 40 GB is taken for one of 80 GB: its own memory counts where it is known.
    """
    plain = name.lower().replace(" ", "").replace("-", "").replace("_", "")
    return next((gpu for gpu in GPUS if gpu.pattern in plain), None)


def fitting_card(study: Study, memory: float) -> str | None:
    """The largest card of a study that has no more memory than a GPU of `memory` GiB; None if there is none."""
    fitting = {name: card.memory for name, card in study.cards.items() if card.memory <= AS_MUCH * memory}
    return max(fitting, key=fitting.__getitem__) if fitting else None


def least_memory(study: Study, held: OnGpu, memory: float, backbone: str | None = None) -> float:
    """GiB that a job surely holds on each of its GPUs, of `memory` GiB, for a backbone, by default that which needs
    most; 0 without GPUs."""
    if backbone is None:
        return max(least_memory(study, held, memory, name) for name in study.backbones)
    trl, engine, weights = study.policy.trl, study.generation.engine, HALF * parameters_of(study.backbones[backbone])
    share = engine.memory_share * memory * GIB if engine.kind == "vllm" else weights
    if held == "update":
        sharded = trl.nodes * trl.devices if trl.shard else 1
        single = SINGLE / HALF * weights / sharded
        kept = single * (1 if trl.moments == "host" else 3)  # weights, and both moments of Adam
        update = kept + single + (weights if sharded == 1 else 0)  # gradients, and autocast's copies in bfloat16
        rollouts = kept + trl.vllm_memory_share * memory * GIB if trl.vllm else 0
        return (max(update, rollouts) + OVERHEAD) / GIB
    parts = {"engine": share, "engine and policy": share + weights, "policy": weights, "companions": 0}
    return (parts[held] + OVERHEAD) / GIB


_REMEDIES = {
    "update": "set policy.trl.moments: host or policy.trl.shard, or lower policy.trl.vllm_memory_share",
    "engine and policy": "lower generation.engine.memory_share",
}


def too_small(study: Study, memory: float, rules: Collection[str] = tuple(HELD)) -> list[str]:
    """A sentence for each backbone and kind of job of these rules that a GPU of `memory` GiB is surely too small for.
    The judge is not counted: its shape is not known."""
    kinds, trl, engine, problems = on_gpu(rules), study.policy.trl, study.generation.engine, []
    shares = []  # vLLM's, each of which has to hold the weights
    if trl.vllm and "update" in kinds:
        shares.append(("policy.trl.vllm_memory_share", trl.vllm_memory_share, 1))
    if engine.kind == "vllm" and "engine" in kinds:
        shares.append(("generation.engine.memory_share", engine.memory_share, engine.tensor_parallel))
    for name, backbone in study.backbones.items():
        for held in sorted(kinds):
            if (need := least_memory(study, held, memory, name)) > memory:
                remedy = _REMEDIES.get(held, "lower the size of the model in backbones")
                problems.append(f"{name}, {held}: at least {need:.1f} GiB, and the GPU has {memory:.1f} GiB: {remedy}")
        for key, share, gpus in shares:
            if (need := (HALF * parameters_of(backbone) / gpus + OVERHEAD) / GIB) > share * memory:
                given = f"its share is {share * memory:.1f} GiB"
                problems.append(f"{name}: vLLM needs {need:.1f} GiB, but {given}: raise {key}")
    return problems


def shape_of(backbone: BackboneSettings) -> DecoderSettings:
    """Shape of a backbone's blocks. Of a checkpoint that does not state it, about 12 x width^2 parameters per block and
    Qwen3's vocabulary are assumed."""
    if isinstance(backbone, PretrainingSettings):
        if backbone.start:
            return shape_of(backbone.start)
        return DecoderSettings(**backbone.architecture.model_dump(include=set(DecoderSettings.model_fields)))
    heads = max(1, backbone.width // 128)
    return backbone.architecture or DecoderSettings(heads=heads, intermediate_size=3 * backbone.width)


def parameters_of(backbone: BackboneSettings) -> float:
    """Number of parameters without those of the norms."""
    shape = shape_of(backbone)
    attention = 2 * (shape.heads + shape.key_value_heads) * shape.head_dim
    block = backbone.width * (attention + 3 * shape.intermediate_size)
    return backbone.depth * block + (1 if shape.tied else 2) * shape.vocabulary * backbone.width
