r"""What two answers state in different measure, and notation that computer algebra misreads.

Computer algebra drops the base of a number and the parentheses of a list, and reads words as products of letters. Such
answers are aligned and decided here by their texts, in the order of the functions `aligned` and `decided`.
"""

import re
from collections.abc import Callable
from decimal import Decimal

_NUMBER = r"[+-]?(?:[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+|[0-9]+/[0-9]+|\\frac\{[0-9]+\}\{[0-9]+\})"
_GAP = r"(?:\s|\\[ ,;:]|~)"
_TEXT = re.compile(r"\\(?:text|textrm|mathrm)\s*\{([^{}]*)\}")
_UPRIGHT = re.compile(r"\\(?:text|textrm|mathrm|operatorname)\s*\{([^{}]*)\}")
_SPACE = re.compile(rf"(?<!\d){_GAP}|{_GAP}(?!\d)|\$")
"""Typeset spaces, but for those between two digits, and dollar signs."""
_SCRIPT = re.compile(r"([_^])\{(\\[A-Za-z]+|[^{}\\])\}")
"""An index or exponent of one character or command, which needs no braces."""

_BARE = re.compile(_NUMBER)
_SYMBOLS = (
    "km|cm|mm|dm|nm|kg|lbs?|oz|min|hrs?|secs?|days?|yd|ft|deg|sq|mph|km/h|kmh|kph|kWh|kW|kJ|mL|ml|Hz|kHz|kPa|Pa|mol"
    "|USD|EUR|GBP"
)
"""Symbols of units that are no products of variables, as `mg`, `cd` and `mn` may be."""
_ONES = r"[kmµ]?g|[kcmµ]?m|m?s|h|min|m?[lL]|[km]?[NJWVA]|K"
"""Symbols that may be variables, and are units after a typeset space or inside a text command."""
_KNOWN = re.compile(
    rf"{_SYMBOLS}|{_ONES}|[mckd]l|cL|dL|[kM][NJWVA]|[kMGT]?B|in|mi|pt|qt|cc|ha|s|d|yr|wk|mo|eV|dB|[FCT]"
    r"|Nm|Js|[pnµ][gsFCmAVW]|m[HF]|ly|AU|ac|fm"
)
"""Units of one or two letters in a text command; other letters there may be variables in an upright font."""
_POWER = r"(?:\s*\^\s*\{?(?P<power>[23])\}?)?"
_WORDED = r"[A-Za-z]{2,}(?:[ -][A-Za-z]{2,})*"
_UNIT = re.compile(
    rf"(?P<value>.*[\w)}}\]|!]){_GAP}*"
    rf"(?:\\(?:text|textrm|mathrm)\s*\{{[\s~]*(?P<text>[A-Za-z]+(?:\.?[ /-][A-Za-z]+)*(?:\^?[23])?)\.?\s*\}}"
    rf"|(?<=[\d}}])(?P<symbol>{_SYMBOLS})"
    rf"|(?:(?<=[\d}}])|(?<=\\pi))\s(?P<word>(?:sq|cu)\.? [a-z]{{2,}}|[A-Za-z]{{4,}}(?:[ -][A-Za-z]{{2,}})*|{_SYMBOLS})"
    rf"|(?<=[\d}}])(?:\\[ ,;:~]|~)\s*(?P<spaced>{_SYMBOLS}|{_ONES}))\.?" + _POWER
)
_MIXED = re.compile(r"[\d}]\s*[A-Za-z]{2,}[\s,]+\d")
"""A number with its unit, before another number."""
_ATTACHED = re.compile(rf"(?P<value>{_NUMBER})\s?(?P<symbol>(?:{_ONES}|{_SYMBOLS})(?:/(?:{_ONES}))?){_POWER}")
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_NO_UNIT = re.compile(
    r"\b(?:tens|(?:hundred|thousand|million|billion|trillion|dozen|time|power)s?|half|halves|(?:third|quarter)s?"
    r"|(?:four|fif|six|seven|eigh|nin|ten|hundred|thousand|(?:m|b|tr)illion)ths?|percent|squared|cubed|factorial"
    r"|modulo|mod|remainder|plus|minus|over|divided|multiplied|doubled|tripled|halved|negative|infinity|more|less|fewer"
    r"|than|least|most|above|below|under|about|approximately|roughly|between|and|or|not|never|no|none|except|either"
    r"|wrong|incorrect|false|invalid|impossible|undefined|maybe|perhaps|possibly|if|when|for|where|with|is|are|to"
    r"|all|every|each|even|odd|integers?|reals?|primes?|vs|pm|am"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    rf"|{_MONTHS})\b",
    re.IGNORECASE,
)
"""Words behind a value that are no unit, because they change it, add another one, limit it or withdraw it."""
_MONEY = r"(?:US\s*\\?\$|\\?\$|[€£¥₹¢]|Rs\.?|USD|EUR|GBP)"
_PRICE = re.compile(rf"{_MONEY}\s*({_NUMBER})|({_NUMBER})\s*{_MONEY}")
_CLOCK = re.compile(rf"(\d{{1,2}}:\d\d){_GAP}*(?:\\text\s*\{{\s*)?[apAP]\.?{_GAP}*[mM]\.?\s*\}}?")
_LABEL = re.compile(rf"(?:\\(?:text|mathrm)\s*\{{\s*)?\(([A-H])\)\s*\}}?{_GAP}*(?=\S)")
_CHOICE = re.compile(r"(?:\\text\s*\{\s*)?([A-H])\.\s*\}?\s+\S.*|\(([A-H])\)")
_NAMED = re.compile(r"(?:\\text\s*\{[A-Za-z ]+\}|[A-Za-z]{3,}(?: [A-Za-z]+)*+)\s*=(?P<what>[^=]+)")
"""A quantity with its name in words."""
_TO = re.compile(r"^(\d+)\s*(?:\\text\s*\{\s*to\s*\}|to)\s*(\d+)$")
"""A ratio in words."""
_CHOICES = re.compile(r"[A-H]\s+(and|or)\s+[A-H]")
_FAMILY = re.compile(
    r"(?P<what>.*?)\s*(?:[,;(]|(?=\\text\s*\{\s*,))\s*(?:\\text\s*\{[\s,]*)?(?:(?:where|for|with)\s+)?\}?\s*\$?"
    r"(?P<letters>[a-z](?:\s*,\s*[a-z])*)\s*"
    r"(?:\\in\s*\\?(?:mathbb\s*)?\{?(?P<of>[ZN])\}?\s*\$?|(?:\\text\s*\{\s*)?\s*is (?:an?|any) integer\s*\}?)\)?"
)
_IMAGINARY, _OTHER_IMAGINARY = re.compile(r"(?<![A-Za-z\\])i(?![A-Za-z])"), re.compile(r"(?<![A-Za-z\\])j(?![A-Za-z])")
_SEVERAL = re.compile(r"\d\D*\b(?:and|or)\b\D*\d")
_LABELLED = re.compile(rf"\([A-Za-z]\)\s*{_NUMBER}")

