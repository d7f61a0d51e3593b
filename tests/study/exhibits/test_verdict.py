"""tables/verdict: the headline claims, by differences of two rows of the main table."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cocal_study.evidence.headlines import Pair, at_chance, difference, over, values_of, word_of
from cocal_study.exhibits.verdict import prepare
from meant_words import TABLES, inputs_of


def one(lower, upper, paper=0.02, at_chance="", metric="ece", baseline="postcal-binary", aurocs=(0.8, 0.9)):
    place = {"baseline": baseline, "metric": metric, "at_chance": at_chance}
    place |= {"baseline_auroc": aurocs[0], "paper_baseline_auroc": aurocs[1]}
    return place | {"lower": lower, "upper": upper, "paper": paper}


CLEAR, SMALL, WIDE = one(0.01, 0.03), one(0.002, 0.004), one(-0.002, 0.011)
CHANCE = [one(0.01, 0.03, at_chance="rlcr"), one(0.002, 0.004, at_chance="rlcr")]


@pytest.mark.parametrize(
    ("found", "tolerance", "word"),
    [
        ([CLEAR, SMALL], 0.0, "yes"),
        (CHANCE, 0.0, "yes, but RLCR is at chance"),
        ([CLEAR, one(-0.002, 0.03)], 0.0, "undecided"),
        ([CLEAR, one(-0.002, 0.03, metric="auroc")], 0.0, "undecided (ECE yes, AUROC undecided)"),
        ([WIDE], 0.0, "undecided; the lead is smaller than the paper's"),
        ([CLEAR, WIDE], 0.0, "undecided"),
        (
            [one(0.001, 0.019), one(-0.002, 0.011, metric="auroc")],
            0.0,
            "undecided (ECE yes, AUROC undecided); the lead is smaller than the paper's",
        ),
        (
            [one(-0.01, 0.03), one(-0.002, 0.011, metric="auroc")],
            0.0,
            "undecided; the lead is smaller than the paper's in AUROC",
        ),
        ([CLEAR, one(-0.03, -0.01)], 0.0, "no"),
        ([one(-0.03, -0.01), one(-0.002, 0.011, metric="auroc")], 0.0, "no (ECE no, AUROC undecided)"),
        ([one(-0.019, 0.001)], 0.02, "yes"),
        ([one(-0.05, -0.021)], 0.02, "no"),
        ([one(0.01, 0.01)], 0.0, "undecided, without intervals"),
        ([one(np.nan, np.nan)], 0.0, "undecided, without intervals"),
    ],
)
def test_the_word_follows_from_the_intervals(found, tolerance, word):
    assert word_of(found, tolerance) == word


def test_a_lead_over_baselines_that_are_nearer_to_chance_says_so():
    """Two thirds of the paper's distance from one half: 0.5 + 2/3 * 0.36 = 0.74."""
    near, far = (
        one(0.01, 0.03, baseline="rlcr", aurocs=(0.73, 0.86)),
        one(0.02, 0.04, baseline="dcpo", aurocs=(0.75, 0.86)),
    )
    assert word_of([near, far]) == "yes, over a baseline nearer to chance than the paper's"
    both = one(0.02, 0.04, baseline="dcpo", aurocs=(0.6, 0.81))
    assert word_of([near, both]) == "yes, over baselines nearer to chance than the paper's"
    assert word_of([far]) == "yes"
    assert word_of([near, one(-0.03, 0.04, baseline="dcpo")]) == "undecided (RLCR yes, DCPO undecided)"


def test_the_word_of_another_sampling_stands_beside_where_it_differs():
    table = TABLES["verdict"]
    given = inputs_of(table)
    again = given["resamples"]
    layout = table.layout.model_copy(update={"temperature": 0.7})
    same = prepare(layout, **given, second=again)
    assert not same["word"].str.contains("temperature").any()
    turned = again.data.assign(value=1 - again.data["value"], resampled=1 - again.data["resampled"])
    found = prepare(layout, **given, second=replace(again, data=turned, comparison="second"))
    differ = found["word"].str.contains(r"\(at temperature 0\.7: (?:yes|no|undecided)\)")
    assert differ.any()
    pairs = found["metric"] == "auroc"
    np.testing.assert_allclose(found.loc[pairs & (found["baseline"] != ""), "second_value"],
                               -found.loc[pairs & (found["baseline"] != ""), "value"])  # fmt: skip


def test_two_replicates_have_no_say_and_three_have():
    """Their values are no differences of the study, which tells the claim until there are three."""
    layout, given = TABLES["verdict"].layout, inputs_of(TABLES["verdict"])
    alone = prepare(layout, **given)
    gathered = table(
        {("cocal-binary", "auroc"): (0.81, 0.83, 0.88), ("token-probability", "auroc"): (0.8, 0.81, 0.85)}
    ).reset_index()
    own = prepare(layout, **given, central_main=gathered.drop(columns="replicate_7"))
    pd.testing.assert_frame_equal(own, alone)
    three = prepare(layout, **given, central_main=gathered)
    told = three[(three["baseline"] == "token-probability") & (three["metric"] == "auroc")].squeeze()
    assert (told["value"], told["replicates"], told["positive"]) == (pytest.approx(0.02), 3, 3)
    assert three["replicates"].notna().sum() == 1


