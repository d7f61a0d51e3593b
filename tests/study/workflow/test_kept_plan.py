"""A study that has run holds what it plans: settings, order and seeds of companions, and the content of predictions."""

import pytest

from cocal.companion.spec import Prefix, companion_members, read_spec
from cocal.store import read_frame
from cocal_study.config.methods import METHODS
from cocal_study.planning import baselines, plan
from cocal_study.planning.comparisons import comparisons, samples_of
from cocal_study.planning.results import ORDERS
from cocal_study.planning.variants import ablation_folders, variant_of
from cocal_study.store.contracts import PREDICTIONS
from planned_jobs import study_of

STUDY = study_of("smoke")


@pytest.mark.parametrize("backbone", STUDY.backbones)
def test_companions_have_the_settings_order_and_members_that_the_study_plans(smoke, backbone):
    methods = plan.methods_of(STUDY, backbone, "grpo", STUDY.policy.steps)
    fitted = dict.fromkeys(
        ablation_folders(STUDY, backbone), ("chronological", variant_of(STUDY, backbone, "ablations")["settings"])
    )
    for kind in plan.experiences_of(methods):
        settings = plan.prompt_companion(STUDY) if kind == "prompts" else STUDY.companion
        folders = plan.fitted(backbone, kind, *plan.companion_prefixes(STUDY, backbone, kind))
        fitted |= dict.fromkeys(folders, (ORDERS[kind], settings))
    if folder := backbone == STUDY.main_backbone and baselines.reader_folders(STUDY, "grpo").get(baselines.ONE_LAYER):
        fitted[folder] = "chronological", variant_of(STUDY, backbone, baselines.ONE_LAYER)["settings"]
    assert {order for order, _ in fitted.values()} >= {"chronological"}
    for folder, (order, settings) in fitted.items():
        spec = read_spec(smoke / folder)
        assert (spec.order, spec.settings) == (order, settings), folder
        assert (spec.shuffle_seed is None) == (order != "shuffled"), folder
        assert len(spec.best_pass) == len(companion_members(settings)) == len(settings.targets) * len(settings.seeds)


@pytest.mark.parametrize("backbone", STUDY.backbones)
def test_predictions_have_the_methods_sets_responses_companions_and_seeds_that_the_study_plans(smoke, backbone):
    for one in comparisons(STUDY, backbone):
        table, samples = read_frame(smoke / one.file, PREDICTIONS), samples_of(STUDY, one.domains)
        assert {*table["method"]} == {*one.methods}, one.file
        for method, rows in table.groupby("method"):
            assert {*rows["dataset"]} == {*samples}, (one.file, method)
            responses = rows.drop_duplicates(["dataset", "question_id", "response_id"])
            counts = responses.groupby(["dataset", "question_id"]).size().reset_index(name="found")
            assert (counts["found"] == counts["dataset"].map(samples)).all(), (one.file, method)
            if experience := METHODS[method].experience:
                steps = set(map(tuple, rows[["source_step", "validation_step"]].to_numpy().tolist()))
                planned = {folder.rpartition("/")[2] for folder in one.companions[experience]}
                assert {Prefix(*both).folder for both in steps} == planned, (one.file, method)
                fitted = rows.groupby(["source_step", "validation_step", "layer", "pooling", "dataset"])["seed"]
                assert {frozenset(seeds) for _, seeds in fitted} == {frozenset(STUDY.companion.seeds)}
