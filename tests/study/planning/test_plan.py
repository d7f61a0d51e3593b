"""The plan of the embedded study: checkpoints, sets, methods, companions."""

import pytest

from cocal_study.planning import plan
from exhibits_by_name import exhibit_of, exhibits_by_name
from planned_jobs import study_of


@pytest.fixture(scope="module")
def study():
    return study_of("config")


def test_what_a_policy_states_is_evaluated_wherever_it_is_drawn_beside_a_companion(study):
    """Also where the reports do not show it at the stages, as in the laptop study."""
    reports = study.reports.model_copy(update={"stage_methods": ("cocal-binary",)})
    less = study.model_copy(update={"reports": reports})
    assert plan.methods_of(less, "tiny", "rlcr", 40) == ["rlcr", "cocal-on-rlcr"]
    assert plan.methods_of(less, "tiny", "grpo", 40) == ["cocal-binary"]
    layout = exhibit_of(less, "cross_policy").layout
    assert layout.methods == ("rlcr", "cocal-on-rlcr", "dcpo", "cocal-on-dcpo")


@pytest.mark.parametrize("name", ["config", "smoke", "paper", "single-gpu", "laptop", "card", "rehearsal"])
def test_budgets_have_counterparts_and_their_validation_is_that_of_the_paper(name):
    """A companion is validated on its own prefix or on all steps (appendices A.1, C.2 and E.1); PostCal's are budgets,
    each of which CoCal has, too."""
    study = study_of(name)
    for backbone in study.backbones:
        ours, theirs = (plan.companion_prefixes(study, backbone, one) for one in ("rollouts", "resampled"))
        assert set(theirs) <= set(ours)
        assert {prefix.validation_steps for prefix in theirs} == {study.policy.steps}
        assert all(prefix.validation_steps in (prefix.steps, study.policy.steps) for prefix in ours)


def test_methods_of_policies_that_are_not_trained_drop_out(study):
    """`estimators.methods` holds all methods by default."""
    alone, rlcr = (
        study.model_copy(update={"policy": study.policy.model_copy(update={"algorithms": algorithms})})
        for algorithms in (("grpo",), ("grpo", "rlcr"))
    )
    assert plan.available_methods(study) == list(study.estimators.methods)
    gone = {"rlcr", "dcpo", "cocal-on-rlcr", "cocal-on-dcpo"}
    assert plan.available_methods(alone) == [m for m in study.estimators.methods if m not in gone]
    of_all, of_alone, of_rlcr = (
        {name: exhibit.layout for name, exhibit in exhibits_by_name(one).items()} for one in (study, alone, rlcr)
    )
    assert of_alone["main"].methods == tuple(m for m in of_all["main"].methods if m not in gone)
    stages = of_alone["main_step40"].methods
    assert stages == of_alone["training_dynamics"].methods == ("cocal-group", "cocal-binary")
    assert of_alone["reliability"].methods == ("verbal", "cocal-group", "cocal-binary")
    assert "rlcr" in of_rlcr["reliability"].methods
    assert "dcpo" not in of_rlcr["reliability"].methods
    assert of_rlcr["cross_policy"].methods == ("rlcr", "cocal-on-rlcr")
    assert "cross_policy" not in of_alone


def test_the_final_block_is_always_stored(study):
    some = study.model_copy(update={"features": study.features.model_copy(update={"layers": (0,)})})
    assert plan.layers_of(some, "small") == plan.layers_of(study, "small") == [0, 1]
