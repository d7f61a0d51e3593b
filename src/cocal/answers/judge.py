"""Who decides whether an answer is right, and whether two are the same: one interface for every domain."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from cocal.answers.normalise import normalise_text
from cocal.answers.partition import forms_of, partition

LONGEST = 512
"""Characters of a factual answer; a longer one is not an answer and matches nothing."""


class Verdicts(NamedTuple):
    """What a judge says of n answers.

    Attributes:
        values: one verdict an answer, shape (n,).
        decided: bool (n,); False where the judge came to no verdict, and `values` holds what counts instead.
    """

    values: np.ndarray
    decided: np.ndarray


class Judge(Protocol):
    """Judges answers to questions of one domain: `cocal.answers.equivalence.Verifier` those of mathematics."""

    def correct(
        self, golds: Sequence[Sequence[str]], answers: Sequence[str | None], questions: Sequence[str]
    ) -> Verdicts:
        """Whether each answer is right.

        Args:
            golds: accepted answers (the answer and its aliases) of each of n responses.
            answers: extracted answers, None without one.
            questions: text of each response's question.

        Returns:
            bool (n,); False without an answer, and where nothing was decided.
        """
        ...

    def classes(self, answers: Sequence[str | None], pools: Sequence[Hashable], questions: Sequence[str]) -> Verdicts:
        """Equivalence classes of the answers within each pool (`cocal.answers.partition.partition`).

        Args:
            answers: extracted answers of n responses, None without one.
            pools: pool of each response; those of a pool answer the same question.
            questions: text of each response's question.

        Returns:
            int64 (n,): classes of each pool, numbered from 0 in the order in which they first occur; -1 without an
                answer. Two answers that nothing was decided about are apart.
        """
        ...


class ExactMatch:
    """Factual answers are the same if `normalise_text` makes them equal, as SQuAD scores."""

    def correct(
        self, golds: Sequence[Sequence[str]], answers: Sequence[str | None], questions: Sequence[str]
    ) -> Verdicts:
        """See `Judge.correct`."""
        accepted = [{normalise_text(gold) for gold in of_response} for of_response in golds]
        verdicts = [
            answer is not None and exact_form(answer) in right for answer, right in zip(answers, accepted, strict=True)
        ]
        return Verdicts(np.array(verdicts, dtype=bool), np.ones(len(verdicts), dtype=bool))

    def classes(self, answers: Sequence[str | None], pools: Sequence[Hashable], questions: Sequence[str]) -> Verdicts:
        """See `Judge.classes`. An over-long answer is not even equivalent to its like."""
        forms = forms_of(answers, exact_form)
        labels = partition(forms, pools, lambda pairs: [False] * len(pairs))
        return Verdicts(labels, np.ones(len(labels), dtype=bool))


def exact_form(answer: str) -> str | None:
    """The form in which equal factual answers are equal strings; none for an answer that is too long."""
    return normalise_text(answer) if len(answer) <= LONGEST else None
