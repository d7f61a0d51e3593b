"""A study that starts from imported checkpoints and dumps: no training job, the same files."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

import dumps
from cocal.cli import main
from cocal.errors import ConfigError
from cocal.features.store import open_features
from cocal.store import read_frame
from cocal_study.checks.training import check_equal_budgets, read_table
from cocal_study.config.parse import validate
from cocal_study.config.study import Study
from cocal_study.generation.labels import check_features, read_rollouts
from cocal_study.policy.schedule import question_schedule
from cocal_study.store.contracts import QUESTIONS
from exhibits_by_name import exhibits_by_name
from smoke_study import planned, snakemake

STAGES = dumps.SETTINGS.stages


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> Path:
    """Folder of the other engine."""
    return tmp_path_factory.mktemp("other-engine") / "elsewhere"


@pytest.fixture(scope="module")
def study(repository, micro_checkpoint, elsewhere) -> dict:
    """The smoke study with the micro policy as its backbone, trained elsewhere."""
    content = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    content["backbones"] = {
        "micro": {
            "source": "checkpoint",
            "label": "Micro",
            "path": str(micro_checkpoint),
            "depth": 2,
            "width": 32,
            "imported": {
                "grpo": {
                    "stages": {step: str(elsewhere / f"hf/{step - 1}") for step in STAGES},
                    "rollouts": {"format": "slime", "path": str(elsewhere / "dump")},
                    "seconds": 60.0,
                    "device": "8 B200",
                }
            },
        }
    }
    content["policy"] = {
        **dumps.SETTINGS.model_dump(mode="json", exclude={"trl"}),
        "algorithms": ["grpo", "dcpo"],
        "dataset": "smoke-train",
        "micro_batch": 4,
    }
    content["reports"] |= {"early_steps": [1, 2], "budgets": [1, 3]}
    methods = ["verbal", "dcpo", "postcal-binary", "cocal-binary", "cocal-pre-generation"]
    content["estimators"] = {"methods": methods}
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory, study, elsewhere, micro_checkpoint, micro_policy) -> Path:
    """The study's folder, and what the other engine left."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    for step in STAGES:
        shutil.copytree(micro_checkpoint, elsewhere / f"hf/{step - 1}")
    sets = {key: study[key] for key in ("datasets", "world", "seed")}
    assert main(["questions", "--settings", json.dumps(sets), "--output", str(folder / "drawn")]) == 0
    questions = read_frame(folder / "drawn/smoke-train.parquet", QUESTIONS)
    # another engine has a schedule of its own
    asked = dumps.sampled(micro_policy, questions.iloc[::-1].reset_index(drop=True))
    dumps.write_slime(elsewhere / "dump", asked, micro_policy[1])
    return folder


@pytest.fixture(scope="module")
def results(folder) -> Path:
    """The files that companions learn from, made by true jobs."""
    names = ("features/micro/grpo/rollouts.zarr", "features/micro/grpo/prompts.zarr", "costs/micro/train-grpo.json")
    targets = [f"results/{name}" for name in (*names, "rollouts/micro/postcal")]
    done = snakemake(folder, "--", *targets, config=folder / "study.yaml")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "results"


def test_only_what_is_not_imported_is_trained(folder):
    done = snakemake(folder, "--dry-run", config=folder / "study.yaml")
    assert done.returncode == 0, done.stderr
    jobs = planned(done.stdout + done.stderr)
    assert "train_grpo" not in jobs
    assert "backbone" not in jobs
    expected = {"existing_backbone", "import_grpo", "import_rollouts", "replay", "prompt_features"}
    assert {name: jobs[name] for name in expected} == dict.fromkeys(expected, 1)
    assert jobs["train_dcpo"] == 1  # DCPO


def test_the_rules_give_what_companions_learn_from(results):
    rollouts = read_rollouts(results / "rollouts/micro/grpo", results / "questions/smoke-train.parquet", 3)
    features = results / "features/micro/grpo"
    check_features(rollouts, open_features(features / "rollouts.zarr"))
    assert len(open_features(features / "prompts.zarr")) == 3 * dumps.SETTINGS.questions_per_step
    cost = json.loads((results / "costs/micro/train-grpo.json").read_text())
    assert cost == {"seconds": 60.0, "items": 3, "device": "8 B200"}
    assert (results / "policies/micro/grpo/step-3/model.safetensors").exists()
    assert not (results / "runs").exists() or not any((results / "runs").rglob("*.parquet"))


def test_postcal_answers_the_questions_that_the_rollouts_answered(results):
    """Step by step, whatever schedule the other engine had (appendix B.2); the check of the study agrees."""
    questions = results / "questions/smoke-train.parquet"
    rollouts, resampled = (read_table(results / f"rollouts/micro/{name}", questions) for name in ("grpo", "postcal"))
    assert resampled["question_id"].tolist() == rollouts["question_id"].tolist()
    check_equal_budgets(rollouts, resampled, [1, 3])
    own = question_schedule(48, 3, dumps.SETTINGS.questions_per_step, dumps.SETTINGS.seed)
    ids = read_frame(questions, QUESTIONS)["question_id"]
    assert resampled["question_id"].tolist() != ids.iloc[own.ravel().repeat(dumps.GROUP)].tolist()


def test_what_is_missing_elsewhere_stops_before_any_job(folder, tmp_path):
    moved = (folder / "study.yaml").read_text().replace("/elsewhere/hf/", "/elsewhere/gone/")
    (tmp_path / "study.yaml").write_text(moved)
    done = snakemake(tmp_path, "--", "results/rollouts/micro/grpo", config=tmp_path / "study.yaml")
    assert done.returncode != 0
    assert "elsewhere/gone/2" in done.stdout + done.stderr
    assert not (tmp_path / "results/policies").exists()


@pytest.mark.parametrize(
    ("algorithm", "change", "message"),
    [
        ("grpo", {"stages": {2: "a", 4: "b"}}, r"imported\.grpo\.stages has steps \[2, 4\], not \[2, 3\]"),
        ("grpo", {"rollouts": None}, r"imported\.grpo\.rollouts is missing"),
        ("rlcr", {}, r"imported\.rlcr: policy\.algorithms has no rlcr"),
    ],
)
def test_an_import_must_fit_the_study(study, algorithm, change, message):
    content = json.loads(json.dumps(study))
    imported = content["backbones"]["micro"]["imported"]
    imported[algorithm] = imported["grpo"] | change
    with pytest.raises(ConfigError, match=message):
        validate(Study, content, "study.yaml")


def test_no_table_of_costs_without_the_time_of_training(study):
    content = json.loads(json.dumps(study))
    content["estimators"] = {}
    assert "cost" in exhibits_by_name(validate(Study, content, "study.yaml"))
    content["backbones"]["micro"]["imported"]["grpo"]["seconds"] = None
    assert "cost" not in exhibits_by_name(validate(Study, content, "study.yaml"))
