r"""Removal of what only one of two answers states, by a table of rules in their order (`ALIGNMENTS`)."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from cocal.answers.spelling import GAP, marks
from cocal.answers.words import DATA, any_of

NUMBER = r"[+-]?(?:[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+|[0-9]+/[0-9]+|\\frac\{[0-9]+\}\{[0-9]+\})"
TEXT = re.compile(r"\\(?:text|textrm|mathrm)\s*\{([^{}]*)\}")
_SYMBOLS, ONES = any_of("symbols"), any_of("letters")
"""Unit symbols that cannot be products of variables, and those that can."""
_KNOWN = re.compile("|".join([_SYMBOLS, ONES, any_of("upright")]))
"""Units of one or two letters in a text command; other letters there may be variables in an upright font."""
_POWER = r"(?:\s*\^\s*\{?(?P<power>[23])\}?)?"
WORDED = r"[A-Za-z]{2,}(?:[ -][A-Za-z]{2,})*"
_UNIT = re.compile(
    rf"(?P<value>.*[\w)}}\]|!]){GAP}*"
    rf"(?:\\(?:text|textrm|mathrm)\s*\{{[\s~]*(?P<text>[A-Za-z]+(?:\.?[ /-][A-Za-z]+)*(?:\^?[23])?)\.?\s*\}}"
    rf"|(?<=[\d}}])(?P<symbol>{_SYMBOLS})"
    rf"|(?:(?<=[\d}}])|(?<=\\pi))\s?(?P<word>(?:sq|cu)\.? [a-z]{{2,}}|[A-Za-z]{{4,}}(?:[ -][A-Za-z]{{2,}})*|{_SYMBOLS})"
    rf"|(?<=[\d}}])(?:\\[ ,;:~]|~)\s*(?P<spaced>{_SYMBOLS}|{ONES}))\.?" + _POWER
)
_COMPOUND = re.compile(
    r"\s*(?:,|(?:\\text\s*\{\s*)?\band\b\s*\}?)?\s*".join(
        [rf"({NUMBER}){GAP}*(?:\\text\s*\{{)?\s*([A-Za-z]+)\.?\s*\}}?"] * 2
    )
)
"""A quantity in two units."""
_SIZES = {unit: (kind, size) for kind, sizes in DATA["sizes"].items() for unit, size in sizes.items()}
"""The kind of each unit, and its size as a multiple of the smallest unit of this kind."""
_ATTACHED = re.compile(rf"(?P<value>{NUMBER})\s?(?P<symbol>(?:{ONES}|{_SYMBOLS})(?:/(?:{ONES}))?){_POWER}")
_WORDS = frozenset(DATA["counted"].split())
"""The words that may stand behind a number without changing it."""
_ANGLE = re.compile(rf"({NUMBER})\s*\^\s*\{{?\s*\\circ\s*\}}?")
"""A number with a degree sign and nothing else, where the sign is a unit."""
DEGREES = re.compile(r"(\d+(?:\.\d+)?[a-z]?|(?<![A-Za-z\\])[a-z])\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)")
"""An angle in degrees, which the parser would read as a bare number."""
_ABBREVIATED = {word: symbol for symbol, names in DATA["abbreviated"].items() for word in names.split()}
_MONEY = r"(?:US\s*\\?\$|\\?\$|[€£¥₹¢]|Rs\.?|USD|EUR|GBP)"
_PRICE = re.compile(rf"{_MONEY}\s*({NUMBER})|({NUMBER})\s*{_MONEY}")
_LABEL = re.compile(
    rf"(?:(?:\\(?:text|mathrm))?\s*\{{{GAP}*)?(?:\((?:\\text\s*\{{)?[A-H]\}}?\)|[A-H][.)](?=\s|\\))"
    rf"{GAP}*\}}?{GAP}*(?=\S)(?!\([A-H]\))"
)
_CHOICE = re.compile(
    rf"(?:\\text\s*\{{\s*)?(?:([A-H])(?:\)|[.):]\s*\}}?\s+\S.*)|"
    rf"(\([A-H]\))\s*\}}?{GAP}*(?!.*(?:\([A-H]\)|\b(?:is|not|or)\b))[\w\\$-].*)|\(([A-H])\)"
    r"|(?:\\text\s*\{\s*)?(?:[Oo]ption|[Cc]hoice)\s+\(?([A-H])\)?\.?\s*\}?"
)
_YES_OR_NO = re.compile(r"(?i)(yes|no)(?:\s*[,.:;].*)?")
_CHOICES = re.compile(r"[A-H](?:(?:\s|,|\\text\s*\{|\}|\band\b)+[A-H])+")
"""Several choices, which may also stand side by side."""
_COORDINATE = r"(?:[a-z](?:_\{?\w+\}?)?|\\ldots)"
_MEMBER = re.compile(
    r"(?P<before>(?:^|[,;]|\b(?:and|or)\b\s*\}?)\s*)"
    rf"(?P<name>(?:[A-Za-z]|\\[a-z]+)(?:_\{{?\w\}}?)?|\({_COORDINATE}(?:\s*,\s*{_COORDINATE})*\))\s*(?:\\in|=)\s*"
    r"(?=[\[(]|\\\{)"
)
"""The text that names a set, an interval or a tuple, or says that a letter lies in it."""
_POINT = re.compile(r"[A-Z]\s*(?=\([^()]*,[^()]*\)$)")
"""The name of a point before its coordinates."""
_VALUED = re.compile(
    r"(?:[A-Za-z](?=\(|_\{)|\\(?:gcd|lcm|min|max)(?![a-z]))\s*(?:\([^()]*\))?(?:_\{[^{}]*\})?\s*=\s*(?=[^=,]+$)"
)
"""The text that names a value: a function, a probability or a letter with an index in words."""
_NO_VALUE = re.compile(r"[,=<>]|\\(?:begin|le|ge|ne|in)(?![a-z])|\b(?:no|not|for|if|when|all)\b")
"""Signs and words that neither one value nor a sum of unit vectors contains."""
_CONSTANT = re.compile(r"\\[A-Za-z]+|(?<![A-Za-z])e(?![A-Za-z])")
"""Commands and Euler's number, which are no variables."""
_EQUATION = re.compile(
    r"(?:[\dxy\s+*/^.{}()-]|\\(?:frac|sqrt|cdot|times|binom|pi)(?![a-z]))*"
    r"|[^A-Za-z\\|]*(?![fghP]\()([A-Za-z])(?:[^A-Za-z\\|]|\1)*"
)
"""The left side of an equation to be solved (one letter) or of a curve (coordinates alone)."""
_UNIT_VECTOR = re.compile(r"(?<![A-Za-z\\_])[ijk](?![A-Za-z])")
_ORDER = re.compile(r"[<>]|\\[lg]e(?![a-z])")
"""The signs of an inequality."""
_FAMILY = re.compile(
    rf"(?P<what>.*?){GAP}*(?:[,;(]|(?=\\text\s*\{{)){GAP}*(?:\\text\s*\{{[\s,]*)?(?:(?:where|for|with)\s+)?"
    r"\}?\s*\$?(?P<letters>[a-z](?:\s*,\s*[a-z])*)\s*"
    r"\\in\s*\\?(?:mathbb\s*)?\{?(?P<of>[ZNR])\}?(?P<some>\s*[\^_]\s*\{?[*+]\}?)?\s*\$?\)?"
)
_LETTER = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
"""A letter, or a command."""
_IMAGINARY, _OTHER_IMAGINARY = (re.compile(rf"(?<![A-Za-z\\_{{]){letter}(?![A-Za-z])") for letter in "ij")
SEVERAL = re.compile(r"\d\D*\b(?:and|or)\b\D*\d")
GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_ASSIGNED = re.compile(r"[^=,]*=\s*[+-]?[0-9]{1,3}(?:,[0-9]{3})+")
_ONE_NUMBER = re.compile(r"(?:[^=,]*=\s*)?[+-]?[0-9]+|[+-]?[0-9]{1,3}(?:,[0-9]{3})+")

