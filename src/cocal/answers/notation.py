r"""Verdicts on two aligned answers by their notation alone, as a table of rules, in the order in which they apply
(`DECISIONS`).

Computer algebra drops the base of a number and the parentheses of a list, and reads words as products of letters. Such
answers are decided here by their texts.
"""

import re
from fractions import Fraction

from cocal.answers.alignment import GROUPED, NUMBER, ONES, TEXT, WORDED, Said, consecutive, measured, unit_name
from cocal.answers.spelling import GAP, canonical_integer, depths, marks
from cocal.answers.words import DATA, any_of

_UPRIGHT = re.compile(r"\\(?:text|textrm|mathrm|operatorname)\s*\{([^{}]*)\}")
_SPACE = re.compile(rf"(?<![\d\s~]){GAP}++|{GAP}++(?!\d)|\$")
"""Typeset spaces, except between two digits, and dollar signs."""
_SCRIPT = re.compile(r"([_^])\{(\\[A-Za-z]+|[^{}\\])\}")
"""An index or exponent of one character or command, which needs no braces."""
_BARE = re.compile(NUMBER)
_MONTHS = any_of("months")
_CLOCK = re.compile(
    rf"(\d{{1,2}})(?::(\d\d))?{GAP}*(?:\\text\s*\{{\s*)?(?:([ap])\.?{GAP}*m\.?|(noon)|(o'clock))?\s*\}}?", re.IGNORECASE
)
_CLOCKS = re.compile(r"\d{1,2}:\d\d(?:(?:\s*,|\s*(?:\\text\s*\{)?\s*\band\b\s*\}?)\s*\d{1,2}:\d\d)+")
"""Several times of day."""
_SYMBOLS_JOINED = re.compile(r"(?:[A-Za-z]|\\[A-Za-z]+)\s*\b(and|or)\b\s*(?:[A-Za-z]|\\[A-Za-z]+)")
_RESIDUES = re.compile(
    r"(?:[a-z]\s*\\equiv\s*)?(?P<numbers>(?:[-\d\s,}]|\\pm|\\text\s*\{|\bor\b|\band\b)+)\\pmod\{(?P<modulus>\d+)\}"
)
_OPEN = re.compile(
    r"(?:(?P<name>[a-z])\s*(?:=|\\in)\s*)?(?:\\\{)?\s*(?P<listed>-?\d+(?:\s*,\s*-?\d+)+)\s*,\s*\\ldots\s*(?:\\\})?"
)
"""A list of whole numbers without an end."""
_BOUND = re.compile(r"\(?(?P<name>[a-z])\)?\s*(?:\\ge|(?P<beyond>>))\s*(?P<least>-?\d+)")
_DECIMAL = re.compile(r"[+-]?\d*\.\d+")
_FEWEST_PLACES = 6
"""Least number of decimal places with which a decimal may be another one rounded."""
_BASED = re.compile(r"([+-]?)([0-9A-F]+)(?:_|_?(?:in)?base-?)(-?[0-9]+|[a-z]+)", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"(?=.*\d)(?=.*[A-Fa-f])[0-9A-Fa-f]+")
_BASES = {name: str(base) for base, name in enumerate(DATA["numbers"].split())}
_STATEMENTS = re.compile(r"(?:\(\d{1,2}\)(?:[\s,{}]|\\text|and)*){2,}")
_ROMAN = re.compile(r"\(?(i{1,3}|iv|vi{0,3}|ix|xi{0,2})\)?", re.IGNORECASE)
_CASES = re.compile(r"([^&]*)\\begin\{cases\}(.*&.*)\\end\{cases\}")
_IF = re.compile(rf"(?:[,;.]|{GAP})*(?:(?:\\text\s*\{{)?\s*\b(?:if|for|when)\b\s*\}}?|(?=&)|$)")
"""Words and signs around the conditions of cases that have no meaning."""
_PART = re.compile(
    r"\s*(?:,|;|\\ldots|(?:,\s*)?(?:\\text\s*\{\s*)?\b(?:and|or)\b(?:\s*\})?|(?<=[A-Za-z.])\s+(?=\d)|(?<=\})\s*(?=\d))\s*"
)
_COUNTED = re.compile(rf"\$?({NUMBER}){GAP}*(?:\\text\s*\{{\s*)?({WORDED}|{ONES})\.?\s*\}}?")
_SHAPE = re.compile(r"\\(?:angle|triangle|overline|overrightarrow|vec|widehat|odot|parallelogram)(?![A-Za-z])\s*")
_WORD = re.compile(r"[A-Za-z]{3,}|[A-Z]{2}")
_PROSE = re.compile(
    r"(?<![\\A-Za-z])[A-Za-z]{4,}|(?<!\S)(?:if|is|not|for|all|the|of|to|by|no|am|pm|at|on|in|vs|[Mm]ay)(?!\S)"
)
_NAMES = re.compile(r"\\[A-Za-z]+|_\{[^{}]*\}|\b(?:and|or|prime|begin|end|[bpv]?matrix|array)\b|mathbb|infty")