_DECIMAL = re.compile(r"[+-]?\d*\.\d+")
_FEWEST_PLACES = 6
"""Decimal places from which on a decimal may be another one rounded."""
_BASED = re.compile(r"([+-]?)([0-9A-F]+)(?:_|_?(?:in)?base-?)(-?[0-9]+|[a-z]+)", re.IGNORECASE)
_BASE_NAMES = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_BASES = {name: str(base) for base, name in enumerate(_BASE_NAMES, start=2)} | {"sixteen": "16"}

_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_SHARES = "probability", "chance", "percentage point"
"""Words behind a number that may be a percentage."""
_ASSIGNED = re.compile(r"[^=,]*=\s*[+-]?[0-9]{1,3}(?:,[0-9]{3})+")
_ONE_NUMBER = re.compile(r"(?:[^=,]*=\s*)?[+-]?[0-9]+|[+-]?[0-9]{1,3}(?:,[0-9]{3})+")
_STATEMENTS = re.compile(r"(?:\(\d{1,2}\)[\s,]*){2,}")
_PART = re.compile(
    r"\s*(?:,|;|\\ldots|(?:,\s*)?(?:\\text\s*\{\s*)?\b(?:and|or)\b(?:\s*\})?|(?<=[A-Za-z}])\s+(?=\d))\s*"
)
_COUNTED = re.compile(rf"\$?({_NUMBER}){_GAP}*(?:\\text\s*\{{\s*)?({_WORDED}|{_ONES})\s*\}}?")
_SHAPE = re.compile(r"\\(?:angle|triangle|overline|overrightarrow|vec|widehat|odot|parallelogram)(?![A-Za-z])\s*")
_WORD = re.compile(r"[A-Za-z]{3,}|[A-Z]{2}")
_PROSE = re.compile(
    r"(?<![\\A-Za-z])[A-Za-z]{4,}|(?<!\S)(?:if|is|not|for|all|the|of|to|by|no|am|pm|at|on|in|vs|[Mm]ay)(?!\S)"
)
_NAMES = re.compile(r"\\[A-Za-z]+|_\{[^{}]*\}|\b(?:and|or|prime|begin|end|[bpv]?matrix|array)\b|mathbb|infty")


