r"""How large the numbers of an answer are, told from its text before any computer algebra evaluates them.

A tower such as `9^{9^{9}}` has few characters and more digits than a machine holds. The sizes here are bounds from
above, in decimal digits: a letter counts as one, a denominator is left out, and a product may be read where the text
has a sum.
"""

import math
import re
from typing import NamedTuple

_LARGEST = 100_000.0
"""Digits of the largest number that is evaluated. `10^{-100}`, `3^{-174762.6667}` and `C(2037171, 2019)` are
among the gold answers of DeepScaleR."""
_MOST_TERMS = 1_000
"""Largest bound of a sum or product, which is evaluated term by term."""
_MOST_PRODUCTS = 500
"""Largest number of products into which the power of a sum with letters is multiplied out."""

_LAYOUT = re.compile(r"\s|\\(?:left|right|limits|[bB]igg?[lr]?)(?![A-Za-z])|\\[,;:! ]")
_TOKEN = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|\\[A-Za-z]+|\\.|\*\*|.")
_CLOSING = frozenset("})]")
_BETWEEN_TERMS = frozenset("+-=<>,;&")
_CONSTANTS = {"e": math.e, r"\pi": math.pi}


class _Size(NamedTuple):
    """Decimal digits of a number, whether a letter is part of it, and the number of its terms if it is such a sum."""

    digits: float = 0.0
    letters: bool = False
    terms: int = 1

    @property
    def value(self) -> float:
        return 10.0 ** min(self.digits, 300.0)


class _TooLarge(Exception):
    """A part of the answer exceeds a bound."""


def too_large(text: str) -> bool:
    """True if the value of an answer, or of a part of it, is too large to be evaluated.

    So are numbers of 100,000 digits and more, sums and products of more than 1,000 terms, and powers of sums with
    letters that have more than 500 products. The running time is linear in the length of the text.
    """
    try:
        _Reader(text).read()
    except (_TooLarge, RecursionError):
        return True
    return False


class _Reader:
    """Reads an answer once, from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(_LAYOUT.sub("", text))[::-1]

    def read(self) -> None:
        while self._tokens:
            self._terms()
            self._take()  # a bracket that was never opened

    def _next(self) -> str:
        return self._tokens[-1] if self._tokens else ""

    def _take(self) -> str:
        return self._tokens.pop() if self._tokens else ""

    def _terms(self) -> _Size:
        """The size of what is written up to the next closing bracket, which is not taken."""
        terms, letters, begun = [0.0], False, False
        while self._tokens and self._next() not in _CLOSING:
            if self._next() in _BETWEEN_TERMS:
                self._take()
                terms += [0.0] * begun
                begun = False
            elif self._next() == "/":
                self._take()
                self._factor()
            else:
                factor = self._factor()
                terms[-1] += factor.digits
                letters, begun = letters or factor.letters, True
        return _bounded(max(terms) + math.log10(len(terms)), letters, len(terms) if letters else 1)

    def _factor(self) -> _Size:
        """An operand with its exponents, factorials and subscripts."""
        size = self._operand()
        while (mark := self._next()) in ("^", "**", "!", "_") and mark:
            self._take()
            if mark == "!":
                twice = self._next() == "!" and bool(self._take())  # a double factorial has half of the factors
                size = _bounded(math.lgamma(size.value + 1) / math.log(10) / (1 + twice), size.letters)
            elif mark == "_":
                self._operand()
            else:
                exponent = self._operand()
                size = _power(size, exponent)
        return size

    def _operand(self) -> _Size:
        while self._next() in ("+", "-"):
            self._take()
        if self._next() in _CLOSING:
            return _Size()
        token = self._take()
        if token[:1].isdecimal():
            return _Size(_digits(token))
        if token in ("{", "(", "["):
            size = self._terms()
            self._take()
            return size
        return self._command(token)

    def _command(self, token: str) -> _Size:
        """A command with its arguments, or a letter."""
        if token in (r"\frac", r"\dfrac", r"\tfrac"):
            above, below = self._operand(), self._operand()
            return above._replace(letters=above.letters or below.letters)
        if token in (r"\binom", r"\dbinom", r"\tbinom"):
            above, below = self._operand(), self._operand()
            chosen = max(0.0, min(below.value, above.value - below.value))
            return _bounded(chosen * above.digits, above.letters)
        if token in (r"\sum", r"\prod"):
            return self._series()
        if token in _CONSTANTS:
            return _Size(math.log10(_CONSTANTS[token]))
        return _Size(letters=len(token) == 1 and token.isalpha() and token != "i")

    def _series(self) -> _Size:
        """The bounds of a sum or product; its terms are read as what follows it."""
        while self._next() in ("_", "^"):
            self._take()
            if self._operand().value > _MOST_TERMS:
                raise _TooLarge
        return _Size()


def _digits(number: str) -> float:
    """Decimal digits of a literal at least 1, as a logarithm."""
    whole = number.replace(",", "").partition(".")[0]
    return math.log10(max(1.0, float(number.replace(",", "")))) if len(whole) < 300 else float(len(whole))


def _power(base: _Size, exponent: _Size) -> _Size:
    highest = int(min(exponent.value, _MOST_PRODUCTS))  # of two terms, this power alone has too many products
    if base.terms > 1 and math.comb(highest + base.terms - 1, highest) > _MOST_PRODUCTS:
        raise _TooLarge
    return _bounded(base.digits * exponent.value, base.letters or exponent.letters)


def _bounded(digits: float, letters: bool, terms: int = 1) -> _Size:
    if digits >= _LARGEST:
        raise _TooLarge
    return _Size(digits, letters, terms)
