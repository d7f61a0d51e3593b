r"""Exact comparison of answers by computer algebra.

Expressions read by math-verify's parser are compared here and not by math-verify's own `verify`, which rounds to six
decimals and chops below 1e-15, ignores the case of letters, and finds two equations equal if neither has a real
solution. Only the processes of `cocal.answers.comparison` import this module.

Two expressions without letters are equal if their values are, exactly where both are rational and to forty digits
elsewhere; a decimal equals an exact value that agrees with it to six decimals and to one part in a million. Expressions
with letters are equal if their values are wherever both are real.
"""

from collections.abc import Iterable
from itertools import chain

import sympy
from latex2sympy2_extended.latex2sympy2 import is_expr_of_only_symbols
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from cocal.answers.reading import HUNDREDTH, Ratio, Read, relations_of, solutions

_DIGITS = 40
_DECIMALS = 6
_GREATER = sympy.GreaterThan, sympy.StrictGreaterThan
_POINTS = ("17/7", "-23/11", "31/13", "-5/9", "3/8", "19/6", "-37/15", "41/29", "7/16", "-11/4")
"""Values at which expressions with letters are compared; they are assigned to the letters in turn."""
_LARGE = 1_000_000
_GROWING = sympy.factorial, sympy.factorial2, sympy.gamma, sympy.binomial
"""Functions whose values have too many digits where a letter is the square of a large number."""


def equal(gold: Read, answer: Read) -> bool:
    """True if two parsed answers are equal."""
    gold, answer = _unwrapped(*(side.doit() if isinstance(side, sympy.MatrixExpr) else side for side in (gold, answer)))
    first, second = relations_of(gold), relations_of(answer)
    if first and second:
        return _equal_relations(first, second)
    if first or second:
        return _relation_is_set(first, answer) if first else _relation_is_set(second, gold)
    for kind, compare in _COMPARISONS:
        if isinstance(gold, kind) or isinstance(answer, kind):
            return compare(gold, answer)
    return gold == answer


def _unwrapped(gold: Read, answer: Read) -> tuple[Read, Read]:
    """The two answers; an equation such as x = 5 becomes its right side if the other answer is no such equation."""
    first, second = _named(gold), _named(answer)
    if None not in (first, second) and isinstance(gold, sympy.FiniteSet) != isinstance(answer, sympy.FiniteSet):
        return first, second
    if first is not None and second is None and not relations_of(answer):
        return first, answer
    if second is not None and first is None and not relations_of(gold):
        return gold, second
    return gold, answer


def _named(expression: Read) -> Read | None:
    """The right side of an equation such as x = 5; for several equations, a set, or a tuple if their names differ."""
    parts = expression.args if isinstance(expression, sympy.FiniteSet) else relations_of(expression)
    ordered = getattr(expression, "_unsorted_args", parts)
    if not parts or not all(isinstance(part, sympy.Eq) for part in parts):
        return None
    if isinstance(expression, sympy.FiniteSet):
        names = {part.lhs for part in parts}
        if _in_alphabet(names):
            ordered = sorted(ordered, key=lambda part: part.lhs.name)
        rights = [part.rhs for part in ordered]
        return (
            sympy.FiniteSet(*rights) if len(names) == 1 else sympy.Tuple(*rights) if len(names) == len(parts) else None
        )
    left, right = parts[0].lhs, parts[-1].rhs
    if not any(part.free_symbols or part.has(AppliedUndef) for part in parts):  # 2+3=5
        return right if all(equal(part.lhs, part.rhs) for part in parts) else None
    return right if _is_name(left) and left not in right.free_symbols else None  # x=2x+1 does not define x


def _in_alphabet(names: set[Read]) -> bool:
    """True for consecutive letters of the alphabet; a tuple then lists their values in alphabetical order."""
    letters = sorted(name.name for name in names if isinstance(name, sympy.Symbol))
    first = ord(letters[0][0]) if letters else 0
    return len(letters) == len(names) and letters == [chr(first + place) for place in range(len(letters))]


