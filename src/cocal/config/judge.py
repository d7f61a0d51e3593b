"""Settings of the judge: who decides whether factual answers are right, and whether two of them are the same."""

from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import Field, RootModel, model_validator

from cocal.config.base import Count, Model, Share
from cocal.config.engine import EngineSettings, TransformersSettings


class ExactMatchSettings(Model):
    """Answers are equal but for case, punctuation and articles, as SQuAD scores."""

    kind: Literal["exact-match"] = "exact-match"

    @property
    def label(self) -> str:
        """Name in print."""
        return "exact match"


class LlmJudgeSettings(Model):
    """A language model decides, greedily decoded.

    The paper has Qwen2.5-32B decide equivalence for SelfConsis (appendix B.1) and does not say who decides whether a
    factual answer is correct. Here the same judge does; exact match's verdict is kept beside it.
    """

    kind: Literal["llm"]
    checkpoint: str
    """Name on the hub; or a folder, as a path that begins with / or a dot."""
    revision: str | None = None
    """Commit on the hub; required with a hub name."""
    prompts: str | None = None
    """Folder with correctness.txt and equivalence.txt; by default cocal/prompts/judge."""
    engine: EngineSettings = TransformersSettings()
    max_tokens: Count = 64
    """Longest reply, in tokens."""
    exact: bool = True
    """Whether answers that match exactly (`exact-match`) are equivalent, and right if they so match an accepted one,
    without being judged. A judge that would not say so is mistaken; it saves most of the judgements."""
    both_orders: bool = False
    """Whether two answers are compared in both orders, and equivalent only if both replies say so. Otherwise the
    earlier answer of the pool comes first."""
    max_unparsable: Share = 0.01
    """Share of the replies that may be no verdict. Such an answer counts as wrong, such a pair as not equivalent; with
    more of them the judge is not to be trusted and the job fails."""

    @property
    def label(self) -> str:
        """Name in print."""
        return PurePath(self.checkpoint).name

    @property
    def local(self) -> bool:
        """Whether the checkpoint is a folder."""
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
    """One judge, given alone."""
