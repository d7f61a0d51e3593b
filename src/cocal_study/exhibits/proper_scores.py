"""Proper scores, calibration errors without equal-width bins, and selective risk of every method (beyond the paper)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.metrics.scores import SCORES
from cocal.metrics.shown import UNDEFINED
from cocal.settings.base import Name
from cocal_study.config.evaluation import QualitySettings
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import ComparedLayout, Labelled, TableExhibit, of_main
from cocal_study.exhibits.base.inputs import Cube, read_methods, seeds_of
from cocal_study.exhibits.main import main_methods
from cocal_study.exhibits.typesetting.grid import Grid, doubts, method_groups, metric_block, ranked_cells, short_rates
from cocal_study.exhibits.typesetting.wording import BOLD_AND_UNDERLINED, SETS, averaged, counted, listed, said
from cocal_study.planning.plan import macro_averages
from cocal_study.planning.results import metrics_file


class Layout(ComparedLayout):
    """The contents of the table, with one block per domain."""

    domains: dict[Name, tuple[Name, ...]]
    """The macro averages, with the sets that each averages over."""
    quality: QualitySettings = QualitySettings()


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if main_methods(study):
        yield TableExhibit(
            title="Proper scores and selective risk",
            chapter="Main results",
            position=14,
            caption="Scores that the paper does not report, as macro averages; the CSV beside it has every set, and "
            "95 % intervals of a bootstrap over questions.",
            layout=Layout(
                **of_main(study),
                methods=main_methods(study),
                domains={name: tuple(sets) for name, sets in macro_averages(study, study.main_backbone).items()},
                quality=study.quality,
            ),
            inputs={"metrics": [metrics_file(study.main_backbone)]},
        )


def prepare(layout: Layout, metrics: Cube) -> pd.DataFrame:
    """Return the scores of every set and of the macro averages; methods with seeds are averaged over them. The result
    has the columns dataset, method, and those of `cocal_study.cubes.cells.read_cell`, ordered by domains, each with its
    macro average last, then by methods and scores."""
    datasets = [name for macro, sets in layout.domains.items() for name in (*sets, macro)]
    return read_methods(metrics, layout, datasets, layout.methods, SCORES)


def grid(numbers: pd.DataFrame, layout: Layout, *, metrics: Cube) -> Grid:
    """Set the table, with a block for the macro average of each domain."""
    short = short_rates(numbers, layout.quality, layout.domains)
    shown = numbers[numbers["dataset"].isin(layout.domains)]
    cells = ranked_cells(shown, short=short)
    sizes = {name: counted(len(sets), SETS[name]) for name, sets in layout.domains.items()}
    macros = [Labelled(name=name, label=f"Macro average over {size}") for name, size in sizes.items()]
    rows = method_groups(layout.methods)
    undefined = f"{UNDEFINED} marks an undefined value, such as the PRR of a single class."
    return Grid(
        title=f"Proper scores and selective risk, {layout.backbone_label}, step {layout.step}",
        caption=said(
            f"Proper scores, calibration errors and selective risk on {listed([*sizes.values()])} using "
            f"{layout.backbone_label} after {layout.step} training steps.",
            layout.caption,
            "Rel., Res. and Unc. are the reliability, resolution and uncertainty of the Brier score in the bins of the "
            "ECE; the uncertainty belongs to the responses and has no mark.",
            "LogLoss is in nats, with confidences at least 1.2 × 10⁻⁷ away from 0 and 1.",
            "AdaECE has bins of equally many responses, and SmECE is the smooth ECE.",
            "AURC and AUGRC are the areas under the selective and the generalised risk, and PRR is the prediction "
            "rejection ratio.",
            "Acc@80 and Acc@50 are the accuracies (%) of the most confident 80 % and 50 % of the responses.",
            "Methods with responses of their own also differ in accuracy.",
            averaged(seeds_of(metrics)) if any(METHODS[name].target for name in layout.methods) else "",
            BOLD_AND_UNDERLINED,
            undefined if shown["value"].isna().any() else "",
            doubts(short, layout.quality),
        ),
        blocks=tuple(metric_block("Method", [macro], SCORES, rows, cells, width=1) for macro in macros),
        gap="2.6pt",
    )