def _is_name(left: Read) -> bool:
    """True for a letter, and for a pair, a quotient or a function of letters alone."""
    return isinstance(left, (sympy.Tuple, sympy.Interval, AppliedUndef)) or is_expr_of_only_symbols(left)


def _equal_relations(first: tuple[Read, ...], second: tuple[Read, ...]) -> bool:
    first, second = _whole(first), _whole(second)
    if len(first) == len(second) == 1:
        return _equal_relation(first[0], second[0])
    if len(first) != len(second):  # |x|<2 and -2<x<2
        solved = _solved(second) if len(set().union(*(part.free_symbols for part in (*first, *second)))) == 1 else None
        return solved is not None and _relation_is_set(first, solved)
    orders = [second, tuple(reversed(second))]
    return any(all(_equal_relation(a, b) for a, b in zip(first, order, strict=True)) for order in orders)


def _whole(relations: tuple[Read, ...]) -> tuple[Read, ...]:
    """A chain of equations such as x = 2 + 3 = 5, reduced to x = 5; but `a=b=c` says more and is kept."""
    if len(relations) < 2 or not all(isinstance(part, sympy.Eq) for part in relations):
        return relations
    if _is_name(relations[0].lhs) and not any(part.rhs.is_Symbol for part in relations[:-1]):
        return (sympy.Eq(relations[0].lhs, relations[-1].rhs, evaluate=False),)
    return relations


def _equal_relation(gold: Relational, answer: Relational) -> bool:
    """True if two relations are equal up to a numerical factor; the argument of a function may have another name."""
    gold, answer = _same_argument(*(side.reversed if isinstance(side, _GREATER) else side for side in (gold, answer)))
    if gold.func is not answer.func:
        return False
    try:
        if gold == answer or (equal(gold.lhs, answer.lhs) and equal(gold.rhs, answer.rhs)):
            return True
        ours, theirs = gold.lhs - gold.rhs, answer.lhs - answer.rhs
    except TypeError:  # sides that are sets
        return False
    factor = _factor(ours, theirs)
    if not isinstance(gold, (sympy.Eq, sympy.Ne)):
        return factor is not None and bool(factor.is_positive)
    if factor is None and len(ours.free_symbols | theirs.free_symbols) > 1:
        factor = _factor(*(sympy.fraction(sympy.together(side.doit()))[0] for side in (ours, theirs)))
    return factor is not None or (isinstance(gold, sympy.Eq) and _same_roots(ours, theirs))


def _same_argument(gold: Relational, answer: Relational) -> tuple[Relational, Relational]:
    """The relations; if both define a function of one letter, the second one gets the letter of the first."""
    ours, theirs = gold.lhs, answer.lhs
    if not (isinstance(ours, AppliedUndef) and isinstance(theirs, AppliedUndef) and ours.func == theirs.func):
        return gold, answer
    letters = [side.args[0] for side in (ours, theirs) if len(side.args) == 1 and side.args[0].is_Symbol]
    if len(letters) < 2 or letters[0] in answer.rhs.free_symbols - {letters[1]}:
        return gold, answer
    return gold, answer.xreplace({letters[1]: letters[0]})


def _factor(ours: sympy.Expr, theirs: sympy.Expr) -> sympy.Expr | None:
    """The number by which `theirs` has to be multiplied to give `ours`; None if there is none."""
    if not (ours.free_symbols | ours.atoms(AppliedUndef)):
        return None  # any two numbers have a quotient
    at = _assignments(ours.free_symbols | theirs.free_symbols | ours.atoms(AppliedUndef) | theirs.atoms(AppliedUndef))
    values = [(_value(ours, point), _value(theirs, point)) for point in at]
    factors = [a / b for a, b in values if a is not None and b is not None and b != 0 and a != 0]
    if not factors or not all(_near(factor, factors[0]) for factor in factors) or len(factors) < min(2, len(at)):
        return None
    return factors[0] if factors[0].is_real else None


