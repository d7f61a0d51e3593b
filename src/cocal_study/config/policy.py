"""Settings of policy training (section 3, equation 1; table of hyperparameters)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cocal.settings.base import AdvantageScale, Algorithm, Count, Model, Name, Positive, Share
from cocal_study.config.engine import AttentionBackend

RateDecay = Literal["none", "linear"]
Decay = Annotated[float, Field(ge=0, lt=1)]


class TrlSettings(Model):
    """Processes and devices of TRL's trainer; by default one process, on the GPU if there is one."""

    nodes: Count = 1
    devices: Count = 1
    """Number of GPUs per node, each with a process."""
    shard: bool = False
    """True to spread weights, gradients and optimiser over all GPUs (FSDP). This needs `vllm`, because CoCal's own
    engine reads whole weights."""
    reduce_dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format in which sharded gradients are summed over the GPUs. accelerate's own choice is the bfloat16 of the
    passes, which is off by 1.6 % of a gradient's norm (cosine 0.9999) and moves half as many bytes."""
    moments: Literal["device", "host"] = "device"
    """Where the two moments of Adam lie between updates: beside the weights, or in the memory of the host, which leaves
    8 bytes per parameter of the GPU free and takes a second or two per update of 1.7 billion; results are the same."""
    vllm: bool = False
    """True if vLLM samples the rollouts, in the training processes and on their GPUs."""
    vllm_memory_share: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of a GPU's memory for vLLM's weights and cache."""
    vllm_max_length: Count | None = None
    """Longest sequence (prompt and response) in tokens for which vLLM reserves memory; by default the model's own
    limit."""

    vllm_attention_backend: AttentionBackend | None = None
    """Name of vLLM's attention kernels, as in `generation.engine.attention_backend`."""

    vllm_difference: Positive = 0.2
    """Largest mean absolute difference between the log-probabilities that vLLM and the first update of a step give the
    tokens. A larger one stops the training: vLLM then samples from another policy. Rounding to bfloat16 should give a
    few hundredths; nobody has measured it. Nothing is compared at a `temperature` other than 1."""

    @model_validator(mode="after")
    def _consistent(self) -> "TrlSettings":
        if self.shard and not self.vllm:
            raise ValueError("shard needs vllm: our own engine reads whole weights")
        if self.moments == "host" and self.nodes * self.devices > 1:
            raise ValueError("moments: host is for one process; several spread the moments over their GPUs with shard")
        return self


class OwnSettings(Model):
    """Settings of the update that one algorithm does not share with the others; those left out are shared."""

    clip_low: Positive | None = None
    clip_high: Positive | None = None
    learning_rate: Positive | None = None
    warm_up: Share | None = None
    rate_decay: RateDecay | None = None
    adam_betas: tuple[Decay, Decay] | None = None
    weight_decay: float | None = None
    max_gradient_norm: Positive | None = None
    updates_per_step: Count | None = None
    loss: Literal["grpo", "dapo"] | None = None
    mask_truncated: bool | None = None
    advantage_scale: AdvantageScale | None = None


