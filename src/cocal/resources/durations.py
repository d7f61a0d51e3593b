"""Expected duration of a job of each rule. The terminal's progress and time left start from these numbers, and the
times of finished jobs replace them (src/snakemake_logger_plugin_cocal)."""

from collections import defaultdict

from cocal.config.backbone import PretrainingSettings
from cocal.config.study import Study
from cocal.resources.estimate import PROCESSOR, Assumptions, parameters_of, workloads
from cocal.resources.rules import RULES

_DOCUMENT_SECONDS = 1.6e-8
"""Seconds that one core needs to pre-train on a document of the corpus, per parameter of the policy."""
_READING = 0.1
"""Time to read rollouts again, as a multiple of the time to sample them."""


def seconds_by_rule(study: Study) -> dict[str, float]:
    """Expected seconds of one job of each rule, or kind of rule, of a study, as the mean over its backbones.

    The times of rules that train, sample, extract or fit are estimated as in `cocal plan`: for the paper's GPU, or for
    one core if the workflow trains the backbone from scratch. The times of other rules are in the table of rules.
    """
    hours: defaultdict[str, float] = defaultdict(float)
    jobs: defaultdict[str, int] = defaultdict(int)
    for work in workloads(study, Assumptions()):
        hours[work.rule] += work.hours
        jobs[work.rule] += work.jobs
    seconds = {rule: 3600 * hours[rule] / jobs[rule] for rule in hours if jobs[rule]}
    seconds["slime_"] = seconds["train_"]
    if "resample" in seconds:
        seconds["replay"] = _READING * seconds["resample"]
    made = [one for one in study.backbones.values() if isinstance(one, PretrainingSettings)]
    if made:
        work = [one.steps * one.batch_size * parameters_of(one, one.architecture.vocabulary) for one in made]
        seconds["backbone"] = 60 * PROCESSOR.start_minutes + _DOCUMENT_SECONDS * sum(work) / len(made)
    return {name: rule.seconds for name, rule in RULES.items() if rule.seconds is not None} | seconds