def _same_roots(ours: sympy.Expr, theirs: sympy.Expr) -> bool:
    """True if two equations in one letter have the same real solutions, of which there is at least one. False for two
    polynomials, which may also have complex solutions."""
    names = ours.free_symbols | theirs.free_symbols
    if len(names) != 1 or ours.atoms(AppliedUndef) | theirs.atoms(AppliedUndef):
        return False
    if ours.is_polynomial(*names) and theirs.is_polynomial(*names):
        return False
    first, second = (sympy.solveset(side.doit(), *names, sympy.S.Reals) for side in (ours, theirs))
    return isinstance(first, sympy.FiniteSet) and bool(first) and _equal_sets(first, second)


def _relation_is_set(relations: tuple[Read, ...], other: Read) -> bool:
    """True if the solutions of relations, such as inequalities, are the set that the other answer states."""
    if not isinstance(other, sympy.Set) or (len(relations) == 1 and isinstance(relations[0], sympy.Eq)):
        return False
    solved = _solved(relations)
    two_numbers = isinstance(solved, sympy.Interval) and isinstance(other, sympy.FiniteSet)
    return solved is not None and not two_numbers and _equal_sets(solved, other)


def _solved(relations: tuple[Read, ...]) -> sympy.Set | None:
    """The set of real values of the one letter, or of the one undefined function, for which the relations hold."""
    functions = {part: sympy.Dummy(real=True) for relation in relations for part in relation.atoms(AppliedUndef)}
    relations = tuple(relation.xreplace(functions) for relation in relations)
    names = {name for relation in relations for name in relation.free_symbols}
    if len(names) != 1:
        return None
    return solutions(relations[0] if len(relations) == 1 else sympy.And(*relations, evaluate=False), *names)


def _equal_ratios(gold: Read, answer: Read) -> bool:
    if not (isinstance(gold, Ratio) and isinstance(answer, Ratio) and len(gold) == len(answer)):
        return False
    return all(equal(ours * answer[0], theirs * gold[0]) for ours, theirs in zip(gold, answer, strict=True))


def _members(expression: Read) -> tuple[tuple[Read, ...] | None, bool | None]:
    """The members of a tuple or set, or the ends of an open or closed interval, and whether their order counts."""
    if isinstance(expression, sympy.Tuple):
        return expression.args, True
    if isinstance(expression, sympy.FiniteSet):
        return tuple(getattr(expression, "_unsorted_args", expression.args)), False
    if isinstance(expression, sympy.Interval) and expression.left_open == expression.right_open:
        return (expression.start, expression.end), True
    return None, None


def _equal_sets(gold: Read, answer: Read) -> bool:
    if isinstance(gold, sympy.Interval) and isinstance(answer, sympy.Interval):
        ends = gold.left_open == answer.left_open and gold.right_open == answer.right_open
        return ends and equal(gold.start, answer.start) and equal(gold.end, answer.end)
    gold, answer = map(_collection, (gold, answer))
    (ours, ordered), (theirs, as_well) = _members(gold), _members(answer)
    if ours is not None and theirs is not None and not (ordered is False and as_well is False):
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    if ours is not None and theirs is not None:
        return _matched(list(ours), list(theirs))
    try:
        return gold.doit() == answer.doit() or gold.symmetric_difference(answer).is_empty is True
    except Exception:  # sympy raises errors of all kinds
        return False


def _collection(value: Read) -> Read:
    """The value as a set or tuple; a single value becomes a set. Conditions that exclude numbers are solved jointly."""
    if isinstance(value, sympy.FiniteSet) and any(isinstance(part, sympy.Ne) for part in value.args):
        conditions = [relations_of(part) for part in value.args]
        solved = _solved(tuple(chain(*conditions))) if all(conditions) else None
        value = value if solved is None else solved
    if isinstance(value, (sympy.Union, sympy.Intersection)):
        return value.doit()
    return value if isinstance(value, (sympy.Set, sympy.Tuple)) else sympy.FiniteSet(value)


