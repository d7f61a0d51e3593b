"""How long a job of each rule is expected to take, before anything was measured: what the terminal's share of the work
and time left begin with. Jobs that have run replace these numbers (src/snakemake_logger_plugin_cocal)."""

from collections import defaultdict

from cocal.config.backbone import Pretraining
from cocal.config.study import Study
from cocal.estimate import PROCESSOR, Assumptions, parameters_of, workloads

SHORT = {
    "questions": 2,
    "table_": 2,
    "figure_": 4,
    "metrics": 4,
    "predictions": 5,
    "checks": 4,
    "latency": 30,
    "all": 0,
}
"""Seconds of jobs that take about as long in every study, by rule; an underscore stands for all that begin so."""

_PRETRAINING_RATE = 1.7e10
"""Products of a parameter and a token that one core pre-trains in a second, all six passes of them."""
_DOCUMENT_TOKENS = 45
"""Mean length of a document of the pre-training corpus, padding included."""


def seconds_by_rule(study: Study) -> dict[str, float]:
    """Expected seconds of one job of each rule that a study can have, the mean over its backbones.

    Rules that train, sample, extract or fit follow the estimate of `cocal plan`: of a GPU as the paper states it, or
    of one core for backbones that are trained here from nothing. The rest is `SHORT`.
    """
    hours: defaultdict[str, float] = defaultdict(float)
    jobs: defaultdict[str, int] = defaultdict(int)
    for work in workloads(study, Assumptions()):
        hours[work.rule] += work.hours
        jobs[work.rule] += work.jobs
    seconds = {rule: 3600 * hours[rule] / jobs[rule] for rule in hours if jobs[rule]}
    seconds |= dict.fromkeys(("train_coupled", "slime"), seconds["train"])
    seconds |= {"replay": seconds.get("resample", 0.0) / 4, "sweep_predictions": SHORT["predictions"]}
    made = [one for one in study.backbones.values() if isinstance(one, Pretraining)]
    if made:
        tokens = [one.steps * one.batch_size * _DOCUMENT_TOKENS * parameters_of(one, 0) for one in made]
        seconds["backbone"] = 60 * PROCESSOR.start_minutes + 6 * sum(tokens) / len(made) / _PRETRAINING_RATE
    return SHORT | seconds
