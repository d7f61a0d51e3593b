"""The table of accuracy, mean confidence, ECE and AUROC of every method. The main table (table 1) shares it with its
forms at earlier stages (appendix C.1), under transfer to factual questions, and for another backbone (appendix F.1)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import pandas as pd
from pydantic import Field

from cocal.metrics.calibration import METRICS
from cocal.settings.base import Name
from cocal_study.config.evaluation import QualitySettings
from cocal_study.config.methods import METHODS, MethodName
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import MATHEMATICS, Labelled, Labels, MethodsStepLayout, labelled, of_backbone
from cocal_study.exhibits.base.inputs import Cube, read_methods, seeds_of
from cocal_study.exhibits.typesetting.grid import (
    Block,
    Grid,
    degenerate_cells,
    degenerate_note,
    doubts,
    method_groups,
    metric_block,
    ranked_cells,
    rate_block,
    short_rates,
)
from cocal_study.exhibits.typesetting.wording import BOLD_AND_UNDERLINED, UNDEFINED_VALUE, averaged, counted, said
from cocal_study.planning.plan import available_methods

_BLOCK = 3
"""Number of data sets side by side in one block."""

CAPTION = """The best value of a column is bold and the second best underlined, decided on the numbers as shown; mean
confidence is neither good nor bad. The page shows the macro average first, print shows it last. The CSV beside it adds
95 % intervals of a bootstrap over questions and n. Both list the shares of responses with a valid confidence, with an
answer and with a verdict; a dagger marks values that rest on too few of them, and a double dagger those of a confidence
that is constant or at chance."""
"""The words of the report about every table of this kind."""


class AccuracyLayout(MethodsStepLayout):
    """Layout of tables/main, at the last stage or an earlier one, and of tables/ood and tables/scale."""

    apart: ClassVar[tuple[str, ...]] = ("backbone", "step")

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
    """Name of one of the data sets in the caption."""
    remark: str = ""
    """Sentence of the caption about this table alone."""
    quality: QualitySettings = QualitySettings()
    """Floors below which a value is marked."""

    @property
    def columns(self) -> tuple[Labelled, ...]:
        """Data sets of the table and, last, their macro average."""
        return (*self.datasets, Labelled(name=self.macro, label=self.macro_label))

    @property
    def page_columns(self) -> tuple[Labelled, ...]:
        """The same in the order of the web page, with the macro average first."""
        return (self.columns[-1], *self.datasets)


def accuracy_layout(
    study: Study, wrong: Mapping[str, int], domain: str = "mathematics", *, remark: str = "", **fields: Any
) -> AccuracyLayout:
    """Return the layout for the main backbone at the end of training, changed by `fields`.

    Args:
        wrong: By data set, how many of its rows are known to be wrong.
        remark: Sentence of the caption that stands before those about rows known to be wrong.
        fields: Further or other fields.
    """
    sets = study.evaluation_sets(domain)
    given = {"step": study.policy.steps, "methods": main_methods(study)} | fields
    shown = {name: study.datasets[name] for name in sets if name in wrong}
    about_wrong = []
    for mended, fate in ((False, "kept as distributed"), (True, "corrected")):
        of_fate = [(n, d) for n, d in shown.items() if getattr(d.source, "corrections", None) == mended]
        some = [f"{d.label} ({wrong[n]} of {d.size})" for n, d in of_fate]
        if some:
            about_wrong.append(f"Questions or answers known to be wrong are {fate}: {', '.join(some)}.")
    return AccuracyLayout(
        **of_backbone(study, given.pop("backbone", study.main_backbone)),
        quality=study.quality,
        datasets=labelled(study, sets),
        remark=said(remark, *about_wrong),
        **given,
    )


def main_methods(study: Study) -> tuple[str, ...]:
    """Return the study's methods that the main table shows."""
    return tuple(m for m in available_methods(study) if METHODS[m].group is not None)


def stage_methods(study: Study) -> tuple[str, ...]:
    """Return those of `reports.stage_methods` that the study has."""
    available = available_methods(study)
    return tuple(m for m in study.reports.stage_methods if m in available)


def prepare(layout: AccuracyLayout, metrics: Cube) -> pd.DataFrame:
    """Return the numbers of the table, one per row; methods with seeds are averaged over them.

    Returns:
        Columns dataset, method, and those of `cocal_study.cubes.cells.read_cell`, in the order of the layout's columns,
        then its methods, then the metrics.
    """
    return read_methods(metrics, layout, [column.name for column in layout.columns], layout.methods)


def grid(numbers: pd.DataFrame, layout: AccuracyLayout, *, metrics: Cube) -> Grid:
    """Set the table. Print has the macro average last, as the paper does; a web page has it first."""
    short = short_rates(numbers, layout.quality, {layout.macro: [one.name for one in layout.datasets]})
    flagged = degenerate_cells(numbers)
    cells = ranked_cells(numbers, short=short, degenerate=flagged)
    groups = method_groups(layout.methods)

    def block(datasets: Sequence[Labelled]) -> Block:
        # A narrower block has about the font size of a full one; row names are half as wide as a data set.
        width = (len(datasets) + 0.5) / (_BLOCK + 0.5)
        return metric_block("Method", datasets, METRICS, groups, cells, highlight=layout.highlight, width=width)

    chosen = [METHODS[name] for name in layout.methods]
    of_base = "Base + Verbal uses the pre-RL model; other training-free baselines the GRPO-trained model."
    page = _side_by_side(layout.page_columns)
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
            degenerate_note(flagged),
        ),
        label=layout.label,
        blocks=tuple(map(block, _side_by_side(layout.columns))),
        page_blocks=tuple(map(block, page)),
        gap="2.6pt",
        details=tuple(rate_block(some, numbers, layout.methods) for some in page),
    )


def _side_by_side(shown: Sequence[Labelled]) -> list[Sequence[Labelled]]:
    """The data sets of each block: `_BLOCK` of them, and the rest in the last block."""
    return [shown[start : start + _BLOCK] for start in range(0, len(shown), _BLOCK)]
