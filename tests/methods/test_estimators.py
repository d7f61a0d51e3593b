"""Each estimator against its equation, and the protocol that predictions keep."""

import numpy as np
import pytest

from cocal.answers.confidence import parse_confidence
from cocal.config.evaluation import EstimatorSettings
from cocal.config.methods import METHODS
from cocal.errors import ConfigError, ContractError
from cocal.generation.p_true import p_true
from cocal.methods.predictions import check_shared_responses
from cocal.methods.self_consistency import self_consistency
from cocal.methods.token_probability import token_probability
from evaluated_study import POOL, QUESTIONS, SAMPLES, SHARED, EvaluatedStudy
from sample_predictions import OURS


@pytest.fixture
def study(tmp_path):
    """Responses that a test may change before they are written."""
    return EvaluatedStudy(tmp_path)


# Equations of appendix B.1


def test_token_probability_is_the_exponential_of_the_mean():
    np.testing.assert_allclose(token_probability([np.log([0.5, 0.125]).mean(), 0.0]), [0.25, 1.0])
    assert token_probability([-0.1])[0] == np.exp(-0.1), "in double precision"


def test_token_probability_includes_the_end_of_sequence_token(study):
    """The last token is improbable: leaving it out would give 1."""
    study.frame.loc[0, "length"] = 3
    study.frame.at[0, "response_ids"] = [5, 6, 2]
    study.frame.at[0, "logprobs"] = np.log(np.array([1.0, 1.0, 0.001], dtype=np.float32))
    study.frame.loc[0, "mean_logprob"] = np.log(0.001) / 3
    confidence = study.run("token-probability")["confidence"]
    assert confidence[0] == pytest.approx(0.1, rel=1e-5)
    study.frame.loc[0, "mean_logprob"] = 0.0  # the mean without it
    with pytest.raises(ContractError, match=r"sums\.parquet: mean_logprob must be the mean of logprobs.*first 0"):
        study.run("token-probability")


def test_p_true_is_a_ratio_without_underflow():
    np.testing.assert_allclose(p_true(np.log([0.2, 0.3]), np.log([0.6, 0.1])).ratio, [0.25, 0.75])
    np.testing.assert_allclose(p_true([-1000.0, -2000.0, 0.0], [-1000.0, -1.0, -2000.0]).ratio, [0.5, 0.0, 1.0])


def test_self_consistency_is_the_share_of_the_pool_with_itself():
    shares = self_consistency([0, 0, 1, -1, 0, 0, 0, 0], ["a"] * 4 + ["b"] * 4)
    np.testing.assert_array_equal(shares, [0.5, 0.5, 0.25, np.nan, 1, 1, 1, 1])


def test_self_consistency_does_not_depend_on_the_order_of_the_pool(study):
    classes, pools = study.frame["answer_class"], study.frame["question_id"]
    order = np.random.default_rng(3).permutation(len(classes))
    shuffled = self_consistency(classes.iloc[order], pools.iloc[order].tolist())
    np.testing.assert_array_equal(shuffled, self_consistency(classes, pools.tolist())[order])


def test_answers_that_nobody_compared_are_refused(study):
    study.frame.loc[[5, 7], "answer_class"] = np.nan
    with pytest.raises(
        ContractError, match=r"sums\.parquet: column 'answer_class' is null in 2 row\(s\), first in row 5"
    ):
        study.run("self-consistency")
    study.run("token-probability")  # needs no classes


@pytest.mark.parametrize(("row", "value"), [(0, 3), (1, -1)])
def test_classes_belong_to_answers(study, row, value):
    """Row 0 has no answer, row 1 has one."""
    study.frame.loc[row, "answer_class"] = value
    with pytest.raises(ContractError, match=rf"sums\.parquet: answer_class must be -1 without .* 1 row.*first {row};"):
        study.run("self-consistency")


