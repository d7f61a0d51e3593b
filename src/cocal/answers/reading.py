"""Reading of answers by math-verify's parser (latex2sympy2_extended), with additions for what it cannot read.

The parser is told that upper and lower case are different letters. Set-builders, alternatives, plus-minus and ratios of
three parts are taken apart before it sees them, and notation that it would misread is not given to it. Only the
processes of `cocal.answers.comparison` import this module.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
from latex2sympy2_extended.logic import And
from latex2sympy2_extended.math_normalization import NormalizationConfig, normalize_latex
from math_verify.grader import should_treat_as_complex
from sympy.core.relational import Relational

from cocal.answers.alignment import in_radians
from cocal.answers.sizes import too_large
from cocal.answers.spelling import marks

_SPELLING = NormalizationConfig(basic_latex=True, units=False, malformed_operators=False, nits=True, boxed="none")
_CONVERSION = ConversionConfig(lowercase_symbols=False)
_UNREAD = re.compile(
    r"\\(?:ldots|equiv|pmod|forall|exists|to|rightarrow|Rightarrow|sim|land|gcd|lcm|triangle|mp|nmid|parallel|perp)(?![A-Za-z])"
    r"|[?#@~]|\d\s*'|(?<![_^\d])\d+\s+\d|\d\s*\\ \\ |\)\s*'|^(?!.*\\begin).*&"
)
"""Notation that the parser misreads or drops; it is compared as text alone."""
_OR = re.compile(r"\s*(?:\\text\s*\{\s*or\s*\}|\bor\b|\\l?or(?![A-Za-z])|\\(?:vee|cup)(?![A-Za-z]))\s*")
_BUILDER = re.compile(
    r"\\\{\s*(?P<name>[A-Za-z])\s*(?:\\in\s*(?P<of>\\mathbb\{?\s*[A-Z]\s*\}?|[A-Z]))?\s*(?:\||:)(?P<such>.*)\\\}"
)
_EXCLUDED = re.compile(r"^([a-z]\s*\\ne(?![A-Za-z]))(\s*[^,<>=]+(?:,[^,<>=a-z]+)+)$")
"""The statement that a letter equals none of several numbers."""
_RELATION = re.compile(r"[<>=]|\\(?:le|ge|ne)(?![A-Za-z])")
_LETTERS = re.compile(r"\\(?:text|mathrm|begin|end|operatorname|mathbb)\s*\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z]")
_CONSTANTS = {"I": r"\text{I}", "E": r"\text{E}", r"\gamma": r"\text{g̃}", r"\Gamma": r"\text{G̃}"}
"""Letters that the parser takes for the imaginary unit, Euler's number or Euler's constant, and what replaces them."""
_PRODUCT = re.compile(
    r"(?:(?<![\w^.\\])(\d+(?:\.\d+)?)|(?<=\\binom)(\{[^{}]*\}\{[^{}]*\}))(?:\s|\\[,;: ])*"
    r"(?=\(|\[[^,\]]*\]|\\(?:binom|lfloor|lceil)(?![a-z]))"
)
"""A number, or a binomial, before what it multiplies; the parser takes both together for a mixed number."""
_DOUBLE = re.compile(r"(?P<number>\d+)!!|\(?(?P<even>2\s*(?P<letter>[a-z]))(?P<odd>\s*-\s*1)?\)?!!")
"""A double factorial, which the parser reads as the factorial of a factorial."""
_BINOMIAL = re.compile(r"\\binom\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}\{")
_INDEX = re.compile(r"\\(?:sum|prod)|_\{?i")
_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_CALCULUS = re.compile(r"\\int|\\frac\s*\{\s*d[^{}]*\}\s*\{\s*d\s*[a-z]")
_D = re.compile(r"(?<![A-Za-z\\])d(?=[A-Za-z])")
"""The letter d before what it multiplies, which the parser takes for a differential."""
_TO_THE_T = re.compile(r"\^\s*(?:T(?![a-z])|\{\s*T\s*\})")
"""A power with the exponent T, which the parser takes for a transposition."""
_LARGEST_DOUBLE = 1_000
HUNDREDTH = sympy.UnevaluatedExpr(sympy.Rational(1, 100))
"""The value that the parser gives to a percent sign."""
_PERCENT = re.compile(r"([+-]?(?:\([^()]*\)|\\frac\{[^{}]*\}\{[^{}]*\}))\s*\\%")
"""A fraction or a sum as a percentage, which the parser cannot read."""
_PLUS_MINUS = re.compile(r"\\pm(?![A-Za-z])")

Read: TypeAlias = sympy.Basic | sympy.MatrixBase


@lru_cache(maxsize=512)
def read(text: str) -> Read | None:
    """The answer as an expression, a relation, a set, a tuple, a ratio or a matrix; None if it cannot be read."""
    if _UNREAD.search(text):
        return None
    if builder := _BUILDER.fullmatch(text):
        return _built(builder["name"], builder["of"], builder["such"])
    text = _EXCLUDED.sub(lambda match: match[1] + match[2].replace(",", "," + match[1]), text)
    pieces = _OR.split(text)
    if len(pieces) > 1 and all(map(_RELATION.search, pieces)) and not ("=" in pieces[0] and "," in pieces[0]):
        return _joined(pieces, _either)
    if _PLUS_MINUS.search(text):
        begin, end = (r"\{", r"\}") if text.startswith(r"\{") and text.endswith(r"\}") else ("", "")
        parts = _split(text[len(begin) : len(text) - len(end)], ",")
        text = begin + ",".join(sign for part in parts for sign in _both_signs(part)) + end
    if ":" in text and "=" in text:  # the name, or the terms, of a ratio that is given behind it
        return read(text.rpartition("=")[2])
    if "\\{" not in text and len(parts := _split(text, ":")) > 2:
        return _joined(parts, lambda read_parts: Ratio(*read_parts))
    return _parsed(text)


def alternatives(text: str) -> list[str]:
    """The forms of an answer that is written in several, such as `2a/5+1 or (2a+5)/5`; relations are not such forms."""
    pieces = _OR.split(text) if r"\cup" not in text else [text]
    return [text] if any(map(_RELATION.search, pieces)) else pieces


def _joined(parts: list[str], join: Callable[[list[Read]], Read | None]) -> Read | None:
    read_parts = [read(part) for part in parts]
    return None if None in read_parts else join(read_parts)


def _parsed(text: str) -> Read | None:
    """Parse a text by math-verify's parser, after rewriting what this would misread; None if it cannot be read."""
    if percentage := _PERCENT.fullmatch(text):
        value = _parsed(percentage[1])
        return value * HUNDREDTH if isinstance(value, sympy.Expr) else None
    if "!!" in text:
        text = _DOUBLE.sub(_double_factorial, text)
        if "!!" in text:
            return None
    if not _CALCULUS.search(text):
        text = _D.sub(r"{d}\\cdot ", text)
    text = _PRODUCT.sub(lambda match: rf"{match[1] or match[2]}\cdot ", text)
    text = _BINOMIAL.sub(r"\g<0>0+", text)  # the parser would evaluate a binomial of numbers, however large
    if r"\begin" not in text and "," not in text:
        text = _TO_THE_T.sub("^{(T)}", text)
    if _TRIGONOMETRIC.search(text):
        text = in_radians(text)
    spelled = normalize_latex(_LETTERS.sub(lambda match: _CONSTANTS.get(match[0], match[0]), text), _SPELLING)
    try:
        parsed = latex2sympy(
            spelled,
            is_real=not should_treat_as_complex(spelled),
            normalization_config=None,
            conversion_config=_CONVERSION,
        )
        if isinstance(parsed, (sympy.Basic, sympy.MatrixBase)):
            parsed = _with_derivatives(parsed)
            if too_large(parsed):
                return sympy.nan  # which equals nothing
            return parsed if _INDEX.search(text) else _with_imaginary_unit(parsed)
    except Exception:  # the parser and sympy raise errors of all kinds
        pass
    return None


