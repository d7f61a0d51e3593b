"""Rivals on equal footing: scores that learn from the same rollouts as the companions (beyond the paper)."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import pandas as pd
from pydantic import Field

from cocal.config.base import Name
from cocal.config.evaluation import QualitySettings
from cocal.config.methods import METHODS
from cocal.config.study import Study
from cocal.exhibits.base.exhibit import TableExhibit
from cocal.exhibits.base.inputs import seeds_of
from cocal.exhibits.base.layouts import FACTUAL, MATHEMATICS, BackboneLayout, Labelled, of_backbone
from cocal.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal.exhibits.typesetting.numbers import HEADS
from cocal.exhibits.typesetting.rank import marks
from cocal.exhibits.typesetting.rates import doubts, short_rates
from cocal.exhibits.typesetting.wording import BOLD_AND_UNDERLINED, counted
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN
from cocal.metrics.quality import RESTS_ON
from cocal.metrics.shown import BETTER, UNDEFINED, metric_text
from cocal.study.plan import macro_averages
from cocal.study.results import metrics_file
from cocal.study.rivals import CALIBRATIONS, RIVALS, Calibration, all_rivals, named

if TYPE_CHECKING:
    import xarray as xr

_METRICS = ("ece", "auroc")
_LABELS = {
    "token-probability": "TokenProb",
    "least-token-probability": "Least token probability",
    "length": "Length (shorter is surer)",
    "self-consistency-loo": "SelfConsis (leave-one-out)",
    "semantic-entropy": "Semantic entropy",
    "rlcr": "RLCR",
    "dcpo": "DCPO",
    "linear-group": "Linear probe (group)",
    "linear-binary": "Linear probe (binary)",
    "one-layer-group": "One-layer MLP (group)",
    "one-layer-binary": "One-layer MLP (binary)",
    "cocal-group": "CoCal (group)",
    "cocal-binary": "CoCal (binary)",
}
_TITLES: dict[Calibration, str] = {"raw": "As they are", "platt": "Platt scaling", "isotonic": "Isotonic regression"}
_DOMAINS = {MATHEMATICS: "Mathematics", FACTUAL: "Factual QA"}
_NOUNS = {MATHEMATICS: "mathematics", FACTUAL: "factual questions"}


class Layout(BackboneLayout):
    """What the table shows."""

    step: Annotated[int, Field(ge=1)]
    """Policy step whose responses are scored, and last step of the rollouts from which the rivals learn."""
    rivals: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Names of the rivals, in the order of the rows."""
    domains: dict[Name, tuple[Name, ...]]
    """Evaluation sets of each macro average, in the order of the study."""
    quality: QualitySettings = QualitySettings()
    """Floors below which a value is marked."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where the study has a rival."""
    if rivals := all_rivals(study):
        backbone = study.main_backbone
        yield TableExhibit(
            name="recalibrated",
            title="Rivals that learn from the same rollouts",
            chapter="Main results",
            position=13.5,
            caption="Would simpler rivals do as well if they also learnt from the rollouts of training? Scores without "
            "a companion, the stated confidences of RLCR and DCPO, and probes of the same hidden states, each as it is "
            "and after Platt scaling and isotonic regression on rollouts of the training questions, beside CoCal "
            "treated alike. The CSV beside it has every set and 95 % intervals of a bootstrap over questions.",
            layout=Layout(
                **of_backbone(study, backbone),
                step=study.policy.steps,
                rivals=tuple(one.name for one in rivals),
                domains={name: tuple(sets) for name, sets in macro_averages(study, backbone).items()},
                quality=study.quality,
            ),
            inputs={"metrics": metrics_file(backbone, "-recalibrated")},
            backbones=(backbone,),
        )