def test_a_class_is_a_whole_number(study):
    study.frame.loc[3, "answer_class"] = 0.5
    with pytest.raises(
        ContractError, match=r"sums\.parquet: column 'answer_class' fails whole_number at row\(s\) 3: 0\.5"
    ):
        study.run("self-consistency")


def test_pool_is_all_ten_responses_though_two_are_evaluated(study):
    study.frame["answer"] = np.tile(["5"] + ["6"] * 2 + ["5"] * 6 + [None], QUESTIONS)
    study.frame["answer_class"] = np.tile([0] + [1] * 2 + [0] * 6 + [-1], QUESTIONS)
    table = study.run("self-consistency")
    assert len(table) == QUESTIONS * SAMPLES
    assert table["confidence"].tolist() == [0.7, 0.2] * QUESTIONS


@pytest.mark.parametrize(("setting", "confidence"), [("zero", 0.0), ("invalid", np.nan)])
def test_missing_answer_follows_the_setting(study, setting, confidence):
    study.estimators = EstimatorSettings(missing_answer=setting)
    row = study.run("self-consistency").iloc[0]
    np.testing.assert_equal(row["confidence"], confidence)
    assert row["valid"] == (setting == "zero")


def test_pool_of_another_size_is_refused(study):
    study.frame = study.frame.drop(index=len(study.frame) - 1)
    with pytest.raises(ContractError, match=r"sums\.parquet: question 'q3' has 9 responses.*pool of 10"):
        study.run("self-consistency")


# Protocol


def test_truncated_and_wrong_responses_stay(study):
    table = study.run(*SHARED)
    for _, rows in table.groupby(["method", "seed", "source_step"]):
        assert rows["response_id"].tolist() == study.evaluated()["response_id"].tolist()
        assert rows["truncated"].sum() == 2
        assert rows["correct"].tolist() == study.evaluated()["correct"].tolist()


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


def test_no_valid_confidence_still_gives_all_rows(study):
    table = study.run("verbal")
    assert len(table) == QUESTIONS * SAMPLES
    assert not table["valid"].any()
    assert table["confidence"].isna().all()


def test_p_true_is_the_ratio_that_was_measured(study):
    table = study.run("p-true")
    assert table["confidence"].tolist() == study.evaluated()["p_true"].tolist()


def test_p_true_that_was_not_asked_for_is_an_error(study):
    study.frame.loc[1, ["p_true", "p_true_mass"]] = np.nan
    with pytest.raises(ContractError, match=r"sums\.parquet: column 'p_true' is null for 1 .*response_id 1;"):
        study.run("p-true")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("step", 40, "column 'step' is 40 at row 3, not 60"),
        ("dataset", "products", "column 'dataset' is products at row 3, not sums"),
    ],
)
def test_responses_of_something_else_are_refused(study, column, value, message):
    study.frame.loc[3, column] = value
    with pytest.raises(ContractError, match=message):
        study.run("token-probability")


def test_missing_sample_is_refused(study):
    study.frame = study.frame.drop(index=POOL + 1)
    with pytest.raises(ContractError, match="question 'q1', sample 1, is missing or repeats"):
        study.run("token-probability")


def test_repeated_sample_is_refused(study):
    study.frame.loc[4, "sample"] = 1
    with pytest.raises(ContractError, match="question 'q0', sample 1, is missing or repeats"):
        study.run("token-probability")


def test_method_of_another_policy_is_refused(study):
    with pytest.raises(ConfigError, match="base-verbal is evaluated on responses of the base policy, not of grpo"):
        study.run("base-verbal")
    with pytest.raises(ConfigError, match="methods: none given"):
        study.run()
    study.algorithm = "base"
    assert study.run("base-verbal")["method"].unique().tolist() == ["base-verbal"]
    with pytest.raises(ConfigError, match="verbal is evaluated on responses of the grpo policy, not of base"):
        study.run("verbal")


def test_methods_stand_in_the_order_of_the_registry(study):
    table = study.run("p-true", "self-consistency", "token-probability")
    assert table["method"].unique().tolist() == [name for name in METHODS if name in set(table["method"])]
