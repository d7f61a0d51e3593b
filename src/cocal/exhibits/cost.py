"""Cost of training and of inference (section 6.2, tab:cost; appendix E.2)."""

from dataclasses import dataclass

import pandas as pd

from cocal.exhibits.layout import CostLayout
from cocal.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal.exhibits.typesetting.numbers import LONG, SHORT, times
from cocal.exhibits.typesetting.wording import TIMES_DIFFER, counted, listed
from cocal.study.costs import Cost, Latency

_TRAINING = ("LLM", "Sampling", "MLP")
_INFERENCE = ("LLM", "MLP")


@dataclass(frozen=True)
class Costs:
    """What was measured of one backbone.

    Attributes:
        training: of the policy, by rollout step.
        sampling: of PostCal's responses.
        companions: of the fit on all rollouts, by companion; they are fitted together.
        postcal_companions: the same on PostCal's responses.
        latency: of inference.
    """

    training: Cost
    sampling: Cost
    companions: Cost
    postcal_companions: Cost
    latency: Latency


def prepare_cost(costs: Costs) -> pd.DataFrame:
    """The times of the table in seconds, one method a row.

    Returns:
        Columns method, training_llm, training_sampling, training_mlp, inference_llm, inference_mlp (float64; NaN
        where a method has no such cost). Inference is per question.
    """
    policy, latency = costs.training.seconds, costs.latency
    one, pool, prediction = latency.generation_seconds, latency.pool_seconds, latency.prediction_ms / 1000
    nothing = float("nan")
    return pd.DataFrame(
        [
            ("CoCal", policy, nothing, costs.companions.seconds, one, prediction),
            ("PostCal", policy, costs.sampling.seconds, costs.postcal_companions.seconds, one, prediction),
            ("SelfConsis", policy, nothing, nothing, pool, nothing),
        ],
        columns=["method", "training_llm", "training_sampling", "training_mlp", "inference_llm", "inference_mlp"],
    )


def cost_grid(numbers: pd.DataFrame, layout: CostLayout, costs: Costs, *, source: str) -> Grid:
    """The table of the prepared numbers; every column has the unit that suits its longest time."""
    columns = [
        times(list(numbers[name]), LONG if name.startswith("training") else SHORT) for name in numbers.columns[1:]
    ]
    rows = zip(numbers["method"], *(texts for _, texts in columns), strict=True)
    block = Block(
        corner="Method",
        heads=(
            (Head("Training", len(_TRAINING)), Head("Inference", len(_INFERENCE))),
            tuple(Head(part) for part in (*_TRAINING, *_INFERENCE)),
            tuple(Head(f"({unit.name})") for unit, _ in columns),
        ),
        groups=(Group(tuple(Row(method, tuple(map(Cell, texts))) for method, *texts in rows)),),
    )
    return Grid(
        title=f"Cost of training and inference, {layout.backbone_label}, step {layout.step}",
        caption=_caption(layout, costs),
        label="cost",
        source=source,
        blocks=(block,),
    )


def _caption(layout: CostLayout, costs: Costs) -> str:
    latency, postcal = costs.latency, costs.postcal_companions
    fitted = counted(costs.companions.items, "companion")
    if postcal.items != costs.companions.items:
        fitted += f" of CoCal and {counted(postcal.items, 'companion')} of PostCal"
    sentences = (
        f"Training costs, and inference costs per question, using {layout.backbone_label} after {layout.step} training "
        "steps.",
        layout.caption,
        f"Training: {counted(costs.training.items, 'rollout step')} of the LLM, sampling of "
        f"{counted(costs.sampling.items, 'response')}, and {fitted}, all fitted together.",
        f"Inference: the LLM on {counted(latency.generation_questions, f'{layout.generation_label} question')} in one "
        f"batch, one response each, for SelfConsis {counted(latency.pool, 'response')} each; the companion, an MLP, "
        f"on one response at a time, {counted(latency.predictions, 'prediction')}.",
        _devices(costs),
        TIMES_DIFFER,
    )
    return " ".join(sentences)


def _devices(costs: Costs) -> str:
    parts: dict[str, list[str]] = {}
    for part, device in (
        ("LLM training", costs.training.device),
        ("sampling", costs.sampling.device),
        ("fit of CoCal's companions", costs.companions.device),
        ("fit of PostCal's companions", costs.postcal_companions.device),
        ("inference", costs.latency.device),
    ):
        parts.setdefault(device, []).append(part)
    if len(parts) == 1:
        return f"Measured on {costs.training.device}."
    return f"Measured on {'; '.join(f'{device} ({listed(done)})' for device, done in parts.items())}."