Pair = tuple[str, str]


class Said(NamedTuple):
    """A rule about two answers.

    Attributes:
        says: What the rule decides or makes equal, as the page about the verifier shows it.
        apply: Function of the gold answer and the answer.
    """

    says: str
    apply: Callable[[str, str], Any]


def aligned(gold: str, answer: str) -> Pair:
    """The two answers without what only one of them states (`ALIGNMENTS`)."""
    for rule in ALIGNMENTS:
        gold, answer = rule.apply(gold, answer)
    return gold, answer


def _without(gold: str, answer: str, heads: "list[re.Match[str] | None]") -> Pair:
    """The two texts without the matches at their beginnings."""
    first, second = (text[head.end() :] if head else text for head, text in zip(heads, (gold, answer), strict=True))
    return first, second


def _choice(gold: str, answer: str) -> Pair:
    for letter, other in ((gold, answer), (answer, gold)):
        if (choice := _CHOICE.fullmatch(other)) and letter in choice.groups():
            return letter, letter
        if _CHOICES.fullmatch(other) and letter == "".join(re.findall("[A-H]", other)):
            return letter, letter
    return gold, answer


def _yes_or_no(gold: str, answer: str) -> Pair:
    said = [_YES_OR_NO.fullmatch(text) for text in (gold, answer)]
    first, second = (match[1] if match else text for match, text in zip(said, (gold, answer), strict=True))
    return (first, second) if {gold.lower(), answer.lower()} & {"yes", "no"} else (gold, answer)


