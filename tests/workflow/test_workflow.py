"""The workflow: the smoke study end to end, dry-runs of every study, and the documented commands."""

import json
import os
import re
import shutil
import subprocess

import pandas as pd
import pytest
import yaml

import started
from cocal.config import load_study
from cocal.config.methods import METHODS
from cocal.exhibits.base.registry import exhibits_of
from cocal.store import read_dataset, read_frame
from cocal.store.contracts import PREDICTIONS, RESPONSES
from cocal.store.owner import claim
from smoke_study import planned, snakemake
from tex import missing_of_tex

TABLES = [
    "claims",
    "main",
    "comparisons",
    "proper_scores",
    "recalibrated",
    "decisions",
    "cost",
    "ood",
    "hyperparameters",
    "conditions",
    "scale",
    "token_aggregation",
    "pre_generation",
    "time_to_confidence",
]
TIMES = ["cost", "time_to_confidence"]
"""Tables of measured times: no two runs agree."""
DIAGRAMS = ["paradigms", "overview"]
FIGURES = ["claims", "reliability", "reliability_all", "training_dynamics", "early_steps", "budgets", "composition"]
FIGURES += ["risk_coverage", "online", "cross_iteration", "cross_policy", "layers"]
STUDIES = {"config.yaml": {"questions": 11}, "smoke.yaml": {"questions": 4}, "rehearsal.yaml": {"questions": 11}}
STUDIES |= {
    "paper.yaml": {"questions": 11, "sources": 11, "judge_checkpoint": 1, "existing_backbone": 2, "backbone": 0},
    "single-gpu-rehearsal.yaml": {"questions": 11},
    "single-gpu.yaml": {"questions": 11, "sources": 11, "existing_backbone": 2, "backbone": 0},
}
"""Studies, and jobs of theirs that no other study has."""
# of both backbones; what is not listed here runs once
JOBS = dict.fromkeys(
    [
        *("ablation_companions", "ablation_metrics", "ablation_predictions", "backbone", "checks", "companions"),
        *("metrics", "postcal_companions", "resample", "train"),
    ],
    2,
)
JOBS |= dict.fromkeys(
    [
        *("all", "latency", "overlap", "prompt_companions", "prompt_features"),
        *("budget_metrics", "budget_predictions", "cross_policy_metrics", "sweep_metrics", "table_all"),
        *("one_layer_companions", "online", "recalibrated_metrics"),
        *(f"table_{name}" for name in TABLES),
        *(f"figure_{name}" for name in (*FIGURES, *DIAGRAMS)),
    ],
    1,
)
JOBS |= {"recalibrate": 3, "factual_features": 3, "factual_responses": 5, "train_coupled": 4}
BY_STAGES = {
    3: {"features": 10, "predictions": 14, "responses": 16, "sweep_predictions": 3},
    2: {"features": 7, "predictions": 11, "responses": 13, "sweep_predictions": 2},
}


@pytest.mark.parametrize("name", STUDIES)
def test_dry_run_plans_the_whole_study(repository, tmp_path, name):
    done = snakemake(tmp_path, "--dry-run", config=repository / "config" / name)
    assert done.returncode == 0, done.stderr
    stages = load_study(repository / "config" / name).policy.stages
    expected = JOBS | BY_STAGES[len(stages)] | {f"table_main_step{step}": 1 for step in stages[:-1]} | STUDIES[name]
    assert planned(done.stdout + done.stderr) == {rule: jobs for rule, jobs in expected.items() if jobs}


@pytest.mark.parametrize("profile", ["default", "slurm"])
def test_documented_commands_plan_without_a_cluster(repository, tmp_path, profile):
    """`snakemake results/tables/main.tex` and `snakemake --profile slurm`, typed in the repository."""
    flags = ["--profile", "slurm"] if profile == "slurm" else ["results/tables/main.tex"]
    done = started.snakemake(["--dry-run", "--forceall", "--directory", tmp_path, *flags], repository)
    assert done.returncode == 0, done.stderr
    jobs = planned(done.stdout + done.stderr)
    assert jobs["train"] >= 1
    assert jobs["train_coupled"] >= 2
    assert jobs["table_main"] >= 1


def test_the_paper_study_is_planned_beside_the_embedded_one(repository, tmp_path):
    """`snakemake --profile slurm` after `make reproduce`, typed as documented."""
    for name in ("config", "workflow", "profiles", "envs"):
        shutil.copytree(repository / name, tmp_path / name, symlinks=True)
    shutil.copy(repository / "Snakefile", tmp_path)
    (tmp_path / "slurm").symlink_to("workflow/profiles/slurm")
    claim(tmp_path / "results", "embedded", "config/config.yaml")
    for flags in (["--profile", "slurm"], ["results/tables/main.tex"]):
        done = started.snakemake(["--dry-run", *flags], tmp_path)
        assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "studies").iterdir()] == ["paper"]


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
    done = snakemake(tmp_path, config=path)
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
    assert str(path) in done.stdout + done.stderr
    assert not (tmp_path / "results").exists()


def test_a_study_replaces_the_default_and_never_merges(repository, tmp_path):
    flags = ["--dry-run", "--printshellcmds"]
    done = snakemake(tmp_path, *flags, config=repository / "config/smoke.yaml")
    text = done.stdout + done.stderr
    assert "smoke-small" in text
    assert "syn-math500" not in text
    assert "policies/tiny" not in text


