"""The workflow: the smoke study end to end, dry-runs of every study, and the documented commands."""

import filecmp
import json
import os
import shutil
import subprocess
from itertools import takewhile
from pathlib import Path

import pandas as pd
import pytest
import yaml

from cocal.config import load_study
from cocal.estimators.registry import METHODS
from cocal.schemas import PREDICTIONS, RESPONSES
from cocal.store import read_dataset, read_frame

FIGURES = ["reliability", "reliability_all", "training_dynamics", "early_steps", "budgets", "composition"]
STUDIES = ["config.yaml", "smoke.yaml"]
JOBS = {
    "all": 1,
    "backbone": 1,
    "checks": 1,
    "companions": 1,
    "figure_budgets": 1,
    "figure_composition": 1,
    "figure_early_steps": 1,
    "figure_reliability": 1,
    "figure_reliability_all": 1,
    "figure_training_dynamics": 1,
    "metrics": 1,
    "postcal_companions": 1,
    "questions": 1,
    "resample": 1,
    "sweep_metrics": 1,
    "sweep_predictions": 2,
    "train": 3,
}
BY_STAGES = {
    3: {"features": 3, "predictions": 10, "responses": 11, "table_main": 3},
    2: {"features": 2, "predictions": 7, "responses": 8, "table_main": 2},
}


def _snakemake(repository: Path, folder: Path, *flags: str, config: Path | None = None):
    command = ["snakemake", "--snakefile", str(repository / "Snakefile"), "--directory", str(folder)]
    command += ["--workflow-profile", str(repository / "profiles/default"), "--cores", "2"]
    if config is not None:
        command += ["--configfile", str(config)]
    return subprocess.run([*command, *flags], check=False, capture_output=True, text=True, cwd=repository)


def _planned(output: str) -> dict[str, int]:
    """Jobs per rule of a dry-run's table."""
    _, _, *lines = output.split("Job stats:\n")[1].splitlines()
    rows = takewhile(lambda row: row[0] != "total", (line.split() for line in lines))
    return {rule: int(jobs) for rule, jobs in rows}


@pytest.mark.parametrize("name", STUDIES)
def test_dry_run_plans_the_whole_study(repository, tmp_path, name):
    done = _snakemake(repository, tmp_path, "--dry-run", config=repository / "config" / name)
    assert done.returncode == 0, done.stderr
    stages = load_study(repository / "config" / name).policy.stages
    assert _planned(done.stdout + done.stderr) == JOBS | BY_STAGES[len(stages)]


@pytest.mark.parametrize("profile", ["default", "slurm"])
def test_documented_commands_plan_without_a_cluster(repository, tmp_path, profile):
    """`snakemake results/tables/main.tex` and `snakemake --profile slurm`, typed in the repository."""
    flags = ["--profile", "slurm"] if profile == "slurm" else ["results/tables/main.tex"]
    command = ["snakemake", "--dry-run", "--forceall", "--directory", str(tmp_path), *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=repository)
    assert done.returncode == 0, done.stderr
    planned = _planned(done.stdout + done.stderr)
    assert planned["train"] == 3
    assert planned["table_main"] >= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compnion": {"passes": 3}}, "compnion: unknown key; did you mean 'companion'?"),
        ({"policy": {"steps": 5}}, "stages must rise and end with steps = 5"),
    ],
)
def test_a_wrong_study_stops_before_any_job(repository, tmp_path, change, message):
    content = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    for key, value in change.items():
        content[key] = {**content.get(key, {}), **value}
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(content))
    done = _snakemake(repository, tmp_path, config=path)
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
    assert str(path) in done.stdout + done.stderr
    assert not (tmp_path / "results").exists()


def test_a_study_replaces_the_default_and_never_merges(repository, tmp_path):
    done = _snakemake(repository, tmp_path, "--dry-run", config=repository / "config/smoke.yaml")
    text = done.stdout + done.stderr
    assert "smoke-small" in text
    assert "syn-math500" not in text
    assert "policies/tiny" not in text


@pytest.fixture(scope="module")
def smoke(repository, tmp_path_factory) -> Path:
    """Folder of the finished smoke study."""
    folder = tmp_path_factory.mktemp("smoke")
    done = _snakemake(repository, folder, config=repository / "config/smoke.yaml")
    assert done.returncode == 0, done.stderr[-5000:]
    return folder


@pytest.mark.slow
def test_smoke_study_gives_the_tables_and_figures(smoke):
    table = (smoke / "results/tables/main.tex").read_text()
    assert "Smoke study" in table
    for label in (*(method.label for method in METHODS.values()), "Macro Average"):
        assert label in table
    earlier = (smoke / "results/tables/main_step2.tex").read_text()
    assert "RLCR" in earlier
    assert "SelfConsis" not in earlier
    numbers = pd.read_csv(smoke / "results/tables/main.csv")
    assert set(numbers["dataset"]) == {"smoke-large", "smoke-small", "macro-mathematics"}
    assert numbers["value"].notna().any()
    for figure in FIGURES:
        for suffix in ("pdf", "png", "csv"):
            assert (smoke / f"results/figures/{figure}.{suffix}").stat().st_size > 0
    assert not list((smoke / "results/runs").rglob("*.parquet"))
    assert not list(smoke.rglob("*.partial"))


