"""Studies that have not everything: GRPO alone, one coupled method, no factual sets, one backbone, few methods."""

import csv
import filecmp
import json
import os
import re
from pathlib import Path

import pytest
import yaml

import started
from cocal.config.methods import METHODS

FIGURES_OF_GRPO = ["budgets", "composition", "cross_iteration", "early_steps", "online", "overview", "paradigms"]
MADE_TWICE = [
    *("questions/*", "policies/**/*", "rollouts/**/*", "responses/**/*", "features/**/*", "companions/**/*"),
    *("online/**/*", "predictions/**/*", "tables/pre_generation.csv", *(f"figures/{n}.*" for n in FIGURES_OF_GRPO)),
]
"""What does not depend on the other policies and the other backbone, in results."""


def _grpo(content: dict) -> None:
    content["policy"]["algorithms"] = ["grpo"]


def _rlcr(content: dict) -> None:
    content["policy"]["algorithms"] = ["grpo", "rlcr"]


def _mathematics(content: dict) -> None:
    content["datasets"] = {n: d for n, d in content["datasets"].items() if d["domain"] == "mathematics"}


def _one_backbone(content: dict) -> None:
    content["backbones"] = {"smoke": content["backbones"]["smoke"]}


def _few_methods(content: dict) -> None:
    _grpo(content)
    _one_backbone(content)
    content["estimators"] = {"methods": ["p-true", "rlcr"]}


def _study(repository: Path, folder: Path, *changes) -> Path:
    """The smoke study, changed; every algorithm's response length stays, as in a study that is edited by hand."""
    content = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    for change in changes:
        change(content)
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def _snakemake(repository: Path, folder: Path, *flags: str) -> str:
    command = ["--cores", "2", "--directory", str(folder), "--configfile", str(folder / "study.yaml")]
    done = started.snakemake([*command, *flags], repository, {**os.environ})
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-5000:]
    return text


@pytest.mark.parametrize(
    ("changes", "missing", "present"),
    [
        ([_grpo], {"train_coupled", "figure_cross_policy"}, {"table_ood", "table_scale", "figure_reliability"}),
        ([_rlcr], set(), {"train_coupled", "figure_cross_policy", "table_ood", "table_scale"}),
        (
            [_mathematics],
            {"factual_responses", "factual_features", "table_ood"},
            {"table_pre_generation", "figure_cross_policy"},
        ),
        ([_one_backbone], {"table_scale"}, {"table_token_aggregation", "figure_layers", "table_claims"}),
        (
            [_few_methods],
            {"figure_reliability", "figure_training_dynamics", "figure_cross_policy", "table_cost"}
            | {"table_claims", "figure_claims", "table_comparisons"},
            {"table_main", "table_ood"},
        ),
    ],
)
def test_what_a_study_cannot_have_is_not_planned(repository, tmp_path, changes, missing, present):
    _study(repository, tmp_path, *changes)
    planned = set(re.findall(r"^(\w+) +\d+$", _snakemake(repository, tmp_path, "--dry-run"), re.MULTILINE))
    assert present <= planned
    assert not missing & planned


@pytest.fixture(scope="module")
def folder(repository, tmp_path_factory) -> Path:
    """The study of GRPO alone with one backbone, made from nothing in a folder of its own."""
    folder = tmp_path_factory.mktemp("grpo")
    _study(repository, folder, _grpo, _one_backbone)
    _snakemake(repository, folder)
    return folder


@pytest.mark.slow
def test_grpo_alone_gives_all_tables_figures_checks_and_the_report(folder, repository):
    tables = {path.stem for path in (folder / "results/tables").glob("*.tex")}
    expected = {
        "main",
        "main_step2",
        "proper_scores",
        "recalibrated",
        "decisions",
        "cost",
        "hyperparameters",
        "token_aggregation",
        "pre_generation",
        "ood",
    }
    assert tables == expected | {"claims", "comparisons", "conditions", "time_to_confidence", "all"}
    figures = {path.stem for path in (folder / "results/figures").glob("*.pdf")}
    expected = {"paradigms", "overview", "reliability", "reliability_all", "training_dynamics", "cross_iteration"}
    assert figures == expected | {
        "claims",
        "risk_coverage",
        "early_steps",
        "online",
        "budgets",
        "composition",
        "layers",
    }
    assert json.loads((folder / "results/checks/smoke.json").read_text())
    assert (folder / "results/study.json").exists()
    assert "Nothing to be done" in _snakemake(repository, folder, "--dry-run")
    _snakemake(repository, folder, "--report", str(folder / "report.html"))
    page = (folder / "report.html").read_text()
    assert "results/figures/reliability.png" in page
    assert "results/figures/cross_policy.png" not in page


@pytest.mark.slow
def test_methods_of_other_policies_are_in_no_table_or_figure(folder):
    tables = (path for path in (folder / "results/tables").glob("*.*") if path.stem != "claims")  # of all methods
    shown = {path: path.read_text() for path in tables}
    for path, text in shown.items():
        assert "RLCR" not in text, path
        assert "DCPO" not in text, path
    with (folder / "results/tables/main.csv").open() as file:
        methods = {row["method"] for row in csv.DictReader(file)}
    assert methods == {n for n, m in METHODS.items() if m.group is not None and m.policy in ("base", "grpo")}
    with (folder / "results/figures/reliability.csv").open() as file:
        assert {row["method"] for row in csv.DictReader(file)} == {"verbal", "cocal-group", "cocal-binary"}
    with (folder / "results/tables/main_step2.csv").open() as file:
        assert {row["method"] for row in csv.DictReader(file)} == {"cocal-group", "cocal-binary"}


@pytest.mark.slow
def test_a_second_run_gives_the_same_bytes(smoke, folder):
    """What the study of GRPO alone shares with the smoke study, from the questions to figures, has been made twice."""
    first, second = smoke / "results", folder / "results"
    names = [
        str(path.relative_to(second))
        for made in MADE_TWICE
        for path in second.glob(made)
        if path.is_file() and path.name != ".snakemake_timestamp"
    ]
    assert {name.partition("/")[0] for name in names} == {made.partition("/")[0] for made in MADE_TWICE}
    match, mismatch, errors = filecmp.cmpfiles(first, second, names, shallow=False)
    assert (match, mismatch, errors) == (names, [], [])
