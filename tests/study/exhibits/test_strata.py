"""Confidence by level and by length, counted by hand."""

import pandas as pd
import pytest

from cocal_study.exhibits import strata

LAYOUT = strata.Layout(
    study="seven",
    backbone="small",
    backbone_label="Small",
    caption="A study of seven responses.",
    methods=("token-probability", "cocal-binary"),
    step=30,
    sets=({"name": "amc", "label": "AMC"}, {"name": "aime", "label": "AIME"}),
    limit=20,
    bins=10,
)
ASKED = [
    pd.DataFrame({"question_id": ["q1", "q2"], "level": [1, 3]}),
    pd.DataFrame({"question_id": ["q1", "q2"], "level": [3, 0]}),
]
"""One identity names questions of two sets and levels, and one level is unknown."""
ANSWERS = {
    "amc": [("q1", 11, True), ("q1", 20, True), ("q2", 21, False), ("q2", 12, True)],
    "aime": [("q1", 35, True), ("q1", 19, False), ("q2", 22, False)],
}
"""Question, length and verdict of each response."""
CONFIDENCES = {
    ("token-probability", -1): [0.9, 0.7, 0.35, 0.75, 0.5, 0.55, 0.15],
    ("cocal-binary", 42): [0.85, 0.45, 0.6, 0.95, 0.65, 0.25, 0.05],
    ("cocal-binary", 137): [0.8, 0.4, 0.1, 0.3, 0.2, 0.5, 0.7],
}


@pytest.fixture(scope="module")
def numbers():
    lengths = [
        pd.DataFrame(
            {
                "question_id": [one[0] for one in rows],
                "response_id": range(5, 5 + len(rows)),
                "length": [one[1] for one in rows],
            }
        )
        for rows in ANSWERS.values()
    ]
    told = [(name, 5 + place, right) for name, rows in ANSWERS.items() for place, (_, _, right) in enumerate(rows)]
    frames = []
    for (method, seed), values in CONFIDENCES.items():
        one = pd.DataFrame(told, columns=["dataset", "response_id", "correct"])
        at = {"backbone": "small", "algorithm": "grpo", "step": 30, "method": method, "seed": seed, "valid": True}
        frames.append(one.assign(confidence=values, **at).sample(frac=1, random_state=abs(seed)))
    other = frames[0].assign(step=20, confidence=0.99)
    found = strata.prepare(LAYOUT, pd.concat([*frames, other]), ASKED, lengths)
    return found.set_index(["stratum", "method", "metric"])


def test_strata_are_those_of_questions_and_responses(numbers):
    """Level 3 has the second question of one set and the first of the other; a length at the limit is not cut."""
    sizes = numbers["n"].groupby("stratum").agg(["min", "max"])
    assert sizes["min"].to_dict() == sizes["max"].to_dict() == {"level-1": 2, "level-3": 4, "short": 4, "long": 3}
    accuracy = numbers["value"].xs("accuracy", level="metric").xs("cocal-binary", level="method")
    assert accuracy.to_dict() == {"level-1": 1, "level-3": 0.5, "short": 0.75, "long": pytest.approx(1 / 3)}


def test_numbers_are_means_over_seeds(numbers):
    """Of level 3: wrong .35 and .55, right .75 and .5 for token probability, so that three of four pairs are in order;
    by the companions' seeds four and two of four."""
    value = numbers["value"]
    assert value["level-3", "token-probability", "auroc"] == pytest.approx(3 / 4)
    assert value["level-3", "cocal-binary", "auroc"] == pytest.approx((4 + 2) / 8)
    assert value["long", "token-probability", "mean_confidence"] == pytest.approx((0.35 + 0.5 + 0.15) / 3)
    assert value["long", "cocal-binary", "mean_confidence"] == pytest.approx((0.6 + 0.65 + 0.05 + 0.1 + 0.2 + 0.7) / 6)
    first, second = (0.15 + 0.55) / 2, (0.2 + 0.6) / 2
    assert value["level-1", "cocal-binary", "ece"] == pytest.approx((first + second) / 2)
    assert pd.isna(value["level-1", "cocal-binary", "auroc"]), "level 1 has no wrong answer"
