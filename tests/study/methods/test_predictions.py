"""Each method without a companion against its equation, and the protocol that predictions keep."""

import numpy as np
import pandas as pd
import pytest

from cocal.answers.extraction import parse_confidence
from cocal.errors import ConfigError, ContractError
from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.methods import METHODS
from cocal_study.generation.responses import p_true
from cocal_study.methods import token_probability
from cocal_study.methods.base.predictions import check_shared_responses
from cocal_study.methods.self_consistency import self_consistency
from evaluated_study import POOL, QUESTIONS, SAMPLES, SHARED
from sample_predictions import OURS

# Equations of appendix B.1


def test_token_probability_is_the_exponential_of_the_mean_with_the_end_of_sequence_token(study):
    """The last token is improbable: leaving it out would give 1."""
    study.frame.loc[0, "length"] = 3
    study.frame.at[0, "response_ids"] = [5, 6, 2]
    study.frame.at[0, "logprobs"] = np.log(np.array([1.0, 1.0, 0.001], dtype=np.float32))
    study.frame.loc[0, "mean_logprob"] = np.log(0.001) / 3
    confidence = study.run("token-probability")["confidence"]
    assert confidence[0] == pytest.approx(0.1, rel=1e-5)
    assert token_probability.score(pd.DataFrame({"mean_logprob": [-0.1]}), study.estimators) == np.exp(-0.1)


def test_self_consistency_is_the_share_of_the_pool_with_itself_in_any_order(study):
    shares = self_consistency([0, 0, 1, -1, 0, 0, 0, 0], ["a"] * 4 + ["b"] * 4)
    np.testing.assert_array_equal(shares, [0.5, 0.5, 0.25, np.nan, 1, 1, 1, 1])
    classes, pools = study.frame["answer_class"], study.frame["question_id"]
    order = np.random.default_rng(3).permutation(len(classes))
    shuffled = self_consistency(classes.iloc[order], pools.iloc[order].tolist())
    np.testing.assert_array_equal(shuffled, self_consistency(classes, pools.tolist())[order])


def test_the_pool_is_all_ten_responses_though_two_are_evaluated(study):
    study.frame["answer"] = np.tile(["5"] + ["6"] * 2 + ["5"] * 6 + [None], QUESTIONS)
    study.frame["answer_class"] = np.tile([0] + [1] * 2 + [0] * 6 + [-1], QUESTIONS)
    assert study.run("self-consistency")["confidence"].tolist() == [0.7, 0.2] * QUESTIONS


@pytest.mark.parametrize(("setting", "confidence"), [("zero", 0.0), ("invalid", np.nan)])
def test_a_missing_answer_follows_the_setting(study, setting, confidence):
    study.estimators = EstimatorSettings(missing_answer=setting)
    row = study.run("self-consistency").iloc[0]
    np.testing.assert_equal(row["confidence"], confidence)
    assert row["valid"] == (setting == "zero")


def test_p_true_is_a_ratio_without_underflow_and_keeps_the_probability_that_it_divides_up(study):
    found = p_true(np.log([0.2, 1e-9, 0.6]), np.log([0.6, 3e-9, 0.4]))
    np.testing.assert_allclose(found.ratio, [0.25, 0.25, 0.6])
    np.testing.assert_allclose(found.mass, [0.8, 4e-9, 1.0])
    np.testing.assert_allclose(p_true([-1000.0, -2000.0, 0.0], [-1000.0, -1.0, -2000.0]).ratio, [0.5, 0.0, 1.0])
    assert (p_true(np.log([0.5, 0.7]), np.log([0.5, 0.3 + 1e-9])).mass <= 1.0).all()
    assert study.run("p-true")["confidence"].tolist() == study.evaluated()["p_true"].tolist()


def test_verbal_confidences_are_those_of_its_own_responses_and_never_imputed(study):
    texts = ["CONFIDENCE: 0.8", "CONFIDENCE: 85%", "CONFIDENCE: 0", "none", "CONFIDENCE: 1.2", *["CONFIDENCE: 1"] * 3]
    study.verbal["confidence"] = [np.nan if (c := parse_confidence(t)) is None else c for t in texts]
    table = study.run("verbal", "token-probability")
    verbal = table[table["method"] == "verbal"]
    np.testing.assert_array_equal(verbal["confidence"], [0.8, np.nan, 0, np.nan, np.nan, 1, 1, 1])
    assert verbal["valid"].tolist() == [True, False, True, False, False, True, True, True]
    assert verbal["correct"].tolist() == study.verbal["correct"].tolist()
    assert (verbal["seed"] == -1).all()


@pytest.mark.parametrize("method", ["rlcr", "dcpo"])
def test_coupled_methods_state_their_confidence_in_their_own_format(study, method):
    study.algorithm = study.prompt_format = method
    study.verbal["confidence"] = [0.25, np.nan, *[0.5] * 6]
    table = study.run(method)
    np.testing.assert_array_equal(table["confidence"], study.verbal["confidence"])
    assert set(table["seed"]) == set(table["source_step"]) == {-1}
    assert table["correct"].tolist() == study.verbal["correct"].tolist()
    study.prompt_format = "verbal"
    with pytest.raises(ConfigError, match=f"{method} needs responses in the {method} format; none are given"):
        study.run(method)


