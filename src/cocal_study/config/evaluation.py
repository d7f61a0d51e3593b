"""Settings of responses, judges, features, companions, estimators, metrics and reports (section 5, appendix A)."""

from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import Field, RootModel, model_validator

from cocal.settings.base import Count, Model, Name, OpenShare, Positive, Share
from cocal_study.config.engine import EngineSettings, TransformersSettings
from cocal_study.config.methods import BaselineName, MethodName, built_in


class ExactMatchSettings(Model):
    """Compares answers without case, punctuation and articles, as SQuAD scores them."""

    kind: Literal["exact-match"] = "exact-match"

    @property
    def label(self) -> str:
        """Name in tables and captions."""
        return "exact match"


class LlmJudgeSettings(Model):
    """A language model, decoded greedily, decides.

    In the paper, Qwen2.5-32B decides equivalence for SelfConsis (appendix B.1); the paper does not say who decides
    whether a factual answer is correct. Here the same judge decides both, and the verdict of exact match is stored too.
    """

    kind: Literal["llm"]
    checkpoint: str
    """Name on the hub, or a folder as a path that begins with / or a dot."""
    revision: str | None = None
    """Commit on the hub; required with a hub name."""
    prompts: str | None = None
    """Folder with correctness.txt and equivalence.txt; by default cocal_study/questions/prompts/judge."""
    engine: EngineSettings = TransformersSettings()
    max_tokens: Count = 64
    """Longest reply in tokens."""
    exact: bool = True
    """True if exact matches (`exact-match`) are decided without the judge: such answers are equivalent, and an answer
    that matches an accepted one is right. This saves most of the judgements."""
    both_orders: bool = False
    """True if the judge compares two answers in both orders and they are equivalent only if both replies say so.
    Otherwise the earlier answer of the pool comes first."""
    max_unparsable: Share = 0.01
    """Largest share of replies that may contain no verdict; with more of them the job fails. An answer without a
    verdict counts as wrong, a pair as not equivalent."""

    @property
    def label(self) -> str:
        """Name in tables and captions."""
        return PurePath(self.checkpoint).name

    @property
    def local(self) -> bool:
        """True if the checkpoint is a folder."""
        return self.checkpoint.startswith(("/", "."))

    @model_validator(mode="after")
    def _pinned(self) -> "LlmJudgeSettings":
        if self.local == (self.revision is not None):
            raise ValueError(
                "a checkpoint on the hub needs its revision, a folder has none; a folder's path begins with / or a dot"
            )
        return self


JudgeSettings = Annotated[ExactMatchSettings | LlmJudgeSettings, Field(discriminator="kind")]


class JudgeChoice(RootModel[JudgeSettings]):
    """The settings of one judge as a model of their own."""


class GenerationSettings(Model):
    """Evaluation sampling (table of hyperparameters)."""

    engine: EngineSettings = TransformersSettings()
    seed: int = 42
    """Seed of the sampling."""
    temperature: Positive = 0.7
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.8
    top_k: Annotated[int, Field(ge=0)] = 20
    """Number of most likely tokens to sample from; 0 means all tokens."""
    presence_penalty: float = 1.5
    """Number that is subtracted once from the logit of every token that the response already contains."""
    pool: Count = 10
    """Number of responses that self-consistency samples per question (M in appendix B.1)."""
    best_logprobs: Annotated[int, Field(ge=0, le=20)] = Field(default=0, exclude_if=lambda count: count == 0)
    """Number of the largest raw log-probabilities at each token that evaluation responses keep, with the entropy that
    follows from them, for methods that read `best_logprobs` or `best_entropy`; vLLM gives 20 at most."""


class SamplingSettings(Model):
    """How responses are sampled beside the evaluation's own sampling; by default as rollouts are."""

    temperature: Positive = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    """Number of most likely tokens to sample from; 0 means all tokens."""
    presence_penalty: float = 0.0


class PostCalSettings(SamplingSettings):
    """Resampling of the final policy for post-hoc calibration (appendix B.2). The paper does not state its temperature.
    Questions, number of responses, architecture, targets and selection are those of CoCal and have no keys here."""

    seed: int = 42
    shuffle_seed: int = 42
    """Seed that shuffles the responses into batches."""


class EstimatorSettings(Model):
    """Confidence estimators that a study compares."""

    methods: tuple[MethodName, ...] = Field(
        default_factory=built_in, json_schema_extra=lambda schema: schema.update(default=list(built_in()))
    )
    """Names of the compared methods; by default all methods that come with CoCal."""
    missing_answer: Literal["zero", "invalid"] = "zero"
    """Self-consistency of a response without an answer: a confidence of 0 (zero), or no valid confidence (invalid)."""


