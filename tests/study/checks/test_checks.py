"""Protocol guards: each passes on a sound study and refuses the violation that it is there for."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from checked_study import (
    COMPANIONS,
    SEEDS,
    Study,
    held_out_of,
    main_predictions,
    predicted,
    sweep_predictions,
)
from cocal.errors import ContractError
from cocal.store import write_frame
from cocal_study.checks.predictions import check_fixed_responses, check_quality, read_predictions, sources_of
from cocal_study.checks.training import (
    check_disjoint,
    check_equal_budgets,
    check_groups,
    check_truncation,
    count_verdicts,
)
from cocal_study.config.evaluation import QualitySettings
from cocal_study.store.contracts import PREDICTIONS
from companion_run import GROUP, GROUPS, PER_STEP, STEPS
from evaluated_study import responses
from sample_predictions import doubtful_predictions

# Tables


def test_group_accuracy_is_that_of_the_original_group(sound: Study):
    table = sound.table("grpo")
    numbers = check_groups(table, "rollouts")
    assert (numbers["groups"], numbers["responses_per_group"]) == (STEPS * GROUPS, GROUP)
    kept = table["correct"].where(~table["truncated"]).astype(float)
    filtered = kept.groupby(table.index // GROUP).transform("mean")
    assert numbers["groups_changed_by_filtering"] == (filtered - table["group_accuracy"]).abs().gt(1e-6).sum() / GROUP
    assert numbers["groups_changed_by_filtering"] > 0
    with pytest.raises(ContractError, match="in a group of fewer than the 8 sampled responses"):
        check_groups(table[~table["truncated"]].reset_index(drop=True), "rollouts")


def test_a_question_that_a_step_holds_twice_has_two_groups(sound: Study):
    table = sound.table("grpo")
    table.loc[GROUP : 2 * GROUP - 1, "question_id"] = table["question_id"].iloc[0]
    assert table["group_accuracy"].iloc[0] != table["group_accuracy"].iloc[GROUP]
    assert check_groups(table, "rollouts")["groups"] == STEPS * GROUPS


def test_raw_budgets_are_equal_step_by_step(sound: Study):
    rollouts, resampled = sound.table("grpo"), sound.table("postcal")
    assert check_equal_budgets(rollouts, resampled, [1, 3]) == [
        {"steps": n, "questions": n * GROUPS, "rollouts": n * PER_STEP, "resampled": n * PER_STEP} for n in (1, 3)
    ]
    with pytest.raises(ContractError, match="'q-0' of train has 8 rollouts and 7 resampled responses"):
        check_equal_budgets(rollouts, resampled.iloc[1:], [1])
    with pytest.raises(ContractError, match=r"step 3: .* has 8 rollouts and 0 resampled"):
        check_equal_budgets(rollouts, resampled[resampled["step"] < 3], [1])
    other = resampled.assign(step=4 - resampled["step"])  # the same questions, at other steps
    with pytest.raises(ContractError, match=r"step 1: .*resample these questions anew"):
        check_equal_budgets(rollouts, other, [1])


# Companions


@pytest.mark.parametrize("word", COMPANIONS)
def test_validation_is_question_disjoint(sound: Study, word: str):
    fit = sound.fit(word)
    table = sound.table("grpo" if fit.experience == "rollouts" else "postcal")
    held_out = held_out_of(table)
    numbers = check_disjoint(fit, table, held_out)
    assert numbers["training_questions"] > numbers["validation_questions"] > 0
    by_row = np.random.default_rng(0).random(len(table)) < 0.1
    with pytest.raises(ContractError, match=r"question 'what is \d+ \+ \d+\?' has responses in training and in valid"):
        check_disjoint(fit, table, by_row)
    complete = ~table["truncated"].to_numpy()
    first, second = np.flatnonzero(complete & held_out)[0], np.flatnonzero(complete & ~held_out)[0]
    table.loc[first, "question"] = table["question"].iloc[second].upper()  # one text under two ids
    with pytest.raises(ContractError, match="in training and in validation"):
        check_disjoint(fit, table, held_out)


@pytest.mark.parametrize("word", COMPANIONS)
def test_truncated_responses_were_left_out(sound: Study, word: str):
    fit = sound.fit(word)
    table = sound.table("grpo" if fit.experience == "rollouts" else "postcal")
    held_out, prefix = held_out_of(table), table["step"] <= fit.spec.steps
    numbers = check_truncation(fit, table, held_out)
    assert numbers["responses"] == fit.spec.steps * PER_STEP
    assert numbers["truncated"] == table["truncated"][prefix].sum() > 0
    later = (held_out & ~table["truncated"])[~prefix & (table["step"] <= fit.spec.validation_steps)].sum()
    assert numbers["training"] + numbers["validation"] + numbers["truncated"] == numbers["responses"] + later
    used = table.assign(truncated=False)  # as if the fit had left out responses that are not truncated
    with pytest.raises(ContractError, match=r"training_responses is \d+, but .* hold \d+ that are not truncated"):
        check_truncation(fit, used, held_out)
    row = int(np.flatnonzero(~table["truncated"] & ~held_out)[0])
    relabelled = table.assign(correct=table["correct"] ^ (table.index == row))
    with pytest.raises(ContractError, match=r"training_error_share is 0\.\d+, but 0\.\d+ of the training"):
        check_truncation(fit, relabelled, held_out)
    with pytest.raises(ContractError, match=r"steps-\S+: fitted on \d steps, but there are only 0 of"):
        check_truncation(fit, table.assign(step=0), held_out)


# Predictions


def test_predictions_tell_the_companions_behind_them():
    assert sources_of(sweep_predictions()) == {"cocal-binary": ["1/3", "3"], "postcal-binary": ["1/3", "3"]}
    assert sources_of(predicted("p-true")) == {}


def test_fixed_responses_are_shared_across_files():
    table, sweep = main_predictions(), sweep_predictions()
    assert check_fixed_responses([table, sweep]) == [
        {"algorithm": "grpo", "step": 3, "dataset": "sums", "responses": 10, "estimators": 1 + 6 * len(SEEDS)}
    ]
    for column in ("correct", "truncated"):
        other = sweep.assign(**{column: ~sweep[column]})[sweep["source_step"] == 1]
        with pytest.raises(ContractError, match="not evaluated on the same fixed responses"):
            check_fixed_responses([table, other])
    with pytest.raises(ContractError, match=r"cocal-binary \(steps 3, seed 42\) has two different predictions"):
        check_fixed_responses([table, sweep.assign(confidence=0.5)])


def test_rates_below_their_floors_are_named_with_method_and_set(caplog):
    with caplog.at_level(logging.WARNING):
        looked_at = check_quality(doubtful_predictions(), QualitySettings(), "main.parquet")
    by_cell = {(one["method"], one["dataset"]): one for one in looked_at}
    assert len(by_cell) == 6
    one = by_cell["verbal", "amc23"]
    assert (one["valid_rate"], one["answered_rate"], one["decided_rate"]) == (0.75, 0.8, 0.975)
    assert one["below"] == {"valid_rate": 0.9, "answered_rate": 0.9, "decided_rate": 0.99}
    assert by_cell["p-true", "amc23"]["below"]["p_true_mass"] == 0.5
    assert by_cell["cocal-binary", "amc24"]["below"] == {}
    assert "p_true_mass" not in by_cell["cocal-binary", "amc24"]
    json.dumps(looked_at, allow_nan=False)
    told = [record.getMessage() for record in caplog.records]
    of_verbal = (
        "main.parquet: verbal of grpo step 60 on amc23: the valid rate is 0.7500, below quality.valid_rate = 0.9"
    )
    assert of_verbal in told
    assert len(told) == sum(len(one["below"]) for one in looked_at)


def test_training_responses_without_answer_or_verdict_are_counted():
    table = responses().assign(decided=lambda rows: rows["response_id"] > 2)
    assert count_verdicts(table) == {"responses": 40, "without_answer": 1, "undecided": 3}


@pytest.mark.parametrize(("column", "value"), [("backbone", "other"), ("method", "oracle")])
def test_predictions_of_something_else_are_refused(tmp_path: Path, column: str, value: str):
    file = tmp_path / "x.parquet"
    write_frame(file, predicted("p-true").assign(**{column: value}), PREDICTIONS, {})
    with pytest.raises(ContractError, match=rf"x\.parquet: column '{column}' has '{value}'; it may have"):
        read_predictions(file, "tiny")
