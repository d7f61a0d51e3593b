"""Sentences and parts of sentences that captions share."""

from collections.abc import Sequence

from cocal.metrics.shown import UNDEFINED

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

BOLD_AND_UNDERLINED = "Bold and underlined values indicate the best and second-best results, respectively."
UNDEFINED_VALUE = f"{UNDEFINED} marks an undefined value, such as the AUROC of a single class."
DOUBTFUL = "†"
"""Mark behind a value that rests on too few responses or on doubtful verdicts."""
DEGENERATE = "‡"
"""Mark behind a value of a confidence that tells no response from another."""
TIMES_DIFFER = "Measured times differ from run to run."


def said(*sentences: str) -> str:
    """Return sentences as running text, without empty ones."""
    return " ".join(filter(None, sentences))


def averaged(seeds: int) -> str:
    """Return the sentence that says over how many seeds companions are averaged."""
    return f"Companion results average {counted(seeds, 'seed')}."


def counted(count: int, noun: str) -> str:
    """Return a count with its noun; counts up to ten are words, greater ones are numerals."""
    word = _WORDS[count] if count < len(_WORDS) else f"{count:,}"
    return f"{word} {noun}{'s' * (count != 1)}"


def listed(items: Sequence[str]) -> str:
    """Return items as running text, such as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))
