"""`cocal checks`: reports on a sound study, refuses a broken one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import started
from checked_study import COMPANIONS, Study, main_predictions, sweep_predictions
from cocal.cli import main
from cocal.features.store import create_features
from cocal.store import write_frame
from cocal_study.store.contracts import PREDICTIONS
from companion_run import GROUP, HIDDEN, SETTINGS, small_run


@pytest.fixture
def study(sound: Study, tmp_path: Path) -> Study:
    """A copy to break."""
    shutil.copytree(sound.folder, tmp_path / "study", ignore=shutil.ignore_patterns("checks.json"))
    return Study(tmp_path / "study")


@pytest.mark.slow
def test_command_reports_every_check_without_torch(sound: Study):
    output, command = sound.folder / "checks.json", sound.command()
    code = f"import sys; from cocal.cli import main; status = main({command!r})"
    code += "; sys.exit(status or 'torch' in sys.modules or 'transformers' in sys.modules)"
    assert started.python(code).returncode == 0
    first = output.read_bytes()
    assert main(command) == 0
    assert output.read_bytes() == first
    checks = json.loads(first)["checks"]
    assert len(checks) == 11
    fits = [("resampled", 1, 3), ("resampled", 3, 3), ("rollouts", 1, 1), ("rollouts", 1, 3), ("rollouts", 3, 3)]
    for name in ("question_disjoint_validation", "validation_pools", "truncated_responses_left_out"):
        assert sorted((one["experience"], one["steps"], one["validation_steps"]) for one in checks[name]) == fits, name
    assert [one["steps"] for one in checks["equal_raw_budgets"]] == [1, 3]
    for name in ("chronological_order", "group_accuracy_before_filtering"):
        assert set(checks[name]) == {"rollouts", "resampled"}
    assert [len(part) for part in checks["prediction_sources"].values()] == [0, 4, 2]


def test_command_without_postcal_checks_the_rest(study: Study):
    command = [word for word in study.command(COMPANIONS[:3]) if not word.startswith("--resampled")]
    for name, table in (("main", main_predictions()), ("sweep", sweep_predictions())):
        cocal = table[~table["method"].str.startswith("postcal")]
        write_frame(study.folder / f"{name}.parquet", cocal, PREDICTIONS, {})
    assert main(command) == 0
    assert json.loads((study.folder / "checks.json").read_text())["checks"]["equal_raw_budgets"] == []


def test_companions_on_prompts_and_of_ablations_are_checked_too(study: Study):
    run = small_run(study.folder / "grpo")
    one = SETTINGS.model_copy(update={"targets": ("binary",)})
    flags = [f"--settings={one.model_dump_json()}", "--steps", "3", "--states", "0/last"]
    assert main(run.command(study.folder / "companions/ablations", *flags)) == 0
    questions = SETTINGS.model_copy(update={"targets": ("question",), "batch_size": 4})
    count = len(run.responses) // GROUP
    store = run.folder / "prompts.zarr"
    layout = {"responses": count, "layers": [2], "hidden": HIDDEN, "rows_per_chunk": count, "dtype": "float32"}
    writer = create_features(store, **layout, poolings=("prompt",))
    states = np.random.default_rng(0).normal(size=(count, 1, 1, HIDDEN))
    asked = run.responses[::GROUP].assign(response_id=range(count), length=1)
    writer.write(0, asked, states)
    flags = [f"--settings={questions.model_dump_json()}", f"--features={store}", "--prompts", "--steps", "3"]
    assert main(run.command(study.folder / "companions/prompts", *flags)) == 0
    more = ["ablations=companions/ablations/0/last/steps-3", "prompts=companions/prompts/steps-3"]
    assert main(study.command([*COMPANIONS, *more])) == 0
    checks = json.loads((study.folder / "checks.json").read_text())["checks"]
    assert {"experience": "prompts", "steps": 3, "validation_steps": 3} in checks["validation_pools"]
    assert len(checks["truncated_responses_left_out"]) == len(COMPANIONS) + 2
    assert checks["chronological_order"]["prompts"]["responses"] == count


def test_command_refuses_a_violation_and_writes_nothing(study: Study, capsys):
    """A sweep on other responses than the main table."""
    table = sweep_predictions()
    table = table[table["source_step"] == 1].assign(correct=lambda rows: ~rows["correct"])
    write_frame(study.folder / "sweep.parquet", table, PREDICTIONS, {})
    assert main(study.command()) == 2
    assert "not evaluated on the same fixed responses" in capsys.readouterr().err
    assert not (study.folder / "checks.json").exists()


@pytest.mark.slow
def test_companions_without_their_responses_are_refused(study: Study, capsys):
    assert main([word for word in study.command() if not word.startswith("--resampled")]) == 2
    assert "no table of resampled responses is given" in capsys.readouterr().err
