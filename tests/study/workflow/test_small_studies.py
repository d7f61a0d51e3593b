"""Studies that have not everything: GRPO alone, one coupled method, no factual sets, one backbone, few methods."""

import filecmp
import json
import os
from pathlib import Path

import pytest
import yaml

import started
from cocal_study.config.study import Study, load_study
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.registry import exhibits_of
from golden import assert_golden
from planned_jobs import jobs_of, study_of

FIGURES_OF_GRPO = ["budgets", "composition", "cross_iteration", "early_steps", "online", "overview", "paradigms"]
MADE_TWICE = [
    *("questions/*", "policies/**/*", "rollouts/**/*", "responses/**/*", "features/**/*", "companions/**/*"),
    *("online/**/*", "predictions/**/*", "tables/pre_generation.csv", *(f"figures/{n}.*" for n in FIGURES_OF_GRPO)),
]
"""Files of results/ that do not depend on the other policies and the other backbone."""


GRPO = {"policy": {"algorithms": ["grpo"]}}
FEW = {**GRPO, "estimators": {"methods": ["p-true", "rlcr"]}}


def _without(study: Study, *, backbone: str = "", domain: str = "") -> Study:
    """The study without a backbone, or without the sets of a domain."""
    backbones = {name: one for name, one in study.backbones.items() if name != backbone}
    datasets = {name: one for name, one in study.datasets.items() if one.domain != domain}
    return study.model_copy(update={"backbones": backbones, "datasets": datasets})


SMALLER = {
    "GRPO alone": study_of("smoke", **GRPO),
    "one coupled method": study_of("smoke", policy={"algorithms": ["grpo", "rlcr"]}),
    "no factual sets": _without(study_of("smoke"), domain="factual"),
    "one backbone": _without(study_of("smoke"), backbone="smoke-deep"),
    "few methods on one backbone": _without(study_of("smoke", **FEW), backbone="smoke-deep"),
}


def test_what_a_study_cannot_have_is_not_planned():
    """The file has the rules of the smoke study that each smaller one lacks; none has a rule of its own."""
    whole, *others = ({job.rule for job in jobs_of(one).values()} for one in (study_of("smoke"), *SMALLER.values()))
    assert all(rules < whole for rules in others)
    lacks = zip(SMALLER, (sorted(whole - rules) for rules in others), strict=True)
    assert_golden(Path(__file__).with_name("smaller.txt"), (f"{name}: {rule}" for name, of in lacks for rule in of))


@pytest.fixture(scope="module")
def folder(repository, tmp_path_factory) -> Path:
    """The study of GRPO alone with one backbone, made from nothing in a folder of its own."""
    folder = tmp_path_factory.mktemp("grpo")
    content = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    content["policy"]["algorithms"] = ["grpo"]
    content["backbones"] = {"smoke": content["backbones"]["smoke"]}
    (folder / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    _snakemake(repository, folder)
    return folder


def _snakemake(repository: Path, folder: Path, *flags: str) -> str:
    command = ["--cores", "2", "--directory", str(folder), "--configfile", str(folder / "study.yaml")]
    done = started.snakemake([*command, *flags], repository, {**os.environ})
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-5000:]
    return text


@pytest.mark.long
def test_grpo_alone_gives_all_tables_figures_checks_and_the_report(folder, repository):
    shown = exhibits_of(load_study(folder / "study.yaml"), {})
    wanted = {f"{'tables' if isinstance(one, TableExhibit) else 'figures'}/{one.name}" for one in shown}
    made = [*(folder / "results/tables").glob("*.tex"), *(folder / "results/figures").glob("*.pdf")]
    assert {f"{path.parent.name}/{path.stem}" for path in made} == wanted | {"tables/all"}
    assert json.loads((folder / "results/checks/smoke.json").read_text())
    assert (folder / "results/study.json").exists()
    assert "Nothing to be done" in _snakemake(repository, folder, "--dry-run")
    _snakemake(repository, folder, "--report", str(folder / "report.html"))
    page = (folder / "report.html").read_text()
    assert "results/figures/reliability.png" in page
    assert "results/figures/cross_policy.png" not in page


@pytest.mark.long
def test_a_second_run_gives_the_same_bytes(smoke, folder):
    """All that the study of GRPO alone shares with the smoke study, from questions to figures, has been made twice."""
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