def _label(gold: str, answer: str) -> Pair:
    if re.fullmatch("[A-H]", gold):
        return gold, answer  # a choice, and the label is another one
    labels = [_LABEL.match(text) for text in (gold, answer)]
    return _without(gold, answer, labels) if None in labels else (gold, answer)


def _family(gold: str, answer: str) -> Pair:
    ours, theirs = (_FAMILY.fullmatch(text) for text in (gold, answer))
    if ours and theirs:
        return (
            (ours["what"], _renamed(ours, theirs)) if (ours["of"] or "Z") == (theirs["of"] or "Z") else (gold, answer)
        )
    alone = ours or theirs
    if alone is None:
        return gold, answer
    what, letters, other = alone["what"], alone["letters"], answer if ours else gold
    is_some = (alone["of"] == "N" or alone["some"]) and not re.match(rf"[A-Za-z]_\{{?{letters}\}}?\s*=", what)
    if is_some or (alone["of"] != "R" and _ORDER.search(what)):
        return gold, answer  # which says less than the other
    unnamed = {letter for letter in _LETTER.findall(other) if len(letter) == 1} - {*_LETTER.findall(what)}
    if len(unnamed) == 1 and letters not in _LETTER.findall(other) and (alone["of"] == "R" or unnamed < {*"jklmnt"}):
        what = _with_letter(what, letters, *unnamed)
    return (what, answer) if ours else (gold, what)


def _member(gold: str, answer: str) -> Pair:
    found = [match for text in (gold, answer) if _MEMBER.match(text) for match in _MEMBER.finditer(text)]
    names = {"".join(match["name"].split()) for match in found}
    points = [_POINT.match(text) for text in (gold, answer)]
    if None in points and any(points) and all(text.endswith(")") for text in (gold, answer)):
        return _without(gold, answer, points)
    first, second = (_MEMBER.sub(r"\g<before>", text) for text in (gold, answer))
    return (first, second) if len(names) == 1 and (first + second).count("=") < 2 else (gold, answer)


def _stated(gold: str, answer: str) -> Pair:
    places = [place for place, depth in marks(answer, "=").items() if depth == 0]
    if _NO_VALUE.search(gold) or len(places) != 1:
        return gold, answer
    left, right = answer[: places[0]].strip(), answer[places[0] + 1 :].strip()
    is_value = not (_EQUATION.fullmatch(left) or _NO_VALUE.search(re.sub(r"\([^()]*\)|_\{[^{}]*\}", "", left)))
    is_number = not (_NO_VALUE.search(right) or re.search("[A-Za-z]", _CONSTANT.sub("", TEXT.sub("", right))))
    return gold, right if is_value and is_number else answer


