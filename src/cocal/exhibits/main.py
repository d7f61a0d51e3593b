"""The main table, accuracy, mean confidence, ECE and AUROC of every method (table 1), its form at earlier stages
(appendix C.1), under transfer to factual questions (tab:honestybench_ood_iter119_8b_all) and for another backbone
(appendix F.1)."""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.methods import METHODS
from cocal.exhibits.layout import Labelled, MainLayout
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

if TYPE_CHECKING:
    import xarray as xr

_BLOCK = 3
"""Datasets side by side in one block."""


def columns(layout: MainLayout) -> tuple[Labelled, ...]:
    """The datasets of the table and, last, their macro average."""
    return (*layout.datasets, Labelled(name=layout.macro, label=layout.macro_label))


def prepare_main(
    cube: "xr.Dataset", *, backbone: str, step: int, datasets: Sequence[str], methods: Sequence[str]
) -> pd.DataFrame:
    """The numbers of the table, one a row; methods with seeds are averaged over them.

    Args:
        cube: metric cube (cocal.metrics.cube).
        step: policy step shown; the pre-RL model's rows come from step 0 of "base".
        datasets: datasets and macro averages, in order.

    Returns:
        Columns dataset, method, metric, value, lower, upper, n, those of `cocal.metrics.quality.RATES`, seed_sd, in the
        order of `datasets`, then `methods`, then the metrics.

    Raises:
        ContractError: if the cube lacks a method on a dataset.
    """
    cells = {}
    for dataset in datasets:
        for method in methods:
            algorithm, policy_step = policy_cell(method, step)
            cells[dataset, method] = {
                "backbone": backbone,
                "algorithm": algorithm,
                "step": policy_step,
                "dataset": dataset,
                "method": method,
                "seed": MEAN,
            }
    return read_cells(cube, cells, ["dataset", "method"])


def main_grid(numbers: pd.DataFrame, layout: MainLayout, *, step: int, seeds: int, source: str) -> Grid:
    """The table. Print keeps the paper's order, the macro average last; a web page shows it first.

    Args:
        numbers: what `prepare_main` returns for the layout's columns and methods.
        step: policy step shown, for the caption.
        seeds: companion seeds averaged, for the caption.
        source: see `Grid`.
    """
    shown = [metric_text(m, v) for m, v in zip(numbers["metric"], numbers["value"], strict=True)]
    short = short_rates(numbers, layout)
    cells = {}
    for (dataset, metric), column in numbers.assign(shown=shown).groupby(["dataset", "metric"], sort=False):
        column_marks = marks(list(column["shown"]), BETTER[metric])
        for method, text, mark in zip(column["method"], column["shown"], column_marks, strict=True):
            doubtful = text != UNDEFINED and not short[dataset, method].isdisjoint(RESTS_ON[metric])
            cells[dataset, method, metric] = Cell(text, mark, doubtful)
    *datasets, macro = columns(layout)
    printed, paged = _side_by_side([*datasets, macro]), _side_by_side([macro, *datasets])
    return Grid(
        title=f"{layout.subject}, {layout.backbone_label}, step {step}",
        caption=_caption(layout, step, seeds, UNDEFINED in shown, set().union(*short.values())),
        label=layout.label,
        source=source,
        blocks=tuple(_block(some, layout, cells) for some in printed),
        page_blocks=tuple(_block(some, layout, cells) for some in paged),
        gap="2.6pt",
        details=tuple(rate_block(some, numbers, layout.methods) for some in paged),
    )


def _caption(layout: MainLayout, step: int, seeds: int, undefined: bool, short: Collection[str]) -> str:
    chosen = [METHODS[name] for name in layout.methods]
    sentences = [
        f"{layout.subject} on {counted(len(layout.datasets), layout.sets)} "
        f"using {layout.backbone_label} after {step} training steps.",
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
    """The data sets of each block: `_BLOCK` of them, the rest in the last one."""
    return [shown[start : start + _BLOCK] for start in range(0, len(shown), _BLOCK)]


def _block(datasets: Sequence[Labelled], layout: MainLayout, cells: dict[tuple[str, str, str], Cell]) -> Block:
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
    """Share of the text width that gives a narrower block about the type size of a full one (its names are half a
    dataset wide)."""
    return (datasets + 0.5) / (_BLOCK + 0.5)
