"""The table of decisions: choices among several responses, abstention and routing, counted once by loops."""

from pathlib import Path

import pytest

from cocal.errors import ContractError
from cocal_study.config.evaluation import DecisionSettings
from cocal_study.exhibits import decisions
from decided import LAYOUT, pool, predictions
from exhibits_by_name import exhibits_by_name
from golden import assert_golden
from planned_jobs import study_of


@pytest.fixture(scope="module")
def frame():
    return predictions()


@pytest.fixture(scope="module")
def responses():
    return [pool("amc"), pool("aime")]


def test_choices_abstentions_and_routes_are_those_of_plain_counting(frame, responses):
    """The file was compared with loops over questions and responses, with thresholds that are certified on one half of
    the questions and tried on the other, and with the most confident questions, ties by their share."""
    rare = LAYOUT.model_copy(update={"decisions": DecisionSettings(splits=5, max_risk=0.001)})
    for name, layout in (("counted", LAYOUT), ("rare", rare)):
        lines = decisions.prepare(layout, frame, responses).to_csv(index=False, float_format="%.6g").splitlines()
        assert_golden(Path(__file__).parent / f"golden/decisions_{name}.txt", lines)


def test_a_method_without_predictions_is_named(frame, responses):
    with pytest.raises(ContractError, match="none of method 'token-prob"):
        decisions.prepare(LAYOUT, frame[frame["method"] != "token-probability"], responses)


def test_studies_have_the_table_where_there_is_a_choice():
    paper = exhibits_by_name(study_of("paper"))["decisions"]
    assert {one.name: one.samples for one in paper.layout.sets} == dict.fromkeys(
        ["aime24", "aime25", "amc23", "amc24"], 10
    )
    assert "self-consistency" not in paper.layout.methods
    assert {"p-true", "token-probability", "cocal-group", "cocal-pre-generation"} <= {*paper.layout.methods}
    smoke = study_of("smoke")
    assert [one.name for one in exhibits_by_name(smoke)["decisions"].layout.sets] == ["smoke-small"]
    single = {name: one.model_copy(update={"samples": 1}) for name, one in smoke.datasets.items()}
    assert "decisions" not in exhibits_by_name(smoke.model_copy(update={"datasets": single}))
    few = smoke.estimators.model_copy(update={"methods": ("p-true", "cocal-binary")})  # answers are not compared
    assert "decisions" not in exhibits_by_name(smoke.model_copy(update={"estimators": few}))
