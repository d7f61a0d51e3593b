"""docs/artifact.md: its numbers are those of benchmark files, and what it names is what the configuration plans."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

from cocal_study.evidence.claims import read_claims
from planned_jobs import jobs_of, study_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/artifact.md").read_text(encoding="utf-8")
PLAN = Path(__file__).with_name("plan.txt").read_text(encoding="utf-8")
"""What Snakemake prints of a small plan."""


@pytest.fixture(scope="module")
def artifact():
    found = importlib.util.spec_from_file_location("artifact", ROOT / "docs/artifact.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def results(tmp_path) -> Path:
    """The results of the plan above; the table took 3 s and had no time to be measured otherwise."""
    for rule, job, row in [
        ("questions", "one", "60\t100"),
        ("train", "tiny", "600.5\t2048"),
        ("figures", "overview", "1000\t9000"),
        ("tables", "main", "3\tNA"),
    ]:
        path = tmp_path / f"results/benchmarks/{rule}/{job}.tsv"
        path.parent.mkdir(parents=True)
        path.write_text(f"s\tmax_rss\n{row}\n")
    for file, size in [
        ("questions/one.parquet", 1),
        ("policies/tiny/weights", 2**20),
        ("rollouts/tiny/step-1.parquet", 10),
        ("figures/overview.pdf", 7),
        ("tables/main.csv", 20),
        ("tables/main.tex", 30),
    ]:
        path = tmp_path / "results" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    return tmp_path / "results"


def test_costs_are_those_of_the_jobs_that_are_needed(artifact, results):
    """From a file back to the job that makes its folder, and not what else there is."""
    jobs = artifact.jobs_of(PLAN, results)
    assert [job.seconds for job in jobs] == [60, 600.5, 1000, 3]
    ours = artifact.needed(["results/tables/main.tex"], jobs)
    assert sorted(job.seconds for job in ours) == [3, 60, 600.5]
    assert sum(job.disk for job in ours) == 1 + 2**20 + 10 + 20 + 30
    assert (artifact._minutes(ours), artifact._memory(ours), artifact._disk(ours)) == ("11.1 min", "2.0 GiB", "1 MiB")
    assert artifact._memory(jobs[-1:]) == ""
    assert "| time | 4 jobs, 27.7 min one after the other, 14 min on two cores at best |" in artifact.measured(jobs)


def test_a_job_without_benchmark_ends_with_its_file(artifact, results):
    (results / "benchmarks/train/tiny.tsv").unlink()
    with pytest.raises(FileNotFoundError, match=r"train/tiny\.tsv"):
        artifact.jobs_of(PLAN, results)


def test_the_page_shows_every_exhibit_of_the_plan_with_its_digest():
    planned = jobs_of(study_of("config"))
    files = {path.removeprefix("results/") for path in planned if re.match(r"results/(tables|figures)/", path)}
    rows = re.findall(r"\| `snakemake results/(\S+)` \|.*\| (\w*) \|$", PAGE, re.MULTILINE)
    assert {file for file, _ in rows} == files, "`make gallery` renews docs/artifact.md"
    known = json.loads((ROOT / "config/digests/embedded.json").read_text())["digests"]
    digests = {Path(name).with_suffix(""): value for stage in known.values() for name, value in stage.items()}
    assert {file: value for file, value in rows if value} == {
        file: digests[Path(file).with_suffix("")] for file in files if Path(file).with_suffix("") in digests
    }, "`make gallery` renews docs/artifact.md"


def test_every_command_of_the_page_makes_what_the_plan_has():
    planned = jobs_of(study_of("config"))
    commands = [shlex.split(command) for command in re.findall(r"`snakemake ([^`]+)`", PAGE)]
    targets = {word for words in commands if not words[0].startswith("--") for word in words}
    assert targets <= planned.keys() | {"results/tables/all.tex"}


def test_every_claim_with_a_predicate_stands_at_one_exhibit():
    listed = [name for names in re.findall(r"^\* `\w+`: (.*)$", PAGE, re.MULTILINE) for name in names.split(", ")]
    claims = read_claims(ROOT / "config/paper/claims.yaml")
    assert sorted(listed) == sorted(claim.id for claim in claims if claim.predicate is not None)


def test_only_the_marked_blocks_are_written(artifact):
    assert artifact.with_block(PAGE, "shown", "new").count("\n<!-- shown -->\nnew\n<!-- end of shown -->\n") == 1
    with pytest.raises(SystemExit, match="marks of 'measured' are missing"):
        artifact.with_block("", "measured", "new")