def aligned(gold: str, answer: str) -> tuple[str, str]:
    r"""The two answers without what only one of them states.

    The question says what is counted, so `15` equals `15 sides`, `9 \text{ cm}^2` equals `9` and `77` equals `€77`; if
    both have the same unit, both lose it, and with two different units both keep theirs, for `3 apples` differs from
    `3 oranges`. Words that change a number (`5 million`) or add another one (`3 or four`) are not units, and letters
    beside a number may be variables (`5t`, `3mg`). The time `8:34 p.m.` equals `8:34`, the choice `D. 7` the letter D,
    a gold with a label, `(B) 12`, equals `12`, and `x=k\pi, k\in\mathbb{Z}` equals `x=k\pi`.
    """
    if (choice := _CHOICE.fullmatch(answer)) and gold in choice.groups():
        return gold, gold
    if (choice := _CHOICE.fullmatch(gold)) and answer in choice.groups():
        return answer, answer
    if (label := _LABEL.match(gold)) and not _LABEL.match(answer):
        gold = gold[label.end() :]
    ours, theirs = (_FAMILY.fullmatch(text) for text in (gold, answer))
    if ours and theirs and (ours["of"] or "Z") == (theirs["of"] or "Z"):
        gold, answer = ours["what"], _renamed(ours, theirs)
    elif not (ours and theirs):
        gold, answer = ours["what"] if ours else gold, theirs["what"] if theirs else answer
    named = [_NAMED.fullmatch(text) for text in (gold, answer)]
    if named.count(None) == 1 and not ("=" in gold and "=" in answer):
        gold, answer = (found["what"] if found else text for found, text in zip(named, (gold, answer), strict=True))
    if ":" in gold + answer:
        gold, answer = _TO.sub(r"\1:\2", gold), _TO.sub(r"\1:\2", answer)
    gold, answer = _ungrouped(gold, answer), _ungrouped(answer, gold)
    if _IMAGINARY.search(gold) and not _IMAGINARY.search(answer) and "j" not in gold:
        answer = _OTHER_IMAGINARY.sub("i", answer)
    (value, unit), (given, other) = _measured(gold, answer), _measured(answer, gold)
    if unit == other or not ((unit and other) or ((unit or other) and "%" in gold[-1:] + answer[-1:])):
        return value, given
    return gold, answer


