"""The table of hyperparameters: what it says is what the study is."""

from pathlib import Path

import pytest

from cocal.companion.model import CompanionMLP
from cocal_study.exhibits.hyperparameters import parameters, prepare
from cocal_study.questions.registry import known_wrong, registry_of
from exhibits_by_name import NOTHING, exhibit_of, exhibits_by_name
from golden import assert_golden
from planned_jobs import study_of


def prepared(study, wrong=NOTHING):
    return prepare(exhibit_of(study, "hyperparameters", wrong).layout)


def settings(wrong=NOTHING, **changes) -> dict[str, str]:
    frame = prepared(study_of("paper", **changes), wrong)
    assert frame["setting"].groupby(frame["section"]).value_counts().max() == 1
    return dict(zip(frame["section"] + ": " + frame["setting"], frame["value"], strict=True))


def test_the_size_of_a_companion_is_that_of_its_module():
    """Section 7 of the design: 19.5 M parameters at the width of Qwen3-8B."""
    found = settings()["Companion training: Parameters of a companion (Qwen3-8B / Qwen3-14B)"]
    counts = [
        sum(
            weights.numel()
            for weights in CompanionMLP(inputs, (2048, 1024, 512, 256), seeds=[42], targets=1).parameters()
        )
        for inputs in (8192, 10240)
    ]
    assert found == " / ".join(f"{count:,}" for count in counts)
    assert counts[0] == pytest.approx(19.5e6, rel=0.01)
    assert parameters(6, ()) == 7


CHANGED = {
    "policy": {
        "learning_rate": 2.5e-6,
        "adam_betas": [0.9, 0.98],
        "loss": "dapo",
        "updates_per_step": 4,
        "invalid_confidence": 0.25,
        "clip_low": 0.205,
    },
    "companion": {"passes": 30, "learning_rate": 0.001},
    "postcal": {"temperature": 0.7, "top_p": 0.95, "top_k": 20, "presence_penalty": 1.5, "shuffle_seed": 7},
    "estimators": {"missing_answer": "invalid"},
    "prompts": "qwen3",
}
BARE = {
    "policy": {"algorithms": ["grpo"]},
    "estimators": {"methods": ["verbal", "cocal-binary"]},
    "companion": {"targets": ["binary"]},
}


GRPO = {"algorithms": ["grpo"]}
LENGTHS = {"grpo": 64, "dcpo": 76}
FEW = {
    "equal lengths": {"algorithms": ["grpo", "dcpo"]},
    "own lengths": {"algorithms": ["grpo", "dcpo"], "max_response_length": LENGTHS},
    "one GPU": GRPO | {"trl": {"shard": False, "devices": 1}},
    "no vLLM": GRPO | {"trl": {"shard": False, "vllm": False, "devices": 1}},
}
"""Policies of which the file has what differs from the paper study's."""


def test_every_row_follows_the_study_and_what_it_does_not_do_has_none():
    """The paper study's own rows are in golden/hyperparameters.txt (test_words); tests/cocal/features/test_precision.py
    holds what the precisions say."""
    for name, changes in (("changed", CHANGED), ("bare", BARE)):
        lines = (f"{setting}: {value}" for setting, value in settings(**changes).items())
        assert_golden(Path(__file__).parent / f"golden/hyperparameters_{name}.txt", lines)
    own, lines = settings(), []
    for name, policy in FEW.items():
        found = settings(policy=policy)
        rows = [row for row in own | found if found.get(row) != own.get(row)]
        lines += [f"{name} | {row}: {found.get(row, 'has no row')}" for row in rows]
    assert_golden(Path(__file__).parent / "golden/hyperparameters_policies.txt", lines)


def test_rows_known_to_be_wrong_are_counted_by_what_became_of_them(repository):
    study = study_of("paper")
    registry = registry_of(study.question_sets.registered, repository / "config/datasets.yaml")
    wrong = known_wrong(study.question_sets.registered, registry)
    assert wrong == {"aime25": 1, "amc24": 8}

    def rows(chosen) -> dict[str, str]:
        frame = prepared(chosen, wrong)
        return dict(frame[frame["section"] == "Evaluation"][["setting", "value"]].to_numpy().tolist())

    assert rows(study)["Rows known to be wrong (AIME25 / AMC24)"] == "1 / 8, as distributed"
    content = study.model_dump()
    content["datasets"]["amc24"]["source"]["corrections"] = True
    mended = type(study).model_validate(content)
    assert rows(mended)["Rows known to be wrong (AIME25)"] == "1, as distributed"
    assert rows(mended)["Rows known to be wrong (AMC24)"] == "8, corrected"
    distributed = "Questions or answers known to be wrong are kept as distributed: AIME25 (1 of 30), AMC24 (8 of 45)."
    both = "known to be wrong are kept as distributed: AIME25 (1 of 30). Questions or answers known to be wrong are "
    for of_study, remark in ((study, distributed), (mended, both + "corrected: AMC24 (8 of 45).")):
        shown = exhibits_by_name(of_study, wrong)
        for name in ("main", "main_step40", "scale"):
            assert shown[name].layout.remark.endswith(remark)
        assert "known to be wrong" not in shown["ood"].layout.remark
    assert exhibit_of(study, "main").layout.remark == ""
