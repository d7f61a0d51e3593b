"""What follows from the embedded study: checkpoints, sets, methods, companions."""

import pytest

from cocal.config import load_study
from cocal.study import plan
from exhibits_by_name import exhibit_of, exhibits_by_name

FACTUAL = ["mathematics", "factual"]


@pytest.fixture(scope="module")
def study(repository):
    return load_study(repository / "config/config.yaml")


@pytest.mark.parametrize(
    ("cell", "methods", "domains"),
    [
        (("tiny", "base", 0), ["base-verbal"], FACTUAL),
        (("tiny", "grpo", 20), ["cocal-group", "cocal-binary"], ["mathematics"]),
        (("tiny", "rlcr", 20), ["rlcr", "cocal-on-rlcr"], ["mathematics"]),
        (("tiny", "dcpo", 60), ["dcpo", "cocal-on-dcpo"], FACTUAL),
        (("small", "rlcr", 60), ["rlcr"], ["mathematics"]),
        (("small", "rlcr", 20), [], ["mathematics"]),
        (("small", "grpo", 40), [], ["mathematics"]),
    ],
)
def test_methods_and_domains_of_a_checkpoint(study, cell, methods, domains):
    assert plan.methods_of(study, *cell) == methods
    assert plan.domains_of(study, *cell) == domains


def test_the_final_policy_is_judged_by_everything(study):
    methods = plan.methods_of(study, "tiny", "grpo", 60)
    assert methods[0] == "verbal"
    assert methods[-1] == "cocal-pre-generation"
    assert len(methods) == 9
    assert plan.methods_of(study, "small", "grpo", 60) == methods[:-1]
    assert plan.prompt_formats_of(study, "tiny", "grpo", 60) == ["verbal", "answer"]
    assert plan.feature_prompt_formats(study, "tiny", "grpo", 60) == ["answer"]
    assert plan.experiences_of(methods) == ["resampled", "rollouts", "prompts"]


def test_sweeps_compare_stages_prefixes_and_budgets(study):
    def words(prefixes):
        return list(map(str, prefixes))

    # Prefixes of stages and early steps validate on themselves (appendices A.1, C.2), budgets on all steps (E.1).
    assert words(plan.sweep_prefixes(study, 20)) == ["2", "5", "10", "15", "20", "40", "60"]
    assert words(plan.sweep_prefixes(study, 40)) == words(plan.sweep_prefixes(study, 60)) == ["20", "40", "60"]
    budgets = ["1/60", "2/60", "5/60", "10/60", "20/60", "30/60", "45/60", "60"]
    assert words(plan.budget_prefixes(study)) == words(plan.companion_prefixes(study, "tiny", "resampled")) == budgets
    assert words(plan.companion_prefixes(study, "small", "rollouts")) == ["60"]
    assert words(plan.companion_prefixes(study, "tiny", "prompts")) == ["60"]
    fitted = words(plan.companion_prefixes(study, "tiny", "rollouts"))
    assert set(fitted) == {*budgets, "2", "5", "10", "15", "20", "40"}
    assert len(set(fitted)) == len(fitted)
    assert plan.sweep_methods(study) == ["cocal-group", "cocal-binary"]
    assert plan.budget_methods(study) == ["postcal-group", "postcal-binary", "cocal-group", "cocal-binary"]


def test_layers(study):
    assert plan.layers_of(study, "small") == [0, 1, 2, 3, 4]
    assert plan.ablation_states(study, "tiny") == ["0/last+mean", "1/last+mean", "2/last", "2/mean"]
    some = study.model_copy(update={"features": study.features.model_copy(update={"layers": (1,)})})
    assert plan.layers_of(some, "small") == [1, 4]
    assert plan.feature_settings(study, "grpo", 60, "mathematics").layers == "all"
    for cell in (("grpo", 40, "mathematics"), ("grpo", 60, "factual"), ("dcpo", 60, "mathematics")):
        assert plan.feature_settings(study, *cell).layers == "final"


def test_answers_are_compared_where_self_consistency_is_asked_for(study):
    def asked(algorithm, prompt_format):
        sets = plan.response_plan(study, "tiny", algorithm, 60, prompt_format, ["syn-squad", "syn-amc23"]).sets
        return [how.pool for how in sets.values()]

    assert asked("grpo", "answer") == [True, True]
    assert asked("grpo", "verbal") == asked("dcpo", "dcpo") == [False, False]


def test_the_table_of_factual_answers_names_the_judge(study):
    layout = exhibit_of(study, "ood").layout
    assert layout.remark.endswith("Answers are judged by exact match.")
    assert layout.sets == "factual set"
    settings = {"kind": "llm", "checkpoint": "Qwen/Qwen2.5-32B-Instruct", "revision": "5ede1c9"}
    judged = type(study).model_validate(study.model_dump() | {"judge": settings})
    assert exhibit_of(judged, "ood").layout.remark.endswith("Answers are judged by Qwen2.5-32B-Instruct.")


def test_a_study_of_fewer_methods_shows_less(study):
    fewer = study.estimators.model_copy(update={"methods": ("verbal", "rlcr", "cocal-binary", "cocal-on-rlcr")})
    small = study.model_copy(update={"estimators": fewer})
    less = {"pre_generation", "cost", "budgets", "cross_policy"}
    assert {"layers", "main", *less} <= set(exhibits_by_name(study))
    assert {"layers", "main"} <= set(exhibits_by_name(small))
    assert not less & set(exhibits_by_name(small))


def _trained(study, *algorithms):
    return study.model_copy(update={"policy": study.policy.model_copy(update={"algorithms": algorithms})})


def test_methods_of_policies_that_are_not_trained_drop_out(study):
    """`estimators.methods` holds all methods by default."""
    alone, rlcr = _trained(study, "grpo"), _trained(study, "grpo", "rlcr")
    assert plan.available_methods(study) == list(study.estimators.methods)
    gone = {"rlcr", "dcpo", "cocal-on-rlcr", "cocal-on-dcpo"}
    assert plan.available_methods(alone) == [m for m in study.estimators.methods if m not in gone]
    of_all, of_alone, of_rlcr = (
        {name: exhibit.layout for name, exhibit in exhibits_by_name(one).items()} for one in (study, alone, rlcr)
    )
    assert of_alone["main"].methods == tuple(m for m in of_all["main"].methods if m not in gone)
    stages = of_alone["main_step20"].methods
    assert stages == of_alone["training_dynamics"].methods == ("cocal-group", "cocal-binary")
    assert of_alone["reliability"].methods == ("verbal", "cocal-group", "cocal-binary")
    assert "rlcr" in of_rlcr["reliability"].methods
    assert "dcpo" not in of_rlcr["reliability"].methods
    assert of_rlcr["cross_policy"].methods == ("rlcr", "cocal-on-rlcr")
    assert "cross_policy" not in of_alone


def test_what_has_no_method_to_show_is_left_out(study):
    one = study.model_copy(update={"estimators": study.estimators.model_copy(update={"methods": ("p-true",)})})
    shown = set(exhibits_by_name(one))
    assert "main" in shown
    assert not {"main_step20", "training_dynamics", "reliability", "reliability_all", "cross_policy"} & shown
