"""The main table: accuracy, mean confidence, ECE and AUROC of every method (table 1).

It shares its form with those of earlier stages (appendix C.1), under transfer to factual questions, and for another
backbone (appendix F.1). Beyond the paper, its page and its CSV say which values are separable from the best of their
column, and its page says where this run lies among replicates of the study.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from cocal.metrics.calibration import METRICS
from cocal.metrics.shown import UNDEFINED, metric_text
from cocal.settings.base import Name
from cocal_study.config.data import DatasetSettings
from cocal_study.config.evaluation import QualitySettings
from cocal_study.config.methods import METHODS, MethodName
from cocal_study.config.study import Study
from cocal_study.cubes.cells import degenerate
from cocal_study.cubes.resamples import Resamples
from cocal_study.evidence.comparisons import COMPARED, separable_from_best
from cocal_study.exhibits.base.exhibit import ComparedLayout, Labelled, TableExhibit, labelled, of_backbone
from cocal_study.exhibits.base.inputs import Cube, read_methods, seeds_of
from cocal_study.exhibits.typesetting.grid import (
    Block,
    Grid,
    Place,
    doubts,
    method_groups,
    method_labels,
    metric_block,
    ranked_cells,
    rate_block,
    short_rates,
)
from cocal_study.exhibits.typesetting.wording import (
    BOLD_AND_UNDERLINED,
    DEGENERATE,
    UNDEFINED_VALUE,
    averaged,
    counted,
    said,
)
from cocal_study.planning.plan import MATHEMATICS, available_methods
from cocal_study.planning.results import metrics_file, resamples_file

_PLACE = ["dataset", "method", "metric"]
_BLOCK = 3
"""Number of data sets side by side in one block."""


class Layout(ComparedLayout):
    """Layout of tables/main, at the last stage or an earlier one, and of tables/ood and tables/scale."""

    datasets: tuple[Labelled, ...]
    macro: Name = MATHEMATICS
    """Group of datasets whose macro average is the last column block."""
    highlight: MethodName | None = None
    subject: str = "Accuracy and confidence quality"
    """First words of the caption, before `on five mathematical sets`."""
    sets: str = "mathematical set"
    remark: str = ""
    quality: QualitySettings = QualitySettings()

    @property
    def columns(self) -> tuple[Labelled, ...]:
        """Data sets of the table and, last, their macro average."""
        return (*self.datasets, Labelled(name=self.macro, label="Macro Average"))

    @property
    def page_columns(self) -> tuple[Labelled, ...]:
        """The same in the order of the web page, with the macro average first."""
        return (self.columns[-1], *self.datasets)


def accuracy_layout(
    study: Study, wrong: Mapping[str, int], domain: str = "mathematics", *, remark: str = "", **fields: Any
) -> Layout:
    """Return the layout for the main backbone at the end of training, changed by `fields`.

    `wrong` counts, by data set, the rows known to be wrong, which the caption names after the remark.
    """
    sets = study.evaluation_sets(domain)
    given = {"step": study.policy.steps, "methods": main_methods(study)} | fields
    about_wrong = []
    for fate, some in rows_known_to_be_wrong(study, {name: wrong[name] for name in sets if name in wrong}).items():
        named = ", ".join(f"{dataset.label} ({count} of {dataset.size})" for dataset, count in some)
        kept = fate.replace("as distributed", "kept as distributed")
        about_wrong.append(f"Questions or answers known to be wrong are {kept}: {named}.")
    return Layout(
        **of_backbone(study, given.pop("backbone", study.main_backbone)),
        quality=study.quality,
        datasets=labelled(study, sets),
        remark=said(remark, *about_wrong),
        **given,
    )


def rows_known_to_be_wrong(study: Study, wrong: Mapping[str, int]) -> dict[str, list[tuple[DatasetSettings, int]]]:
    """The sets with rows that are known to be wrong and the numbers of these, by what became of the rows."""
    by_fate: dict[str, list[tuple[DatasetSettings, int]]] = {}
    for mended, fate in ((False, "as distributed"), (True, "corrected")):
        for name, count in wrong.items():
            if getattr(study.datasets[name].source, "corrections", None) == mended:
                by_fate.setdefault(fate, []).append((study.datasets[name], count))
    return by_fate


def main_methods(study: Study) -> tuple[str, ...]:
    """Return the study's methods that the main table shows."""
    return tuple(m for m in available_methods(study) if METHODS[m].group is not None)


def stage_methods(study: Study) -> tuple[str, ...]:
    """Return those of `reports.stage_methods` that the study has."""
    available = available_methods(study)
    return tuple(m for m in study.reports.stage_methods if m in available)


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if main_methods(study):
        inputs = {"metrics": [metrics_file(study.main_backbone)], "resamples": [resamples_file(study.main_backbone)]}
        if study.reports.replicates:
            inputs["replicates_main"] = [f"{study.reports.replicates}/tables/main.csv"]
        yield TableExhibit(
            title=f"Main table, step {study.policy.steps}",
            chapter="Main results",
            position=10,
            caption="Accuracy, mean confidence, expected calibration error and AUROC of the methods on the "
            "mathematical sets (the paper's table 1), with, on the page and in the CSV, which values are separable "
            "from the best of their column (paired bootstrap over questions, 5 % after adjustment for the column).",
            layout=accuracy_layout(study, wrong, highlight="cocal-binary"),
            inputs=inputs,
        )


