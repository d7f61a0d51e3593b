"""Cost of training and of inference (section 6.2, tab:cost; appendix E.2)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import StepLayout, TableExhibit, of_main
from cocal_study.exhibits.typesetting.grid import Block, Grid
from cocal_study.exhibits.typesetting.wording import LONG, SHORT, TIMES_DIFFER, counted, listed, said, times
from cocal_study.planning.costs import Cost, Latency
from cocal_study.planning.plan import generated_set, has_methods
from cocal_study.planning.results import benchmark_file, cost_file

_HEADS = {
    "training_llm": "LLM",
    "training_sampling": "Sampling",
    "training_states": "States",
    "training_mlp": "MLP",
    "inference_llm": "LLM",
    "inference_mlp": "MLP",
}
"""Titles of the columns of times."""
_WORK = {
    "training": "LLM training",
    "sampling": "sampling",
    "fit": "fit of CoCal's companions",
    "postcal_fit": "fit of PostCal's companions",
    "latency": "inference",
}
"""The work that the record of costs of each kind has measured."""


_JOBS = {
    "base_job": "pre-training of the base policy",
    "answers_job": "answers of the final policy to the mathematical evaluation questions",
    "states_job": "states of these answers",
}
"""Jobs beside the work of the table, whose times its caption has."""


class Layout(StepLayout):
    generation_label: str
    """Name in print of the set whose questions were generated to time inference."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone, where the study has the methods that it compares and knows how long the policy
    trained, which may be unknown for an imported training."""
    backbone = study.backbones[study.main_backbone]
    imported = backbone.imported.get("grpo")
    timed = imported is None or imported.seconds is not None
    if timed and has_methods(study, "postcal-group", "cocal-group", "cocal-pre-generation"):
        files = ("train-grpo", "resample", "companions-grpo", "companions-postcal", "latency")
        prompts = "The responses to one question share the encoding of its prompt."
        if study.generation.engine.kind == "vllm":
            prompts = "Every response encodes its own prompt: prefix caching is off."
        yield TableExhibit(
            title="Cost of training and inference",
            chapter="Cost",
            position=20,
            caption="Cost of training and inference (the paper's table 2, appendix E.2): sampling is what PostCal "
            "needs on top of the GRPO run, and states is the pass over the responses that reads what companions "
            f"learn from, CoCal's within the GRPO run and timed apart. {prompts}",
            layout=Layout(**of_main(study), generation_label=study.datasets[generated_set(study)].label),
            inputs={kind: [cost_file(study.main_backbone, file)] for kind, file in zip(_WORK, files, strict=True)}
            | _jobs(study),
        )


def _jobs(study: Study) -> dict[str, list[str]]:
    """The benchmark files of the jobs of `_JOBS` that the study has."""
    name, jobs = study.main_backbone, {}
    if study.backbones[name].source == "pretraining":
        jobs["base_job"] = [benchmark_file("backbone", name)]
    if study.evaluation_sets("mathematics"):
        answers = f"{name}-grpo-{study.policy.steps}-answer"
        jobs["answers_job"] = [benchmark_file("responses", answers)]
        jobs["states_job"] = [benchmark_file("features", answers)]
    return jobs


def prepare(
    layout: Layout,
    *,
    training: Cost,
    sampling: Cost,
    fit: Cost,
    postcal_fit: Cost,
    latency: Latency,
    base_job: float | None = None,
    answers_job: float | None = None,
    states_job: float | None = None,
) -> pd.DataFrame:
    """The times of the table in seconds, one row per method: columns method, training_llm, training_sampling,
    training_states, training_mlp, inference_llm, inference_mlp (float64; NaN where a method has no such cost, or it was
    not timed). Inference is per question. The columns base_job, answers_job and states_job repeat in each row the
    seconds of whole jobs that several methods need."""
    policy, nothing = training.seconds, float("nan")
    generation, pool, prediction = latency.generation_seconds, latency.pool_seconds, latency.prediction_ms / 1000
    live, later = (part.states_seconds or nothing for part in (training, sampling))
    rows = [
        ("CoCal", policy, nothing, live, fit.seconds, generation, prediction),
        ("PostCal", policy, sampling.seconds, later, postcal_fit.seconds, generation, prediction),
        ("SelfConsis", policy, nothing, nothing, nothing, pool, nothing),
    ]
    jobs = {"base_job": base_job, "answers_job": answers_job, "states_job": states_job}
    return pd.DataFrame(rows, columns=["method", *_HEADS]).assign(**jobs).astype(dict.fromkeys(jobs, float))


def grid(numbers: pd.DataFrame, layout: Layout, **costs: Any) -> Grid:
    """Set the table; every column has the unit that suits its longest time."""
    if numbers["training_states"].isna().all():  # an imported training, whose states are read by a job of their own
        numbers = numbers.drop(columns="training_states")
    columns = [name for name in _HEADS if name in numbers]
    printed = [times(list(numbers[name]), LONG if name.startswith("training") else SHORT) for name in columns]
    heads = [
        [name.partition("_")[0].capitalize() for name in columns],
        [_HEADS[name] for name in columns],
        [f"({unit})" for unit, _ in printed],
    ]
    rows = zip(numbers["method"], *(texts for _, texts in printed), strict=True)
    return Grid(
        title=f"Cost of training and inference, {layout.backbone_label}, step {layout.step}",
        caption=_caption(layout, costs),
        blocks=(Block("Method", heads, [("", [(method, texts) for method, *texts in rows])]),),
    )


def _caption(layout: Layout, costs: Mapping[str, Any]) -> str:
    training, sampling, fit, postcal_fit, latency = (costs[kind] for kind in _WORK)
    fitted = counted(fit.items, "companion")
    if postcal_fit.items != fit.items:
        fitted += f" of CoCal and {counted(postcal_fit.items, 'companion')} of PostCal"
    pool, pooled = f"{counted(latency.pool, 'response')} each", latency.pool_questions
    if pooled and pooled < latency.generation_questions:
        pool += f" to {pooled} of them"
    work: dict[str, list[str]] = {}
    for kind, words in _WORK.items():
        work.setdefault(costs[kind].device, []).append(words)
    devices = [device if len(work) == 1 else f"{device} ({listed(done)})" for device, done in work.items()]
    return said(
        f"Training costs, and inference costs per question, using {layout.backbone_label} after {layout.step} training "
        "steps.",
        layout.caption,
        f"Training: {counted(training.items, 'rollout step')} of the LLM, sampling of "
        f"{counted(sampling.items, 'response')}, and {fitted}, all fitted together.",
        f"Inference: the LLM on {counted(latency.generation_questions, f'{layout.generation_label} question')} in one "
        f"batch, one response each, for SelfConsis {pool}; the companion, an MLP, "
        f"on one response at a time, {counted(latency.predictions, 'prediction')}.",
        f"Measured on {'; '.join(devices)}.",
        _other_jobs(costs),
        TIMES_DIFFER,
    )


def _other_jobs(costs: Mapping[str, Any]) -> str:
    """The sentence on the jobs beside the work of the table; empty if there are none."""
    timed = []
    for kind, words in _JOBS.items():
        if costs.get(kind) is not None:
            unit, (shown,) = times([costs[kind]], LONG)
            timed.append(f"{words} {shown} {unit}")
    return f"Whole jobs that several methods need, with their start: {listed(timed)}." if timed else ""
