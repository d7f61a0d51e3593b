"""Judges, which decide whether an answer is right and which answers are equivalent, and the judge by exact match."""

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np

LONGEST = 512
"""Largest number of characters of a factual answer; a longer one counts as no answer and matches nothing."""
_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_DASHES = {ord(dash): "-" for dash in "‐‑‒–—―−﹣－"} | {ord(quote): "'" for quote in "‘’ʼ′`´"}
_MARKS = re.compile(r"(?<=[a-zA-Z])[\u0300-\u036f]+")
_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_KEPT = r"(?<=\d)[^\w\s](?=\d)|(?<![\w)])-(?=[$€£]?\d)|(?<=[a-z])(?:\+\+|#)(?!\w)"
"""Signs that tell values apart: between digits, a minus, and those of C++ and C#."""
_SIGNS = re.compile(rf"({_KEPT})|[^\w\s]|_")
_SPACES = re.compile(r"(?<!\d)\s+|\s+(?!\d)")


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
        """Equivalence classes of the answers within each pool (`cocal.answers.judge.partition`).

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
    """Judges factual answers by exact match: they are equivalent if `normalise_text` makes them equal. An empty answer,
    or one that is too long, equals nothing."""

    def correct(
        self, golds: Sequence[Sequence[str]], answers: Sequence[str | None], questions: Sequence[str]
    ) -> Verdicts:
        """See `Judge.correct`."""
        verdicts = [
            answer is not None and (form := exact_form(answer)) is not None and form in map(normalise_text, accepted)
            for accepted, answer in zip(golds, answers, strict=True)
        ]
        return Verdicts(np.array(verdicts, dtype=bool), np.ones(len(verdicts), dtype=bool))

    def classes(self, answers: Sequence[str | None], pools: Sequence[Hashable], questions: Sequence[str]) -> Verdicts:
        """See `Judge.classes`."""
        forms = forms_of(answers, exact_form)
        labels = partition(forms, pools, lambda pairs: [False] * len(pairs))
        return Verdicts(labels, np.ones(len(labels), dtype=bool))


def normalise_text(text: str) -> str:
    r"""A factual answer without case, accents, punctuation, English articles and white space.

    SQuAD's exact match drops case, ASCII punctuation and articles. Beyond it, Unicode is folded first, so that
    `O’Brien`, `Röntgen` and `1990–91` equal what is typed on a plain keyboard; LaTeX text commands are unwrapped, and
    words may be joined by a hyphen, a space or nothing. Signs between digits, a minus and the signs of `C++` and `C#`
    stay, since `3.5`, `-5` and `9/11` are not 35, 5 and 911; commas may group thousands. White space stays between two
    digits. A text of articles alone keeps its last word, and one of punctuation alone keeps it.
    """
    plain = unicodedata.normalize("NFKC", text.translate(_DASHES)).translate(_DASHES)
    plain = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", _COMMAND.sub(r"\1", plain))))
    words = _SIGNS.sub(lambda found: found[1] or (" " if found[0] in "-/" else ""), _GROUPS.sub("", plain.lower()))
    bare = _ARTICLE.sub(" ", words).split() or words.split()[-1:] or plain.split()
    return _SPACES.sub("", " ".join(bare))


def exact_form(answer: str) -> str | None:
    """The text form by which factual answers are compared; None for an answer that is empty or too long."""
    return (normalise_text(answer) or None) if len(answer) <= LONGEST else None


Rows = tuple[int, int]


def forms_of(answers: Sequence[str | None], form: Callable[[str], str | None]) -> list[Hashable | None]:
    """The forms of n answers; None without an answer. An answer without a form gets one that no other answer shares."""
    known = {answer: form(answer) for answer in answers if answer is not None}
    return [
        None if answer is None else (row if known[answer] is None else known[answer])
        for row, answer in enumerate(answers)
    ]


def partition(
    forms: Sequence[Hashable | None], pools: Sequence[Hashable], linked: Callable[[list[Rows]], Sequence[bool]]
) -> np.ndarray:
    """Equivalence classes within each pool.

    Two answers share a class if their forms are equal, or if they are linked and each of them is linked to all others
    of the class: a number that equals two answers with different units does not make these equal. Answers join the
    first class that takes them, the most frequent first and equally frequent ones in the order of their forms, so that
    the partition does not depend on the order of a pool.

    Args:
        forms: Forms of n answers; None for a response without one.
        pools: Pool of each answer, such as its question.
        linked: Function that takes pairs of rows, one pair for any two different forms of a pool, and returns whether
            the answers of each pair are equivalent.

    Returns:
        int64 (n,): classes of each pool, numbered from 0 in the order in which they first occur; -1 without an answer.
    """
    members: dict[Hashable, dict[Hashable, list[int]]] = {}
    for row, (form, pool) in enumerate(zip(forms, pools, strict=True)):
        if form is not None:
            members.setdefault(pool, {}).setdefault(form, []).append(row)
    pairs = [pair for of_pool in members.values() for pair in combinations([rows[0] for rows in of_pool.values()], 2)]
    joined = {pair for pair, verdict in zip(pairs, linked(pairs), strict=True) if verdict}
    labels = np.full(len(forms), -1, dtype=np.int64)
    for of_pool in members.values():
        classes: list[list[int]] = []
        for _, rows in sorted(of_pool.items(), key=lambda item: (-len(item[1]), str(item[0]))):
            first = rows[0]
            fitting = (found for found in classes if all({(first, other), (other, first)} & joined for other in found))
            if (chosen := next(fitting, None)) is None:
                classes.append(chosen := [])
            chosen.append(first)
        ordered = sorted(sorted(found) for found in classes)
        for label, found in enumerate(ordered):
            for first in found:
                labels[of_pool[forms[first]]] = label
    return labels


def decided_rows(
    forms: Sequence[Hashable | None], pools: Sequence[Hashable], labels: np.ndarray, open_pairs: Iterable[Rows]
) -> np.ndarray:
    """The answers whose class rests on verdicts alone.

    Args:
        forms, pools: Those of `partition`.
        labels: Its result.
        open_pairs: Rows of two answers whose equivalence is undecided. If the two share a class through other answers,
            the pair is settled.

    Returns:
        bool (n,).
    """
    apart = {(pools[row], forms[row]) for pair in open_pairs if labels[pair[0]] != labels[pair[1]] for row in pair}
    return np.array([both not in apart for both in zip(pools, forms, strict=True)], dtype=bool)
