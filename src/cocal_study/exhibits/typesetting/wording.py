"""Sentences that captions share, and the printed form of units of time, ratios and signed differences."""

import math
from collections.abc import Mapping, Sequence

from cocal.metrics.shown import UNDEFINED, metric_text
from cocal_study.planning.plan import FACTUAL, MATHEMATICS

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

DOMAINS = {MATHEMATICS: "Mathematics", FACTUAL: "Factual QA"}
"""Title of each macro average."""
SUBJECTS = {MATHEMATICS: "mathematics", FACTUAL: "factual questions"}
"""What the questions of each macro average are about."""
SETS = {MATHEMATICS: "mathematical set", FACTUAL: "factual set"}
"""Name of one of the data sets of each macro average."""

SMOLLM2 = "SmolLM2-135M"
"""Name of the language model of the laptop study (`config/laptop.yaml`)."""
BOLD_AND_UNDERLINED = "Bold and underlined values indicate the best and second-best results, respectively."
UNDEFINED_VALUE = f"{UNDEFINED} marks an undefined value, such as the AUROC of a single class."
DOUBTFUL = "†"
"""Mark behind a value that rests on too few responses or on doubtful verdicts."""
DEGENERATE = "‡"
"""Mark behind a value of a confidence that does not discriminate between responses."""
TIMES_DIFFER = "Measured times differ from run to run."


def said(*sentences: str) -> str:
    """Return sentences as running text, without empty ones."""
    return " ".join(filter(None, sentences))


def averaged(seeds: int) -> str:
    """Return the sentence that says over how many seeds companions are averaged."""
    return f"Companion results average {counted(seeds, 'seed')}."


def number(count: int) -> str:
    """Return a count; those up to ten are words, greater ones are numerals."""
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{number(count)} {noun}{'s' * (count != 1)}"


def listed(items: Sequence[str]) -> str:
    """Return items as running text, such as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))


LONG = {"h": 3600.0, "min": 60.0, "s": 1.0}
"""Units for work that is done once, longest first, with their seconds."""
SHORT = {"s": 1.0, "ms": 1e-3}
"""Units for work that is done for every question."""


def times(seconds: Sequence[float], units: Mapping[str, float]) -> tuple[str, list[str]]:
    """Print one column of times in one unit of `units` (longest first), the longest that the longest time reaches;
    returns the unit and the printed times, `UNDEFINED` for NaN. Times have two decimals, or more if the shortest time
    is below one unit, so that it shows three significant digits."""
    known = [time for time in seconds if not math.isnan(time)]
    unit = next((unit for unit, length in units.items() if max(known) >= length), list(units)[-1])
    shortest = min(known) / units[unit]
    decimals = max(2, 2 - math.floor(math.log10(shortest)))
    return unit, [UNDEFINED if math.isnan(time) else f"{time / units[unit]:,.{decimals}f}" for time in seconds]


def ratios(values: Sequence[float]) -> list[str]:
    """Print one column of ratios as whole numbers, or with one decimal if any of them is below ten."""
    decimals = 0 if min(values) >= 10 else 1
    return [f"{value:.{decimals}f}×" for value in values]


def signed(metric: str, value: float) -> str:
    """Print a difference of a metric with its sign; zero and an undefined value have none."""
    text = metric_text(metric, value).replace("-", "−")
    return f"+{text}" if text[0].isdigit() and text.strip("0.") else text
