"""The predicates of the claims: margins, cases and verdicts by hand."""

import numpy as np
import pytest

from claims_study import Told
from cocal_study.evidence.claims import Claim
from cocal_study.evidence.estimates import Estimate
from cocal_study.evidence.predicates import (
    FAILS,
    HOLDS,
    OBSERVED,
    OPEN,
    UNOBSERVED,
    Case,
    Margin,
    Quantity,
    Reader,
    directed,
    within,
)

CASES = [Case("first", "macro-mathematics", step, None, "main") for step in (40, 80, 120)]


def reader_of(values: dict, spread: float = 0.0) -> Reader:
    """A source with one number for each method and metric, or a list over the steps; resamples are this wide."""
    draws = np.linspace(-1, 1, 801) * spread if spread else np.empty(0)

    def read(quantity: Quantity) -> Estimate:
        value = values[quantity.method, quantity.metric]
        if isinstance(value, list):
            value = value[(40, 80, 120).index(quantity.case.step)]
        return Estimate(value, value + draws * (quantity.method == "a"), questions="q" if spread else "")

    return Told(read)


def predicate(**fields):
    text = {"id": "x", "title": "A claim of a test", "section": "s", "quotation": "words of it", "kind": "direction"}
    return Claim.model_validate(text | {"predicate": fields}).predicate


def decided(fields: dict, reader: Reader, cases=CASES[:1]) -> tuple[float, str]:
    made = predicate(**fields)
    margin, verdict = made.decide(list(made.cases(cases, reader)), reader.level)
    return round(margin.value, 9), verdict


BETTER_ = {"predicate": "better", "methods": ["a"], "than": ["b"], "metrics": ["ece", "auroc"]}


def test_better_is_lower_for_an_ece_and_higher_for_an_auroc():
    values = {("a", "ece"): 0.1, ("b", "ece"): 0.15, ("a", "auroc"): 0.9, ("b", "auroc"): 0.8}
    assert decided(BETTER_, reader_of(values)) == (0.05, OBSERVED)
    assert decided(BETTER_, reader_of(values | {("b", "ece"): 0.09})) == (-0.01, UNOBSERVED)
    assert decided(BETTER_, reader_of(values | {("b", "ece"): 0.1})) == (0, UNOBSERVED)
    assert decided(BETTER_, reader_of(values, spread=0.04)) == (0.05, HOLDS)
    assert decided(BETTER_, reader_of(values, spread=0.08)) == (0.05, OPEN)
    assert decided(BETTER_, reader_of(values | {("b", "ece"): 0.01}, spread=0.05)) == (-0.09, FAILS)


def margin_of(value: float, p: float, **fields) -> Margin:
    return Margin(value, value - 0.01, value + 0.01, p, **fields)


def test_all_must_hold_needs_no_adjustment_and_does_not_hold_needs_one():
    made = predicate(**BETTER_)
    two = [[margin_of(0.1, 0.024)], [margin_of(0.2, 0.04)]]
    assert made.verdicts(two, 0.95) == [[HOLDS], [HOLDS]]
    assert made.verdicts([*two, [margin_of(-0.3, 0.3)]], 0.95) == [[HOLDS], [HOLDS], [OPEN]]
    against = [[margin_of(-0.1, 0.024)], [margin_of(-0.2, 0.02)], [margin_of(-0.3, 0.3)]]
    assert made.verdicts(against[:2], 0.95) == [[FAILS], [FAILS]], "0.02 x 2, and then 0.024"
    assert made.verdicts(against, 0.95) == [[OPEN], [OPEN], [OPEN]], "0.02 x 3"
    assert made.verdicts([[margin_of(0.1, 0.024)], [margin_of(-0.2, 0.003)]], 0.95) == [[HOLDS], [FAILS]]


def test_where_some_cases_are_enough_p_values_count_the_choice_among_them():
    """Two of four cases: 4 - 2 + 1 = 3 times the p-value."""
    cases = [[margin_of(0.1, 0.016)], [margin_of(0.1, 0.018)], [margin_of(0.1, 0.2)], [margin_of(-0.1, 0.2)]]
    some = predicate(**BETTER_, at_least=2)
    assert [case[0] for case in some.verdicts(cases, 0.95)] == [HOLDS, OPEN, OPEN, OPEN]
    assert some.decide(cases, 0.95)[1] == OPEN
    assert predicate(**BETTER_, at_least=3).verdicts(cases, 0.95)[1] == [HOLDS], "2 x 0.018"


