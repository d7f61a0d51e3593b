"""The spec of a set of companions, which can be read without their weights and without torch."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from cocal.companion.settings import CompanionSettings, Target
from cocal.errors import ConfigError, ContractError
from cocal.settings.base import Count, Model, Share
from cocal.store import read_document

Order = Literal["chronological", "shuffled", "online"]


class Prefix(NamedTuple):
    """The rollout steps that companions learn from, and those whose validation responses choose their best pass.

    The two are equal for the companions of a stage (appendix A.1: "we use all data produced up to that step") and of
    the early steps (appendix C.2: "For each prefix, both training and validation are restricted to the corresponding
    rollout data while preserving the question-level split"). At a budget the validation pool is that of all steps
    (appendix E.1: "Each budget uses a fixed, question-disjoint validation pool"), so that the full budget is the
    companion of the last stage ("Its full-budget binary results use the same checkpoints as the main tables").
    """

    steps: int
    """Last rollout step of the training responses, which start at step 1."""
    validation_steps: int
    """Last rollout step of the validation responses, which start at step 1."""

    @classmethod
    def parse(cls, word: str) -> "Prefix":
        """The inverse of `str`. Raises a ConfigError if the word is not N or N/M."""
        match = re.fullmatch(r"([1-9][0-9]*)(?:/([1-9][0-9]*))?", word)
        if not match:
            raise ConfigError(f"{word!r} is not N or N/M, such as 40 or 5/120, counted from 1")
        return cls(int(match[1]), int(match[2] or match[1]))

    def __str__(self) -> str:
        """N, or N/M if validation uses more or fewer steps than training."""
        return str(self.steps) if self.steps == self.validation_steps else f"{self.steps}/{self.validation_steps}"

    @property
    def folder(self) -> str:
        """Name of the folder of the companions."""
        return f"steps-{self}".replace("/", "-validation-")


class CompanionSpec(Model):
    """Settings and data with which a set of companions was fitted."""

    settings: CompanionSettings
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
    """Number of training responses; of groups, if the companion learnt from prompts."""
    validation_responses: Annotated[int, Field(ge=0)]
    """Number of responses to validation questions, which no gradient step has seen."""
    training_error_share: Share
    """Share of incorrect responses among the training responses."""
    best_pass: tuple[Count, ...]
    """The best pass of each member, counted from 1."""

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

    @property
    def usual_target(self) -> Target:
        """The target that is scored where none is named: binary, if it was fitted."""
        return "binary" if "binary" in self.settings.targets else self.settings.targets[0]

    def chosen(self, target: Target | None = None, seed: int | None = None) -> list[int]:
        """Places of the members of a target, by default the usual one, and of one seed, by default of all. Raises a
        ConfigError if there is no such target or seed."""
        targets, seeds = self.settings.targets, self.settings.seeds
        target = target or self.usual_target
        if target not in targets:
            raise ConfigError(f"the companion has no target {target!r}; it was fitted for {', '.join(targets)}")
        if seed is not None and seed not in seeds:
            raise ConfigError(f"the companion has no seed {seed}; it has {', '.join(map(str, seeds))}")
        return [k for k, member in enumerate(self.members) if member[0] == target and seed in (None, member[1])]


def companion_members(settings: CompanionSettings) -> list[tuple[Target, int]]:
    """Every target with every seed; the members of one target are consecutive."""
    return [(target, seed) for target in settings.targets for seed in settings.seeds]


def parse_spec(metadata: Any, source: str | Path) -> CompanionSpec:
    """Parse the `spec` in the metadata of companions from a file (`source`), or raise a ContractError."""
    try:
        return CompanionSpec.model_validate(metadata["spec"])
    except (KeyError, TypeError, ValidationError) as error:
        raise ContractError(f"{source}: contains no valid spec of companions ({error})") from None


def read_spec(folder: str | Path) -> CompanionSpec:
    """Read the spec from an output folder of `cocal companions`. Raises a ContractError if it is missing or changed."""
    path = Path(folder) / "spec.json"
    return parse_spec(read_document(path), path)
