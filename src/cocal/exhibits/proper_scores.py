"""Proper scores, calibration errors without equal-width bins, and selective risk of every method (beyond the paper)."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
from pydantic import AfterValidator, Field

from cocal.config.base import Name
from cocal.config.evaluation import QualitySettings
from cocal.config.methods import METHODS
from cocal.config.study import Study
from cocal.exhibits.base.exhibit import TableExhibit
from cocal.exhibits.base.inputs import seeds_of
from cocal.exhibits.base.layouts import Labelled, MethodsLayout, distinct, of_backbone
from cocal.exhibits.typesetting.accuracy import main_methods
from cocal.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal.exhibits.typesetting.numbers import HEADS
from cocal.exhibits.typesetting.rank import marks
from cocal.exhibits.typesetting.rates import doubts, short_rates
from cocal.exhibits.typesetting.wording import BOLD_AND_UNDERLINED, counted, listed
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN
from cocal.metrics.quality import RESTS_ON
from cocal.metrics.scores import SCORES
from cocal.metrics.shown import BETTER, UNDEFINED, metric_text
from cocal.study.plan import macro_averages
from cocal.study.results import metrics_file

if TYPE_CHECKING:
    import xarray as xr

_NOUNS = {"macro-mathematics": "mathematical set", "macro-factual": "factual set"}


class ScoredDomain(Labelled):
    """A macro average and the sets that it averages over; its label is what the caption calls one of them."""

    datasets: Annotated[tuple[Name, ...], Field(min_length=1)]


class Layout(MethodsLayout):
    """What the table shows, with one block per domain."""

    step: Annotated[int, Field(ge=0)]
    """Policy step shown; the pre-RL model's rows come from step 0 of "base"."""
    domains: Annotated[tuple[ScoredDomain, ...], Field(min_length=1), AfterValidator(distinct)]
    quality: QualitySettings = QualitySettings()
    """Floors below which a value is marked."""

    def identity(self) -> Any:
        """Return what the digest of the layout is computed from."""
        return self.beside("backbone", "step")


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where the study has a method that it shows."""
    if main_methods(study):
        backbone = study.main_backbone
        yield TableExhibit(
            name="proper_scores",
            title="Proper scores and selective risk",
            chapter="Main results",
            position=14,
            caption="Scores that the paper does not report, as macro averages over the mathematical and over the "
            "factual sets. The Brier score, with its parts, and the log loss reward calibration and discrimination "
            "together; the adaptive and the smooth ECE do not depend on bins of equal width; the areas under the risk, "
            "the prediction rejection ratio and the accuracies of the most confident responses say what abstention "
            "gains. The CSV beside it has every set, 95 % intervals of a bootstrap over questions and n.",
            layout=Layout(
                **of_backbone(study, backbone),
                methods=main_methods(study),
                step=study.policy.steps,
                domains=tuple(
                    ScoredDomain(name=name, label=_NOUNS[name], datasets=tuple(sets))
                    for name, sets in macro_averages(study, backbone).items()
                ),
                quality=study.quality,
            ),
            inputs={"metrics": metrics_file(backbone)},
            backbones=(backbone,),
        )


def prepare(layout: Layout, metrics: "xr.Dataset") -> pd.DataFrame:
    """Return the scores of every set and of the macro averages; methods with seeds are averaged over them.

    Args:
        layout: What the table shows.
        metrics: Metric cube (`cocal.metrics.cube`) with all of `cocal.metrics.scores.SCORES`.

    Returns:
        Columns dataset, method, metric, value, lower, upper, n, those of `cocal.metrics.quality.RATES`, seed_sd, in the
        order of the domains, of which the macro average comes last, then the methods, then the scores.

    Raises:
        ContractError: if the cube lacks a method on a dataset, or the scores.
    """
    cells = {}
    for domain in layout.domains:
        for dataset in (*domain.datasets, domain.name):
            for method in layout.methods:
                algorithm, policy_step = policy_cell(method, layout.step)
                cells[dataset, method] = {
                    "backbone": layout.backbone,
                    "algorithm": algorithm,
                    "step": policy_step,
                    "dataset": dataset,
                    "method": method,
                    "seed": MEAN,
                }
    return read_cells(metrics, cells, ["dataset", "method"], SCORES)


def grid(numbers: pd.DataFrame, layout: Layout, *, source: str, metrics: "xr.Dataset") -> Grid:
    """Set the table; see `cocal.exhibits.typesetting.accuracy.grid` for the arguments."""
    short = {domain.name: _short(numbers, layout, domain) for domain in layout.domains}
    blocks = tuple(_block(numbers, layout, domain, short[domain.name]) for domain in layout.domains)
    shown = [cell.text for block in blocks for group in block.groups for row in group.rows for cell in row.cells]
    lacking = {rate for of_methods in short.values() for rates in of_methods.values() for rate in rates}
    return Grid(
        title=f"Proper scores and selective risk, {layout.backbone_label}, step {layout.step}",
        caption=_caption(layout, seeds_of(metrics), UNDEFINED in shown, lacking),
        label="proper_scores",
        source=source,
        blocks=blocks,
        gap="2.6pt",
    )


def _short(numbers: pd.DataFrame, layout: Layout, domain: ScoredDomain) -> dict[str, set[str]]:
    """By method, the names of the rates that lie below their floor on any set of the domain."""
    sets = [Labelled(name=name, label=name) for name in domain.datasets]
    of_sets = numbers[numbers["dataset"].isin(domain.datasets)]
    found = short_rates(of_sets, layout.quality, domain.name, sets)
    return {method: found[domain.name, method] for method in layout.methods}


def _block(numbers: pd.DataFrame, layout: Layout, domain: ScoredDomain, short: Mapping[str, set[str]]) -> Block:
    values = numbers[numbers["dataset"] == domain.name].set_index(["method", "metric"])["value"]
    cells = {}
    for score in SCORES:
        texts = [metric_text(score, values[method, score]) for method in layout.methods]
        for method, text, mark in zip(layout.methods, texts, marks(texts, BETTER[score]), strict=True):
            doubtful = text != UNDEFINED and not short[method].isdisjoint(RESTS_ON[score])
            cells[method, score] = Cell(text, mark, doubtful)
    return Block(
        corner="Method",
        heads=(
            (Head(f"Macro average over {counted(len(domain.datasets), domain.label)}", len(SCORES)),),
            tuple(Head(HEADS[score]) for score in SCORES),
        ),
        groups=tuple(
            Group(tuple(Row(METHODS[name].label, tuple(cells[name, score] for score in SCORES)) for name in names))
            for _, names in groupby(layout.methods, lambda name: METHODS[name].group)
        ),
        width=1,
    )


def _caption(layout: Layout, seeds: int, undefined: bool, short: set[str]) -> str:
    sets = listed([counted(len(domain.datasets), domain.label) for domain in layout.domains])
    sentences = [
        f"Proper scores, calibration errors and selective risk on {sets} using {layout.backbone_label} after "
        f"{layout.step} training steps.",
        layout.caption,
        "Rel., Res. and Unc. are the reliability, resolution and uncertainty of the Brier score in the bins of the "
        "ECE; the uncertainty belongs to the responses and has no mark.",
        "LogLoss is in nats, with confidences at least 1.2 × 10⁻⁷ away from 0 and 1.",
        "AdaECE has bins of equally many responses, and SmECE is the smooth ECE.",
        "AURC and AUGRC are the areas under the selective and the generalised risk, and PRR is the prediction "
        "rejection ratio.",
        "Acc@80 and Acc@50 are the accuracies (%) of the most confident 80 % and 50 % of the responses.",
        "Methods with responses of their own also differ in accuracy.",
    ]
    if any(METHODS[name].target for name in layout.methods):
        sentences.append(f"Companion results average {counted(seeds, 'seed')}.")
    sentences.append(BOLD_AND_UNDERLINED)
    if undefined:
        sentences.append(f"{UNDEFINED} marks an undefined value, such as the PRR of a single class.")
    if short:
        sentences.append(doubts(short, layout.quality))
    return " ".join(filter(None, sentences))
