"""Write the numbers of docs/artifact.md, the appendix for evaluators: `make gallery` after `make reproduce`.

    python docs/artifact.py [RESULTS OF A FINISHED EMBEDDED STUDY]

Times and memory come from the benchmark files of the jobs, disk from their outputs, and the order of the jobs from
Snakemake's own dry-run.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sections import with_section

from cocal.runtime.numerics import processor
from cocal_study.config.study import configured_study
from cocal_study.evidence.claims import Claim, read_claims
from cocal_study.evidence.sources import SET_TIMES, TIMES
from cocal_study.exhibits.base.exhibit import Exhibit, TableExhibit
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.provenance.owner import owner_of

ROOT = Path(__file__).resolve().parents[1]
PAGE, DIGESTS = ROOT / "docs/artifact.md", ROOT / "config/digests/embedded.json"


@dataclass(frozen=True)
class Job:
    """A job of the plan, with what it took."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    seconds: float
    memory: float
    """Largest resident memory in MiB; NaN if the job was too short to be measured."""
    disk: int
    """Bytes of its outputs."""


def planned() -> str:
    """What Snakemake says of all jobs of the embedded study."""
    with tempfile.TemporaryDirectory() as empty:
        # the profile of this folder would choose a terminal that shows less
        words = ["snakemake", "--dry-run", "--workflow-profile", "none", "--cores", "1", "--directory", empty]
        done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def jobs_of(plan: str, results: Path) -> list[Job]:
    """The jobs of a dry-run, measured by the files of a finished study."""
    found = []
    for block in re.findall(r"^(?:local)?rule \w+:\n((?: {4}.*\n)+)", plan, re.MULTILINE):
        said = dict(re.findall(r"^ {4}(\w+): (.*)$", block, re.MULTILINE))
        if "benchmark" in said:
            inputs, outputs = (tuple(filter(None, said.get(key, "").split(", "))) for key in ("input", "output"))
            measured = pd.read_csv(results.parent / said["benchmark"], sep="\t").iloc[0]
            disk = sum(_size(results.parent / output) for output in outputs)
            # of the processor, which other work on the machine does not change; a short job's is not measured
            seconds, memory = (pd.to_numeric(measured[name], "coerce") for name in ("cpu_time", "max_rss"))
            seconds = measured["s"] if np.isnan(seconds) else seconds
            found.append(Job(inputs, outputs, seconds, memory, disk))
    return found


def needed(targets: Iterable[str], jobs: list[Job]) -> list[Job]:
    """The jobs that make the targets from nothing."""
    makers = {output: job for job in jobs for output in job.outputs}
    todo, found = list(targets), {}
    while todo:
        path = todo.pop()
        maker = next((makers[one] for one in (path, *map(str, Path(path).parents)) if one in makers), None)
        if maker is not None and maker.outputs not in found:
            found[maker.outputs] = maker
            todo += maker.inputs
    return list(found.values())


def exhibit_of(claim: Claim) -> str:
    """The table or figure of the study that shows the numbers of a claim with a predicate, by name."""
    said, scope = claim.predicate.model_dump(), claim.scope
    metrics = {said.get("metric"), *said.get("metrics", ()), *said.get("falls", ())}
    methods = " ".join([said.get("method", ""), *said.get("methods", ()), *said.get("than", ())])
    end = {(40,): "main_step40", (80,): "main_step80", (120,): "main"}.get(scope.steps, "training_dynamics")
    places = [
        ("time_to_confidence", metrics & {*SET_TIMES}),
        ("cost", metrics & {*TIMES, "prediction_over_generation"}),
        ("claims", metrics & {"training_responses", "validation_responses"}),
        ("reliability_all", metrics & {"extreme_share", "high_share", "used_bins"} or len(scope.datasets) > 2),
        ("composition", scope.comparison == "budgets" and metrics & {"error_share", "mean_confidence"}),
        ("budgets", scope.comparison == "budgets"),
        ("cross_iteration", scope.comparison == "sweep" and scope.off_diagonal),
        ("early_steps", scope.comparison == "sweep"),
        ("cross_policy", scope.comparison == "cross-policy"),
        ("layers", re.search("@(layer|early|late)", methods)),
        ("token_aggregation", "@" in methods),
        ("pre_generation", "pre-generation" in methods),
        ("ood", "macro-factual" in scope.datasets),
        ("scale", "second" in scope.backbones),
        (end, True),
    ]
    return next(name for name, there in places if there)