@pytest.mark.slow
def test_smoke_study_gives_the_tables_and_figures(smoke):
    table = (smoke / "results/tables/main.tex").read_text()
    assert "Smoke study" in table
    shown = [method.label for method in METHODS.values() if method.group is not None]
    for label in (*shown, "Macro Average"):
        assert label in table
    assert "Smoke-Facts" in (smoke / "results/tables/ood.tex").read_text()
    assert "Smoke-Qwen3-Deep" in (smoke / "results/tables/scale.tex").read_text()
    earlier = (smoke / "results/tables/main_step2.tex").read_text()
    assert "RLCR" in earlier
    assert "SelfConsis" not in earlier
    numbers = pd.read_csv(smoke / "results/tables/main.csv")
    assert set(numbers["dataset"]) == {"smoke-large", "smoke-small", "macro-mathematics"}
    assert numbers["value"].notna().any()
    for name in TABLES:
        for suffix in ("tex", "csv", "html"):
            assert (smoke / f"results/tables/{name}.{suffix}").stat().st_size > 0
        assert rf"\input{{{name}.tex}}" in (smoke / "results/tables/all.tex").read_text()
    for figure in (*FIGURES, *DIAGRAMS):
        for suffix in ("pdf", "png", *(["csv"] if figure in FIGURES else [])):
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
    shared = [name for name, method in METHODS.items() if method.prompt_format == "answer"]
    assert set(predictions["dataset"]) == {"smoke-large", "smoke-small", "smoke-facts"}
    assert {
        "postcal-binary",
        "cocal-pre-generation",
        "cocal-binary",
        "self-consistency",
        "token-probability",
        "p-true",
    } <= set(shared)
    rows = predictions[predictions["method"].isin(shared)]
    key = ["dataset", "response_id"]
    fixed = {m: set(map(tuple, part[key].to_numpy())) for m, part in rows.groupby("method")}
    assert all(fixed[m] == fixed["p-true"] for m in shared)
    for name in (*study.evaluation_sets("mathematics"), *study.evaluation_sets("factual")):
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
def test_all_tables_compile_in_one_document(smoke, tmp_path):
    if missing := missing_of_tex():
        pytest.skip(missing)
    shutil.copytree(smoke / "results/tables", tmp_path / "tables")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path / "tables")
    assert done.returncode == 0, done.stdout[-3000:]
    for complaint in ("Overfull", "Float too large"):
        assert complaint not in done.stdout


@pytest.mark.slow
def test_the_report_shows_every_table_and_figure_with_a_caption(smoke, repository):
    flags = ["--report", str(smoke / "report.html")]
    done = snakemake(smoke, *flags, config=repository / "config/smoke.yaml")
    assert done.returncode == 0, done.stderr[-3000:]
    page = (smoke / "report.html").read_text()
    for name in TABLES:
        assert f"results/tables/{name}.html" in page
    for name in (*FIGURES, *DIAGRAMS):
        assert f"results/figures/{name}.png" in page
    entries = re.findall(r'"labels": \{"table or figure": "(.+?)"\}', page)
    assert len(entries) == len([*TABLES, "main_step2", *FIGURES, *DIAGRAMS])
    claims, *_ = sorted(entry for entry in entries if entry.startswith("1."))
    assert claims == "1.1 Which claims of the paper hold"
    first, *_, step2, scale = sorted(entry for entry in entries if entry.startswith("2."))
    assert [first, step2] == ["2.01 Main table, step 4", "2.10 Main table, step 2"]
    assert scale == "2.11 Main table of Smoke-Qwen3-Deep"
    assert sum(entry.startswith("5.") for entry in entries) == len(TIMES)
    texts = [exhibit.caption for exhibit in exhibits_of(load_study(repository / "config/smoke.yaml"), {})]
    for text in [*texts, (repository / "workflow/report/study.rst").read_text()]:
        words = re.split(r"[\n*'(]", text)[0].strip()
        assert len(words) > 20, text
        assert words in page, text


@pytest.mark.slow
def test_finished_study_has_nothing_left_to_do(smoke, repository):
    done = snakemake(smoke, "--dry-run", config=repository / "config/smoke.yaml")
    assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.slow
def test_an_edit_reruns_what_it_touches_and_no_more(smoke, repository, tmp_path):
    content = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    content["companion"]["passes"] = 3
    (tmp_path / "edited.yaml").write_text(yaml.safe_dump(content))
    done = snakemake(smoke, "--dry-run", config=tmp_path / "edited.yaml")
    jobs = planned(done.stdout + done.stderr)
    assert jobs["companions"] == jobs["postcal_companions"] == jobs["ablation_companions"] == 2
    assert jobs["predictions"] == 7, "every checkpoint that a companion scores: all of them but the bases"
    assert not {"questions", "backbone", "train", "resample", "responses", "features"} & set(jobs)


@pytest.mark.slow
def test_the_next_run_recovers_from_a_damaged_file(smoke, repository, tmp_path):
    """A truncated response table ends the run with its name; once it is deleted, the run goes through."""
    shutil.copytree(smoke, tmp_path, dirs_exist_ok=True)
    damaged = tmp_path / "results/responses/smoke/base/step-0/verbal/smoke-large.parquet"
    damaged.write_bytes(damaged.read_bytes()[:200])
    os.utime(damaged)
    config = repository / "config/smoke.yaml"
    target = "results/predictions/smoke/base/step-0.parquet"  # "--" before it ends the files of --configfile
    done = snakemake(tmp_path, "--", target, config=config)
    assert done.returncode != 0
    assert "smoke-large.parquet: not a readable Parquet file" in done.stdout + done.stderr
    assert not (tmp_path / target).exists()
    damaged.unlink()
    done = snakemake(tmp_path, "--", target, config=config)
    assert done.returncode == 0, done.stderr[-3000:]
    assert read_frame(tmp_path / target, PREDICTIONS)["method"].unique().tolist() == ["base-verbal"]
