"""The rollout steps that companions learn from."""

import re
from typing import NamedTuple

from cocal.errors import ConfigError


class Prefix(NamedTuple):
    """The rollout steps that companions learn from, and those whose validation responses choose their best pass.

    The two are equal for the companions of a stage (appendix A.1: "we use all data produced up to that step") and of
    the early steps (appendix C.2: "For each prefix, both training and validation are restricted to the corresponding
    rollout data while preserving the question-level split"). At a budget the validation pool is that of all steps
    (appendix E.1: "Each budget uses a fixed, question-disjoint validation pool"), so that the full budget is the
    companion of the last stage ("Its full-budget binary results use the same checkpoints as the main tables").

    Attributes:
        steps: Last rollout step of the training responses, which start at step 1.
        validation_steps: Last rollout step of the validation responses, which start at step 1.
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
        """N, or N/M if validation uses more or fewer steps than training."""
        return str(self.steps) if self.steps == self.validation_steps else f"{self.steps}/{self.validation_steps}"

    @property
    def folder(self) -> str:
        """Name of the folder of the companions."""
        return f"steps-{self}".replace("/", "-validation-")