def file_of(exhibit: Exhibit) -> str:
    """The file that is asked for, below results."""
    return f"tables/{exhibit.name}.tex" if isinstance(exhibit, TableExhibit) else f"figures/{exhibit.name}.pdf"


def measured(jobs: list[Job]) -> str:
    """What the whole study takes, as rows of a table."""
    half = sum(job.seconds for job in jobs) / 60 / 2
    return "\n".join(
        [
            "| | |",
            "|---|---|",
            f"| time | {len(jobs)} jobs, {_minutes(jobs)} of one core, {half:.0f} min on two at best |",
            f"| memory | {_memory(jobs)} for the largest job; two run at a time |",
            f"| disk | {_disk(jobs)} of results, {_size(Path(sys.prefix)) / 2**30:.1f} GiB of packages |",
            f"| measured on | {processor()}, {os.cpu_count()} cores |",
        ]
    )


def shown(exhibits: list[Exhibit], claims: Iterable[Claim], jobs: list[Job], digests: Mapping[str, str]) -> str:
    """A row for each table and figure, and the claims whose numbers each shows."""
    of_exhibit = {exhibit.name: [] for exhibit in exhibits}
    for claim in claims:
        if claim.predicate is not None:
            name = exhibit_of(claim)
            of_exhibit[name if name in of_exhibit else "claims"].append(claim.id)  # of layers, where there are two
    lines = [
        "| table or figure | claims | command | from nothing | last job | memory | disk | digest of the numbers |",
        "|---|--:|---|--:|--:|--:|--:|---|",
    ]
    for exhibit in exhibits:
        file = file_of(exhibit)
        ours, last = needed([f"results/{file}"], jobs), [job for job in jobs if f"results/{file}" in job.outputs]
        lines.append(
            f"| {exhibit.title} | {len(of_exhibit[exhibit.name]) or ''} | `snakemake results/{file}` | "
            f"{_minutes(ours)} | {last[0].seconds:.0f} s | {_memory(ours)} | {_disk(ours)} | "
            f"{digests.get(str(Path(file).with_suffix('.csv')), '')} |"
        )
    told = [f"* `{name}`: {', '.join(ids)}" for name, ids in of_exhibit.items() if ids]
    return "\n".join([*lines, "", "The claims, by the table or figure that shows their numbers:", "", *told])


def _minutes(jobs: list[Job]) -> str:
    return f"{sum(job.seconds for job in jobs) / 60:.1f} min"


def _memory(jobs: list[Job]) -> str:
    largest = pd.Series([job.memory for job in jobs]).max()
    return "" if pd.isna(largest) else f"{largest / 1024:.1f} GiB"


def _disk(jobs: list[Job]) -> str:
    return f"{sum(job.disk for job in jobs) / 2**20:.0f} MiB"


def _size(path: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())


def main() -> None:
    """Write both blocks of the page."""
    results = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "results").resolve()
    if owner_of(results) != "embedded":
        raise SystemExit(f"{results} is not that of the embedded study: `make clean reproduce` first")
    exhibits = exhibits_of(configured_study([ROOT / "config/config.yaml"], {}), {}, str(ROOT))
    claims, known = read_claims(ROOT / "config/paper/claims.yaml"), json.loads(DIGESTS.read_text(encoding="utf-8"))
    digests = {name: value for stage in known["digests"].values() for name, value in stage.items()}
    jobs = jobs_of(planned(), results)
    page = with_section(PAGE.read_text(encoding="utf-8"), "measured", measured(jobs))
    PAGE.write_text(with_section(page, "shown", shown(exhibits, claims, jobs, digests)), encoding="utf-8")


if __name__ == "__main__":
    main()
