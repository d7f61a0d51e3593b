"""A small grammar that words the solutions of the pre-training corpus, since natural language has many ways to say one
thing.

Paraphrases, the order of operands and the length are drawn without a look at the values, so they do not tell whether a
solution is right. They give the text the entropy that makes token probabilities of the paper's policies a poor guide,
and a length that now and then reaches the limit of a rollout.
"""

import random
from collections.abc import Sequence

from cocal.config.backbone import WordingSettings

# All openings begin with the same token, so that sampling at a low temperature prefers none of them to an answer
# without any working.
_OPENINGS = ("Let us see.", "Let me try.", "Let us begin:", "Let me count.", "Let us go.", "Let me work it out.")
_CONNECTORS = ("So", "Then", "Now", "Next", "And", "Well", "Here", "Thus")
_VERBS = ("=", " is ", " gives ", " makes ", " equals ")
_REMARKS = (
    "Good.",
    "Fine so far.",
    "That looks right to me.",
    "Wait, let me look at it again.",
    "Not done yet.",
    "I go on from here.",
    "Easy enough.",
    "Hold on, one more look at this.",
)
_CLOSINGS = ("The answer:", "We end with", "Done:", "It comes to", "Hence", "In all:")
_COMMUTING = "+*"
_SWAPPED = 0.25
"""Share of the sums and products whose operands change places."""


class Wording:
    """Words the solutions of one domain; equal draws give equal words.

    Args:
        settings: How much the wording varies.
        draw: Source of the random choices.
    """

    def __init__(self, settings: WordingSettings, draw: random.Random):
        self._settings = settings
        self._draw = draw

    def solution(self, steps: Sequence[str], answer: str) -> str:
        """A solution with one step on a line and the answer in a box at the end.

        Args:
            steps: Sentences, or equations such as `a: 3+4=7`, where `a` is the letter of a number in the question.
            answer: Text for the box.
        """
        boxed = rf"\boxed{{{answer}}}"
        if not steps:
            return boxed
        lines = [self._draw.choice(_OPENINGS)]
        for step in steps:
            line = self._equation(step) if "=" in step else step
            while self._chance(self._settings.remarks):
                line += f" {self._draw.choice(_REMARKS)}"
            lines.append(line)
        lines.append(f"{self._draw.choice(_CLOSINGS)} {boxed}" if self._chance(self._settings.paraphrases) else boxed)
        return "\n".join(lines)

    def _equation(self, step: str) -> str:
        label, _, equation = step.rpartition(": ")
        expression, value = equation.split("=")
        for sign in _COMMUTING:
            if sign in expression and self._chance(_SWAPPED):
                expression = sign.join(reversed(expression.split(sign)))
        if not self._chance(self._settings.paraphrases):
            return f"{label}: {expression}={value}" if label else f"{expression}={value}"
        label = f"{label} " if label else ""
        return f"{self._draw.choice(_CONNECTORS)} {label}{expression}{self._draw.choice(_VERBS)}{value}."

    def _chance(self, probability: float) -> bool:
        return self._draw.random() < probability
