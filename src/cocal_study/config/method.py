"""The declarations of a method and of a baseline, which are all that the rest of the package knows about them."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from cocal.companion.settings import Target
from cocal.settings.base import Name
from cocal.store.columns import LABELS, ON_REQUEST, RESPONSES

PromptFormat = Literal["answer", "verbal", "rlcr", "dcpo"]
Policy = Literal["base", "grpo", "rlcr", "dcpo"]
Experience = Literal["rollouts", "resampled", "prompts", "online"]
"""What companions learn from."""
Reader = Literal["one-layer", "rollouts", "resampled"]
"""The companions that score hidden states: those of one hidden layer, CoCal's own, or those of PostCal."""


def _recorded(columns: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := [name for name in columns if name not in RESPONSES]:
        raise ValueError(f"responses have no column {unknown[0]!r}; they have {', '.join(RESPONSES)}")
    return columns


def _on_request(columns: tuple[str, ...]) -> list[str]:
    return [name for name in columns if name in ON_REQUEST]


Columns = Annotated[tuple[str, ...], AfterValidator(_recorded)]
"""Columns of responses (`cocal.store.contracts.RESPONSES`); nothing else of them is read and handed over."""
Function = Annotated[str, Field(pattern=r"^\w+(\.\w+)*:\w+$")]
"""A function, as "module:function", which is imported when it is needed."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A score in [0, 1] of a method's responses that may learn from the same rollouts as the companions
    (tables/recalibrated). A module declares some by an attribute `BASELINES`, a tuple."""

    name: Name
    """Name of its confidences in files, together with what was done to them
    (`cocal_study.planning.baselines.named`)."""
    label: str = ""
    """Name in the table; by default that of the method that has the same name."""
    position: int
    """Number that orders the baselines in their table."""
    method: str
    """Name of the method whose responses it scores. A study without this method does not have the baseline."""
    score: Function | Literal[""] = ""
    """Function that scores a table of the columns (`cocal_study.methods.base.responses.Score`)."""
    learn: Function | Literal[""] = ""
    """Function that learns a score of hidden states from GRPO's rollouts (`cocal_study.methods.base.responses.Learn`),
    for the target of the method's companion if it has one."""
    columns: Columns = ()
    """What `score` is given of each response; or `learn` and the score that it returns, beside the states."""
    blocks: Annotated[tuple[int, ...], Field(min_length=1)] = (-1,)
    """Blocks whose states `learn` is given, side by side in this order: zero-based, or -1 for the last, -2 for the one
    before. A study that does not store one of them (`features.layers`) does not have the baseline."""
    poolings: Annotated[tuple[Literal["last", "mean"], ...], Field(min_length=1)] = ("last", "mean")
    """Of each block the state of the last token, the mean of all tokens, or both side by side."""
    reader: Reader | None = None
    """The companions that score hidden states, for the target of the method's companion."""
    ranks_only: bool = False
    """True if the score as it is only ranks responses, so that its calibration error means nothing."""
    note: str = ""
    """A sentence for the caption of the table."""

    @model_validator(mode="after")
    def _one_way(self) -> "Baseline":
        if sum(map(bool, (self.score, self.learn, self.reader))) != 1:
            raise ValueError(f"the baseline {self.name!r} needs one of score, learn and reader")
        if told := [name for name in self.columns if name in LABELS]:
            raise ValueError(
                f"the baseline {self.name!r} may not read {told[0]!r} of the responses that it scores; what "
                "it learns from has `correct` and `group_accuracy`"
            )
        if requested := _on_request(self.columns):
            raise ValueError(f"the baseline {self.name!r} reads {requested[0]!r}, which rollouts do not keep")
        return self

    @property
    def reads_states(self) -> bool:
        """True if it scores hidden states, with what was learnt from responses."""
        return not self.score


@dataclass(frozen=True, kw_only=True)
class Method:
    """A confidence method: it gives each evaluated response a confidence in [0, 1]; higher means more likely correct.

    A module declares a method by an attribute `METHOD` of this class. The registry (`cocal_study.config.methods`)
    imports such modules in every short process, so they must not import torch or scikit-learn at their top.
    """

    name: Name
    """Key in configurations, files and metric cubes: lower case, digits, dots and single hyphens."""
    label: str
    """Name in tables and figures, as plain text."""
    position: int
    """Number that orders the methods in predictions, in metric cubes and in a study that lists all of them. This
    package uses multiples of ten; the methods of the main table come first, in its order (table 1)."""
    group: int | None = None
    """Group of rows in the main table, between two horizontal rules; None if the method is not in that table."""
    prompt_format: PromptFormat
    """Prompt format of the responses that it is evaluated on. All methods with "answer" share their responses."""
    policy: Policy
    """Policy that produces those responses: the pre-RL model, or one that an algorithm trained."""
    estimate: Function
    """Function that computes its confidences when predictions are made (`cocal_study.methods.base.responses.Estimate`).
    Methods with the same function are computed together."""
    columns: Columns = ()
    """Columns of the responses that `estimate` reads, in addition to those that every evaluation reads
    (`cocal_study.methods.base.responses.COLUMNS`)."""
    needs_pool: bool = False
    """True if a pool of responses is sampled for each question and their answers are compared with one another."""
    asks_p_true: bool = False
    """True if the policy is asked whether its evaluated responses are correct."""
    experience: Experience | None = None
    """Training data of its companion: the rollouts of GRPO, responses resampled from GRPO's final policy, or the
    prompts of the rollouts. A method with None has no companion."""
    target: Target | None = None
    """Supervision target of its companion ("group" and "binary": section 4.2, "question": appendix F.4)."""
    colour: Annotated[str, Field(pattern=r"^#[0-9a-f]{6}$")]
    """Colour in every figure, as "#rrggbb". The colours of this package can be told apart by protanopes, deuteranopes
    and tritanopes. Of the two targets of a method, group is the lighter and binary the darker shade of one hue, which
    differ in greyscale. CoCal (binary) keeps its colour on other policies."""
    marker: str
    """Marker in every figure, as Matplotlib's letter. Every method has its own, which tells curves apart without
    colours."""
    hollow: bool = False
    """True if the marker is white inside. A companion on the policy of another method has that method's marker,
    hollow."""

    @property
    def look(self) -> str:
        """What tells its curves from those of others."""
        return f"{self.colour} {self.marker}{' hollow' * self.hollow}"

    @property
    def reads_best_logprobs(self) -> bool:
        """True if it reads what responses keep only where a study sets `generation.best_logprobs`."""
        return bool(_on_request(self.columns))

    @model_validator(mode="after")
    def _whole(self) -> "Method":
        if (self.experience is None) != (self.target is None):
            raise ValueError("a companion needs both an experience and a target")
        return self
