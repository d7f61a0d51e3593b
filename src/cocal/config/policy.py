"""Settings of policy training (section 3, equation 1; table of hyperparameters)."""

from typing import Literal

from pydantic import model_validator

from cocal.config.base import Count, Model, Name, Positive, Share

Algorithm = Literal["grpo", "rlcr", "dcpo"]


class Policy(Model):
    """Reinforcement learning from verifiable rewards. Defaults are the paper's where it states them."""

    algorithms: tuple[Algorithm, ...] = ("grpo",)
    dataset: Name
    """Training questions."""
    seed: int = 42
    steps: Count = 120
    """Rollout batches; step t's responses come from the policy after t - 1 batches."""
    stages: tuple[Count, ...] = (40, 80, 120)
    """Steps whose checkpoints are evaluated; the last one is `steps`."""
    questions_per_step: Count = 256
    responses_per_question: Count = 8
    max_response_length: dict[Algorithm, Count] = {"grpo": 3000, "rlcr": 4096, "dcpo": 3000}
    """Longest rollout in tokens, by algorithm."""
    temperature: Positive = 1.0
    clip_low: Positive = 0.20
    clip_high: Positive = 0.28
    kl_coefficient: float = 0.0
    dcpo_group_weight: Share = 0.5
    """Lambda: weight of the group accuracy in DCPO's confidence target."""
    invalid_confidence: Share = 1.0
    """Confidence error that RLCR and DCPO assume where a response states no valid confidence; 1 is the worst
    case. The paper does not state it."""
    learning_rate: Positive = 1.0e-6
    """The paper does not state it."""
    weight_decay: float = 0.0
    max_gradient_norm: Positive = 1.0
    updates_per_step: Count = 1
    """Optimiser updates per rollout batch. The paper does not state it; with one, the clip range is inert."""
    loss: Literal["grpo", "dapo"] = "grpo"
    """Averaging of the token losses: within each response first (grpo), or over all tokens (dapo)."""
    micro_batch: Count = 8
    """Responses per device in one forward and backward pass."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    checkpoint_every: Count = 10
    """Steps between the checkpoints that a killed run resumes from."""

    @model_validator(mode="after")
    def _consistent(self) -> "Policy":
        if list(self.stages) != sorted(set(self.stages)) or self.stages[-1] != self.steps:
            raise ValueError(f"stages must rise and end with steps = {self.steps}, not {list(self.stages)}")
        missing = [name for name in self.algorithms if name not in self.max_response_length]
        if missing:
            raise ValueError(f"max_response_length lacks {', '.join(missing)}")
        rollouts = self.questions_per_step * self.responses_per_question
        if rollouts % self.updates_per_step:
            raise ValueError(f"updates_per_step must divide the {rollouts} rollouts of a step")
        return self

    def for_training(self, algorithm: Algorithm) -> "Policy":
        """The settings that one training run depends on: other algorithms do not touch it."""
        own = {algorithm: self.max_response_length[algorithm]}
        return self.model_copy(update={"algorithms": (algorithm,), "max_response_length": own})
