"""The pre-training corpus of a tiny policy: chats about arithmetic and about the facts world.

Direct answers and wrong steps leave the policy partly competent. The corpus has every prompt format of the paper. Its
verbalised confidences carry no information: they are over-confident and drawn at random.
"""

import random
from collections.abc import Collection
from typing import NamedTuple

from cocal.config.backbone import CorpusSettings
from cocal.models.wording import Wording
from cocal.questions.build import normalised
from cocal.questions.prompts import Prompts
from cocal.questions.synthetic import RELATIONS, Problem, World, problem, wrong_solution

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
        settings: Mixture of the corpus.
        prompts: Prompt set of the study.
        world: Facts world that the corpus describes.
        held_out: Questions that must not occur in the corpus (evaluation and training sets of mathematics,
            multi-hop questions of the factual sets), compared by normalised text.
        seed: Seed of the draws.
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
