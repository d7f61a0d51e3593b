"""docs/artifact.md: its costs are computed from benchmark files, and its digests are those of the embedded study."""

import json
import re
from pathlib import Path

from planned_jobs import jobs_of, study_of
from started import ROOT, script

PAGE = (ROOT / "docs/artifact.md").read_text(encoding="utf-8")
PLAN = """
rule train:
    output: results/policies/tiny
    benchmark: results/benchmarks/train/tiny.tsv
    reason: Missing output files: results/policies/tiny

localrule unrelated:
    output: results/figures/overview.pdf
    benchmark: results/benchmarks/figures/overview.tsv

rule table_main:
    input: results/policies/tiny/weights
    output: results/tables/main.csv, results/tables/main.tex
    benchmark: results/benchmarks/tables/main.tsv

rule all:
    input: results/tables/main.tex, results/figures/overview.pdf
"""
"""What Snakemake prints of a small plan."""


def test_costs_are_those_of_the_jobs_that_are_needed(tmp_path):
    """From a file back to the job that makes its folder; the table took too little time to be measured."""
    artifact = script("docs/artifact.py")
    for file, content in {
        "benchmarks/train/tiny.tsv": "s\tmax_rss\tcpu_time\n700\t2048\t600.5\n",
        "benchmarks/figures/overview.tsv": "s\tmax_rss\tcpu_time\n990\t9000\t1000\n",
        "benchmarks/tables/main.tsv": "s\tmax_rss\tcpu_time\n3\tNA\tNA\n",
        "policies/tiny/weights": 2**20 * "x",
        "figures/overview.pdf": "x",
        "tables/main.csv": "12",
        "tables/main.tex": "123",
    }.items():
        path = tmp_path / "results" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    jobs = artifact.jobs_of(PLAN, tmp_path / "results")
    ours = artifact.needed(["results/tables/main.tex"], jobs)
    assert sorted(job.seconds for job in ours) == [3, 600.5]
    assert sum(job.disk for job in ours) == 2**20 + 5
    assert (artifact._minutes(ours), artifact._memory(ours), artifact._disk(ours)) == ("10.1 min", "2.0 GiB", "1 MiB")
    assert "| time | 3 jobs, 26.7 min of one core, 13 min on two at best |" in artifact.measured(jobs)


def test_the_page_has_the_digest_of_every_exhibit_of_the_plan():
    planned = jobs_of(study_of("config"))
    files = {path.removeprefix("results/") for path in planned if re.match(r"results/(tables|figures)/", path)}
    rows = re.findall(r"\| `snakemake results/(\S+)` \|.*\| (\w*) \|$", PAGE, re.MULTILINE)
    known = json.loads((ROOT / "config/digests/embedded.json").read_text())["digests"]
    digests = {Path(name).with_suffix(""): value for stage in known.values() for name, value in stage.items()}
    assert {file: value for file, value in rows if value} == {
        file: digests[Path(file).with_suffix("")] for file in files if Path(file).with_suffix("") in digests
    }, "`make gallery` renews docs/artifact.md"