def _matched(ours: list[Read], theirs: list[Read]) -> bool:
    """True if each member of one list has an equal one in the other."""
    if len(ours) != len(theirs):
        ours, theirs = list(dict.fromkeys(ours)), list(dict.fromkeys(theirs))  # a set has no repetitions
    if len(ours) != len(theirs):
        return False
    for member in ours:
        place = next((place for place, other in enumerate(theirs) if equal(member, other)), None)
        if place is None:
            return False
        del theirs[place]
    return True


def _equal_matrices(gold: Read, answer: Read) -> bool:
    """True if two matrices are equal; a row or a column also equals the tuple of its entries."""
    for matrix, other in ((gold, answer), (answer, gold)):
        members, ordered = _members(other)
        if members and ordered and isinstance(matrix, sympy.MatrixBase) and 1 in matrix.shape:
            return len(members) == len(matrix) and all(map(equal, matrix.flat(), members))
    both = isinstance(gold, sympy.MatrixBase) and isinstance(answer, sympy.MatrixBase)
    return both and gold.shape == answer.shape and all(map(equal, gold.flat(), answer.flat()))


def _equal_expressions(gold: Read, answer: Read) -> bool:
    if not (isinstance(gold, sympy.Expr) and isinstance(answer, sympy.Expr)):
        return False
    if gold == answer:
        return gold not in (sympy.zoo, sympy.nan)
    if gold.has(HUNDREDTH) != answer.has(HUNDREDTH):
        return _equal_values(gold, answer) or _equal_values(_times_100(gold), _times_100(answer))
    return _equal_values(gold, answer)


def _times_100(expression: sympy.Expr) -> sympy.Expr:
    """A percentage as the number in front of its percent sign."""
    return expression.xreplace({HUNDREDTH: sympy.Integer(1)})


def _equal_values(gold: sympy.Expr, answer: sympy.Expr) -> bool:
    decimal = gold.has(sympy.Float) or answer.has(sympy.Float)
    gold, answer = _exact(gold), _exact(answer)
    names = gold.free_symbols | answer.free_symbols | gold.atoms(AppliedUndef) | answer.atoms(AppliedUndef)
    if names:
        return _equal_functions(gold, answer, names)
    if gold.is_Rational and answer.is_Rational:
        return gold == answer or (decimal and _close(gold, answer))
    first, second = _value(gold, {}), _value(answer, {})
    if first is None or second is None:
        return False
    if decimal:
        return _close(first, second)
    return _near(first, second)


def _exact(expression: sympy.Expr) -> sympy.Expr:
    """The evaluated expression, in which decimals are exact fractions and, if there is no imaginary unit, odd roots of
    negative numbers are real: `\\sqrt[3]{-8}` is -2."""
    decimals = {number: sympy.Rational(str(number)) for number in expression.atoms(sympy.Float)}
    evaluated = expression.replace(lambda part: isinstance(part, sympy.UnevaluatedExpr), lambda part: part.args[0])
    try:
        value = evaluated.xreplace(decimals).doit()
        return value if value.has(sympy.I) else value.replace(_is_odd_root, _real_root)
    except Exception:  # sympy raises errors of all kinds
        return expression


def _is_odd_root(part: sympy.Basic) -> bool:
    return part.is_Pow and part.exp.is_Rational and part.exp.q % 2 == 1 and bool(part.base.is_negative)


def _real_root(part: sympy.Basic) -> sympy.Basic:
    return (-1) ** part.exp.p * (-part.base) ** part.exp