def _with_imaginary_unit(parsed: Read) -> Read:
    """Replace the letter `i` by the imaginary unit, and make all other letters but z and w real."""
    names = {name for name in parsed.free_symbols if name.name == "i" or not (name.is_real or name.name[0] in "zw")}
    return _replaced(
        parsed, {name: sympy.I if name.name == "i" else sympy.Symbol(name.name, real=True) for name in names}
    )


def _with_derivatives(parsed: Read) -> Read:
    """Replace derivatives of letters, which sympy would evaluate to 0, by letters of their own."""
    found = parsed.atoms(sympy.Derivative) if isinstance(parsed, sympy.Basic) else ()
    return _replaced(parsed, {one: sympy.Symbol(str(one), real=True) for one in found if one.expr.is_Symbol})


def _replaced(parsed: Read, parts: dict[sympy.Basic, sympy.Basic]) -> Read:
    """Replace parts of a parsed answer; relations are rebuilt without being evaluated."""
    if parts and isinstance(parsed, Relational):
        return parsed.func(*(side.xreplace(parts) for side in parsed.args), evaluate=False)
    return parsed.xreplace(parts) if parts else parsed


def _double_factorial(match: re.Match[str]) -> str:
    if number := match["number"]:
        return str(sympy.factorial2(int(number))) if int(number) <= _LARGEST_DOUBLE else match[0]
    letter, power = match["letter"], rf"2^{{{match['letter']}}} {match['letter']}!"
    return rf"\frac{{(2{letter})!}}{{{power}}}" if match["odd"] else f"({power})"


