"""What a method declares about itself: everything that the rest of the package knows of it."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from cocal.errors import ConfigError

PromptFormat = Literal["answer", "verbal", "rlcr", "dcpo"]
Policy = Literal["base", "grpo", "rlcr", "dcpo"]
Target = Literal["group", "binary", "question"]
Experience = Literal["rollouts", "resampled", "prompts"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """One confidence method. It gives evaluated responses confidences in [0, 1]; higher means more likely correct.

    A module declares a method by an attribute `METHOD` of this class. The registry (`cocal.config.methods`) imports
    such modules in every short process, so they import nothing heavy at their top.

    Raises:
        ConfigError: if a value is not one of those that are allowed.
    """

    name: str
    """Its key in configurations, files and cubes: lower case, digits, dots and single hyphens."""
    label: str
    """Its name in tables and figures, as plain text."""
    position: int
    """Methods stand by rising position in predictions, in cubes and where a study lists all of them. Those of this
    package have multiples of ten, those of the main table first and in its order (table 1)."""
    group: int | None = None
    """Methods of one group stand between the same two rules of the main table; a method with None is not in it."""
    prompt_format: PromptFormat
    """The prompt format of the responses that it is evaluated on. All methods with "answer" share their responses."""
    policy: Policy
    """The policy that produces those responses: the pre-RL model, or one that an algorithm trained."""
    estimate: str
    """The function that computes its confidences, as "module:function"; it is imported when predictions are made. Its
    type is `cocal.estimators.responses.Estimate`. Methods with the same function are computed together."""
    columns: tuple[str, ...] = ()
    """The columns of the responses that `estimate` reads, besides those that every evaluation reads
    (`cocal.estimators.responses.COLUMNS`)."""
    needs_pool: bool = False
    """Whether a pool of responses is sampled for each question and their answers are compared with one another."""
    asks_p_true: bool = False
    """Whether the policy is asked if its evaluated responses are correct."""
    experience: Experience | None = None
    """What its companion learnt from: the rollouts of GRPO, responses resampled from its final policy, or the prompts
    of the rollouts. A method with None has no companion."""
    target: Target | None = None
    """The supervision target of its companion ("group" and "binary": section 4.2, "question": appendix F.4)."""
    colour: str
    """Its colour in every figure, as "#rrggbb". Those of this package are chosen to stay apart for protanopes,
    deuteranopes and tritanopes; the two targets of one method are light (group) and dark (binary) of one hue, and
    differ in greyscale. CoCal (binary) keeps its colour on other policies."""
    marker: str
    """Its marker in every figure, in Matplotlib's letters: one a method, so that curves stay apart without colours."""
    hollow: bool = False
    """Whether the marker is white inside. A companion on another policy has the marker of that policy's own method,
    hollow."""

    def __post_init__(self) -> None:
        patterns = {
            "name": r"[a-z0-9][a-z0-9.]*(-[a-z0-9.]+)*",
            "estimate": r"\w+(\.\w+)*:\w+",
            "colour": r"#[0-9a-f]{6}",
        }
        for key, pattern in patterns.items():
            if not re.fullmatch(pattern, getattr(self, key)):
                raise ConfigError(f"method {self.name!r}: {key} = {getattr(self, key)!r} does not match {pattern}")
        options = {"prompt_format": PromptFormat, "policy": Policy, "experience": Experience, "target": Target}
        for key, option in options.items():
            if getattr(self, key) not in (None, *get_args(option)):
                allowed = ", ".join(get_args(option))
                raise ConfigError(f"method {self.name!r}: {key} = {getattr(self, key)!r} is none of {allowed}")
        if (self.experience is None) != (self.target is None):
            raise ConfigError(f"method {self.name!r}: a companion has both, an experience and a target")