# Protocol


def test_every_evaluated_response_has_a_row_with_its_facts(study):
    """Also the truncated, wrong and unanswered ones, and those without a valid confidence (appendix A.2)."""
    study.frame["decided"] = study.frame["response_id"] != 1
    study.frame["exact_match"] = study.frame["response_id"] % 3 == 0
    table, evaluated = study.run(*SHARED, "verbal"), study.evaluated()
    own = table[table["method"] == "verbal"]
    assert len(own) == QUESTIONS * SAMPLES
    assert not own["valid"].any()
    assert own["confidence"].isna().all()
    for (method, *_), rows in table.drop(own.index).groupby(["method", "seed", "source_step"]):
        for name in ("response_id", "truncated", "correct", "decided", "exact_match"):
            assert rows[name].tolist() == evaluated[name].tolist(), name
        assert rows["answered"].tolist() == evaluated["answer"].notna().tolist()
        mass = evaluated["p_true_mass"] if method == "p-true" else evaluated["p_true_mass"] * np.nan
        np.testing.assert_array_equal(rows["p_true_mass"], mass)
    assert evaluated["truncated"].sum() == 2
    assert evaluated["answer"].isna().any()
    assert table["method"].unique().tolist() == [name for name in METHODS if name in set(table["method"])]


def test_fixed_responses_are_shared(study):
    """Exactly the methods that appendix B.1 lists, on one file."""
    assert {name for name in OURS if METHODS[name].prompt_format == "answer"} == set(SHARED)
    table = study.run(*SHARED, "verbal")
    check_shared_responses(table)
    other = table.copy()
    row = other.index[other["method"] == "p-true"][1]
    other.loc[row, "correct"] = ~other.loc[row, "correct"]
    with pytest.raises(ContractError, match=r"p-true.*not evaluated on the same fixed responses"):
        check_shared_responses(other)
    with pytest.raises(ContractError, match=r"token-probability.*not evaluated on the same fixed responses"):
        check_shared_responses(table.drop(index=table.index[table["method"] == "token-probability"][0]))
    verbal = table.copy()
    verbal.loc[verbal["method"] == "verbal", "correct"] ^= True  # own responses: free to differ
    check_shared_responses(verbal)


@pytest.mark.parametrize(
    ("rows", "column", "value", "method", "message"),
    [
        (3, "step", 40, "token-probability", "column 'step' is 40 at row 3, not 60"),
        (3, "dataset", "products", "token-probability", "column 'dataset' is products at row 3, not sums"),
        (4, "sample", 1, "token-probability", "question 'q0', sample 1, is missing or repeats"),
        (POOL + 1, None, None, "token-probability", "question 'q1', sample 1, is missing or repeats"),
        (QUESTIONS * POOL - 1, None, None, "self-consistency", r"question 'q3' has 9 responses.*pool of 10"),
        ([5, 7], "answer_class", np.nan, "self-consistency", r"'answer_class' is null in 2 row\(s\), first in row 5"),
        (1, ["p_true", "p_true_mass"], np.nan, "p-true", "column 'p_true' is null for 1 .*response_id 1;"),
    ],
)
def test_responses_that_do_not_do_are_refused(study, rows, column, value, method, message):
    if column is None:
        study.frame = study.frame.drop(index=rows)
    else:
        study.frame.loc[rows, column] = value
    with pytest.raises(ContractError, match=rf"sums\.parquet: .*{message}"):
        study.run(method)


@pytest.mark.parametrize(
    ("confidences", "found"),
    [
        (lambda rows: np.linspace(-2.75, 0.5, len(rows)), "from -2.75 to 0.5"),
        (lambda rows: [0.5] * (len(rows) + 1), r"of shape \({wrong},\) and type float64"),
        (lambda rows: ["0.5"] * len(rows), r"of shape \({right},\) and type <U3"),
    ],
)
def test_confidences_of_another_form_name_the_method(study, monkeypatch, confidences, found):
    def score(table, settings):
        return confidences(table)

    monkeypatch.setattr(token_probability, "score", score)
    count = len(study.evaluated())
    found = found.format(wrong=count + 1, right=count)
    with pytest.raises(
        ContractError, match=rf"^token-probability: its confidences in responses of sums are {found}; ret"
    ):
        study.run("token-probability")


def test_a_method_of_another_policy_is_refused(study):
    with pytest.raises(ConfigError, match="base-verbal is evaluated on responses of the base policy, not of grpo"):
        study.run("base-verbal")
    with pytest.raises(ConfigError, match="methods: none given"):
        study.run()
    study.algorithm = "base"
    assert study.run("base-verbal")["method"].unique().tolist() == ["base-verbal"]
