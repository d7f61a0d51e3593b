"""Paired comparisons: what shares its responses, and what can be told from the best."""

import pandas as pd
import pytest

from cocal_study.cubes.resamples import Key
from cocal_study.evidence.comparisons import compare, estimate, final_key, holm, same_responses, separable_from_best
from coded_inputs import coded_resamples


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (("token-probability", "grpo", 60), ("cocal-binary", "grpo", 60), True),
        (("token-probability", "grpo", 60), ("cocal-binary", "grpo", 45), False),
        (("token-probability", "grpo", 60), ("verbal", "grpo", 60), False),
        (("verbal", "grpo", 60), ("base-verbal", "base", 0), False),
        (("rlcr", "rlcr", 60), ("cocal-on-rlcr", "rlcr", 60), True),
        (("rlcr", "rlcr", 60), ("dcpo", "dcpo", 60), False),
    ],
)
def test_responses_are_the_same_in_one_format_on_one_policy_at_one_step(first, second, same):
    assert same_responses(*(Key(*one, "sums") for one in (first, second))) is same


def test_what_is_separable_is_so_after_adjustment_and_at_the_level_of_the_file():
    methods = ["verbal", "p-true", "token-probability", "self-consistency", "cocal-group", "cocal-binary"]
    resamples = coded_resamples("tiny-a", methods, spread=0.12)
    values = [
        (key.dataset, key.method, "ece", resamples.data["value"].to_numpy()[k, 2])
        for key, k in resamples.places.items()
    ]
    numbers = pd.DataFrame(values, columns=["dataset", "method", "metric", "value"])
    said = separable_from_best(resamples, numbers, 120)
    between = 0
    for dataset, column in numbers.groupby("dataset"):
        best = column.loc[column["value"].idxmin(), "method"]
        assert said[dataset, best, "ece"] == "best"
        baselines = [name for name in methods if name != best]
        pairs = [(final_key(best, 120, dataset), final_key(name, 120, dataset)) for name in baselines]
        tests = compare(resamples, pairs, metrics=("ece",))
        between += ((tests["p"] < 0.05) & (holm(tests["p"]) >= 0.05)).sum()
        assert [said[dataset, name, "ece"] == "yes" for name in baselines] == (holm(tests["p"]) < 0.05).tolist()
        difference = estimate(resamples, pairs[0][0], "ece") - estimate(resamples, pairs[0][1], "ece")
        assert (tests["lower"][0], tests["upper"][0]) == difference.interval(0.9) != difference.interval(0.95)
    assert between > 0, "the adjustment decides somewhere"
