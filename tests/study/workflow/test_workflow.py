"""The workflow: the smoke study end to end, dry-runs of every study, and the documented commands."""

import json
import os
import re
import shlex
import shutil
from html import escape

import pandas as pd
import pytest

import started
from cocal.store import read_frame
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.planning import results
from cocal_study.provenance.owner import claim
from cocal_study.store.contracts import PREDICTIONS
from planned_jobs import jobs_of, study_of
from smoke_study import planned, snakemake
from tex import assert_compiles, needs_tex

STUDIES = ["smoke", "rehearsal", "paper", "single-gpu"]


@pytest.fixture(scope="module")
def shown():
    """The tables and figures of the smoke study."""
    return exhibits_of(study_of("smoke"), {})


@pytest.mark.parametrize("study", STUDIES)
def test_the_rules_of_a_study_are_its_plan(repository, tmp_path, study):
    """Snakemake plans the same jobs, with the same inputs, and gives every setting to their commands."""
    flags = ["--dry-run", "--forceall", "--printshellcmds", "--cores", "2", "--directory", tmp_path]
    flags += ["--workflow-profile", "none"]  # whose terminal lines name no files
    done = started.snakemake([*flags, "--configfile", repository / f"config/{study}.yaml"])
    assert done.returncode == 0, done.stderr
    wanted, seen = jobs_of(study_of(study)), set()
    for block in (done.stdout + done.stderr).split("\n\n"):
        heading = re.search(r"^(?:local)?rule (\w+):$", block, re.M)
        if not heading or heading[1] in ("all", "table_all", "landing"):
            continue
        fields = dict(re.findall(r"^    (input|output): (.*)$", block, re.M))
        inputs, outputs = (fields.get(key, "").split(", ") for key in ("input", "output"))
        job = next(wanted[output] for output in outputs if output in wanted)
        assert job.rule == heading[1]
        assert {file for file in inputs if file.startswith("results/")} == set(filter(in_results, job.inputs))
        assert set(job.outputs) <= set(outputs)
        words = shlex.split(re.search(r"^Shell command: (.*)", block, re.M | re.S)[1])
        assert [word for word in job.words if word not in words and not outside(word)] == [], job.label
        seen.update(job.outputs)
    assert seen == wanted.keys()


def in_results(path):
    return path.startswith("results/")


def outside(word):
    """True of the words that name the repository, whose path depends on where a test runs, and of the registry's."""
    return "config/paper" in word or "studies/replicates" in word or word == "--cost"


@pytest.mark.parametrize("flags", [["--profile", "slurm"], ["results/tables/main.tex"]])
def test_the_paper_study_is_planned_beside_the_embedded_one(repository, tmp_path, flags):
    """`snakemake --profile slurm` and `snakemake results/tables/main.tex`, typed as documented after `make reproduce`,
    without a cluster."""
    for name in ("config", "workflow", "profiles", "envs"):
        shutil.copytree(repository / name, tmp_path / name, symlinks=True)
    shutil.copy(repository / "Snakefile", tmp_path)
    (tmp_path / "slurm").symlink_to("workflow/profiles/slurm")
    claim(tmp_path / "results", "embedded", "config/config.yaml")
    done = started.snakemake(["--dry-run", *flags], tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"train_grpo", "train_rlcr", "train_dcpo", "table_main"} <= planned(done.stdout + done.stderr).keys()
    assert [path.name for path in (tmp_path / "studies").glob("*")] == (["paper"] if "slurm" in flags else [])


@pytest.mark.slow
def test_smoke_study_gives_the_tables_and_figures(smoke, shown):
    numbers = pd.read_csv(smoke / "results/tables/main.csv")
    assert set(numbers["dataset"]) == {"smoke-large", "smoke-small", "macro-mathematics"}
    assert numbers["value"].notna().any()
    for one in shown:
        table = isinstance(one, TableExhibit)
        endings = ("tex", "csv", "html") if table else ("pdf", "png", *(["csv"] if one.layout else []))
        for ending in endings:
            assert (smoke / f"results/{'tables' if table else 'figures'}/{one.name}.{ending}").stat().st_size > 0
        assert not table or rf"\input{{{one.name}.tex}}" in (smoke / "results/tables/all.tex").read_text()
    # a training says while it runs how far it is
    assert re.search(r"^[\d:]+  train \w+ grpo +step \d+/\d+, ", (smoke / "done").read_text(), re.MULTILINE)
    assert not list((smoke / "results/runs").rglob("*.parquet"))
    assert not list(smoke.rglob("*.partial"))


@needs_tex
def test_all_tables_compile_in_one_document(smoke, tmp_path):
    assert_compiles(shutil.copytree(smoke / "results/tables", tmp_path / "tables"))


@pytest.mark.slow
def test_the_report_shows_every_table_and_figure_with_a_caption(smoke, repository, shown):
    flags = ["--report", str(smoke / "report.html")]
    done = snakemake(smoke, *flags, config=repository / "config/smoke.yaml")
    assert done.returncode == 0, done.stderr[-3000:]
    page = (smoke / "report.html").read_text()
    for one in shown:
        file = f"tables/{one.name}.html" if isinstance(one, TableExhibit) else f"figures/{one.name}.png"
        assert f"results/{file}" in page
    entries = sorted(re.findall(r'"labels": \{"table or figure": "(.+?)"\}', page))
    assert len(entries) == len(shown)
    assert entries[0] == "1.1 Does the paper reproduce?"
    first, *_, step2, scale = (entry for entry in entries if entry.startswith("2."))
    assert [first, step2] == ["2.01 Main table, step 4", "2.11 Main table, step 2"]
    assert scale == "2.12 Main table of Smoke-Qwen3-Deep"
    landing = json.loads(re.search(r"var workflow_desc = (.*);", page)[1])
    answer, *said = (smoke / results.VERDICT).read_text().splitlines()
    assert f"<p>{escape(answer, quote=False)}</p>" in landing
    claims = [line.removeprefix("* ").partition(": ")[0] for line in said if line.startswith("* ")]
    cells = [f"<td>{escape(claim, quote=False)}</td>" for claim in claims]
    assert [cell for cell in cells if cell in landing] == cells
    assert len(cells) == 8
    figures = [one for one in shown if not isinstance(one, TableExhibit)]
    assert re.findall('<img alt="(.+?)" src="data:image/png;base64,', landing) == [one.title for one in figures]


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
