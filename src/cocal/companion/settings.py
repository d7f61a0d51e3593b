"""What companions are fitted with: their settings and targets."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cocal.settings.base import Count, Model, Positive, Share

Target = Literal["group", "binary", "question"]


class CompanionSettings(Model):
    """The companion and its training (equations 3 and 4, table of hyperparameters)."""

    widths: tuple[Count, ...] = (2048, 1024, 512, 256)
    """Widths of the hidden layers, from the input on."""
    dropout: tuple[Share, ...] = (0.1, 0.1, 0.05)
    """Dropout rates after the first hidden layers, in order."""
    learning_rate: Positive = 4.0e-4
    weight_decay: float = 0.0
    batch_size: Count = 256
    """Responses of an update."""
    passes: Count = 10
    """Number of chronological passes over the data. The paper says "several" and gives no number."""
    matmul: Literal["float32", "tf32"] = "float32"
    """Number format of the factors of matrix products on a GPU; states, weights and sums are float32 in any case. tf32
    rounds the factors to ten bits of mantissa, more than bfloat16 features have, and is several times faster."""
    validation_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the training questions that are held out to choose the best pass."""
    split_seed: int = 42
    """Seed of the split by question text, which all companions share."""
    targets: tuple[Target, ...] = ("group", "binary")
    """What companions learn: the accuracy of the group, or whether the response is correct (section 4.2)."""
    seeds: tuple[int, ...] = (42, 137, 500, 700, 1024)
    """Seeds of the first weights, each of which makes a companion of its own."""

    @model_validator(mode="after")
    def _consistent(self) -> "CompanionSettings":
        if len(self.dropout) > len(self.widths):
            raise ValueError(f"dropout has {len(self.dropout)} rates for {len(self.widths)} hidden layers")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError("seeds repeat")
        return self


class OnlineSettings(Model):
    """Companions that learn inside the training of the policy (`cocal.rollouts.trl.recording`)."""

    companion: CompanionSettings = CompanionSettings()
    window: Count = 1
    """Number of the last rollout steps that are learnt from with every new one; with 1, no states are kept."""
