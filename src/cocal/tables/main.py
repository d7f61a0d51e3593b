"""The main table, accuracy, mean confidence, ECE and AUROC of every method (table 1), and its form at earlier stages
(appendix B, tab:appendix_iter39 and tab:appendix_iter79)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.layout import Labelled, MainLayout
from cocal.estimators.registry import METHODS
from cocal.metrics.calibration import METRICS
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN
from cocal.tables.latex import count_word, escape, marked, row
from cocal.tables.rank import BETTER, UNDEFINED, marks

if TYPE_CHECKING:
    import xarray as xr

_HEADS = {
    "accuracy": r"Acc.$\uparrow$",
    "mean_confidence": "MeanConf",
    "ece": r"ECE$\downarrow$",
    "auroc": r"AUROC$\uparrow$",
}
_BLOCK = 3
"""Datasets side by side in one tabular."""
_OURS = "cocal-binary"
"""Method whose name is printed bold."""


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
        Columns dataset, method, metric, value, lower, upper, n, valid_rate, truncation_rate, seed_sd, in the
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


def main_csv(numbers: pd.DataFrame) -> str:
    """The prepared numbers as CSV; twelve digits, so that the last bit of a sum does not show."""
    return numbers.to_csv(index=False, float_format="%.12g", na_rep="NaN", lineterminator="\n")


def format_value(metric: str, value: float) -> str:
    """A number as printed: accuracy in percent with one decimal, the others with three."""
    if math.isnan(value):
        return UNDEFINED
    # First to 9 decimals: equal accuracies, one of them averaged over seeds, must not round apart at x.x5.
    return f"{round(100 * value, 9):.1f}" if metric == "accuracy" else f"{round(value, 9):.3f}"


def format_main(numbers: pd.DataFrame, layout: MainLayout, *, step: int, seeds: int, digests: str) -> str:
    """The table as LaTeX.

    Args:
        numbers: what `prepare_main` returns for the layout's columns and methods.
        step: policy step shown, for the caption.
        seeds: companion seeds averaged, for the caption.
        digests: what identifies the numbers, for the comment at the top.
    """
    shown = [format_value(m, v) for m, v in zip(numbers["metric"], numbers["value"], strict=True)]
    cells = {}
    for (dataset, metric), column in numbers.assign(shown=shown).groupby(["dataset", "metric"], sort=False):
        column_marks = marks(list(column["shown"]), BETTER[metric])
        for method, text, mark in zip(column["method"], column["shown"], column_marks, strict=True):
            cells[dataset, method, metric] = marked(text, mark)
    all_columns = columns(layout)
    blocks = [
        _block(all_columns[start : start + _BLOCK], layout.methods, cells)
        for start in range(0, len(all_columns), _BLOCK)
    ]
    return "\n".join(
        [
            f"% study {layout.study}; {digests}",
            r"% needs \usepackage{booktabs,multirow,graphicx}",
            r"\begin{table}[tbp]",
            r"\centering",
            rf"\caption{{{_caption(layout, step, seeds, UNDEFINED in shown)}}}",
            rf"\label{{tab:{layout.label}}}",
            r"\vspace{3pt}",
            r"\setlength{\tabcolsep}{2.6pt}",
            r"\renewcommand{\arraystretch}{1.08}",
            "\n\n\\vspace{2pt}\n\n".join(blocks),
            r"\end{table}",
            "",
        ]
    )


def _caption(layout: MainLayout, step: int, seeds: int, undefined: bool) -> str:
    chosen = [METHODS[name] for name in layout.methods]
    count = len(layout.datasets)
    sentences = [
        f"Accuracy and confidence quality on {count_word(count)} evaluation set{'s' * (count > 1)} "
        f"using {layout.backbone_label} after {step} training steps.",
        layout.caption,
    ]
    if any(method.policy == "base" for method in chosen):
        sentences.append("Base + Verbal uses the pre-RL model; other training-free baselines the GRPO-trained model.")
    if any(method.target for method in chosen):
        sentences.append(f"Companion results average {count_word(seeds)} seed{'s' * (seeds > 1)}.")
    sentences.append("Bold and underlined values indicate the best and second-best results, respectively.")
    if undefined:
        sentences.append(f"{UNDEFINED} marks an undefined value, such as the AUROC of a single class.")
    return " ".join(escape(sentence) for sentence in sentences)


def _block(block: Sequence[Labelled], methods: Sequence[str], cells: dict[tuple[str, str, str], str]) -> str:
    """One tabular, scaled to the width of the text, or to its share of it if it holds fewer datasets."""
    width = len(METRICS)
    ends = [(2 + width * i, 1 + width * (i + 1)) for i in range(len(block))]
    lines = [
        rf"\resizebox{{{_text_width(len(block))}}}{{!}}{{%",
        rf"\begin{{tabular}}{{l*{{{width * len(block)}}}{{c}}}}",
        r"\toprule",
        r"\multirow{2}{*}{Method}",
        *(rf"& \multicolumn{{{width}}}{{c}}{{{escape(dataset.label)}}}" for dataset in block),
        r"\\",
        "".join(rf"\cmidrule(lr){{{first}-{last}}}" for first, last in ends),
        row(["", *(_HEADS[metric] for _ in block for metric in METRICS)]).lstrip(),
        r"\midrule",
    ]
    group = METHODS[methods[0]].group
    for name in methods:
        method = METHODS[name]
        if method.group != group:
            lines.append(r"\midrule")
            group = method.group
        label = marked(escape(method.label), "best" if name == _OURS else None)
        lines.append(row([label, *(cells[dataset.name, name, metric] for dataset in block for metric in METRICS)]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}%", "}"])


def _text_width(datasets: int) -> str:
    """Width that gives a narrower tabular about the type size of a full one (its names are half a dataset wide)."""
    return r"\textwidth" if datasets == _BLOCK else rf"{(datasets + 0.5) / (_BLOCK + 0.5):.3f}\textwidth"
