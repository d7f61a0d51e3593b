"""The jobs of a study as the workflow plans them, without Snakemake: from the targets back to what has no maker."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import RootModel
from snakemake.io import regex_from_filepattern

from cocal_study.config.paths import located
from cocal_study.config.study import Study, configured_study
from cocal_study.exhibits.base.exhibit import Exhibit, TableExhibit
from cocal_study.exhibits.base.registry import exhibit_parameters, exhibits_of
from cocal_study.planning import results
from cocal_study.policy.objectives import OBJECTIVES
from cocal_study.questions.loaders import counted
from cocal_study.questions.prompts import JUDGE_FORMATS, Prompts, judge_prompts
from cocal_study.questions.registry import Registry, known_wrong, registry_of
from cocal_study.stages.jobs import Rule, either
from cocal_study.stages.rules import Plan
from sample_predictions import OURS
from started import ROOT

IMPORTED = {"stages": {2: "/elsewhere", 4: "/elsewhere"}, "rollouts": {"format": "slime", "path": "/elsewhere"}}
"""A training that was run elsewhere."""


FIXED_BASELINES = (
    *("token-probability", "least-token-probability", "length", "self-consistency-loo", "semantic-entropy"),
    *("rlcr", "dcpo", "linear-group", "linear-binary"),
    *("one-layer-group", "one-layer-binary", "cocal-group", "cocal-binary", "postcal-group", "postcal-binary"),
)
"""The baselines whose plans, tables and figures golden files have, as they have those of the methods `OURS`: one that
is added changes none of them."""


@dataclass(frozen=True)
class PlannedJob:
    """A job with what it makes, reads and depends on."""

    rule: str
    label: str
    """Its rule, with the variant, the comparison or the cube where the rule has one: "postcal companions"."""
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    settings: dict[str, Any]
    words: tuple[str, ...]
    texts: str
    parameters: str


def study_of(name: str, **changes: Any) -> Study:
    """A study of config/, with other values of some keys (nested mappings)."""
    return configured_study([ROOT / f"config/{name}.yaml"], changes)


def fixed_study(name: str, **changes: Any) -> Study:
    """A study of config/ that compares `OURS`, with other values of some keys (nested mappings)."""
    fixed = {"estimators": {"methods": list(OURS)}, "reports": {"baselines": list(FIXED_BASELINES)}}
    return study_of(name, **fixed, **changes)


def jobs_of(configured: Study, prompts: Any = None, judge_texts: str | None = None) -> dict[str, PlannedJob]:
    """All jobs of a study by each of their outputs; with other texts of prompts and of the judge, if they are given."""
    configured = counted(configured, ROOT)
    study = located(configured, ROOT, ROOT)
    if judge_texts is None:
        texts = judge_prompts(study.judge.prompts) if study.judge.kind == "llm" else None
        judge_texts = texts.digest(*JUDGE_FORMATS) if texts else ""
    plan = _plan(study, prompts or Prompts(study.prompts), judge_texts)
    wrong = known_wrong(study.question_sets.registered, _registry(study))
    shown = exhibits_of(configured, wrong, os.path.relpath(ROOT))
    found = {output: job for job in map(_of_exhibit, shown) for output in job.outputs}
    patterns = [(rule, _pattern(path, plan, rule)) for rule in plan.rules.values() for path in rule.paths]
    todo = [results.checks_file(backbone) for backbone in study.backbones]
    todo += [file for job in found.values() for file in job.inputs]
    while todo:
        file = todo.pop()
        if file in found:
            continue
        matches = [(rule, match.groupdict()) for rule, pattern in patterns if (match := pattern.fullmatch(file))]
        assert len(matches) < 2, f"{file} has several rules: {matches}"
        for rule, wildcards in matches:
            job = rule.job(**wildcards)
            outputs = tuple(path.format(**wildcards) for path in rule.paths)
            kind = "".join(wildcards.get(name, "") for name in ("variant", "comparison", "cube")).strip("-")
            label = f"{kind} {rule.name}".strip()
            planned = PlannedJob(
                rule.name,
                label,
                outputs,
                tuple(job.inputs),
                {name: _plain(getattr(job.stage, name)) for name in job.stage.model_fields_set},
                tuple(job.stage.words),
                job.texts,
                str(job.parameters),
            )
            found |= dict.fromkeys(outputs, planned)
            todo += job.inputs
    return found


def rules_of_any_study() -> dict[str, Rule]:
    """All rules but those of exhibits, by name. No study has all of them."""
    imported = {name: {"imported": dict.fromkeys(OBJECTIVES, IMPORTED)} for name in ("smoke", "smoke-deep")}
    trainings = ({}, {"backbones": imported})
    studies = [study_of("paper"), *(study_of("smoke", **changes) for changes in trainings)]
    plans = (_plan(located(study, ROOT, ROOT), Prompts(study.prompts), "") for study in studies)
    return {name: rule for plan in plans for name, rule in plan.rules.items()}


def _plan(study: Study, prompts: Any, judge_texts: str) -> Plan:
    numerics, registry = study.numerics, _registry(study)
    return Plan(study, numerics=numerics, prompts=prompts, registry=registry, judge_texts=judge_texts)


def _registry(study: Study) -> Registry:
    """The registered sources of a study."""
    return registry_of(study.question_sets.registered, study.sources.registry)


def _plain(value: Any) -> Any:
    """A setting without its wrapping: paths as text, and choices of one kind as what was chosen."""
    if isinstance(value, RootModel):
        return value.root
    return str(value) if isinstance(value, Path) else value


def _of_exhibit(exhibit: Exhibit) -> PlannedJob:
    place = results.table_file if isinstance(exhibit, TableExhibit) else results.figure_file
    name = f"{'table' if isinstance(exhibit, TableExhibit) else 'figure'}_{exhibit.name}"
    inputs = tuple(path for files in exhibit.waits_for.values() for path in files)
    parameters = str(exhibit_parameters(exhibit))
    return PlannedJob(name, name, (place(exhibit.name),), inputs, {}, tuple(exhibit.arguments), "", parameters)


def _pattern(path: str, plan: Plan, rule: Rule) -> re.Pattern:
    """The regular expression of an output, as Snakemake makes it."""
    for name, allowed in (plan.wildcards | {name: either(values) for name, values in rule.limits.items()}).items():
        path = path.replace(f"{{{name}}}", f"{{{name},{allowed}}}", 1)
    return re.compile(regex_from_filepattern(path))
