"""Settings of the judge, which decides whether factual answers are right and whether two of them are equivalent."""

from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import Field, RootModel, model_validator

from cocal.config.base import Count, Model, Share
from cocal.config.engine import EngineSettings, TransformersSettings


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
    """Folder with correctness.txt and equivalence.txt; by default cocal/questions/prompts/judge."""
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
