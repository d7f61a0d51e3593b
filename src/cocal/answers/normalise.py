r"""Normal forms of answers, and notation that math-verify misreads.

Equivalent answers should become equal strings. math-verify drops the base of a number, the parentheses of a list and
the units that it knows, and reads unknown words as products of letters; such cases are decided by the text alone.
"""

import re
import string
import unicodedata
from itertools import accumulate

from cocal.answers.extraction import extract_answer

_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_WORD = re.compile(r"[A-Za-z]{4,}")
_MATH = re.compile(r"\$\$?((?:[^$\\]|\\.)+)\$\$?|\\\(((?:(?!\\[()]).)+)\\\)|\\\[((?:(?!\\[\[\]]).)+)\\\]", re.DOTALL)
_BOLD = re.compile(r"\\(?:mathbf|boldsymbol|bm)\s*\{(.+)\}", re.DOTALL)
_PI = re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])")
_DOLLAR = re.compile(r"(?<!\\)\$")
_ESCAPED = re.compile(r"\\[{}]")
_TRAILING = re.compile(r"(?:\s|\\[,;:!]|(?<![.\\])(?<!\\right)(?<!\\left)[.,;](?!\.))+$")
_GROUPS = re.compile(r"(?<=\d)(?:,\\!\s*|\{,\}|\\,)(?=\d{3}(?!\d))")
_SPACED = re.compile(r"[+-]?[0-9]{1,3}(?:(?: |\\ )[0-9]{3})+(?:\.[0-9]+)?")
_MIXED = re.compile(r"^([+-]?)([0-9]+) ([0-9]+)/([0-9]+)$")


def normalise_text(text: str) -> str:
    r"""A factual answer without case, ASCII punctuation, English articles and extra white space, as SQuAD scores it.

    Unlike SQuAD, it applies NFKC and unwraps LaTeX text commands (`\text{Paris}`). It keeps a text that consists only
    of articles or punctuation, so that two such answers do not become equal by being empty.
    """
    plain = _COMMAND.sub(r"\1", unicodedata.normalize("NFKC", text)).lower()
    bare = _ARTICLE.sub(" ", plain.translate(_PUNCTUATION))
    return " ".join(bare.split()) or " ".join(plain.split())


def plain_answer(text: str) -> str:
    r"""A mathematical answer without the typesetting that math-verify misreads; its meaning is left to math-verify.

    If the text contains a box, as some gold answers do, the content of the box is the answer. Math delimiters, bold
    type and punctuation around the whole are removed (`$\mathbf{p - q}$.` becomes `p - q`), and so are spaces in long
    numbers (`11,\! 111`, `11\,111` and a whole `11 111` become `11111`) and a single dollar sign. White space becomes
    one space, missing closing braces at the end, as in two answers of DeepScaleR, are added, a mixed number `1 1/2`
    becomes the sum `(1+1/2)`, and a bare `pi` becomes `\pi`.
    """
    plain, before = " ".join((extract_answer(text) or text).split()), None
    plain += "}" * _depths(plain)[1]
    if len(_DOLLAR.findall(plain)) == 1:
        plain = _DOLLAR.sub("", plain).strip()
    while plain != before:
        before = plain
        plain = _TRAILING.sub("", plain) or plain
        for wrapping in (_MATH, _BOLD):
            wrapped = wrapping.fullmatch(plain)
            if wrapped and _depths(inner := wrapped[wrapped.lastindex].strip())[0] == 0:
                plain = inner or plain
    if _SPACED.fullmatch(plain):
        plain = plain.replace("\\ ", "").replace(" ", "")
    return _PI.sub(r"\\pi", _GROUPS.sub("", _MIXED.sub(r"\1(\2+\3/\4)", plain)))


def _depths(text: str) -> tuple[int, int]:
    """The lowest depth of braces in a text and the depth at its end; it starts at 0. Escaped braces do not count."""
    depths = list(accumulate((brace == "{") - (brace == "}") for brace in _ESCAPED.sub("", text)))
    return min([0, *depths]), depths[-1] if depths else 0


def canonical_integer(text: str) -> str | None:
    """A plain integer without plus sign and leading zeros, such as "25" for `025` and `+25`; None for other texts."""
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed):
        return None
    digits = trimmed.lstrip("+-").lstrip("0")
    return f"-{digits}" if digits and trimmed[0] == "-" else digits or "0"


def is_word(text: str) -> bool:
    """True if a mathematical answer is a bare word of at least four letters, which math-verify would multiply."""
    return _WORD.fullmatch(text) is not None


def nesting(text: str) -> int:
    """Largest depth of nested brackets of all kinds."""
    return max(accumulate((char in "{([") - (char in "})]") for char in text), default=0)


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
_MEASURED = re.compile(
    rf"({_NUMBER})\s*(?:\\[ ,;:]|~)\s*(?:[kmµ]?g|[kcmµ]?m|m?s|h|min|m?[lL]|[km]?[NJWVA]|Hz|Pa|K|mol)"
)
"""A number and the symbol of a unit with a typeset space between them; without one, the letters may be variables."""
_MONEY = r"(?:[€£¥₹]|\\(?:pounds|euro|texteuro)(?![A-Za-z]))"
_PRICE = re.compile(rf"{_MONEY}\s*({_NUMBER})|({_NUMBER})\s*{_MONEY}")
_SEVERAL = re.compile(r"\d\D*\b(?:and|or)\b\D*\d")
_LABELLED = re.compile(rf"\([A-Za-z]\)\s*{_NUMBER}")
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
    a set. Equations (`x=1,y=2`) and vectors in other brackets are left to math-verify. A number is not equal to two
    numbers with "and" or "or" between them, of which math-verify reads the first, nor to one with the letter of a
    choice (`(b)0`), which it multiplies.
    """
    for number, other in ((gold, answer), (answer, gold)):
        if _BARE.fullmatch(number) and (_SEVERAL.search(other) or _LABELLED.fullmatch(other)):
            return False
    bases = [_based(text) for text in (gold, answer)]
    if None not in bases:
        return bases[0] == bases[1]
    ordered = [_ordered(text) for text in (gold, answer)]
    return False if None not in ordered and ordered[0] != ordered[1] else None


def without_unit(gold: str, answer: str) -> tuple[str, str]:
    r"""The two answers; if one is a bare number and the other a number with a unit, both without the unit.

    The question says what is counted, so `15` equals `15 sides`, `10` equals `10 \text{ years old}`, and `77` equals
    `€77`. If both have a unit, both keep it, for `3 apples` differs from `3 oranges`. Words that change a number
    (`5 million`, `3 squared`) or add another one (`3 or four`) are not units. Short words outside `\text` may be
    variables (`3 xyz`) and are units only after a typeset space (`48\,g`).
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
    """The number of a quantity whose unit is a word, a symbol or a currency; None for any other text."""
    if found := _MEASURED.fullmatch(text) or _PRICE.fullmatch(text):
        return found[found.lastindex]
    found = _QUANTITY.fullmatch(text)
    return None if not found or _NO_UNIT.search(found[2] or found[3]) else found[1]
