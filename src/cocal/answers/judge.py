"""Judges, which decide whether an answer is right and which answers are equivalent, and the judge by exact match."""

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np

from cocal.answers.words import any_of

LONGEST = 512
"""Largest number of characters of a factual answer; a longer one counts as no answer and matches nothing."""
_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b(?=\s+\S)")
_DASHES = {ord(dash): "-" for dash in "‐‑‒–—―−﹣－"} | {ord(quote): "'" for quote in "‘’ʼʻ′`´"}
_SIGNS = _DASHES | str.maketrans({"×": "x", "♯": "#", "\u2044": "/"})
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i"})
"""Letters that are not accented forms of others, and what is typed for them on a plain keyboard."""
_RAISED = re.compile(r"(?<=\d)(?<!\d{4})[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = re.compile("(?<=\\d)(?=[¼-¾⅐-⅞])")
_MARKS = re.compile(r"(?<=[a-zA-Z])[\u0300-\u036f]+")
_RESPELLED = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"\^\{([+-]?\d+)\}", r"^\1"),
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),  # groups of thousands
        (r"(?<=\d)\s*(?:percent|per cent|pct)\b", "%"),
        (r"(?<![\d.])(\d+\.\d*[1-9])0+(?![\d.])", r"\1"),  # 2.50
        (r"(?<=\b[a-z]\.)\s+(?=[a-z]\.)", ""),  # initials
        (r"(?<=\d)\s*-\s*(?=\d)", "-"),  # a range
        (r",\s+(?:an?|the)$", ""),
        (r"\bu\.?s\.?\s*(?=\$)", ""),  # US$5
        (r"\s&\s", " and "),
        (rf"\b(\d\d?)(?:st|nd|rd|th)?(?: of)? ({any_of('months')})\b", r"\2 \1"),  # 4 July
        (rf"\b({any_of('months')}) (\d\d?)(?:st|nd|rd|th)\b", r"\1 \2"),
        (r"(?<![\w)])-\s+(?=[$€£¥₹]?\.?\d)", "-"),  # a minus and a space
        (r"(?<![\w.])\.(?=\d)", "0."),
        ("<=", "≤"),
        (">=", "≥"),
    )
)
"""Spellings of numbers, ranges, initials and dates, and what takes their place."""
_KEPT = (
    r"(?<=\d)[^\w\s](?=\d)|(?<=\d)\^(?=-\d)|(?<![\w)])-(?=[$€£¥₹]?\d)|[<>≤≥±](?=\s*[$€£¥₹-]*\d)|[‰♭]"
    r"|[$€£¥₹](?=\s*-?\d)|(?<=\d)[€£¥₹]|(?<=\d\s)[€£¥₹]|(?<=[a-z])(?:\+\+|#)(?!\w)"
    r"|(?:(?<=\b[a-z])|(?<=\b[a-z][a-z]))(?:\+|-(?!\s*\w))(?!\w)"
)
"""Signs that tell values apart: signs between digits, powers, a minus, relations, currencies, and the signs of C++, C#,
A+ and A-."""
_DROPPED = re.compile(rf"({_KEPT})|[^\w\s]|_")
_CURRENCY = re.compile("[$€£¥₹]")
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
    """Judges factual answers by exact match: they are equivalent if `normalise_text` makes them equal, up to a currency
    that only one of them states. An empty answer, or one that is too long, equals nothing."""

    def correct(
        self, golds: Sequence[Sequence[str]], answers: Sequence[str | None], questions: Sequence[str]
    ) -> Verdicts:
        """See `Judge.correct`."""
        verdicts = [
            answer is not None
            and (form := exact_form(answer)) is not None
            and any(_same(normalise_text(gold), form) for gold in accepted)
            for accepted, answer in zip(golds, answers, strict=True)
        ]
        return Verdicts(np.array(verdicts, dtype=bool), np.ones(len(verdicts), dtype=bool))

    def classes(self, answers: Sequence[str | None], pools: Sequence[Hashable], questions: Sequence[str]) -> Verdicts:
        """See `Judge.classes`."""
        forms = forms_of(answers, exact_form)
        labels = partition(forms, pools, lambda pairs: [_same(forms[first], forms[second]) for first, second in pairs])
        return Verdicts(labels, np.ones(len(labels), dtype=bool))


def normalise_text(text: str) -> str:
    r"""A factual answer without case, accents, punctuation, English articles and white space.

    SQuAD's exact match drops case, ASCII punctuation and articles. In addition, Unicode is folded first, so that
    `O’Brien`, `Röntgen` and `1990–91` equal what is typed on a plain keyboard; LaTeX text commands are unwrapped, and
    words may be joined by a hyphen, a space or nothing. Signs between digits, powers, a minus, relations, currencies
    and the signs of `C++`, `C#` and `A+` stay, since `3.5`, `-5`, `9/11`, `10⁶` and `>5` are not 35, 5, 911, 106 and 5;
    commas may group thousands. White space stays between two digits. An article is dropped if a word follows it, unlike
    the A of `Vitamin A`, or if it ends the text after a comma. A text of punctuation alone is kept.
    """
    powers = _RAISED.sub(lambda match: "^" + match[0], _VULGAR.sub(" ", text)).translate(_DASHES)
    plain = unicodedata.normalize("NFKC", powers).translate(_SIGNS)
    plain = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", _COMMAND.sub(r"\1", plain))))
    words = plain.lower().translate(_LETTERS)
    for pattern, new in _RESPELLED:
        words = pattern.sub(new, words)
    words = _DROPPED.sub(lambda match: match[1] or (" " if match[0] in "-/" else ""), words)
    bare = _ARTICLE.sub(" ", words).split() or words.split()[-1:] or plain.split()
    return _SPACES.sub("", " ".join(bare))


def exact_form(answer: str) -> str | None:
    """The text form by which factual answers are compared; None for an answer that is empty or too long."""
    return (normalise_text(answer) or None) if len(answer) <= LONGEST else None


def _same(first: Hashable, second: Hashable) -> bool:
    """True if two text forms are equal, where a currency may be missing in one."""
    if not (isinstance(first, str) and isinstance(second, str)):
        return False
    signs = [_CURRENCY.findall(form) for form in (first, second)]
    return _CURRENCY.sub("", first) == _CURRENCY.sub("", second) and (signs[0] == signs[1] or [] in signs)


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
            fitting = (group for group in classes if all({(first, other), (other, first)} & joined for other in group))
            if (chosen := next(fitting, None)) is None:
                classes.append(chosen := [])
            chosen.append(first)
        ordered = sorted(sorted(group) for group in classes)
        for label, group in enumerate(ordered):
            for first in group:
                labels[of_pool[forms[first]]] = label
    return labels


def decided_rows(
    forms: Sequence[Hashable | None], pools: Sequence[Hashable], labels: np.ndarray, open_pairs: Iterable[Rows]
) -> np.ndarray:
    """Mark the answers whose class does not depend on an undecided comparison.

    Args:
        forms, pools: See `partition`.
        labels: The result of `partition`.
        open_pairs: Rows of two answers whose equivalence is undecided. If the two share a class through other answers,
            the pair is settled.

    Returns:
        bool (n,).
    """
    apart = {(pools[row], forms[row]) for pair in open_pairs if labels[pair[0]] != labels[pair[1]] for row in pair}
    return np.array([both not in apart for both in zip(pools, forms, strict=True)], dtype=bool)