def test_the_deciding_margin_has_the_verdict_of_the_claim():
    """A margin that surely fails decides before a lesser one that may hold."""
    surely, perhaps, well = margin_of(-0.01, 0.001), margin_of(-0.05, 0.4), margin_of(0.3, 0.001)
    made = predicate(**BETTER_)
    assert made.decide([[perhaps, surely, well]], 0.95) == (surely, FAILS)
    assert made.decide([[perhaps, well], [well]], 0.95) == (perhaps, OPEN)
    assert predicate(**BETTER_, at_least=1).decide([[perhaps], [surely], [well]], 0.95) == (well, HOLDS)
    assert predicate(**BETTER_, at_least=2).decide([[perhaps], [surely], [well]], 0.95) == (perhaps, OPEN)


def test_what_an_interval_excludes():
    assert [Margin(0.1, lower, 0.2).excludes(0) for lower in (0.05, 0.0, -0.1)] == [True, False, False]
    assert Margin(-0.1, -0.2, -0.05).excludes(0)
    assert [Margin(0.1, 0.05, 0.2).excludes(other) for other in (0.04, 0.05, 0.2, 0.21)] == [True, False, False, True]
    assert not Margin(0.1, 0.1, 0.1).excludes(0), "a number without an interval excludes nothing"


@pytest.mark.parametrize(
    ("share", "cases", "needed"), [(1, 4, 4), (0.75, 4, 3), (0.75, 8, 6), (0.75, 5, 4), (0.1, 10, 1)]
)
def test_a_share_of_the_cases_is_rounded_up(share, cases, needed):
    assert predicate(**BETTER_, share=share).needed(cases) == needed


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_confidence_at_chance_counts_by_its_numbers_and_is_named(who):
    values = {("a", "ece"): 0.1, ("b", "ece"): 0.2, ("a", "accuracy"): 0.8, ("b", "accuracy"): 0.7}
    reader = reader_of(values, spread=0.04)
    reader.degenerate = lambda method, case: method == who
    for fields, verdict, said in (({"metrics": ["ece"]}, HOLDS, who), ({"metrics": ["accuracy"]}, HOLDS, "")):
        made = predicate(**BETTER_ | fields)
        margin, found = made.decide(list(made.cases(CASES[:1], reader)), reader.level)
        assert (round(margin.value, 9), found, margin.at_chance) == (0.1, verdict, said)
    made = predicate(**BETTER_ | {"metrics": ["ece"], "methods": ["b"], "than": ["a"]})
    margin, found = made.decide(list(made.cases(CASES[:1], reader)), reader.level)
    assert (found, margin.at_chance) == (FAILS, who)


def test_at_least_so_many_cases():
    values = {("a", "ece"): [0.1, 0.2, 0.1], ("b", "ece"): [0.3, 0.1, 0.12], ("a", "auroc"): 0.9, ("b", "auroc"): 0.6}
    reader = reader_of(values)
    assert decided(BETTER_ | {"at_least": 2}, reader, CASES) == (0.02, OBSERVED)
    assert decided(BETTER_ | {"share": 0.6}, reader, CASES) == (0.02, OBSERVED)
    assert decided(BETTER_, reader, CASES) == (-0.1, UNOBSERVED)
    wide = reader_of(values, spread=0.05)
    assert decided(BETTER_ | {"at_least": 2}, wide, CASES) == (0.02, OPEN)
    assert decided(BETTER_ | {"at_least": 1}, wide, CASES) == (0.2, HOLDS)
    apart = BETTER_ | {"together": False, "at_least": 4}
    assert decided(apart, reader, CASES) == (0.2, OBSERVED)


def test_pairs_and_groups():
    values = {("a", "ece"): 0.1, ("c", "ece"): 0.3, ("b", "ece"): 0.2, ("d", "ece"): 0.4}
    both = {"predicate": "better", "methods": ["a", "c"], "than": ["b", "d"], "metrics": ["ece"]}
    assert decided(both, reader_of(values)) == (-0.1, UNOBSERVED)
    assert decided(both | {"paired": True}, reader_of(values)) == (0.1, OBSERVED)
    layers = Told(reader_of(values).read, lambda name, case: ["a", "b"] if name == "layers" else [name])
    assert decided(BETTER_ | {"than": ["layers"], "metrics": ["ece"]}, layers) == (0.1, OBSERVED)