def prepare(
    layout: Layout, metrics: Cube, resamples: Resamples | None = None, replicates_main: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The numbers of the table, one per row, as means over seeds: columns dataset, method, and those of
    `cocal_study.cubes.cells.read_cell`; and with resamples separable_from_best: "best", "yes" or "no"; "" for mean
    confidence, which is neither good nor bad, and for undefined values. Only the page shows the replicates."""
    numbers = read_methods(metrics, layout, [column.name for column in layout.columns], layout.methods)
    if resamples is None:
        return numbers
    words = separable_from_best(resamples, numbers, layout.step)
    places = numbers[_PLACE].itertuples(index=False, name=None)
    return numbers.assign(separable_from_best=[words.get(place, "") for place in places])


def grid(
    numbers: pd.DataFrame,
    layout: Layout,
    *,
    metrics: Cube,
    resamples: Resamples | None = None,
    replicates_main: pd.DataFrame | None = None,
) -> Grid:
    """Set the table. Print has the macro average last, as the paper does; a web page has it first, and also says what
    is separable from the best, and where this run lies among the replicates."""
    short = short_rates(numbers, layout.quality, {layout.macro: [dataset.name for dataset in layout.datasets]})
    bounds = {(row.dataset, row.method, row.metric): (row.lower, row.upper) for row in numbers.itertuples()}
    places = dict.fromkeys(key[:2] for key in bounds)
    flagged = [place for place in places if degenerate(bounds[*place, "mean_confidence"], bounds[*place, "auroc"])]
    why = "that is constant or whose AUROC has a 95 % interval that holds one half"
    cells = ranked_cells(numbers, short=short, degenerate=flagged)
    groups = method_groups(layout.methods)

    def side_by_side(shown: Sequence[Labelled]) -> list[Sequence[Labelled]]:
        return [shown[start : start + _BLOCK] for start in range(0, len(shown), _BLOCK)]

    def block(datasets: Sequence[Labelled]) -> Block:
        # A narrower block has about the font size of a full one; row names are half as wide as a data set.
        width = (len(datasets) + 0.5) / (_BLOCK + 0.5)
        return metric_block("Method", datasets, METRICS, groups, cells, highlight=layout.highlight, width=width)

    chosen = [METHODS[name] for name in layout.methods]
    of_base = "Base + Verbal uses the pre-RL model; other training-free baselines the GRPO-trained model."
    page = side_by_side(layout.page_columns)
    rows, details = [("", method_labels(layout.methods))], [rate_block(some, numbers, layout.methods) for some in page]
    if replicates_main is not None:
        ranges = _among(numbers, replicates_main)
        details.insert(0, metric_block("Replicates", layout.page_columns[:1], METRICS, rows, ranges))
    if resamples is not None:
        words = numbers.set_index(_PLACE)["separable_from_best"].replace("", UNDEFINED).to_dict()
        details.insert(0, metric_block("Separable from the best", layout.page_columns, COMPARED, rows, words))
    return Grid(
        title=f"{layout.subject}, {layout.backbone_label}, step {layout.step}",
        caption=said(
            f"{layout.subject} on {counted(len(layout.datasets), layout.sets)} "
            f"using {layout.backbone_label} after {layout.step} training steps.",
            layout.caption,
            layout.remark,
            of_base if any(method.policy == "base" for method in chosen) else "",
            averaged(seeds_of(metrics)) if any(method.target for method in chosen) else "",
            BOLD_AND_UNDERLINED,
            UNDEFINED_VALUE if numbers["value"].isna().any() else "",
            doubts(short, layout.quality),
            f"{DEGENERATE} marks values of a confidence {why}." if flagged else "",
        ),
        blocks=tuple(map(block, side_by_side(layout.columns))),
        page_blocks=tuple(map(block, page)),
        gap="2.6pt",
        details=tuple(details),
    )


def _among(numbers: pd.DataFrame, replicates: pd.DataFrame) -> dict[Place, str]:
    """The range of every value over the replicates, and the number of replicates that this run lies above."""
    values = replicates.set_index(_PLACE).filter(regex=r"^replicate_\d+$")
    cells = {}
    for row in numbers.itertuples():
        place = row.dataset, row.method, row.metric
        runs = values.loc[place].dropna() if place in values.index else values.iloc[0][:0]
        least, greatest = (metric_text(row.metric, value) for value in (runs.min(), runs.max()))
        told = f"{least} to {greatest}; this run above {(runs < row.value).sum()} of {len(runs)}"
        cells[place] = told if len(runs) else UNDEFINED
    return cells
