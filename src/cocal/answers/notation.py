r"""Notation that math-verify misreads: bases of numbers, ordered lists, and units in words.

math-verify drops the base of a number, the parentheses of a list and the units that it knows, and reads unknown words
as products of letters. This module decides such cases by the text alone.
"""

import re

_WRAPPING = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf)\b|\\[,;:! ]|[{}()\s~]")
_BASED = re.compile(r"([+-]?)([0-9A-F]+)(?:_|_?(?:in)?base-?)(-?[0-9]+|[a-z]+)", re.IGNORECASE)
_BASE_NAMES = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_BASES = {name: str(base) for base, name in enumerate(_BASE_NAMES, start=2)} | {"sixteen": "16"}

_SIZE = re.compile(r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])\s*")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")

_NUMBER = r"[+-]?(?:[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+|[0-9]+/[0-9]+|\\[dt]?frac\{[0-9]+\}\{[0-9]+\})"
_BARE = re.compile(_NUMBER)
_IN_TEXT = r"\\(?:text|textrm|mathrm)\{\s*([A-Za-z]{2,}(?: [A-Za-z]{2,})*)\s*\}"
_QUANTITY = re.compile(rf"({_NUMBER})(?:\s|\\[ ,;:~])*(?:{_IN_TEXT}|\s([A-Za-z]{{4,}}(?: [A-Za-z]{{2,}})*))")
_NO_UNIT = re.compile(
    r"\b(?:(?:hundred|thousand|million|billion|trillion|dozen|time|power)s?|half|halves|(?:third|quarter)s?"
    r"|(?:four|fif|six|seven|eigh|nin|ten|hundred|thousand)ths?|percent|squared|cubed|factorial|modulo|mod|remainder"
    r"|plus|minus|over|divided|multiplied|negative|infinity|more|less|than|least|most|about|approximately|roughly"
    r"|between|and|or|not|never|no|none|except|either|wrong|impossible|undefined"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
    re.IGNORECASE,
)
"""Words after a number that are no unit, because they change the number, add another one or withdraw it."""


def contradicted(gold: str, answer: str) -> bool | None:
    r"""The verdict on two answers if their notation decides it, otherwise None.

    Two numbers with bases (`2516_8`, `2516_{\text{nine}}`, `2516 base 8`) are equal if their digits and bases are.
    An ordered list in parentheses or brackets, such as a pair or an interval, differs from a list without them and from
    a set. Equations (`x=1,y=2`) and vectors in other brackets are left to math-verify.
    """
    bases = [_based(text) for text in (gold, answer)]
    if None not in bases:
        return bases[0] == bases[1]
    ordered = [_ordered(text) for text in (gold, answer)]
    return False if None not in ordered and ordered[0] != ordered[1] else None


def without_unit(gold: str, answer: str) -> tuple[str, str]:
    r"""The two answers; if one is a bare number and the other a number with a unit in words, both without the unit.

    The question says what is counted, so `15` equals `15 sides`, and `10` equals `10 \text{ years old}`. If both have a
    unit, both keep it, for `3 apples` differs from `3 oranges`. Words that change a number (`5 million`, `3 squared`)
    or add another one (`3 or four`) are not units. Short words outside `\text` may be variables (`3 xyz`) and are not
    units, either.
    """
    for number, quantity, swapped in ((gold, answer, False), (answer, gold, True)):
        if _BARE.fullmatch(number) and (value := _value(quantity)) is not None:
            return (value, number) if swapped else (number, value)
    return gold, answer


def _based(text: str) -> tuple[str, str, str] | None:
    """Sign, digits and base of a number that is written with its base; None for any other text."""
    found = _BASED.fullmatch(_WRAPPING.sub("", text))
    if not found:
        return None
    sign, digits, base = found[1].strip("+"), found[2].upper().lstrip("0"), _BASES.get(found[3].lower(), found[3])
    is_number = re.search("[0-9]", found[2]) and base.lstrip("-").isdigit()
    return (sign, digits, base) if is_number else None


def _ordered(text: str) -> bool | None:
    """True if brackets around a list fix its order; None for a text that is not a list."""
    plain = _SIZE.sub("", text).strip()
    if _GROUPED.fullmatch(plain) or any(mark in plain for mark in ("=", r"\langle", r"\begin")):
        return None
    depth, commas, closed = 0, set(), []
    for place, char in enumerate(plain):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                closed.append(place)
        elif char == "," and plain[place - 1 : place] != "\\":  # \, is a space
            commas.add(depth)
    enclosed = plain[:1] in ("(", "[") and plain[-1:] in (")", "]") and closed == [len(plain) - 1]
    if enclosed and 1 in commas:
        return True
    is_set = plain.startswith(r"\{") and plain.endswith(r"\}") and 1 in commas
    return False if 0 in commas or is_set else None


def _value(text: str) -> str | None:
    """The number of a quantity whose unit is in words; None for any other text."""
    found = _QUANTITY.fullmatch(text)
    return None if not found or _NO_UNIT.search(found[2] or found[3]) else found[1]
