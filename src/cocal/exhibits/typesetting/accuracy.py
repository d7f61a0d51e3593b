"""The table of accuracy, mean confidence, ECE and AUROC of every method. The main table (table 1) shares it with its
forms at earlier stages (appendix C.1), under transfer to factual questions, and for another backbone (appendix F.1)."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
from pydantic import Field

from cocal.config.base import Name
from cocal.config.evaluation import QualitySettings
from cocal.config.methods import METHODS, MethodName
from cocal.config.study import Study
from cocal.exhibits.base.inputs import seeds_of
from cocal.exhibits.base.layouts import MATHEMATICS, Labelled, Labels, MethodsLayout, labelled, of_backbone
from cocal.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal.exhibits.typesetting.numbers import HEADS
from cocal.exhibits.typesetting.rank import marks
from cocal.exhibits.typesetting.rates import doubts, rate_block, short_rates
from cocal.exhibits.typesetting.wording import BOLD_AND_UNDERLINED, UNDEFINED_VALUE, counted
from cocal.metrics.calibration import METRICS
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN
from cocal.metrics.quality import RESTS_ON
from cocal.metrics.shown import BETTER, UNDEFINED, metric_text
from cocal.study.plan import available_methods

if TYPE_CHECKING:
    import xarray as xr

_BLOCK = 3
"""Number of data sets side by side in one block."""

CAPTION = """The best value of a column is bold and the second best underlined, decided on the numbers as shown; mean
confidence is neither good nor bad. The page shows the macro average first, print shows it last. The CSV beside it adds
95 % intervals of a bootstrap over questions and n. Both list the shares of responses with a valid confidence, with an
answer and with a verdict; a dagger marks values that rest on too few of them."""
"""What the report says of every table of this kind."""


class AccuracyLayout(MethodsLayout):
    """Layout of tables/main, at the last stage or an earlier one, and of tables/ood and tables/scale."""

    step: Annotated[int, Field(ge=0)]
    """Policy step shown; the pre-RL model's rows come from step 0 of "base"."""
    datasets: Labels
    """Evaluation sets, in order."""
    macro: Name = MATHEMATICS
    """Group of datasets whose macro average is the last column block."""
    macro_label: str = "Macro Average"
    label: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")] = "main"
    """LaTeX label, after `tab:`."""
    highlight: MethodName | None = None
    """Method whose name is bold."""
    subject: str = "Accuracy and confidence quality"
    """First words of the caption, before `on five mathematical sets`."""
    sets: str = "mathematical set"
    """What the caption calls one of the data sets."""
    remark: str = ""
    """Sentence of the caption about this table alone."""
    quality: QualitySettings = QualitySettings()
    """Floors below which a value is marked."""

    def identity(self) -> Any:
        """Return what the digest of the layout is computed from."""
        return self.beside("backbone", "step")

    @property
    def columns(self) -> tuple[Labelled, ...]:
        """Data sets of the table and, last, their macro average."""
        return (*self.datasets, Labelled(name=self.macro, label=self.macro_label))


def accuracy_layout(
    study: Study, wrong: Mapping[str, int], domain: str = "mathematics", **fields: Any
) -> AccuracyLayout:
    """Return the layout for the main backbone at the end of training, changed by `fields`.

    Args:
        study: The study.
        wrong: By data set, how many of its rows are known to be wrong.
        domain: Domain of the evaluation sets.
        fields: Further or other fields; `remark` stands before the sentences about rows known to be wrong.
    """
    backbone = fields.pop("backbone", study.main_backbone)
    remark = " ".join([*filter(None, [fields.pop("remark", "")]), *_wrong_rows(study, domain, wrong)])
    given = {"step": study.policy.steps, "methods": main_methods(study), "remark": remark} | fields
    return AccuracyLayout(
        **of_backbone(study, backbone),
        quality=study.quality,
        datasets=labelled(study, study.evaluation_sets(domain)),
        **given,
    )


def main_methods(study: Study) -> tuple[str, ...]:
    """Return the study's methods that the main table shows."""
    return tuple(m for m in available_methods(study) if METHODS[m].group is not None)


def stage_methods(study: Study) -> tuple[str, ...]:
    """Return those of `reports.stage_methods` that the study has."""
    available = available_methods(study)
    return tuple(m for m in study.reports.stage_methods if m in available)


def _wrong_rows(study: Study, domain: str, wrong: Mapping[str, int]) -> list[str]:
    """Return sentences for the caption about rows of the sets that are known to be wrong, if there are such rows."""
    shown = {name: study.datasets[name] for name in study.evaluation_sets(domain) if name in wrong}
    sentences = []
    for mended, fate in ((False, "kept as distributed"), (True, "corrected")):
        sets = [f"{d.label} ({wrong[n]} of {d.size})" for n, d in shown.items() if d.source.corrections == mended]
        if sets:
            sentences.append(f"Questions or answers known to be wrong are {fate}: {', '.join(sets)}.")
    return sentences


