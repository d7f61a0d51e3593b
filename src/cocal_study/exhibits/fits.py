"""The paper's fit of companions beside others, on the same states (beyond the paper)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.metrics.shown import UNDEFINED, metric_text
from cocal_study.config.study import Study
from cocal_study.evidence.fits import FEW, OWN, PAPER, PAPER_UPDATES, POOLINGS, PROBE, RAW, STANDARDISED
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.regimes import Layout, layout_of
from cocal_study.exhibits.typesetting.grid import HEADS, Block, Grid, Head, Line, group_of

_SHOWN = ("auroc", "ece")
_LABELS = {"cocal-binary": "CoCal (binary)", "postcal-binary": "PostCal (binary)", PROBE: "Linear probe"}
_POOLED = {"last": "Last token", "mean": "Mean", "last+mean": "Both"}


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table, where a study says where the fits were gathered."""
    if study.reports.fits:
        yield TableExhibit(
            title="What limits a companion",
            chapter="Analysis",
            position=66,
            caption="AUROC and ECE of companions that are fitted otherwise on the same states, which tells what "
            "limits the paper's fit.",
            layout=layout_of(study),
            inputs={"fits": [study.reports.fits]},
        )


def prepare(layout: Layout, fits: pd.DataFrame) -> pd.DataFrame:
    """The scores of every fit, one per row. The result has the columns study, backbone, scale, pooling, updates,
    method, metric, value, seeds, norm and deviation."""
    place = ["study", "backbone", "scale", "pooling", "updates", "method"]
    found = fits.melt([*place, "seeds", "norm", "deviation"], ["auroc", "ece", "brier"], "metric", "value")
    return found[[*place, "metric", "value", "seeds", "norm", "deviation"]]


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, with a group of rows for each study and form of the states."""
    values = numbers.set_index(["study", "scale", "updates", "method", "pooling", "metric"])["value"]

    def row(study: str, scale: str, updates: str, method: str) -> Line:
        keys = [(study, scale, updates, method, pooling, metric) for pooling in POOLINGS for metric in _SHOWN]
        cells = [metric_text(key[-1], values[key]) if key in values.index else UNDEFINED for key in keys]
        return _LABELS[method] + (f", {updates} updates" if updates else ""), cells

    groups = []
    for study in map(str, numbers["study"].unique()):
        for scale in (RAW, STANDARDISED):
            rows = [row(study, scale, updates, name) for name in list(_LABELS)[:2] for updates in (FEW, PAPER)]
            rows += [row(study, scale, "", PROBE)] if scale == STANDARDISED else []
            groups.append(group_of(rows, f"{study.capitalize()} study, {scale} states"))
    own = numbers[numbers["method"] == OWN].set_index(["study", "metric"])["value"]
    beside = "; ".join(
        f"{study} study {metric_text('auroc', own[study, 'auroc'])} and {metric_text('ece', own[study, 'ece'])}"
        for study in own.index.unique("study")
    )
    heads = (
        tuple(Head(title, len(_SHOWN)) for title in _POOLED.values()),
        tuple(Head(HEADS[metric]) for _ in _POOLED for metric in _SHOWN),
    )
    return Grid(
        title="Other fits of the same companions",
        caption="AUROC and ECE of companions with binary supervision that are fitted otherwise on the states of the "
        f"finished studies, as means over seeds and mathematical sets: the study's updates, or the paper's "
        f"{PAPER_UPDATES:,}. Raw states of both poolings are the paper's fit. A companion is under-trained if more "
        "updates bring raw states to the linear probe, and unnormalised if standardised states get there without; its "
        f"states hold too little if the probe itself stays below TokenProb ({beside}).",
        blocks=(Block(corner="Fit", heads=heads, groups=tuple(groups)),),
        size="footnotesize",
    )
