"""Decides which values of a column are printed bold and underlined (caption of table 1)."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from cocal.metrics.shown import UNDEFINED, Better

Mark = Literal["best", "second"]


def marks(shown: Sequence[str], better: Better | None, kinds: Sequence[Mark] = ("best", "second")) -> list[Mark | None]:
    """Return the marks of one column. They are decided on the rounded numbers as shown, so equal numbers share a mark.

    The second best is the next distinct number, however many share the best.

    Args:
        shown: Printed numbers, or `UNDEFINED`.
        better: Which numbers are better, or None for a column without marks.
        kinds: Marks that the table uses, best first.
    """
    if better is None:
        return [None] * len(shown)
    numbers = [None if text == UNDEFINED else Decimal(text) for text in shown]
    ranking = sorted({number for number in numbers if number is not None}, reverse=better == "higher")
    by_number: dict[Decimal | None, Mark] = dict(zip(ranking, kinds, strict=False))
    return [by_number.get(number) for number in numbers]