def _valued(gold: str, answer: str) -> Pair:
    names = [_VALUED.match(text) for text in (gold, answer)]
    bare = all(name or not _NO_VALUE.search(text) for name, text in zip(names, (gold, answer), strict=True))
    return _without(gold, answer, names) if bare and len({name[0] for name in names if name}) == 1 else (gold, answer)


def _as_column(text: str, beside: str) -> str:
    """A sum of unit vectors, rewritten as a sum of columns with as many rows as the tuple or column beside it has."""
    names = "ijk"[: 1 + (beside.count(r"\\") or [*marks(beside, ",").values()].count(1))]
    used = set(_UNIT_VECTOR.findall(text)) - {"i"}
    if not (used and used < {*names} and beside.startswith(("(", r"\begin"))) or _NO_VALUE.search(text):
        return text
    columns = {name: r"\\".join("01"[name == other] for other in names) for name in names}
    return _UNIT_VECTOR.sub(lambda match: rf"\begin{{pmatrix}}{columns[match[0]]}\end{{pmatrix}}", text)


def _thousands(gold: str, answer: str) -> Pair:
    """Ungroup `x=2,400` beside a single number only; beside anything else it may state two solutions."""
    for assigned, other in ((gold, answer), (answer, gold)):
        if _ASSIGNED.fullmatch(assigned) and _ONE_NUMBER.fullmatch(other):
            return gold.replace(",", ""), answer.replace(",", "")
    return gold, answer


def _imaginary(gold: str, answer: str) -> Pair:
    complexes = [re.fullmatch(r"[^=,]*[0-9)}]\s*[+-][^=,]*", text) for text in (gold, answer)]
    if all(complexes) and _IMAGINARY.search(gold) and not _IMAGINARY.search(answer) and "j" not in gold:
        return gold, _OTHER_IMAGINARY.sub("i", answer)
    return gold, answer


def _radians(gold: str, answer: str) -> Pair:
    pi, circle = ([sign in text for text in (gold, answer)] for sign in (r"\pi", r"\circ"))
    return (in_radians(gold), in_radians(answer)) if pi[0] != pi[1] and circle == pi[::-1] else (gold, answer)


def _unit(gold: str, answer: str) -> Pair:
    (value, unit), (given, other) = measured(gold, answer), measured(answer, gold)
    if unit != other and (ratio := _ratio(unit, other)):
        return rf"{ratio}\cdot ({value})", given
    if unit == other or not ((unit and other) or ((unit or other) and "%" in gold[-1:] + answer[-1:])):
        return value, given
    return gold, answer


ALIGNMENTS = (
    Said("The choice `D. 7` or `(D)` equals its letter `D`, and `A, C` are `AC`.", _choice),
    Said("`No, it is not` equals `No`.", _yes_or_no),
    Said("A label that only one of them has is dropped: `(B) 12` and `B. 12` equal `12`.", _label),
    Said(
        r"`x=k\pi, k\in\mathbb{Z}` equals `x=k\pi`, and `n` may stand for `k`; an index may have its range.",
        _family,
    ),
    Said(
        r"A set, an interval or a tuple loses its name: `x\in[1,2]` and `A=[1,2]` equal `[1,2]`, `P(1,2)` the pair.",
        _member,
    ),
    Said(r"`P(X=1)=\frac{1}{2}` and `\gcd(a,b)=7` equal their values.", _valued),
    Said(
        r"An answer may say what its number is the value of: `AB^2=36`, `\text{Area}=36` and `100m+n=36` equal `36`.",
        _stated,
    ),
    Said(
        "Beside a pair, a tuple or a column, `i`, `j` and `k` are the unit vectors.",
        lambda gold, answer: (_as_column(gold, answer), _as_column(answer, gold)),
    ),
    Said("Beside one number, `x=2,400` is one.", _thousands),
    Said("Beside `3+2i`, the `j` of `3+2j` is the imaginary unit.", _imaginary),
    Said(r"Beside `\frac{\pi}{3}`, the angle `60^\circ` is in radians.", _radians),
    Said(
        "The question says what is counted, so `15` equals `15 sides`, `9 \\text{ cm}^2` equals `9` and `77` equals "
        "`€77`; of the same unit both lose it, `3 m` equals `300 cm`, and with units of two kinds both keep them. "
        "The words of units and of what is counted are those of `words.yaml`; letters beside a number may be variables "
        "(`5t`, `3mg`).",
        _unit,
    ),
)
"""The rules in their order."""