def _ungrouped(text: str, beside: str) -> str:
    """Of `x=2,400` beside one number, the number without its comma; beside anything else these may be two solutions."""
    return text.replace(",", "") if _ASSIGNED.fullmatch(text) and _ONE_NUMBER.fullmatch(beside) else text


def _renamed(family: re.Match[str], other: re.Match[str]) -> str:
    """What the other family says, with the letter for whole numbers that the first one has."""
    ours, theirs, text = family["letters"], other["letters"], other["what"]
    if len(ours) > 1 or len(theirs) > 1 or re.search(rf"(?<![A-Za-z\\]){ours}(?![A-Za-z])", text):
        return text
    return re.sub(rf"(?<![A-Za-z\\]){theirs}(?![A-Za-z])", ours, text)


def _measured(text: str, beside: str) -> tuple[str, str | None]:
    """The value of a quantity and its unit; the text itself and None where it has none."""
    if found := _PRICE.fullmatch(text):
        return found[found.lastindex or 0], _unit_name(re.sub(rf"{_NUMBER}|[\s\\]|US(?!D)", "", text))
    found = _UNIT.fullmatch(text)
    if found is None and (with_unit := _UNIT.fullmatch(beside)) and (with_unit["text"] or with_unit["word"]):
        found = _ATTACHED.fullmatch(text)
    if found is None or ("=" in text and "," in text):
        return text, None
    unit = next(filter(None, list(found.groups())[1:]), "")
    if unit.isalpha() and (len(unit) < 3 or _consecutive(unit.lower())) and not _KNOWN.fullmatch(unit):
        return text, None
    if _NO_UNIT.search(unit) or _SEVERAL.search(text) or _TEXT.search(found["value"]) or _MIXED.search(found["value"]):
        return text, None
    name = _unit_name(unit) + (found.groupdict().get("power") or "")
    return found["value"], None if name in _SHARES else name


_ABBREVIATED = {
    "meter": "m", "metre": "m", "centimeter": "cm", "kilometer": "km", "millimeter": "mm", "hour": "h", "hr": "h",
    "minute": "min", "second": "s", "sec": "s", "gram": "g", "kilogram": "kg", "milligram": "mg", "pound": "lb",
    "ounce": "oz", "degree": "deg", "foot": "ft", "feet": "ft", "inche": "in", "yard": "yd", "mile": "mi",
    "mph": "mi/h", "kph": "km/h", "kmh": "km/h", "liter": "l", "litre": "l", "milliliter": "ml", "millilitre": "ml",
    "dollar": "$", "usd": "$", "euro": "€", "eur": "€", "gbp": "£", "cent": "¢",
}  # fmt: skip


def _unit_name(unit: str) -> str:
    """A unit in one spelling: `square feet` as `ft2` and `miles per hour` as `mi/h`, without a plural."""
    name = re.sub(r"\s*(?:/|\bper\b)\s*", "/", re.sub(r"[\^.]", "", " ".join(unit.lower().split())))
    name = re.sub(r"\b(?:(sq(?:uare)?)|cu(?:bic)?) (\w+)", lambda found: found[2] + ("²" if found[1] else "³"), name)
    return re.sub(r"[a-z]+", lambda found: _abbreviated(found[0]), name).translate(_POWERS)


_POWERS = str.maketrans("²³", "23")


def _abbreviated(word: str) -> str:
    singular = word[:-1] if len(word) > 2 and word.endswith("s") else word
    return _ABBREVIATED.get(singular, singular)


