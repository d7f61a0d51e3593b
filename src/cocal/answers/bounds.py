r"""Answers with numbers that are too large to evaluate, such as `9^{9^{9}}`, told from their texts.

The processes that would end such comparisons count as time-outs, of which a job bears few. Sizes are decimal digits,
bounded from above: a letter counts as none, a denominator is left out, and a product may be read where the text has a
sum. What is too large in another way, such as `(x+y)^{100000}` multiplied out, is left to the processes.
"""

import math
import re

_LARGEST = 100_000.0
"""Digits of the largest number that is evaluated. `10^{-100}`, `3^{-174762.6667}` and `C(2037171, 2019)` are
among the gold answers of DeepScaleR."""
_MOST_TERMS = 1_000
"""Largest bound of a sum or product, which is evaluated term by term."""
_LAYOUT = re.compile(r"\s|\\(?:left|right|limits|[bB]igg?[lr]?)(?![A-Za-z])|\\[,;:! ]")
_TOKEN = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|\\[A-Za-z]+|\\.|\*\*|!+|.")
_CONSTANTS = {"e": math.log10(math.e), r"\pi": math.log10(math.pi)}


def too_large(text: str) -> bool:
    """True if an answer, or a part of it, is a number of 100,000 digits or more, or a sum or product of more than 1,000
    terms. The running time is linear in the length of the text."""
    tokens = _TOKEN.findall(_LAYOUT.sub("", text))[::-1]
    try:
        while tokens:
            _terms(tokens)
            del tokens[-1:]  # a bracket that was never opened
    except (OverflowError, RecursionError):
        return True
    return False


def _terms(tokens: list[str]) -> float:
    """Digits of the sum up to the next closing bracket, which stays; what is read is taken from the end of `tokens`."""
    terms = [0.0]
    while tokens and tokens[-1] not in "})]":
        if tokens[-1] in "+-=<>,;&":
            tokens.pop()
            terms.append(0.0)
        elif tokens[-1] == "/":
            tokens.pop()
            _factor(tokens)
        else:
            terms[-1] += _factor(tokens)
    return _bounded(max(terms) + math.log10(sum(map(bool, terms)) or 1))


def _factor(tokens: list[str]) -> float:
    """Digits of an operand with its exponents, factorials and subscripts."""
    digits = _operand(tokens)
    while tokens and (tokens[-1] in ("^", "**", "_") or tokens[-1].startswith("!")):
        mark = tokens.pop()
        if mark.startswith("!"):  # a double factorial has half of the factors
            digits = _bounded(math.lgamma(_value(digits) + 1) / math.log(10) / len(mark))
        else:
            exponent = _operand(tokens)
            digits = digits if mark == "_" else _bounded(digits * _value(exponent))
    return digits


def _operand(tokens: list[str]) -> float:
    """Digits of a number, a group, or a command with its arguments."""
    while tokens and tokens[-1] in "+-":
        tokens.pop()
    if not tokens or tokens[-1] in "})]":
        return 0.0
    token = tokens.pop()
    if token[0].isdecimal():
        whole = token.replace(",", "").partition(".")[0]
        return math.log10(max(1.0, float(token.replace(",", "")))) if len(whole) < 300 else float(len(whole))
    if token in "{([":
        digits = _terms(tokens)
        del tokens[-1:]
        return digits
    if token in (r"\sum", r"\prod"):
        while tokens and tokens[-1] in "_^":
            tokens.pop()
            if _value(_operand(tokens)) > _MOST_TERMS:
                raise OverflowError
    if token not in (r"\frac", r"\binom"):
        return _CONSTANTS.get(token, 0.0)
    above, below = _operand(tokens), _operand(tokens)
    chosen = max(0.0, min(_value(below), _value(above) - _value(below)))
    return above if token == r"\frac" else _bounded(chosen * above)


def _value(digits: float) -> float:
    return 10.0 ** min(digits, 300.0)


def _bounded(digits: float) -> float:
    if digits >= _LARGEST:
        raise OverflowError
    return digits