class QualitySettings(Model):
    """Lower limits that responses must reach for the numbers computed from them to be trusted. Below a limit, tables
    mark the value, and the checks warn and name the method and the set; no number changes."""

    valid_rate: Share = 0.9
    """Least share of responses with a valid confidence."""
    answered_rate: Share = 0.9
    """Least share of responses from which an answer was extracted."""
    decided_rate: Share = 0.99
    """Least share of responses on which the judge reached a verdict."""
    p_true_mass: Share = 0.5
    """Least mean probability of P(True)'s two words together; if both are improbable, their ratio is noise."""


class MacroAverages(RootModel[dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]]]):
    """Names of the macro averages, each with the data sets that it averages over."""

    root: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]] = {}


class EvaluationSets(RootModel[dict[Name, Count]]):
    """Number of evaluated responses per question for each question set, in the order of the predictions.

    Any further responses belong only to the self-consistency pool.
    """


class ResponseLengths(RootModel[Annotated[dict[Name, Count], Field(min_length=1)]]):
    """Length limit of responses, in tokens, for each evaluation set that is timed."""


class TimingSettings(Model):
    """Measurements of inference time (appendices E.2 and F.4)."""

    samples: Count = 8
    """Number of questions of each mathematical set whose time to confidence is measured, one after another."""
    concurrent: Count = 64
    """Largest number of responses that are generated together."""
    pool_questions: Count | None = None
    """Number of questions whose whole pools of responses are timed (SelfConsis), evenly spaced in the largest set; by
    default all of that set, as in the paper."""
    predictions: Count = 1000
    """Number of timed companion predictions, each for one response."""
    seed: int = 42
    """Seed of the choice of questions."""


class DecisionSettings(Model):
    """Abstention in tables/decisions: thresholds are certified on one half of the questions and tried on the other."""

    max_risk: OpenShare = 0.1
    """Bound of the share of wrong answers among the answered questions."""
    delta: OpenShare = 0.1
    """Largest probability, over the questions that certify a threshold, that the threshold breaks the bound."""
    splits: Count = 100
    """Number of random splits of the questions into halves, over which coverage and risk are averaged."""
    seed: int = 42
    """Seed of the splits."""


class ReportSettings(Model):
    """Contents of the tables and figures."""

    reliability_dataset: Name
    """Dataset of figures/reliability."""
    reliability_methods: tuple[MethodName, ...] = ("verbal", "rlcr", "dcpo", "cocal-group", "cocal-binary")
    """Columns of figures/reliability and figures/reliability_all."""
    reliability_seed: int = 42
    """Seed of the companion whose counts these figures draw."""
    stage_methods: tuple[MethodName, ...] = ("rlcr", "dcpo", "cocal-group", "cocal-binary")
    """Methods that tables/main_step* and figures/training_dynamics show at every stage."""
    early_steps: tuple[Count, ...] = (5, 10, 20, 30, 40)
    """Numbers of rollout steps in figures/early_steps, whose companions are evaluated on the first stage's policy."""
    budgets: tuple[Count, ...] = (1, 2, 5, 10, 20, 40, 80, 120)
    """Matched budgets of figures/budgets and figures/composition, in rollout steps."""
    online_window: Annotated[int, Field(ge=2)] | None = None
    """Number of the last rollout steps that the online companions with a buffer in figures/online learn from with every
    new step. By default as many as `companion.passes`, so that each response is learnt from as often as when it is
    replayed."""
    baselines: tuple[BaselineName, ...] | None = None
    """Baselines of tables/recalibrated; by default all whose methods the study compares."""
    mirrors: dict[Name, str] = {}
    """The paper's data set that an evaluation set stands for, by the title of its columns in the paper's tables;
    tables/conditions compares the accuracies on them, and tables/claims judges claims about them."""
    decisions: DecisionSettings = DecisionSettings()
    """Abstention in tables/decisions."""
    regimes: str | None = None
    """Folder of what `cocal gather` has measured under other conditions, for figures/regimes and tables/regimes, which
    are left out without it, or if it is not there."""
    experience: str | None = None
    """Folder of what `cocal gather` has measured at the points of config/experience.yaml, for figures/experience, which
    is left out without it, or if it is not there."""
    fits: str | None = None
    """File of what `make fits` has measured on the states of finished studies, for tables/fits, which is left out
    without it, or if it is not there."""
    prefixes: str | None = None
    """File of what `make fits` has measured in growing responses, for figures/prefixes, which is left out without
    it, or if it is not there."""
    replicates: str | None = None
    """Folder of what `cocal spread` has gathered of the study's replicates, for tables/claims; without it, or if it is
    not there, replicates have no say."""
    central: str | None = None
    """Folder of what `cocal spread` has gathered of replicates of the central comparison alone (`make central`), which
    judge the claims that they could assess, with those in `replicates` whose numbers they lack."""
    language_model: str | None = None
    """Folder of what was gathered of a study of a pre-trained language model, such as the laptop study, whose verdicts
    tables/claims shows beside this study's; without it, or if it is not there, they are left out."""