def in_radians(text: str) -> str:
    """A text whose angles in degrees are converted to radians."""
    return DEGREES.sub(r"\\frac{\1\\pi}{180}", text)


def consecutive(word: str) -> bool:
    """True if the letters of a word follow one another in the alphabet."""
    return ord(max(word)) - ord(min(word)) == len(word) - 1 == len(set(word)) - 1


def _renamed(family: re.Match[str], other: re.Match[str]) -> str:
    """The other family of solutions, rewritten with the letter for whole numbers of the first family."""
    ours, theirs, text = family["letters"], other["letters"], other["what"]
    return text if len(ours + theirs) > 2 or ours in _LETTER.findall(text) else _with_letter(text, theirs, ours)


def _with_letter(text: str, old: str, new: str) -> str:
    """A text in which one letter is replaced by another."""
    return _LETTER.sub(lambda match: new if match[0] == old else match[0], text)


def _ratio(unit: str | None, other: str | None) -> Fraction:
    """How many of the other unit make up one of this unit; 0 if they measure different things or have no known size."""
    (kind, size), (of_other, least) = (_SIZES.get(name or "", (name, 0)) for name in (unit, other))
    return Fraction(size, least) if size and kind == of_other else Fraction(0)


def measured(text: str, beside: str) -> tuple[str, str | None]:
    """The value and the unit of a quantity; the text itself and None if it has no unit."""
    if (match := _COMPOUND.fullmatch(text)) and (ratio := _ratio(unit_name(match[2]), unit_name(match[4]))) > 1:
        return rf"({ratio}\cdot {match[1]}+{match[3]})", unit_name(match[4])
    if match := _PRICE.fullmatch(text):
        return match[match.lastindex or 0], unit_name(re.sub(rf"{NUMBER}|[\s\\]|US(?!D)", "", text))
    if angle := _ANGLE.fullmatch(text):
        return angle[1], unit_name("degree")
    match = _UNIT.fullmatch(text)
    if match is None and (with_unit := _UNIT.fullmatch(beside)) and (with_unit["text"] or with_unit["word"]):
        match = _ATTACHED.fullmatch(text)
    if match is None or ("=" in text and "," in text):
        return text, None
    unit = next(filter(None, list(match.groups())[1:]), "")
    letters = unit.isalpha() and (len(unit) < 3 or consecutive(unit.lower())) and not _KNOWN.fullmatch(unit)
    if letters or not _admitted(unit) or SEVERAL.search(text) or ":" in text or TEXT.search(match["value"]):
        return text, None
    return match["value"], unit_name(unit) + (match.groupdict().get("power") or "")


def _admitted(unit: str) -> bool:
    """True for symbols, and for words that only say what a number counts or measures."""
    return bool(_KNOWN.fullmatch(unit)) or all(
        _KNOWN.fullmatch(word)
        or {word.lower(), word.lower().removesuffix("s"), word.lower().removesuffix("es")} & _WORDS
        for word in re.findall("[A-Za-z]+", unit)
    )


def unit_name(unit: str) -> str:
    """A unit in one spelling: `square feet` as `ft2` and `miles per hour` as `mi/h`, without a plural."""
    unit = re.sub(r"\bM(?=[WJVAN]\b)", "mega", unit)  # the only prefix that is another one in small letters
    name = re.sub(r"\s*(?:/|\bper\b)\s*", "/", re.sub(r"[\^.]", "", " ".join(unit.lower().split())))
    name = re.sub(r"\b(?:(sq(?:uare)?)|cu(?:bic)?) (\w+)", lambda match: match[2] + ("2" if match[1] else "3"), name)
    return re.sub(r"[a-z]+", lambda match: _abbreviated(match[0]), name)


def _abbreviated(word: str) -> str:
    singular = word[:-1] if len(word) > 2 and word.endswith("s") else word
    return _ABBREVIATED.get(singular, singular)