def _both_signs(text: str) -> list[str]:
    return [_PLUS_MINUS.sub(sign, text) for sign in "+-"] if _PLUS_MINUS.search(text) else [text]


def _split(text: str, mark: str) -> list[str]:
    """The parts of a text between marks that stand outside of all brackets."""
    places = [place for place, depth in marks(text, mark).items() if depth == 0]
    return [text[before + 1 : place] for before, place in pairwise([-1, *places, len(text)])]


class Ratio(sympy.Tuple):
    """A ratio of three or more numbers."""


def _built(name: str, of: str | None, such: str) -> Read | None:
    """A set in set-builder notation over the real numbers or a part of them; None over the complex numbers."""
    kind = re.sub(r"\W|mathbb", "", of or "R")
    condition = None if kind == "C" else read(such)
    members = None if condition is None else solutions(condition, sympy.Symbol(name, real=True))
    if members is None or of is None:
        return members
    of_kind = {"N": sympy.S.Naturals0, "Z": sympy.S.Integers, "Q": sympy.S.Rationals}
    return members.intersect(of_kind.get(kind, sympy.S.Reals))


def _either(pieces: list[Read]) -> Read | None:
    """What holds if one of the relations does: a set of equations of one name, or a union of intervals."""
    if all(isinstance(piece, sympy.Eq) for piece in pieces):
        same = len({piece.lhs for piece in pieces}) == 1
        return sympy.FiniteSet(*pieces) if same else sympy.Or(*pieces, evaluate=False)
    names = set().union(*(piece.free_symbols for piece in pieces))
    sets = [solutions(piece, *names) for piece in pieces] if len(names) == 1 else [None]
    return None if None in sets else sympy.Union(*sets)


def solutions(relation: Read, name: sympy.Symbol) -> sympy.Set | None:
    """The real values of a letter for which a relation holds; None if they cannot be found."""
    if isinstance(relation, sympy.Set):
        return relation
    parts = relations_of(relation)
    try:
        sets = [
            sympy.solveset(part, name, sympy.S.Reals) if isinstance(part, sympy.Eq) else part.doit().as_set()
            for part in parts
        ]
    except Exception:  # sympy raises errors of all kinds
        return None
    return sympy.Intersection(*sets) if parts else None


def relations_of(expression: Read) -> tuple[Read, ...]:
    """The relations that make up an expression; empty if it is not made of relations."""
    if isinstance(expression, (Relational, sympy.logic.boolalg.BooleanAtom)):
        return (expression,)
    if isinstance(expression, (And, sympy.And)):
        parts = getattr(expression, "_unsorted_args", expression.args)
        return tuple(parts) if all(isinstance(part, Relational) for part in parts) else ()
    return ()