def _equal_functions(gold: sympy.Expr, answer: sympy.Expr, names: set[sympy.Basic]) -> bool:
    both = gold.free_symbols and answer.free_symbols
    if both and gold.free_symbols != answer.free_symbols and sympy.expand(gold - answer) != 0:
        return False
    compared = 0
    for point in _assignments(names, _beyond(gold, answer)):
        first, second = _value(gold, point), _value(answer, point)
        if first is None or second is None or (not (first.is_real and second.is_real) and not gold.has(sympy.I)):
            continue
        if not _near(first, second):
            return False
        compared += 1
    return compared > 1 or sympy.expand(gold - answer) == 0


def _beyond(*expressions: sympy.Expr) -> int:
    """A number beyond which expressions that differ by floors, absolute values or square roots have different values; 0
    if they have none of these, or if their numbers are large."""
    powers = set().union(*(one.atoms(sympy.Pow) for one in expressions))
    bent = any(power.exp.is_Rational and power.exp.q == 2 and power.free_symbols for power in powers)
    if not (bent or any(one.has(sympy.floor, sympy.ceiling, sympy.Abs) for one in expressions)):
        return 0
    if any(power.exp.free_symbols for power in powers) or any(one.has(*_GROWING) for one in expressions):
        return 0
    largest = max(
        (abs(part) for one in expressions for number in one.atoms(sympy.Rational) for part in (number.p, number.q)),
        default=0,
    )
    return largest**2 if largest < _LARGE else 0


def _assignments(names: Iterable[sympy.Basic], beyond: int = 0) -> list[dict[sympy.Basic, sympy.Rational]]:
    """Points that give every letter and every undefined function a value; two of them lie beyond a number."""
    ordered = sorted(names, key=lambda name: (not isinstance(name, AppliedUndef), str(name)))
    count, values = len(ordered), [sympy.Rational(value) for value in _POINTS]
    if not count:
        return [{}]
    points = [[values[(3 * row + column) % len(values)] + row for column in range(count)] for row in range(4)]
    points += [[abs(value) / 10 for value in points[0]], [-abs(value) for value in points[2]]]
    for far, base in ((11, 2), (37, 61), *([(1, beyond)] * (beyond > 0))):  # for floors and absolute values to differ
        points += [[sign * (abs(value) * far + base) for value in points[1]] for sign in (1, -1)]
    points += [[start + 2 * column for column in range(count)] for start in (5, -4 - 2 * count)]  # for floors, too
    return [dict(zip(ordered, point, strict=True)) for point in points]


def _value(expression: sympy.Expr, at: dict[sympy.Basic, sympy.Rational]) -> sympy.Expr | None:
    """The value to forty digits; None if it is infinite or cannot be computed."""
    try:
        value = expression.subs(at).doit().evalf(_DIGITS) if at else expression.evalf(_DIGITS)
    except Exception:  # sympy raises errors of all kinds
        return None
    return value if value.is_number and value.is_finite else None


def _near(first: sympy.Expr, second: sympy.Expr) -> bool:
    """True if two values agree to forty digits up to rounding, relative to their size, or if one is 0 and the other has
    no known digit because its terms cancel each other."""
    for zero, other in ((first, second), (second, first)):
        if zero == 0 and getattr(other, "_prec", 0) == 1:
            return True
    return bool(abs(first - second) <= max(abs(first), abs(second)) * sympy.Float(10, _DIGITS) ** (5 - _DIGITS))


def _close(first: sympy.Expr, second: sympy.Expr) -> bool:
    """True if a decimal agrees with a value to six decimals and to one part in a million."""
    apart = abs(first - second)
    if apart > max(abs(first), abs(second)) / 10**_DECIMALS:
        return False
    return bool(first.round(_DECIMALS) == second.round(_DECIMALS))


_COMPARISONS = (
    (sympy.MatrixBase, _equal_matrices),
    (Ratio, _equal_ratios),
    ((sympy.Set, sympy.Tuple), _equal_sets),
    (sympy.Expr, _equal_expressions),
)
"""The functions that compare two answers, by the kind of one of them; the first that applies is used."""