def prepare(layout: Layout, metrics: "xr.Dataset") -> pd.DataFrame:
    """Return ECE and AUROC of every set and of the macro averages; companions are averaged over their seeds.

    Args:
        layout: What the table shows.
        metrics: Metric cube (`cocal.metrics.cube`) of the recalibrated rivals.

    Returns:
        Columns dataset, method (name of the rival and of what was done to it), rival, calibration, metric, value,
        lower, upper, n, those of `cocal.metrics.quality.RATES`, seed_sd, in the order of the domains, of which the
        macro average comes last, then of the calibrations and of the rivals. The ECE of a score that only ranks is NaN.

    Raises:
        ContractError: if the cube lacks a rival on a dataset.
    """
    cells = {}
    for domain, sets in layout.domains.items():
        for dataset in (*sets, domain):
            for calibration in CALIBRATIONS:
                for rival in layout.rivals:
                    algorithm, step = policy_cell(RIVALS[rival].method, layout.step)
                    method = named(rival, calibration)
                    cells[dataset, method, rival, calibration] = {
                        "backbone": layout.backbone,
                        "algorithm": algorithm,
                        "step": step,
                        "dataset": dataset,
                        "method": method,
                        "seed": MEAN,
                    }
    numbers = read_cells(metrics, cells, ["dataset", "method", "rival", "calibration"], _METRICS)
    ranks = numbers["rival"].map(lambda name: RIVALS[name].ranks_only).astype(bool)
    meaningless = ranks & (numbers["calibration"] == "raw") & (numbers["metric"] == "ece")
    numbers.loc[meaningless, ["value", "lower", "upper", "seed_sd"]] = float("nan")
    return numbers


def grid(numbers: pd.DataFrame, layout: Layout, *, source: str, metrics: "xr.Dataset") -> Grid:
    """Set the table; see `cocal.exhibits.typesetting.accuracy.grid` for the arguments."""
    methods = [named(rival, calibration) for calibration in CALIBRATIONS for rival in layout.rivals]
    cells, lacking = {}, set()
    for domain, sets in layout.domains.items():
        of_sets = numbers[numbers["dataset"].isin(sets)]
        short = short_rates(of_sets, layout.quality, domain, [Labelled(name=name, label=name) for name in sets])
        values = numbers[numbers["dataset"] == domain].set_index(["method", "metric"])["value"]
        for metric in _METRICS:
            texts = [metric_text(metric, values[method, metric]) for method in methods]
            for method, text, mark in zip(methods, texts, marks(texts, BETTER[metric]), strict=True):
                doubtful = text != UNDEFINED and not short[domain, method].isdisjoint(RESTS_ON[metric])
                cells[method, domain, metric] = Cell(text, mark, doubtful)
        lacking = lacking.union(*(short[domain, method] for method in methods))
    columns = [(domain, metric) for domain in layout.domains for metric in _METRICS]

    def row(rival: str, calibration: Calibration) -> Row:
        method = named(rival, calibration)
        return Row(_LABELS[rival], tuple(cells[method, *column] for column in columns))

    return Grid(
        title=f"Rivals that learn from the same rollouts, {layout.backbone_label}, step {layout.step}",
        caption=_caption(layout, seeds_of(metrics), lacking),
        label="recalibrated",
        source=source,
        blocks=(
            Block(
                corner="Score",
                heads=(
                    tuple(Head(_DOMAINS[domain], len(_METRICS)) for domain in layout.domains),
                    tuple(Head(HEADS[metric]) for _, metric in columns),
                ),
                groups=tuple(
                    Group(tuple(row(rival, calibration) for rival in layout.rivals), _TITLES[calibration])
                    for calibration in CALIBRATIONS
                ),
            ),
        ),
        size="footnotesize",
    )


def _caption(layout: Layout, seeds: int, short: set[str]) -> str:
    sets = " and ".join(counted(len(domain), "set") + f" of {_NOUNS[name]}" for name, domain in layout.domains.items())
    chosen = [RIVALS[name] for name in layout.rivals]
    sentences = [
        f"Macro averages over {sets} using {layout.backbone_label} after {layout.step} training steps.",
        layout.caption,
        "Calibrators learn from the rollouts of the training questions alone, from those that the companion is trained "
        "on, or from its held-out questions where a score reads hidden states.",
    ]
    if any(one.reader for one in chosen):
        sentences.append(
            "The linear probe is a logistic regression, and the one-layer MLP has the first hidden layer alone; both "
            f"read CoCal's states and learn its targets. Companion results average {counted(seeds, 'seed')}."
        )
    if any(METHODS[one.method].policy != "grpo" for one in chosen):
        sentences.append("RLCR and DCPO have policies, rollouts and responses of their own.")
    if any(one.ranks_only for one in chosen):
        sentences.append(f"Length only ranks responses and has no ECE as it is ({UNDEFINED}).")
    sentences.append(BOLD_AND_UNDERLINED)
    if short:
        sentences.append(doubts(short, layout.quality))
    return " ".join(filter(None, sentences))