def decided(gold: str, answer: str) -> tuple[bool | None, str]:
    """The verdict of the first of the `DECISIONS` that decides, and what this rule says; None if none decides."""
    verdicts = ((rule.apply(gold, answer), rule.says) for rule in DECISIONS)
    return next((verdict for verdict in verdicts if verdict[0] is not None), (None, ""))


def _integers(gold: str, answer: str) -> bool | None:
    ungrouped = (text.replace(",", "") if GROUPED.fullmatch(text) else text for text in (gold, answer))
    first, second = map(canonical_integer, ungrouped)
    return first == second if first and second else None


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
    sets = [_residues_of(match["numbers"], int(match["modulus"])) for match in both if match]
    return sets[0] == sets[1] and len({match["modulus"] for match in both if match}) == 1


def _residues_of(numbers: str, modulus: int) -> set[int]:
    signed = re.findall(r"(\\pm\s*)?(-?\d+)", numbers)
    return {sign * int(number) % modulus for both, number in signed for sign in ((1, -1) if both else (1,))}


def _open_lists(gold: str, answer: str) -> bool | None:
    for text, other in ((gold, answer), (answer, gold)):
        listed, bound = _OPEN.fullmatch(text), _BOUND.fullmatch(other)
        if listed and bound and listed["name"] in (None, bound["name"]):
            numbers, first = listed["listed"].split(","), int(bound["least"]) + (bound["beyond"] is not None)
            return [int(number) for number in numbers] == list(range(first, first + len(numbers)))
    return None


def _conjunctions(gold: str, answer: str) -> bool | None:
    first, second = (_SYMBOLS_JOINED.fullmatch(TEXT.sub(r"\1", text)) for text in (gold, answer))
    return False if first and second and first[1] != second[1] else None


def _bases(gold: str, answer: str) -> bool | None:
    first, second = _based(gold), _based(answer)
    for based, bare in ((first, answer), (second, gold)):
        if based and _HEXADECIMAL.fullmatch(bare):
            return based[0] + based[1].lstrip("0") == bare.upper().lstrip("0")
    return first == second if first and second else None


def _based(text: str) -> tuple[str, str, str] | None:
    """Sign, digits and base of a number that is written with its base; None for any other text."""
    match = _BASED.fullmatch(re.sub(r"[(){}]", "", _letters(text)))
    if not match:
        return None
    sign, digits, base = match[1].strip("+"), match[2].lstrip("0"), _BASES.get(match[3].lower(), match[3])
    if not (re.search("[0-9]", match[2]) and base.lstrip("-").isdigit()):
        return None
    has_index = max(int(digit, 16) for digit in match[2]) >= abs(int(base))  # 2a_1 is twice a letter
    return sign, digits if has_index else digits.upper(), base


def _decimals(gold: str, answer: str) -> bool | None:
    if not (_DECIMAL.fullmatch(gold) and _DECIMAL.fullmatch(answer)):
        return None
    places = min(len(text.rpartition(".")[2]) for text in (gold, answer))
    first, second = (Fraction(text) for text in (gold, answer))
    rounded = places >= _FEWEST_PLACES and round(first, places) == round(second, places)
    return first == second or (rounded and len(gold) != len(answer))


def _clocks(gold: str, answer: str) -> bool | None:
    several = [sorted(re.findall(r"\d{1,2}:\d\d", text)) for text in (gold, answer) if _CLOCKS.fullmatch(text)]
    if len(several) == 2:
        return several[0] == several[1]
    times = [_CLOCK.fullmatch(text) for text in (gold, answer)]
    if not any(time and any(time.groups()[2:]) for time in times):
        return None
    (first, ours), (second, theirs) = map(_time, times)
    return first is not None and first == second and (ours == theirs or not (ours and theirs))


def _time(time: re.Match[str] | None) -> tuple[tuple[int, int] | None, str]:
    """Hour and minute on a twelve-hour clock, and the half of the day, a or p; empty if the time does not tell it."""
    if time is None:
        return None, ""
    half = time[3] or "p" * (time[4] is not None or int(time[1]) > 12)
    return (int(time[1]) % 12, int(time[2] or 0)), half.lower()


def _romans(gold: str, answer: str) -> bool | None:
    first, second = _numerals(gold), _numerals(answer)
    return None if first == second is None else first == second


def _numerals(text: str) -> list[str] | None:
    """Roman numerals in order; None for any other text, and for one letter, which may be a variable."""
    parts = re.split(r"(?:\s|,|\band\b)+", TEXT.sub(r" \1 ", text).strip())
    numerals = [_ROMAN.fullmatch(part) for part in parts]
    if None in numerals or (len(parts) == 1 and len(parts[0].strip("()")) == 1):
        return None
    return sorted(match[1].lower() for match in numerals if match)


