"""Interface of the judges, which decide whether an answer is right and which answers are equivalent; exact match."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from cocal.answers.normalise import normalise_text
from cocal.answers.partition import forms_of, partition

LONGEST = 512
"""Largest number of characters of a factual answer; a longer one counts as no answer and matches nothing."""


class Verdicts(NamedTuple):
    """The verdicts of a judge on n answers.

    Attributes:
        values: One verdict for each answer, shape (n,).
        decided: Whether the judge reached a verdict on each answer, bool (n,); otherwise `values` holds a default.
    """

    values: np.ndarray
    decided: np.ndarray


class Judge(Protocol):
    """A judge of the answers of one domain, such as `cocal.answers.equivalence.Verifier` for mathematics."""

    def correct(
        self, golds: Sequence[Sequence[str]], answers: Sequence[str | None], questions: Sequence[str]
    ) -> Verdicts:
        """Judge each answer as right or wrong.

        Args:
            golds: Accepted answers (the answer and its aliases) of each of n responses.
            answers: Extracted answers; None for a response without one.
            questions: Text of each response's question.

        Returns:
            bool (n,); False for a response without an answer and for an undecided one.
        """
        ...

    def classes(self, answers: Sequence[str | None], pools: Sequence[Hashable], questions: Sequence[str]) -> Verdicts:
        """Equivalence classes of the answers within each pool (`cocal.answers.partition.partition`).

        Args:
            answers: Extracted answers of n responses; None for a response without one.
            pools: Pool of each response; all responses of a pool answer the same question.
            questions: Text of each response's question.

        Returns:
            int64 (n,): classes of each pool, numbered from 0 in the order in which they first occur; -1 without an
            answer. Two answers whose comparison is undecided count as not equivalent.
        """
        ...


class ExactMatch:
    """Judges factual answers as SQuAD does: they are equivalent if `normalise_text` makes them equal."""

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
        """See `Judge.classes`. An answer that is too long is not equivalent to any other, even if they are equal."""
        forms = forms_of(answers, exact_form)
        labels = partition(forms, pools, lambda pairs: [False] * len(pairs))
        return Verdicts(labels, np.ones(len(labels), dtype=bool))


def exact_form(answer: str) -> str | None:
    """The text form by which factual answers are compared; None for an answer that is too long."""
    return normalise_text(answer) if len(answer) <= LONGEST else None
