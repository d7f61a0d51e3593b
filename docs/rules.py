"""The page of the workflow's rules: what each makes, needs and waits for, as a table and as a drawing."""

import re
import subprocess
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure

import cocal_study
from cocal_study.config.study import configured_study
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.registry import registry_of
from cocal_study.stages.rules import Plan

ROOT = Path(cocal_study.__file__).resolve().parents[2]
STUDY = ROOT / "config/config.yaml"
SHOWN = "tables and figures"
"""The node that stands for the rules of all exhibits."""


def graph() -> Mapping[str, frozenset[str]]:
    """The rules that each rule of the embedded study waits for, as Snakemake plans it in an empty folder."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--rulegraph"]
    with TemporaryDirectory() as empty:
        text = subprocess.run([*command, "--directory", empty], check=True, capture_output=True, text=True).stdout
    names = dict(re.findall(r'^\s*(\d+)\[label = "(\w+)"', text, re.MULTILINE))
    found: dict[str, set[str]] = {}
    for before, after in re.findall(r"^\s*(\d+) -> (\d+)", text, re.MULTILINE):
        first, second = (
            SHOWN if re.match("table_|figure_|landing", names[one]) else names[one] for one in (before, after)
        )
        if second not in (first, "all"):
            found.setdefault(second, set()).add(first)
    return {rule: frozenset(waits) for rule, waits in found.items()}


def rules_page(waits: Mapping[str, frozenset[str]]) -> str:
    """One row for each rule of the embedded study but those of exhibits."""
    study = configured_study([STUDY], {})
    registry = registry_of(study.question_sets.registered, study.sources.registry)
    plan = Plan(study, numerics=study.numerics, prompts=Prompts(study.prompts), registry=registry)
    rows = ["| rule | makes | waits for | threads | GPUs |", "|---|---|---|--:|--:|"]
    for rule in plan.rules.values():
        files = dict.fromkeys(re.sub(r"[\w-]+\.(parquet|zarr)$", r"*.\1", path) for path in rule.paths)
        made = "<br>".join(f"`{path}`" for path in files)
        named = ", ".join(f"`{one}`" for one in sorted(waits.get(rule.name, ())))
        rows.append(f"| `{rule.name}` | {made} | {named} | {rule.threads or 'all'} | {rule.gpus or ''} |")
    words = (
        "Written from the plan of the embedded study (`cocal_study.stages`, a file for each subject). The rules of "
        "tables and figures follow; each waits for what its exhibit reads. GPUs are used where there are any. "
        "An arrow is left out where others lead to the same rule."
    )
    return "\n\n".join(["# Rules of the workflow", words, "![](rules.png)", "\n".join(rows)]) + "\n"


def draw(waits: Mapping[str, frozenset[str]], output: Path) -> None:
    """Draw the rules in columns, each right of all that it waits for, with arrows from those that no other leads to."""
    order = [*TopologicalSorter(waits).static_order()]
    column: dict[str, int] = {}
    earlier: dict[str, frozenset[str]] = {}
    for rule in order:
        before = waits.get(rule, frozenset())
        column[rule] = 1 + max((column[one] for one in before), default=-1)
        earlier[rule] = before.union(*(earlier[one] for one in before))
    direct = {rule: [one for one in before if not any(one in earlier[other] for other in before)]
              for rule, before in waits.items()}  # fmt: skip
    height: dict[str, float] = {}
    for place in range(max(column.values()) + 1):
        rules = [rule for rule in order if column[rule] == place]
        heights = {rule: [height[one] for one in direct.get(rule, ())] for rule in rules}
        rules.sort(key=lambda rule: (sum(heights[rule]) / max(1, len(heights[rule])), rule))
        height |= {rule: (row + 0.5) / len(rules) for row, rule in enumerate(rules)}
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    ax = figure.add_subplot()
    for rule, before in direct.items():
        for one in before:
            ends = (column[rule] - 0.26, height[rule]), (column[one] + 0.25, height[one])
            ax.annotate("", *ends, arrowprops={"arrowstyle": "-|>", "color": "#909090", "shrinkA": 0, "shrinkB": 0})
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "#444444"}
    for rule, row in height.items():
        words = rule.replace("_", "_\n", 1).replace(" and ", " and\n")
        ax.text(column[rule], row, words, ha="center", va="center", fontsize=9, bbox=box)
    ax.set(xlim=(-0.5, max(column.values()) + 0.5), ylim=(0, 1))
    ax.axis("off")
    figure.savefig(output, dpi=110)