def _cases(gold: str, answer: str) -> bool | None:
    found = [_CASES.fullmatch(text) for text in (gold, answer)]
    if None in found:
        return None
    lines = [{_letters(_IF.sub("", line)) for line in match[2].split(r"\\")} - {""} for match in found if match]
    before = {_letters(match[1]) for match in found if match}
    return True if lines[0] == lines[1] and len(before) == 1 else None


def _statements(gold: str, answer: str) -> bool | None:
    numbered = [_STATEMENTS.fullmatch(text) is not None for text in (gold, answer)]
    if not any(numbered):
        return None
    listed = [re.fullmatch(r"(?:[\d\s,(){}]|\\text|and)+", text) for text in (gold, answer)]
    first, second = (sorted(re.findall(r"\d+", text)) for text in (gold, answer))
    return all(listed) and first == second and len(first) > 1


def _words(gold: str, answer: str) -> bool | None:
    shapes = [" ".join(_SHAPE.findall(text)) for text in (gold, answer)]
    first, second = (_SHAPE.sub("", TEXT.sub(r"\1", text)).strip("{} ") for text in (gold, answer))
    if not (_WORD.fullmatch(first) and _WORD.fullmatch(second)):
        return None
    if all(word.islower() and consecutive(word) for word in (first, second)):
        return None  # a product of letters, as abc and cba
    same = first == second or (first.lower() == second.lower() and not consecutive(first.lower()))
    return same and shapes[0].split() == shapes[1].split()


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
    """The numbers of a list, each with the word after it, if any; None for any other text."""
    counts = []
    for part in filter(None, _PART.split(text)):
        if _BARE.fullmatch(part):
            counts.append((part, ""))
        elif counted := _COUNTED.fullmatch(part):
            counts.append((counted[1], unit_name(counted[2])))
        else:
            return None
    return counts


def _lists(gold: str, answer: str) -> bool | None:
    first, second = _ordered(gold), _ordered(answer)
    return False if None not in (first, second) and first != second else None


def _ordered(text: str) -> str | bool | None:
    """True if brackets fix the order of a list; the brackets themselves for two members, which may be an interval;
    False for a list without order; None for a text that is not a list."""
    plain = re.sub(r"^[a-z]\s*=(?=[^=]*$)", "", text).strip()
    if GROUPED.fullmatch(plain) or any(mark in plain for mark in ("=", r"\begin")):
        return None
    commas = [*marks(plain, ",").values()]
    closed = [place for place, depth in enumerate(depths(plain)) if depth == 0]
    enclosed = plain[:1] in ("(", "[") and plain[-1:] in (")", "]") and closed == [len(plain) - 1]
    if enclosed and 1 in commas:
        two_tuples = plain.count(r"\pm") == 1
        return None if two_tuples else commas.count(1) > 1 or plain[0] + plain[-1]
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
    Said("Whole numbers are equal if their digits are; these may be grouped by commas.", _integers),
    Said(
        "Answers of the same letters and signs are equal, whatever spaces and text commands they have.", _same_letters
    ),
    Said("A percentage differs from a price, from an angle and from what has another unit.", _percentages),
    Said("Two letters joined by “and” differ from the same joined by “or”.", _conjunctions),
    Said(r"Residues of one modulus are equal as sets: `m\equiv 2 \pmod{5}` equals `7 \pmod{5}`.", _residues),
    Said(r"A letter for whole numbers that begin somewhere: `n=3,4,5,\ldots` equals `n\ge 3`.", _open_lists),
    Said(
        r"Numbers with bases (`2516_8`, `2516_{\text{nine}}`) are equal if their digits and bases are. A number "
        "without a base equals one with it, because the question names the base; so a wrong base is accepted where it "
        "is not said.",
        _bases,
    ),
    Said(
        "Decimals are equal if they are the same number, or if one is the other rounded to six or more places.",
        _decimals,
    ),
    Said("The time `8:34 p.m.` equals `8:34` and `20:34`, and several times are equal in any order.", _clocks),
    Said("Roman numerals, `(i), (iv)`, are no products of letters, and are compared as a set.", _romans),
    Said("Cases are equal in any order of their lines.", _cases),
    Said("Numbers of statements, `(1)(4)`, are compared as a set.", _statements),
    Said(
        "A word of three or more letters, or of two capitals, is compared by its letters, and so are names of points.",
        _words,
    ),
    Said("Lists of counted things are compared number by number, with their words where both have them.", _counts),
    Said(
        "A list in parentheses or brackets, such as a pair or an interval, differs from one without, and from a set.",
        _lists,
    ),
    Said(
        "Answers with words in sentences are compared as texts; a number found inside never stands for one.",
        _sentences,
    ),
)
"""The rules in their order."""
