"""CoCal less PostCal under conditions that are changed one at a time (beyond the paper)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.settings.base import OpenShare
from cocal_study.config.study import Study
from cocal_study.cubes.better import HEADS
from cocal_study.evidence.regimes import SCORES, margins, over_points
from cocal_study.exhibits.base.exhibit import BackboneLayout, TableExhibit, of_backbone
from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid, Line
from cocal_study.exhibits.typesetting.wording import signed

TARGET = "binary"
_MEANS = ("final_accuracy", "accuracy", "gap", "bias")


class Layout(BackboneLayout):
    level: OpenShare


def layout_of(study: Study) -> Layout:
    """The layout for a study."""
    return Layout(**of_backbone(study, study.main_backbone), level=study.metrics.level)


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if study.reports.regimes:
        yield TableExhibit(
            title="When the experience of training is worth more than resampling",
            chapter="Claims",
            position=4,
            caption="Margins of CoCal over PostCal in the study's main policy under conditions that are changed one "
            "at a time; the CSV has the p-values.",
            layout=layout_of(study),
            inputs={"regimes": [f"{study.reports.regimes}/points.csv"]},
        )


def prepare(layout: Layout, regimes: pd.DataFrame) -> pd.DataFrame:
    """The margins of every point over its replicates. The result has the columns of
    `cocal_study.evidence.regimes.over_points`, and as means over the replicates final_accuracy, accuracy, gap and bias
    (`cocal_study.evidence.regimes.margins`)."""
    gains = margins(regimes, TARGET)
    means = gains.groupby(["axis", "level"], sort=False)[list(_MEANS)].mean()
    return over_points(gains, layout.level).merge(means.reset_index(), on=["axis", "level"])


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, with a group of rows for every condition."""
    heads = ("Training", "Evaluation", "Gap", "PostCal's bias", *(HEADS[metric].strip("↓↑") for metric in SCORES))
    groups = [
        (str(axis), [_row(str(name), point, layout.level) for name, point in part.groupby("level", sort=False)])
        for axis, part in numbers.groupby("axis", sort=False)
    ]
    replicates = int(numbers["replicates"].iloc[0])
    return Grid(
        title="CoCal less PostCal under other conditions",
        caption=f"Margins of CoCal over PostCal, both with binary supervision, positive where CoCal is better: means "
        f"of {replicates} replicates with {100 * layout.level:g} % intervals of Student's t, and the number of those "
        f"in which the margin is positive. {layout.caption} One condition is changed at a time; the unchanged one "
        "stands on every axis with the same numbers, and responses are sampled as rollouts are unless the condition "
        "says otherwise. Bold: CoCal is separably better after Holm's adjustment over the points of a metric; "
        "underlined: PostCal is. Training: accuracy (%) of the final policy on the training questions, sampled as "
        "rollouts are; evaluation: its accuracy on the evaluation sets; gap: their difference in points; bias: mean "
        "confidence of PostCal less the accuracy.",
        blocks=(Block("Condition", [heads], groups, width=1),),
        gap="3pt",
        size="footnotesize",
    )


def _row(name: str, point: pd.DataFrame, level: float) -> Line:
    first = point.iloc[0]
    gap = f"{100 * first['gap']:+.1f}".replace("-", "−")
    shares = (f"{100 * first['final_accuracy']:.1f}", f"{100 * first['accuracy']:.1f}", gap)
    cells: list[str | Cell] = [*shares, signed("ece", first["bias"])]
    for row in point.itertuples():
        mark = ("best" if row.value > 0 else "second") if row.p_holm < 1 - level else None
        value, lower, upper = (signed("ece", number) for number in (row.value, row.lower, row.upper))
        cells.append(Cell(f"{value} [{lower}, {upper}] {row.positive}/{row.replicates}", mark))
    return name, cells