def prepare(layout: AccuracyLayout, metrics: "xr.Dataset") -> pd.DataFrame:
    """Return the numbers of the table, one per row; methods with seeds are averaged over them.

    Args:
        layout: What the table shows.
        metrics: Metric cube (`cocal.metrics.cube`).

    Returns:
        Columns dataset, method, metric, value, lower, upper, n, those of `cocal.metrics.quality.RATES`, seed_sd, in the
        order of the layout's columns, then its methods, then the metrics.

    Raises:
        ContractError: if the cube lacks a method on a dataset.
    """
    cells = {}
    for column in layout.columns:
        for method in layout.methods:
            algorithm, policy_step = policy_cell(method, layout.step)
            cells[column.name, method] = {
                "backbone": layout.backbone,
                "algorithm": algorithm,
                "step": policy_step,
                "dataset": column.name,
                "method": method,
                "seed": MEAN,
            }
    return read_cells(metrics, cells, ["dataset", "method"])


def grid(numbers: pd.DataFrame, layout: AccuracyLayout, *, source: str, metrics: "xr.Dataset") -> Grid:
    """Set the table. Print has the macro average last, as the paper does; a web page has it first.

    Args:
        numbers: What `prepare` returns.
        layout: What the table shows.
        source: What the numbers were made of (`Grid.source`).
        metrics: Metric cube, whose seeds the caption counts.
    """
    shown = [metric_text(m, v) for m, v in zip(numbers["metric"], numbers["value"], strict=True)]
    short = short_rates(numbers, layout.quality, layout.macro, layout.datasets)
    cells = {}
    for (dataset, metric), column in numbers.assign(shown=shown).groupby(["dataset", "metric"], sort=False):
        column_marks = marks(list(column["shown"]), BETTER[metric])
        for method, text, mark in zip(column["method"], column["shown"], column_marks, strict=True):
            doubtful = text != UNDEFINED and not short[dataset, method].isdisjoint(RESTS_ON[metric])
            cells[dataset, method, metric] = Cell(text, mark, doubtful)
    *datasets, macro = layout.columns
    printed, paged = _side_by_side([*datasets, macro]), _side_by_side([macro, *datasets])
    return Grid(
        title=f"{layout.subject}, {layout.backbone_label}, step {layout.step}",
        caption=_caption(layout, seeds_of(metrics), UNDEFINED in shown, set().union(*short.values())),
        label=layout.label,
        source=source,
        blocks=tuple(_block(some, layout, cells) for some in printed),
        page_blocks=tuple(_block(some, layout, cells) for some in paged),
        gap="2.6pt",
        details=tuple(rate_block(some, numbers, layout.methods) for some in paged),
    )


def _caption(layout: AccuracyLayout, seeds: int, undefined: bool, short: Collection[str]) -> str:
    chosen = [METHODS[name] for name in layout.methods]
    sentences = [
        f"{layout.subject} on {counted(len(layout.datasets), layout.sets)} "
        f"using {layout.backbone_label} after {layout.step} training steps.",
        layout.caption,
        layout.remark,
    ]
    if any(method.policy == "base" for method in chosen):
        sentences.append("Base + Verbal uses the pre-RL model; other training-free baselines the GRPO-trained model.")
    if any(method.target for method in chosen):
        sentences.append(f"Companion results average {counted(seeds, 'seed')}.")
    sentences.append(BOLD_AND_UNDERLINED)
    if undefined:
        sentences.append(UNDEFINED_VALUE)
    if short:
        sentences.append(doubts(short, layout.quality))
    return " ".join(filter(None, sentences))


def _side_by_side(shown: Sequence[Labelled]) -> list[Sequence[Labelled]]:
    """Return the data sets of each block: `_BLOCK` of them, and the rest in the last block."""
    return [shown[start : start + _BLOCK] for start in range(0, len(shown), _BLOCK)]


def _block(datasets: Sequence[Labelled], layout: AccuracyLayout, cells: dict[tuple[str, str, str], Cell]) -> Block:
    def row(name: str) -> Row:
        values = tuple(cells[dataset.name, name, metric] for dataset in datasets for metric in METRICS)
        return Row(METHODS[name].label, values, bold=name == layout.highlight)

    return Block(
        corner="Method",
        heads=(
            tuple(Head(dataset.label, len(METRICS)) for dataset in datasets),
            tuple(Head(HEADS[metric]) for _ in datasets for metric in METRICS),
        ),
        groups=tuple(
            Group(tuple(map(row, names))) for _, names in groupby(layout.methods, lambda name: METHODS[name].group)
        ),
        width=_width(len(datasets)),
    )


def _width(datasets: int) -> float:
    """Return the share of the text width that gives a narrower block about the font size of a full block, given that
    row names are half as wide as a data set."""
    return (datasets + 0.5) / (_BLOCK + 0.5)