def decided(gold: str, answer: str) -> bool | None:
    r"""The verdict on two answers if their notation decides it, otherwise None.

    1. Two answers of the same letters and signs are equal, whatever spaces and text commands they have.
    2. A percentage differs from a price and from what has another unit, and the choices `A and C` from `A or C`.
    3. Two numbers with bases (`2516_8`, `2516_{\text{nine}}`) are equal if their digits and bases are. A number without
       a base equals one with it, because the question names the base; so a wrong base is accepted where it is not said.
    4. Two decimals are equal if they are the same number, or if one is the other rounded to six or more places.
    5. Numbers of statements, `(1)(4)`, are compared as a set.
    6. Ratios of three and more parts are equal to nothing that is not one.
    7. A bare word of three or more letters, or of two capitals, is compared by its letters; so are names of points.
    8. A number is not equal to several numbers with words between them, nor to one with the letter of a choice.
    9. Lists of counted things are compared number by number, with their words where both have them.
    10. A list in parentheses or brackets, such as a pair or an interval, differs from one without and from a set.
    11. Answers with words in sentences are compared as texts; a number found inside never stands for one.
    """
    if _letters(gold) == _letters(answer):
        return True
    rules: tuple[Callable[[str, str], bool | None], ...] = (
        _percentages, _conjunctions, _bases, _decimals, _clocks, _statements, _ratios, _words, _number_and_several,
        _counts, _lists, _sentences,
    )  # fmt: skip
    return next((verdict for rule in rules if (verdict := rule(gold, answer)) is not None), None)


def _letters(text: str) -> str:
    return _SPACE.sub("", _SCRIPT.sub(r"\1\2", _UPRIGHT.sub(r"\1", text)))


def _percentages(gold: str, answer: str) -> bool | None:
    quantities = ((gold, answer), (answer, gold))
    return False if any(part.endswith("%") and _measured(other, part)[1] for part, other in quantities) else None


def _conjunctions(gold: str, answer: str) -> bool | None:
    first, second = (_CHOICES.fullmatch(_TEXT.sub(r"\1", text)) for text in (gold, answer))
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
    first, second = (_SHAPE.sub("", _TEXT.sub(r"\1", text)).strip("{} ") for text in (gold, answer))
    if not (_WORD.fullmatch(first) and _WORD.fullmatch(second)):
        return None
    if all(word.islower() and _consecutive(word) for word in (first, second)):
        return None  # a product of letters, as abc and cba
    same = first == second or (first.lower() == second.lower() and not _consecutive(first.lower()))
    return same and shapes[0].split() == shapes[1].split()


def _consecutive(word: str) -> bool:
    """True if the letters of a word follow one another in the alphabet."""
    return ord(max(word)) - ord(min(word)) == len(word) - 1 == len(set(word)) - 1


def _number_and_several(gold: str, answer: str) -> bool | None:
    for number, other in ((gold, answer), (answer, gold)):
        if _BARE.fullmatch(number) and (_SEVERAL.search(other) or _LABELLED.fullmatch(other)):
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
            found.append((counted[1], _unit_name(counted[2])))
        else:
            return None
    return found


def _lists(gold: str, answer: str) -> bool | None:
    first, second = _ordered(gold), _ordered(answer)
    return False if None not in (first, second) and first != second else None


def _ordered(text: str) -> bool | None:
    """True if brackets around a list fix its order; None for a text that is not a list."""
    plain = text.strip()
    if _GROUPED.fullmatch(plain) or any(mark in plain for mark in ("=", r"\begin")):
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
    return _PROSE.search(_NAMES.sub(" ", _TEXT.sub(r" \1 ", text))) is not None


_YEAR = re.compile(rf"((?:{_MONTHS}) \d{{1,2}}),(?=\d{{4}})")
_MONTH = re.compile(rf"(\d{{1,2}}) ({_MONTHS})")


def _sentence(text: str) -> str:
    """A text without case, typesetting and punctuation; a date has its month first."""
    plain = " ".join(re.sub(r"\\[,;: ]|[~$.]", " ", _SCRIPT.sub(r"\1\2", _TEXT.sub(r" \1 ", text))).lower().split())
    return _YEAR.sub(r"\1 ", _MONTH.sub(r"\2 \1", re.sub(r"\s*([^\w\s]|_)\s*", r"\1", plain)))