def test_the_answers_to_facts_are_judged_by_the_replicates_of_both_studies():
    layout, given = TABLES["verdict"].layout, inputs_of(TABLES["verdict"])
    central = table({("cocal-binary", "auroc"): (0.51, 0.56, 0.59)}).reset_index()
    central = central.assign(sampling="own", dataset="macro-factual")
    whole = central[["sampling", "dataset", "method", "metric"]].assign(replicate_3=0.48, replicate_4=0.57)
    found = prepare(layout, **given, central_sampling=central, replicates_sampling=whole, replicates_ood=whole)
    told = found[found["dataset"] == "macro-factual"].squeeze()
    assert (told["value"], told["replicates"], told["positive"]) == (pytest.approx(0.042), 5, 4)


def test_baselines_that_fare_differently_have_a_word_each_after_the_worst():
    of_rlcr, of_dcpo = one(0.01, 0.03, baseline="rlcr"), one(-0.03, 0.001, paper=0.0, baseline="dcpo")
    assert word_of([of_rlcr, of_dcpo]) == "undecided (RLCR yes, DCPO undecided)"
    assert word_of([of_rlcr, one(0.002, 0.04, baseline="dcpo")]) == "yes"
    at_chance = one(0.01, 0.03, baseline="rlcr", at_chance="rlcr")
    assert word_of([at_chance, of_dcpo]) == "undecided (RLCR yes but at chance, DCPO undecided)"
    both = one(0.02, 0.04, baseline="dcpo", at_chance="dcpo")
    assert word_of([at_chance, both]) == "yes, but RLCR and DCPO are at chance"
    assert word_of([one(-0.03, -0.01, baseline="rlcr"), of_dcpo]) == "no (RLCR no, DCPO undecided)"


def table(values):
    """The columns of a gathered table: by method and metric, the value in each of three replicates."""
    rows = [("macro-mathematics", *key, *numbers) for key, numbers in values.items()]
    names = ["dataset", "method", "metric", "replicate_1", "replicate_2", "replicate_7"]
    return values_of(pd.DataFrame(rows, columns=names), "replicate_")


def test_a_difference_is_one_of_two_rows_of_the_first_table_that_has_both():
    first = table({("cocal-binary", "ece"): (0.10, 0.13, 0.08)})
    second = table(
        {
            ("cocal-binary", "ece"): (0.11, 0.14, 0.09),
            ("postcal-binary", "ece"): (0.12, 0.11, 0.15),
            ("cocal-binary", "auroc"): (0.51, 0.62, 0.47),
            ("postcal-binary", "auroc"): (0.55, 0.58, 0.44),
            ("postcal-binary", "mean_confidence"): (0.4, 0.5, 0.3),
            ("cocal-binary", "mean_confidence"): (0.7, 0.7, 0.7),
        }
    )
    found = difference(Pair("cocal-binary", "postcal-binary", "ece"), [first, second])
    assert found == pytest.approx([0.01, -0.03, 0.06])  # a lower ECE is better
    assert difference(Pair("cocal-binary", "postcal-binary", "auroc"), [second]) == pytest.approx([-0.04, 0.04, 0.03])
    assert difference(Pair("cocal-binary", "", "auroc"), [second]) == pytest.approx([0.01, 0.12, -0.03])
    assert difference(Pair("cocal-binary", "rlcr", "auroc"), [first, second]) is None
    value, lower, upper, replicates, positive = over(found, 0.95)
    half = 4.302652729911275 * np.std(found, ddof=1) / 3**0.5  # the quantile of Student's t with two degrees
    assert (value, lower, upper) == pytest.approx((0.04 / 3, 0.04 / 3 - half, 0.04 / 3 + half))
    assert (replicates, positive) == (3, 2)
    assert over(found, 0.95, tolerance=0.04)[4] == 3
    pair = Pair("cocal-binary", "postcal-binary", "auroc")
    assert at_chance(pair, [second], 0.95) == ["cocal-binary", "postcal-binary"]  # one is constant, too
    assert at_chance(Pair("cocal-binary", "postcal-binary", "accuracy"), [second], 0.95) == []


def test_claims_about_methods_that_a_study_lacks_are_left_out():
    one = TABLES["verdict"]
    given = inputs_of(one)
    whole = prepare(one.layout, **given)
    assert whole["claim"].nunique() == 8
    baselines = {"rlcr", "dcpo"}
    assert baselines < set(one.layout.methods)
    few = one.layout.model_copy(update={"methods": tuple(name for name in one.layout.methods if name not in baselines)})
    kept = whole[~whole["baseline"].isin(baselines)].reset_index(drop=True)
    pd.testing.assert_frame_equal(prepare(few, **given), kept)
    assert kept["claim"].nunique() == 6
