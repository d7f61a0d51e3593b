"""Paired differences between CoCal and every other method (beyond the paper)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from cocal.metrics.shown import UNDEFINED
from cocal.settings.base import Name
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.resamples import Resamples
from cocal_study.evidence.comparisons import OURS, SIGNIFICANT, pairs_in_table, table_of
from cocal_study.exhibits.base.exhibit import ComparedLayout, Labelled, TableExhibit, labelled, of_main
from cocal_study.exhibits.main import main_methods
from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid, Place, method_groups, metric_block
from cocal_study.exhibits.typesetting.wording import DEGENERATE, SUBJECTS, counted, signed
from cocal_study.planning.plan import macro_averages
from cocal_study.planning.results import resamples_file

_SHOWN = ("accuracy", "ece", "brier", "auroc")
"""Metrics in print; the CSV adds the log loss."""


class Layout(ComparedLayout):
    """The contents of the table: each of our methods against all others, by data set."""

    domains: dict[Name, tuple[Labelled, ...]]
    """The macro averages, with the sets that each averages over."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where the study has CoCal and a baseline."""
    methods = main_methods(study)
    if len(methods) > 1 and not set(OURS).isdisjoint(methods):
        yield TableExhibit(
            title="Paired differences between CoCal and the baselines",
            chapter="Main results",
            position=13.3,
            caption="Paired differences between CoCal and every other method, over resamples of the questions that all "
            "methods share; the CSV beside it adds p-values and the standard deviation of a difference over the seeds "
            "of the companions.",
            layout=Layout(
                **of_main(study),
                methods=methods,
                domains={
                    name: labelled(study, sets) for name, sets in macro_averages(study, study.main_backbone).items()
                },
            ),
            inputs={"resamples": [resamples_file(study.main_backbone)]},
        )


def prepare(layout: Layout, resamples: Resamples) -> pd.DataFrame:
    """Test the difference to every baseline on every data set and macro average. The result has the columns of
    `cocal_study.evidence.comparisons.table_of`, ordered by domains, each with its macro average last, then by our
    methods, the baselines and the metrics."""
    datasets = [name for macro, sets in layout.domains.items() for name in (*(dataset.name for dataset in sets), macro)]
    return table_of(resamples, layout.methods, layout.step, datasets)


def grid(numbers: pd.DataFrame, layout: Layout, *, resamples: Resamples) -> Grid:
    """Set the table, with a block for each of our methods and macro average; the page adds those of the data sets."""
    pairs = pairs_in_table(layout.methods)
    macros = [Labelled(name=name, label=f"Macro average, {SUBJECTS[name]}") for name in layout.domains]
    sets = [dataset for sets in layout.domains.values() for dataset in sets]
    metrics = [name for name in _SHOWN if name in set(numbers["metric"])]

    def block(ours: str, datasets: Sequence[Labelled]) -> Block:
        baselines = [baseline for method, baseline in pairs if method == ours]
        cells: dict[Place, Cell] = defaultdict(lambda: Cell(UNDEFINED))
        for row in numbers[(numbers["method"] == ours) & numbers["metric"].isin(metrics)].itertuples():
            if not pd.isna(row.value):
                value, lower, upper = (signed(row.metric, number) for number in (row.value, row.lower, row.upper))
                mark = "best" if row.p_holm < SIGNIFICANT else None
                text = f"{value} [{lower}, {upper}]"
                cells[row.dataset, row.baseline, row.metric] = Cell(text, mark, degenerate=row.degenerate)
        return metric_block(f"{METHODS[ours].label} minus", datasets, metrics, method_groups(baselines), cells, width=1)

    ours = list(dict.fromkeys(method for method, _ in pairs))
    count = resamples.data.sizes["resample"]
    return Grid(
        title=f"Paired differences, {layout.backbone_label}, step {layout.step}",
        caption=f"Differences between CoCal and the other methods using {layout.backbone_label} after {layout.step} "
        f"training steps, as macro averages. {layout.caption} Each is the value of CoCal minus that of the row, in "
        "percentage points for accuracies, with the 95 % interval over companion seeds and "
        f"{counted(count, 'shared resample')} of the questions. Bold differences are separable from zero at 5 % after "
        "Holm's adjustment for all comparisons of one metric on one macro average. "
        f"{DEGENERATE} marks differences in which a confidence is constant or at chance. "
        f"{UNDEFINED} stands where both methods score the same responses, so that their accuracies are one number.",
        blocks=tuple(block(method, [macro]) for macro in macros for method in ours),
        size="footnotesize",
        apart=True,
        details=tuple(block(method, sets) for method in ours),
    )
