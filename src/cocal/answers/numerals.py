"""Numbers in words, and digits in groups of thousands."""

import math
import re
from collections.abc import Sequence

from cocal.answers.words import DATA

_PARTS: dict[str, int] = DATA["parts"]
SCALES: dict[str, int] = DATA["scales"]
"""The powers of ten that multiply a number."""
SCALE = "|".join(SCALES)
_VALUES = {word: value for value, word in enumerate(DATA["numbers"].split())}
_VALUES |= {word: 10 * value for value, word in enumerate(DATA["tens"].split(), start=2)}
SPOKEN = "|".join([*_VALUES, SCALE, "an?|and|dozen", *(f"{part}s?" for part in _PARTS)])
"""The words of numbers."""


def spoken(text: str) -> str:
    """A number in words, written in digits, such as 105 for "one hundred and five", and "(2+1/2)" for "two and a half";
    the text if its words make none."""
    words = text.lower().replace("-", " ").split()
    if {*words} <= {"a", "an", "and"}:
        return text
    part = _PARTS.get(words[-1], _PARTS.get(words[-1].removesuffix("s")))
    if part:
        before = words[:-1]
        whole, _, above = " ".join(before).rpartition("and") if "and" in before else ("", "", " ".join(before))
        number = _whole(above.split() or ["one"])
        if number is None or (whole and _whole(whole.split()) is None):
            return text
        return f"({_whole(whole.split())}+{number}/{part})" if whole else f"{number}/{part}"
    number = _whole(words)
    return text if number is None else str(number)


def _whole(words: Sequence[str]) -> int | None:
    """A whole number in words; None if they make none."""
    total, current, last = 0, None, math.inf
    for word in words:
        if word in ("a", "an", "and"):
            if word == "and" and current is None and not total:
                return None
            current = 1 if word != "and" and current is None else current
        elif (value := _VALUES.get(word)) is not None:
            if current and (current % 10 or (current % 100 and value > 9)):
                return None
            current = (current or 0) + value
        else:
            scale = 12 if word == "dozen" else 10 ** SCALES[word]
            if current is None or scale >= last:
                return None
            current *= scale
            if scale >= 1000:
                total, current, last = total + current, None, scale
    return total + (current or 0) if words[-1] != "and" else None


def ungrouped(text: str) -> str:
    """A text without commas that group digits; the text itself if a comma may separate two members of a list, as in
    `x=1,500`, `(2,100)` and `\\{a,1,200\\}`."""
    listed = _ALONE.search(text) or re.search(r",(?!\s|$)", _GROUPS.sub("", text))
    return text if listed else _GROUPS.sub(lambda match: match[0].replace(",", ""), text)


_GROUPS = re.compile(r"(?<![\d,.])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)")
_ALONE = re.compile(r"(?:^|=|\\\{|[(\[])\s*[+-]?\d+,[\d,.]+\s*(?:$|\\\}|[)\]])")
"""Digits and commas that are the whole answer, the right side of an equation, or the content of brackets."""
