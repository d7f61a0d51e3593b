"""Settings of the protocol: responses, features, companions, estimators, metrics (section 5, appendix A)."""

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel, model_validator

from cocal.config.base import Count, Model, Name, Positive, Share
from cocal.config.engine import EngineSettings, TransformersSettings
from cocal.config.method import Target
from cocal.config.methods import MethodName, built_in


class GenerationSettings(Model):
    """Evaluation sampling (table of hyperparameters)."""

    engine: EngineSettings = TransformersSettings()
    seed: int = 42
    temperature: Positive = 0.7
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.8
    top_k: Count = 20
    presence_penalty: float = 1.5
    """Subtracted once from the logit of every token that the response already holds."""
    pool: Count = 10
    """Responses sampled per question where self-consistency is asked for (M of appendix B.1)."""


class FeatureSettings(Model):
    """Hidden states kept for the companions (equation 6)."""

    layers: Literal["final", "all"] | tuple[Annotated[int, Field(ge=0)], ...] = "final"
    """Zero-based block indices, to which the final one is added; `final` is the last block alone, before the final
    RMSNorm."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    batch_tokens: Count = 16384
    """Padded tokens in one forward pass."""


class CompanionSettings(Model):
    """The companion and its training (equations 3 and 4, table of hyperparameters)."""

    widths: tuple[Count, ...] = (2048, 1024, 512, 256)
    dropout: tuple[Share, ...] = (0.1, 0.1, 0.05)
    """After the first hidden layers, in order."""
    learning_rate: Positive = 4.0e-4
    weight_decay: float = 0.0
    batch_size: Count = 256
    passes: Count = 10
    """Chronological passes over the data. The paper says several, not how many."""
    matmul: Literal["float32", "tf32"] = "float32"
    """Products on a GPU; states, weights and sums are float32 in any case. tf32 rounds the factors to ten bits of
    mantissa, more than bfloat16 features have, and is several times faster."""
    validation_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    split_seed: int = 42
    """Seed of the 90:10 split by question text; shared by all companions."""
    targets: tuple[Target, ...] = ("group", "binary")
    seeds: tuple[int, ...] = (42, 137, 500, 700, 1024)

    @model_validator(mode="after")
    def _consistent(self) -> "CompanionSettings":
        if len(self.dropout) > len(self.widths):
            raise ValueError(f"dropout has {len(self.dropout)} rates for {len(self.widths)} hidden layers")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError("seeds repeat")
        return self


class PostCalSettings(Model):
    """Resampling of the final policy for post-hoc calibration (appendix B.2). What it shares with CoCal, questions,
    number of responses, architecture, targets and selection, has no key of its own."""

    temperature: Positive = 1.0
    """That of the rollouts. The paper does not state it."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    """0: all tokens."""
    presence_penalty: float = 0.0
    seed: int = 42
    shuffle_seed: int = 42
    """Of the shuffled batches."""


def _built_in_by_default(schema: dict[str, Any]) -> None:
    schema["default"] = list(built_in())


class EstimatorSettings(Model):
    """Confidence estimators that a study compares."""

    methods: tuple[MethodName, ...] = Field(default_factory=built_in, json_schema_extra=_built_in_by_default)
    """By default all that come with CoCal; those of other packages are named."""
    missing_answer: Literal["zero", "invalid"] = "zero"
    """Self-consistency of a response without an answer: no response agrees with it (zero), or no confidence."""


class VerifierSettings(Model):
    """Bounds of the answer checker; it runs in processes that can be killed."""

    timeout: Positive = 5.0
    """Seconds of processor time for one comparison, so that verdicts do not depend on what else the machine does; one
    that needs more stays undecided and counts as not equivalent."""
    wall_timeout: Positive = 120.0
    """Seconds by the clock after which a comparison is given up that has not used its processor time; it is tried once
    more before it stays undecided."""
    max_timeouts: Share = 0.01
    """Share of the answers that may stay undecided; with more of them (once a job has judged 100) the job fails."""
    max_answer_length: Count = 512
    """Longest answer, in characters, that is compared; a longer one counts as not equivalent."""
    max_nesting: Count = 8
    """Deepest nesting of brackets that is compared, for the time to read them rises exponentially; the deepest among
    10,000 answers of the public sets is 6."""
    memory_mb: Count = 2048
    """Address space of one checking process."""

    @model_validator(mode="after")
    def _backstop(self) -> "VerifierSettings":
        if self.wall_timeout < self.timeout:
            raise ValueError(f"wall_timeout = {self.wall_timeout:g} is shorter than timeout = {self.timeout:g}")
        return self


class QualitySettings(Model):
    """What responses must have for the numbers computed from them to be trusted. A table marks a value, and the checks
    warn and name the method and the set, where a share falls below its floor; no number changes."""

    valid_rate: Share = 0.9
    """Least share of responses with a valid confidence."""
    answered_rate: Share = 0.9
    """Least share of responses from which an answer was extracted."""
    decided_rate: Share = 0.99
    """Least share of responses about which the judge came to a verdict."""
    p_true_mass: Share = 0.5
    """Least mean probability of P(True)'s two words together; where the policy wants neither, their ratio is noise."""


class MetricSettings(Model):
    """Confidence metrics and their intervals (appendix A.2)."""

    bins: Count = 10
    resamples: Annotated[int, Field(ge=0)] = 1000
    """Bootstrap resamples of the questions; 0 leaves the intervals out."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    seed: int = 42


class MacroAverages(RootModel[dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]]]):
    """Macro averages: a name for each group of data sets."""

    root: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]] = {}


class TimingSettings(Model):
    """Measurements of inference time (appendices E.2 and F.4)."""

    samples: Count = 8
    """Questions of each mathematical set whose time to confidence is measured, one after another."""
    concurrent: Count = 64
    """Responses that are generated together, at most."""
    predictions: Count = 1000
    """Predictions of a companion, one response each."""
    seed: int = 42
    """Of the choice of questions."""


class ReportSettings(Model):
    """What the tables and figures show."""

    reliability_dataset: Name
    """Dataset of figures/reliability."""
    reliability_methods: tuple[MethodName, ...] = ("verbal", "rlcr", "dcpo", "cocal-group", "cocal-binary")
    """Columns of figures/reliability and figures/reliability_all."""
    reliability_seed: int = 42
    """Companion seed whose counts are drawn."""
    stage_methods: tuple[MethodName, ...] = ("rlcr", "dcpo", "cocal-group", "cocal-binary")
    """Methods that are evaluated at every stage: tables/main_step*, figures/training_dynamics."""
    early_steps: tuple[Count, ...] = (5, 10, 20, 30, 40)
    """Rollout prefixes of figures/early_steps, evaluated on the first stage's policy."""
    budgets: tuple[Count, ...] = (1, 2, 5, 10, 20, 40, 80, 120)
    """Matched budgets of figures/budgets and figures/composition, in rollout steps."""
