"""Sizes of expressions that were parsed but not evaluated, such as `9^{9^{9}}`.

To evaluate such an expression would end its process, which counts as a time-out, and a job tolerates few of these. What
is too large in another way, such as the expansion of `(x+y)^{100000}`, is left to the time-outs.
"""

import math

import sympy

_LARGEST = 100_000.0
"""Digits of the largest number that is evaluated. `10^{-100}`, `3^{-174762.6667}` and `C(2037171, 2019)` are
among the gold answers of DeepScaleR."""
_MOST_TERMS = 3.0
"""Digits of the largest bound of a sum or product, which is evaluated term by term."""


def too_large(expression: sympy.Basic | sympy.MatrixBase) -> bool:
    """True if an expression, or a part of it, is a number of 100,000 digits or more, or a sum or product of more than
    1,000 terms."""
    try:
        return _digits(expression) >= _LARGEST
    except OverflowError:
        return True


def _digits(part: sympy.Basic | sympy.MatrixBase) -> float:
    """Decimal logarithm of the size of an expression, bounded from above and from 0; a letter counts as 1.

    Raises:
        OverflowError: if a part of it is too large.
    """
    parts = part.flat() if isinstance(part, sympy.MatrixBase) else part.args
    if not parts:
        if isinstance(part, sympy.Rational):
            return max(0.0, math.log10(abs(part.p) or 1) - math.log10(part.q))
        return math.log10(max(1.0, abs(float(part)))) if isinstance(part, (sympy.Float, sympy.NumberSymbol)) else 0.0
    first, *others = values = [_digits(piece) for piece in parts]
    if max(values) >= _LARGEST:
        raise OverflowError
    if isinstance(part, (sympy.Pow, sympy.exp)):
        base, power = part.as_base_exp()
        return 0.0 if power == -1 else _digits(base) * _value(_digits(power))  # a denominator is left out
    if isinstance(part, sympy.factorial):
        return math.lgamma(_value(first) + 1) / math.log(10)
    if isinstance(part, sympy.binomial):
        return first * max(0.0, min(_value(others[0]), _value(first) - _value(others[0])))
    if isinstance(part, (sympy.Sum, sympy.Product)) and max(others) > _MOST_TERMS:
        raise OverflowError
    of_sum = max(*values, math.log10(sum(map(_value, values))))
    return sum(values) if isinstance(part, (sympy.Mul, sympy.MatMul)) else of_sum


def _value(digits: float) -> float:
    return 10.0 ** min(digits, 300.0)