def test_greater_changes_and_widens():
    values = {("a", "mean_confidence"): 0.8, ("a", "accuracy"): [0.6, 0.5, 0.55], ("b", "mean_confidence"): 0.9}
    over = {"predicate": "greater", "metric": "mean_confidence", "than_metric": "accuracy", "methods": ["a"]}
    assert decided(over, reader_of(values)) == (0.2, OBSERVED)
    less = {"predicate": "greater", "metric": "mean_confidence", "methods": ["a"], "than": ["b"]}
    assert decided(less, reader_of(values)) == (-0.1, UNOBSERVED)
    falls = {"predicate": "changes", "methods": ["a"], "falls": ["accuracy"]}
    assert decided(falls, reader_of(values), CASES[:2]) == (0.1, OBSERVED)
    assert decided(falls, reader_of(values), CASES) == (-0.05, UNOBSERVED)
    assert decided(falls | {"falls": [], "rises": ["accuracy"]}, reader_of(values), CASES[:2]) == (-0.1, UNOBSERVED)
    grows = {("a", "ece"): [0.1, 0.1, 0.1], ("b", "ece"): [0.12, 0.3, 0.3]}
    widens = {"predicate": "widens", "methods": ["a"], "than": ["b"], "metrics": ["ece"]}
    assert decided(widens, reader_of(grows), CASES[:2]) == (0.18, OBSERVED)


def test_alike_and_between():
    values = {("a", "auroc"): 0.9, ("b", "auroc"): 0.91}
    alike = {"predicate": "alike", "methods": ["a"], "than": ["b"], "metrics": ["auroc"], "tolerance": 0.02}
    assert decided(alike, reader_of(values)) == (0.01, OBSERVED)
    assert decided(alike, reader_of(values, spread=0.005)) == (0.01, HOLDS)
    assert decided(alike, reader_of(values, spread=0.05)) == (0.01, OPEN)
    assert decided(alike, reader_of(values | {("b", "auroc"): 0.8}, spread=0.05)) == (-0.08, FAILS)
    between = {"predicate": "between", "metric": "auroc", "methods": ["a", "b"], "low": 0.85, "high": 0.905}
    assert decided(between, reader_of(values)) == (-0.005, UNOBSERVED)
    assert decided(between | {"high": 0.95}, reader_of(values)) == (0.04, OBSERVED)


def test_steadier_and_above():
    values = {("a", "accuracy"): [0.5, 0.54, 0.53], ("b", "accuracy"): [0.6, 0.71, 0.58], ("c", "accuracy"): [0.4] * 3}
    steadier = {"predicate": "steadier", "metric": "accuracy", "methods": ["a"], "than": ["b"]}
    assert decided(steadier, reader_of(values), CASES) == (0.09, OBSERVED)
    assert decided(steadier | {"than": ["b", "c"]}, reader_of(values), CASES) == (-0.04, UNOBSERVED)
    above = {"predicate": "above", "metric": "accuracy", "methods": ["a", "b"], "number": 0.5}
    assert decided(above, reader_of(values), CASES) == (0, UNOBSERVED)
    assert decided(above | {"number": 0.4}, reader_of(values, spread=0.05), CASES) == (0.1, HOLDS)


def test_margins_and_their_intervals():
    estimate = Estimate(0.5, 0.5 + np.linspace(-0.2, 0.2, 401), questions="q")
    assert directed(estimate, 0.95)[:3] == pytest.approx((0.5, 0.31, 0.69))
    assert within(estimate, 0.0, 0.6, 0.95)[:3] == pytest.approx((0.1, -0.09, 0.29))
    assert within(estimate, 0.4, 0.6, 0.95)[:3] == pytest.approx((0.1, -0.09, 0.1))
    assert within(estimate, 0.8, 0.9, 0.95)[:3] == pytest.approx((-0.3, -0.49, -0.11))
    tails = {"inside, by the nearer end": (0.0, 0.6), "outside, by the missed end": (0.6, 0.9)}
    for low, high in tails.values():
        assert within(estimate, low, high, 0.95).p == pytest.approx(2 * (101 + 1) / 402, abs=0.006)
    assert within(estimate, 0.2, 0.8, 0.95).p == pytest.approx(2 / 402)
