"""What makes a set of companions: readable without their weights, and without torch."""

import json
import re
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError

from cocal.config.base import Count, Model, Share
from cocal.config.protocol import Companion, Target
from cocal.errors import ConfigError, ContractError
from cocal.store.damage import absent

Order = Literal["chronological", "shuffled"]
Experience = Literal["rollouts", "resampled", "prompts"]

ORDERS: dict[Experience, Order] = {"rollouts": "chronological", "resampled": "shuffled", "prompts": "chronological"}
"""How companions of each experience see their training data: CoCal replays the policy's rollouts, or the prompts of
them, PostCal shuffles responses of the final policy (appendices A.1, B.2 and F.4)."""


class Prefix(NamedTuple):
    """The rollout steps that companions learn from, and those whose validation responses choose their best pass.

    The two are equal for the companions of a stage (appendix A.1: "we use all data produced up to that step") and of
    the early steps (appendix C.2: "For each prefix, both training and validation are restricted to the corresponding
    rollout data while preserving the question-level split"). At a budget the validation pool is that of all steps
    (appendix E.1: "Each budget uses a fixed, question-disjoint validation pool"), so that the full budget is the
    companion of the last stage ("Its full-budget binary results use the same checkpoints as the main tables").

    Attributes:
        steps: the training responses are those of rollout steps 1 to this one.
        validation_steps: the validation responses are those of rollout steps 1 to this one.
    """

    steps: int
    validation_steps: int

    @classmethod
    def parse(cls, word: str) -> "Prefix":
        """The inverse of `str`.

        Raises:
            ConfigError: if the word is not N or N/M.
        """
        found = re.fullmatch(r"([1-9][0-9]*)(?:/([1-9][0-9]*))?", word)
        if not found:
            raise ConfigError(f"{word!r} is not N or N/M, such as 40 or 5/120, counted from 1")
        return cls(int(found[1]), int(found[2] or found[1]))

    def __str__(self) -> str:
        """N, or N/M where more or fewer steps validate than train."""
        return str(self.steps) if self.steps == self.validation_steps else f"{self.steps}/{self.validation_steps}"

    @property
    def folder(self) -> str:
        """Name of the folder of its companions."""
        return f"steps-{self}".replace("/", "-validation-")


class CompanionSpec(Model):
    """What a set of companions was fitted on and how."""

    settings: Companion
    inputs: Count
    """Width of the features."""
    layer: int
    """Zero-based block index of the features."""
    poolings: tuple[str, ...]
    steps: Count
    """The training responses are those of rollout steps 1 to this one."""
    validation_steps: Count
    """The validation responses are those of rollout steps 1 to this one."""
    order: Order
    shuffle_seed: int | None
    training_responses: Count
    """Questions, where the companion learnt from prompts."""
    validation_responses: Count
    training_error_share: Share
    """Share of incorrect responses among the training responses."""
    best_pass: tuple[Count, ...]
    """By member, counted from 1."""

    @property
    def pooling(self) -> str:
        """Name of the pooled states, such as "last+mean"."""
        return "+".join(self.poolings)

    @property
    def prefix(self) -> Prefix:
        """Steps of training and validation."""
        return Prefix(self.steps, self.validation_steps)

    @property
    def members(self) -> list[tuple[Target, int]]:
        """Target and seed of each member, in the order of weights and predictions."""
        return companion_members(self.settings)


def companion_members(settings: Companion) -> list[tuple[Target, int]]:
    """Every target with every seed, targets first."""
    return [(target, seed) for target in settings.targets for seed in settings.seeds]


def parse_spec(metadata: str, source: str | Path) -> CompanionSpec:
    """The spec in a companion's metadata.

    Args:
        metadata: JSON text with the key `spec`.
        source: file name for errors.

    Raises:
        ContractError: if there is none, or it is not valid.
    """
    try:
        return CompanionSpec.model_validate(json.loads(metadata)["spec"])
    except (KeyError, TypeError, json.JSONDecodeError, ValidationError) as error:
        raise ContractError(f"{source}: carries no valid spec of companions ({error})") from None


def read_spec(folder: str | Path) -> CompanionSpec:
    """The spec of the companions in an output folder of `cocal companions`.

    Raises:
        ContractError: if there is none, or it is not valid.
    """
    path = Path(folder) / "spec.json"
    if not path.exists():
        raise ContractError(absent(path, maker="the rule that fits the companions"))
    return parse_spec(path.read_text(encoding="utf-8"), path)