class PolicySettings(Model):
    """Reinforcement learning from verifiable rewards. Defaults are the paper's values wherever it states them."""

    algorithms: tuple[Algorithm, ...] = ("grpo",)
    """Algorithms that train a policy each."""
    dataset: Name
    """Name of the set of training questions."""
    seed: int = 42
    """Seed of the order of questions and of the sampling of rollouts."""
    steps: Count = 120
    """Number of rollout batches; the policy after t - 1 batches samples the responses of step t."""
    stages: tuple[Count, ...] = (40, 80, 120)
    """Steps whose checkpoints are evaluated; the last one equals `steps`."""
    questions_per_step: Count = 256
    """Number of questions of a rollout batch."""
    responses_per_question: Count = 8
    max_response_length: dict[Algorithm, Count] = {"grpo": 3000, "rlcr": 4096, "dcpo": 3000}
    """Longest rollout in tokens, by algorithm."""
    temperature: Positive = 1.0
    """Temperature of the rollouts."""
    clip_low: Positive = 0.20
    clip_high: Positive = 0.28
    """The ratio of probabilities is clipped to between 1 - `clip_low` and 1 + `clip_high`."""
    kl_coefficient: float = 0.0
    """Weight of the divergence from the first policy in the loss; 0 leaves it out."""
    dcpo_group_weight: Share = 0.5
    """Weight lambda of the group accuracy in DCPO's confidence target."""
    invalid_confidence: Share = 1.0
    """Confidence error that RLCR and DCPO assume for a response without a valid confidence; 1 is the worst case. The
    paper does not state it."""
    learning_rate: Positive = 1.0e-6
    """Learning rate of Adam. The paper does not state it."""
    warm_up: Share = 0.0
    """Share of the updates over which the learning rate rises evenly from 0, that of the first update."""
    rate_decay: RateDecay = "none"
    """Course of the learning rate after the warm-up: it stays (none), or falls evenly to 0 behind the last update."""
    adam_betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Decay rates of Adam's two running means. The paper does not state them; slime's own scripts have
    0.9 and 0.98."""
    weight_decay: float = 0.0
    """Decoupled weight decay. The paper does not state it; slime's own scripts have 0.1. TRL decays no norms."""
    max_gradient_norm: Positive = 1.0
    updates_per_step: Count = 1
    """Number of optimiser updates per rollout batch. The paper does not state it. With one update, the clip range has
    no effect."""
    loss: Literal["grpo", "dapo"] = "grpo"
    """Averaging of the token losses: within each response first (grpo), or over all tokens (dapo)."""
    mask_truncated: bool = False
    """True if cut rollouts teach nothing, although they count in the rewards of their groups. They are recorded."""
    advantage_scale: AdvantageScale = "group"
    """Division of the centred rewards of a group by their standard deviation (group), or by nothing (none). The paper
    normalises within the group and follows the "original settings" of RLCR, whose authors divide by nothing; division
    makes stated confidences extreme (Bereket and Leskovec, 2025, arXiv:2508.11800)."""
    own: dict[Algorithm, OwnSettings] = {}
    """Settings of the update by algorithm, where they differ from those above. The paper trains RLCR and DCPO with
    "their original policy-optimization objectives and settings" (appendix B.2)."""
    micro_batch: Count = 8
    """Number of responses per device in one forward and backward pass."""
    gradient_checkpointing: bool = False
    """True to recompute activations in the backward pass, which takes less memory and more time."""
    checkpoint_every: Count = 10
    """Number of steps between the checkpoints from which a killed run resumes."""

    trl: TrlSettings = TrlSettings()

    @model_validator(mode="after")
    def _consistent(self) -> "PolicySettings":
        if list(self.stages) != sorted(set(self.stages)) or self.stages[-1] != self.steps:
            raise ValueError(f"stages must rise and end with steps = {self.steps}, not {list(self.stages)}")
        missing = [name for name in self.algorithms if name not in self.max_response_length]
        if missing:
            raise ValueError(f"max_response_length lacks {', '.join(missing)}")
        rollouts = self.questions_per_step * self.responses_per_question
        for updates in (self.updates_per_step, *(own.updates_per_step or 1 for own in self.own.values())):
            if rollouts % updates:
                raise ValueError(f"updates_per_step = {updates} must divide the {rollouts} rollouts of a step")
            if rollouts % (self.micro_batch * updates):
                batch = f"micro_batch = {self.micro_batch} with {updates} update(s) per step"
                raise ValueError(f"{batch} must divide the {rollouts} rollouts of a step")
        return self

    def rollout_settings(self, algorithm: Algorithm) -> "PolicySettings":
        """The settings on which the rollouts of a training depend, without those of the engine."""
        return self.for_training(algorithm).model_copy(update={"trl": TrlSettings()})

    def for_training(self, algorithm: Algorithm) -> "PolicySettings":
        """The settings on which one training run depends, without those of other algorithms. Its own settings have
        taken the place of the shared ones."""
        own = self.own[algorithm].model_dump(exclude_none=True) if algorithm in self.own else {}
        own |= {"algorithms": (algorithm,), "max_response_length": {algorithm: self.max_response_length[algorithm]}}
        unused = ["own"] if algorithm == "dcpo" else ["own", "dcpo_group_weight"]
        unused += ["invalid_confidence"] if algorithm == "grpo" else []
        return self.model_copy(update=own | {key: type(self).model_fields[key].default for key in unused})