@pytest.mark.slow
def test_smoke_study_keeps_the_protocol(smoke, repository):
    """Fixed responses, five seeds, samples by set, truncated responses kept, pool of the study."""
    study = load_study(repository / "config/smoke.yaml")
    predictions = read_frame(smoke / "results/predictions/smoke/grpo/step-4.parquet", PREDICTIONS)
    seeds = predictions.groupby("method")["seed"].unique()
    assert set(seeds["cocal-binary"]) == set(seeds["cocal-group"]) == set(study.companion.seeds)
    shared = [name for name, method in METHODS.items() if method.protocol == "answer"]
    assert {"postcal-binary", "cocal-binary", "self-consistency", "token-probability", "p-true"} <= set(shared)
    rows = predictions[predictions["method"].isin(shared)]
    key = ["dataset", "response_id"]
    fixed = {m: set(map(tuple, part[key].to_numpy())) for m, part in rows.groupby("method")}
    assert all(fixed[m] == fixed["p-true"] for m in shared)
    for name in study.evaluation_sets("mathematics"):
        responses = read_frame(smoke / f"results/responses/smoke/grpo/step-4/answer/{name}.parquet", RESPONSES)
        assert set(responses["sample"]) == set(range(study.generation.pool))
        samples = study.datasets[name].samples
        used = predictions[(predictions["dataset"] == name) & (predictions["method"] == "p-true")]
        kept = responses[responses["sample"] < samples]
        assert used["response_id"].tolist() == kept["response_id"].tolist()
        assert used["truncated"].tolist() == kept["truncated"].tolist()


@pytest.mark.slow
def test_cube_names_its_study_cells(smoke):
    cube = read_dataset(smoke / "results/metrics/smoke.nc")
    cell = cube.sel({"algorithm": "grpo", "step": 4, "method": "cocal-binary", "dataset": "macro-mathematics"})
    value = cell["value"].sel({"seed": "mean", "metric": "accuracy"}).item()
    assert 0 <= value <= 1
    assert cube.attrs["stage"] == "metrics"
    assert json.loads(cube.attrs["versions"])["cocal"]


@pytest.mark.slow
def test_finished_study_has_nothing_left_to_do(smoke, repository):
    done = _snakemake(repository, smoke, "--dry-run", config=repository / "config/smoke.yaml")
    assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.slow
def test_an_edit_reruns_what_it_touches_and_no_more(smoke, repository, tmp_path):
    content = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    content["companion"]["passes"] = 3
    (tmp_path / "edited.yaml").write_text(yaml.safe_dump(content))
    done = _snakemake(repository, smoke, "--dry-run", config=tmp_path / "edited.yaml")
    planned = _planned(done.stdout + done.stderr)
    assert planned["companions"] == planned["postcal_companions"] == 1
    assert planned["predictions"] == 2, "the two stages of GRPO; no other policy has a companion"
    assert not {"questions", "backbone", "train", "resample", "responses", "features"} & set(planned)


@pytest.mark.slow
def test_a_second_run_gives_the_same_bytes(smoke, repository, tmp_path):
    """From the questions to the figures, in another folder."""
    done = _snakemake(repository, tmp_path, config=repository / "config/smoke.yaml")
    assert done.returncode == 0, done.stderr[-5000:]
    tables = [f"tables/main{stage}.{suffix}" for stage in ("", "_step2") for suffix in ("tex", "csv")]
    names = tables + [f"figures/{figure}.{suffix}" for figure in FIGURES for suffix in ("pdf", "png", "csv")]
    match, mismatch, errors = filecmp.cmpfiles(smoke / "results", tmp_path / "results", names, shallow=False)
    assert (match, mismatch, errors) == (names, [], [])


@pytest.mark.slow
def test_the_next_run_recovers_from_a_damaged_file(smoke, repository, tmp_path):
    """A truncated response table ends the run with its name; once it is deleted, the run goes through."""
    shutil.copytree(smoke, tmp_path, dirs_exist_ok=True)
    damaged = tmp_path / "results/responses/smoke/base/step-0/verbal/smoke-large.parquet"
    damaged.write_bytes(damaged.read_bytes()[:200])
    os.utime(damaged)
    config = repository / "config/smoke.yaml"
    target = "results/predictions/smoke/base/step-0.parquet"  # "--" before it ends the files of --configfile
    done = _snakemake(repository, tmp_path, "--", target, config=config)
    assert done.returncode != 0
    assert "smoke-large.parquet: not a readable Parquet file" in done.stdout + done.stderr
    assert not (tmp_path / target).exists()
    damaged.unlink()
    done = _snakemake(repository, tmp_path, "--", target, config=config)
    assert done.returncode == 0, done.stderr[-3000:]
    assert read_frame(tmp_path / target, PREDICTIONS)["method"].unique().tolist() == ["base-verbal"]
