r"""Verdicts on two aligned answers by their notation alone, as a table of rules, in the order in which they apply
(`DECISIONS`).

Computer algebra drops the base of a number and the parentheses of a list, and reads words as products of letters. Such
answers are decided here by their texts.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from cocal.answers.alignment import GAP, GROUPED, NUMBER, ONES, SEVERAL, TEXT, WORDED, consecutive, measured, unit_name
from cocal.answers.words import DATA, any_of

_UPRIGHT = re.compile(r"\\(?:text|textrm|mathrm|operatorname)\s*\{([^{}]*)\}")
_SPACE = re.compile(rf"(?<!\d){GAP}|{GAP}(?!\d)|\$")
"""Typeset spaces, but for those between two digits, and dollar signs."""
_SCRIPT = re.compile(r"([_^])\{(\\[A-Za-z]+|[^{}\\])\}")
"""An index or exponent of one character or command, which needs no braces."""
_BARE = re.compile(NUMBER)
_MONTHS = any_of("months")
_CLOCK = re.compile(rf"(\d{{1,2}}:\d\d){GAP}*(?:\\text\s*\{{\s*)?[apAP]\.?{GAP}*[mM]\.?\s*\}}?")
_CLOCKS = re.compile(r"\d{1,2}:\d\d(?:(?:\s*,|\s*(?:\\text\s*\{)?\s*\band\b\s*\}?)\s*\d{1,2}:\d\d)+")
"""Several times of day."""
_SYMBOLS_JOINED = re.compile(r"(?:[A-Za-z]|\\[A-Za-z]+)\s*\b(and|or)\b\s*(?:[A-Za-z]|\\[A-Za-z]+)")
_RESIDUES = re.compile(r"(?P<numbers>-?\d+(?:\s*,\s*-?\d+)*)\s*\\pmod\{(?P<modulus>\d+)\}")
_LABELLED = re.compile(rf"\([A-Za-z]\)\s*{NUMBER}")
_DECIMAL = re.compile(r"[+-]?\d*\.\d+")
_FEWEST_PLACES = 6
"""Decimal places from which on a decimal may be another one rounded."""
_BASED = re.compile(r"([+-]?)([0-9A-F]+)(?:_|_?(?:in)?base-?)(-?[0-9]+|[a-z]+)", re.IGNORECASE)
_BASES = {name: str(base) for base, name in enumerate(DATA["numbers"].split())}
_STATEMENTS = re.compile(r"(?:\(\d{1,2}\)[\s,]*){2,}")
_PART = re.compile(
    r"\s*(?:,|;|\\ldots|(?:,\s*)?(?:\\text\s*\{\s*)?\b(?:and|or)\b(?:\s*\})?|(?<=[A-Za-z}])\s+(?=\d))\s*"
)
_COUNTED = re.compile(rf"\$?({NUMBER}){GAP}*(?:\\text\s*\{{\s*)?({WORDED}|{ONES})\s*\}}?")
_SHAPE = re.compile(r"\\(?:angle|triangle|overline|overrightarrow|vec|widehat|odot|parallelogram)(?![A-Za-z])\s*")
_WORD = re.compile(r"[A-Za-z]{3,}|[A-Z]{2}")
_PROSE = re.compile(
    r"(?<![\\A-Za-z])[A-Za-z]{4,}|(?<!\S)(?:if|is|not|for|all|the|of|to|by|no|am|pm|at|on|in|vs|[Mm]ay)(?!\S)"
)
_NAMES = re.compile(r"\\[A-Za-z]+|_\{[^{}]*\}|\b(?:and|or|prime|begin|end|[bpv]?matrix|array)\b|mathbb|infty")


class Decision(NamedTuple):
    """A rule that decides on two answers.

    Attributes:
        says: What it decides, as the page of the verifier shows it.
        verdict: Function of gold and answer that returns the verdict, or None where it has none.
    """

    says: str
    verdict: Callable[[str, str], bool | None]


def decided(gold: str, answer: str) -> bool | None:
    """The verdict on two answers if their notation decides it, otherwise None."""
    found = decision(gold, answer)
    return found and found[1]


def decision(gold: str, answer: str) -> tuple[str, bool] | None:
    """What the first rule that decides on two answers says, and its verdict; None if none does (`DECISIONS`)."""
    verdicts = ((rule.says, rule.verdict(gold, answer)) for rule in DECISIONS)
    return next(((says, verdict) for says, verdict in verdicts if verdict is not None), None)


def _same_letters(gold: str, answer: str) -> bool | None:
    return True if _letters(gold) == _letters(answer) else None


def _letters(text: str) -> str:
    return _SPACE.sub("", _SCRIPT.sub(r"\1\2", _UPRIGHT.sub(r"\1", text)))


def _percentages(gold: str, answer: str) -> bool | None:
    quantities = ((gold, answer), (answer, gold))
    differ = (measured(other, part)[1] or r"\circ" in other for part, other in quantities if part.endswith("%"))
    return False if any(differ) else None


def _residues(gold: str, answer: str) -> bool | None:
    both = [_RESIDUES.fullmatch(text) for text in (gold, answer)]
    if None in both:
        return None
    sets = [{int(one) % int(found["modulus"]) for one in found["numbers"].split(",")} for found in both if found]
    return sets[0] == sets[1] and len({found["modulus"] for found in both if found}) == 1


def _conjunctions(gold: str, answer: str) -> bool | None:
    first, second = (_SYMBOLS_JOINED.fullmatch(TEXT.sub(r"\1", text)) for text in (gold, answer))
    return False if first and second and first[1] != second[1] else None


def _bases(gold: str, answer: str) -> bool | None:
    first, second = _based(gold), _based(answer)
    return first == second if first and second else None


def _based(text: str) -> tuple[str, str, str] | None:
    """Sign, digits and base of a number that is written with its base; None for any other text."""
    found = _BASED.fullmatch(re.sub(r"[(){}]", "", _letters(text)))
    if not found:
        return None
    sign, digits, base = found[1].strip("+"), found[2].lstrip("0"), _BASES.get(found[3].lower(), found[3])
    if not (re.search("[0-9]", found[2]) and base.lstrip("-").isdigit()):
        return None
    has_index = max(int(digit, 16) for digit in found[2]) >= abs(int(base))  # 2a_1 is twice a letter
    return sign, digits if has_index else digits.upper(), base


def _decimals(gold: str, answer: str) -> bool | None:
    if not (_DECIMAL.fullmatch(gold) and _DECIMAL.fullmatch(answer)):
        return None
    places = min(len(text.rpartition(".")[2]) for text in (gold, answer))
    first, second = (Decimal(text) for text in (gold, answer))
    rounded = places >= _FEWEST_PLACES and round(first, places) == round(second, places)
    return first == second or (rounded and len(gold) != len(answer))


def _clocks(gold: str, answer: str) -> bool | None:
    several = [sorted(re.findall(r"\d{1,2}:\d\d", text)) for text in (gold, answer) if _CLOCKS.fullmatch(text)]
    if len(several) == 2:
        return several[0] == several[1]
    times = [_CLOCK.fullmatch(text) for text in (gold, answer)]
    if not any(times):
        return None
    first, second = (found[1] if found else text for found, text in zip(times, (gold, answer), strict=True))
    halves = {re.sub(r"\\text|[^ap]", "", text.lower()) for text in (gold, answer)}
    return first == second and (None in times or len(halves) == 1)


def _statements(gold: str, answer: str) -> bool | None:
    numbered = [_STATEMENTS.fullmatch(text) is not None for text in (gold, answer)]
    if not any(numbered):
        return None
    listed = [re.fullmatch(r"[\d\s,()]+", text) for text in (gold, answer)]
    first, second = (sorted(re.findall(r"\d+", text)) for text in (gold, answer))
    return all(listed) and first == second and len(first) > 1


def _ratios(gold: str, answer: str) -> bool | None:
    return False if (_parts(gold) > 2) != (_parts(answer) > 2) else None


def _parts(text: str) -> int:
    """Number of parts of a ratio; 1 for any other text."""
    return 1 if re.search(r"\\\{|\d:\d\d\D*[ap]\.?m", text) else text.rpartition("=")[2].count(":") + 1


def _words(gold: str, answer: str) -> bool | None:
    shapes = [" ".join(_SHAPE.findall(text)) for text in (gold, answer)]
    first, second = (_SHAPE.sub("", TEXT.sub(r"\1", text)).strip("{} ") for text in (gold, answer))
    if not (_WORD.fullmatch(first) and _WORD.fullmatch(second)):
        return None
    if all(word.islower() and consecutive(word) for word in (first, second)):
        return None  # a product of letters, as abc and cba
    same = first == second or (first.lower() == second.lower() and not consecutive(first.lower()))
    return same and shapes[0].split() == shapes[1].split()


def _number_and_several(gold: str, answer: str) -> bool | None:
    for number, other in ((gold, answer), (answer, gold)):
        if _BARE.fullmatch(number) and (SEVERAL.search(other) or _LABELLED.fullmatch(other)):
            return False
    return None


def _counts(gold: str, answer: str) -> bool | None:
    first, second = _counted(gold), _counted(answer)
    if (
        first is None
        or second is None
        or not any(word for _, word in first + second)
        or max(len(first), len(second)) == 1
    ):
        return None
    if all(word for _, word in first + second):
        return sorted(first) == sorted(second)
    return [number for number, _ in first] == [number for number, _ in second]


def _counted(text: str) -> list[tuple[str, str]] | None:
    """The numbers of a list and the words behind them, which may be missing in all; None for any other text."""
    found = []
    for part in filter(None, _PART.split(text)):
        if _BARE.fullmatch(part):
            found.append((part, ""))
        elif counted := _COUNTED.fullmatch(part):
            found.append((counted[1], unit_name(counted[2])))
        else:
            return None
    return found


def _lists(gold: str, answer: str) -> bool | None:
    first, second = _ordered(gold), _ordered(answer)
    return False if None not in (first, second) and first != second else None


def _ordered(text: str) -> bool | None:
    """True if brackets around a list fix its order; None for a text that is not a list."""
    plain = re.sub(r"^[a-z]\s*=(?=[^=]*$)", "", text).strip()
    if GROUPED.fullmatch(plain) or any(mark in plain for mark in ("=", r"\begin")):
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


def _sentences(gold: str, answer: str) -> bool | None:
    if not (_is_sentence(gold) or _is_sentence(answer)):
        return None
    return _sentence(gold) == _sentence(answer)


def _is_sentence(text: str) -> bool:
    return _PROSE.search(_NAMES.sub(" ", TEXT.sub(r" \1 ", text))) is not None


_YEAR = re.compile(rf"((?:{_MONTHS}) \d{{1,2}}),(?=\d{{4}})")
_MONTH = re.compile(rf"(\d{{1,2}}) ({_MONTHS})")


def _sentence(text: str) -> str:
    """A text without case, typesetting and punctuation; a date has its month first."""
    plain = " ".join(re.sub(r"\\[,;: ]|[~$.]", " ", _SCRIPT.sub(r"\1\2", TEXT.sub(r" \1 ", text))).lower().split())
    return _YEAR.sub(r"\1 ", _MONTH.sub(r"\2 \1", re.sub(r"\s*([^\w\s]|_)\s*", r"\1", plain)))


DECISIONS = (
    Decision(
        "Answers of the same letters and signs are equal, whatever spaces and text commands they have.", _same_letters
    ),
    Decision("A percentage differs from a price, from an angle and from what has another unit.", _percentages),
    Decision("Two letters joined by “and” differ from the same joined by “or”.", _conjunctions),
    Decision("Residues of one modulus are equal as sets.", _residues),
    Decision(
        r"Numbers with bases (`2516_8`, `2516_{\text{nine}}`) are equal if their digits and bases are. A number "
        "without a base equals one with it, because the question names the base; so a wrong base is accepted where it "
        "is not said.",
        _bases,
    ),
    Decision(
        "Decimals are equal if they are the same number, or if one is the other rounded to six or more places.",
        _decimals,
    ),
    Decision("The time `8:34 p.m.` equals `8:34`, and several times are equal in any order.", _clocks),
    Decision("Numbers of statements, `(1)(4)`, are compared as a set.", _statements),
    Decision("Ratios of three and more parts are equal to nothing that is not one.", _ratios),
    Decision(
        "A word of three or more letters, or of two capitals, is compared by its letters, and so are names of points.",
        _words,
    ),
    Decision(
        "A number differs from several numbers with words between them, and from one with the letter of a choice.",
        _number_and_several,
    ),
    Decision("Lists of counted things are compared number by number, with their words where both have them.", _counts),
    Decision(
        "A list in parentheses or brackets, such as a pair or an interval, differs from one without, and from a set.",
        _lists,
    ),
    Decision(
        "Answers with words in sentences are compared as texts; a number found inside never stands for one.",
        _sentences,
    ),
)
"""The rules in their order."""
