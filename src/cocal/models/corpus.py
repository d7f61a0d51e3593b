"""The pre-training corpus of a tiny policy: chats about arithmetic and about the facts world.

Direct answers and wrong steps leave the policy partly competent. The corpus has every prompt format of the paper. Its
verbalised confidences carry no information: they are over-confident and drawn at random.
"""

import random
from collections.abc import Collection, Sequence
from typing import NamedTuple

from cocal.config.backbone import CorpusSettings, WordingSettings
from cocal.questions.build import normalised
from cocal.questions.facts import RELATIONS, World
from cocal.questions.mathematics import Problem, problem, wrong_solution
from cocal.questions.prompts import Prompts

_FAMILIES = ("sums", "products", "equations", "remainders", "sequences", "stories")
_CONFIDENCES = ("0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0")
# Over-confident, as the paper's policies are before training (tables main and ood: 0.98 and 0.93 on average), yet every
# tenth occurs: reinforcement learning cannot find a value that is never sampled.
_WEIGHTS = {
    "mathematics": (1, 1, 1, 1, 1, 1, 1, 1, 2, 10, 80),
    "factual": (1, 1, 1, 1, 1, 1, 2, 3, 8, 31, 50),
}
_REASONS = (
    "Every step looks right.",
    "The steps are short and checked.",
    "I may have slipped.",
    "I am fairly sure.",
)
_FORMATS = ("answer", "verbal", "rlcr", "p_true")
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


class Document(NamedTuple):
    """One exchange: the user's message and the assistant's response."""

    message: str
    response: str


class _Example(NamedTuple):
    domain: str
    question: str
    steps: tuple[str, ...]
    answer: str
    right: bool


class CorpusWriter:
    """Draws documents; equal seeds draw equal corpora.

    Args:
        held_out: Questions that must not occur in the corpus (evaluation and training sets of mathematics,
            multi-hop questions of the factual sets), compared by normalised text.
    """

    def __init__(self, settings: CorpusSettings, prompts: Prompts, world: World, held_out: Collection[str], seed: int):
        self._settings = settings
        self._prompts = prompts
        self._world = world
        self._held_out = {normalised(question) for question in held_out}
        self._draw = random.Random(f"corpus/{seed}")
        self._wording = {
            "mathematics": Wording(settings.mathematics_wording, self._draw),
            "factual": Wording(settings.facts_wording, self._draw),
        }

    def document(self) -> Document:
        """Draw the next document."""
        draw, settings = self._draw, self._settings
        example = self._fact() if draw.random() < settings.facts else self._mathematics()
        weights = (settings.plain, settings.verbal, settings.rlcr, settings.p_true)
        prompt_format = draw.choices(_FORMATS, weights=weights)[0]
        solution = self._wording[example.domain].solution(example.steps, example.answer)
        message = self._prompts.message(prompt_format, example.question, solution)
        if prompt_format == "p_true":
            label = example.right if draw.random() >= settings.p_true_noise else not example.right
            return Document(message, str(label))
        if prompt_format == "rlcr":
            solution += f"\n<reason>{draw.choice(_REASONS)}</reason>"
        if prompt_format in ("verbal", "rlcr"):
            solution += f"\nCONFIDENCE: {draw.choices(_CONFIDENCES, weights=_WEIGHTS[example.domain])[0]}"
        return Document(message, solution)

    def _problem(self) -> Problem:
        draw = self._draw
        while True:
            drawn = problem(draw.choice(_FAMILIES), draw.randint(1, 5), draw.getrandbits(32))
            if normalised(drawn.question) not in self._held_out:
                return drawn

    def _mathematics(self) -> _Example:
        draw, settings = self._draw, self._settings
        right = self._problem()
        if draw.random() < settings.direct_answers:
            return _Example("mathematics", right.question, (), right.answer, True)
        worked: Problem = right
        if draw.random() < settings.wrong_steps:
            worked = wrong_solution(right, draw)
        return _Example("mathematics", right.question, worked.steps, worked.answer, worked.answer == right.answer)

    def _fact(self) -> _Example:
        draw, world = self._draw, self._world
        while True:
            hops = draw.choices((1, 2, 3), weights=(8, 2, 1))[0]
            fact = world.ask(world.mentioned(draw), draw.choice(RELATIONS), hops)
            if hops == 1 or normalised(fact.question) not in self._held_out:
                return _Example("factual", fact.question, fact.steps, fact.answer, True)


class Wording:
    """Words the solutions of one domain; equal draws give equal words."""

    def __init__(self, settings: WordingSettings, draw: random.Random):
        self._settings = settings
        self._draw = draw

    def solution(self, steps: Sequence[str], answer: str) -> str:
        """A solution with one step on a line and the answer in a box at the end.

        Args:
            steps: Sentences, or equations such as `a: 3+4=7`, where `a` is the letter of a number in the question.
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
