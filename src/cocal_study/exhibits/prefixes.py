"""What confidence knows while a response grows, and what stopping by it saves (beyond the paper)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.drawing.style import Figure
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import FigureExhibit
from cocal_study.exhibits.drawing.curves import entry, looks, panel_row
from cocal_study.exhibits.regimes import Layout, layout_of

WHOLE, PREFIXES, WITH_TOKENS, OWN = "whole", "prefixes", "prefixes-and-tokens", "token-probability"
"""Companions of whole responses, of prefixes as well, and of prefixes with token probabilities; and the mean token
probability so far."""
AUROC, SAVED = "auroc", "saved"
COLUMNS = ("study", "backbone", "every", "method", "metric", "at", "value")
"""Columns of what `benchmarks/prefixes.py` measures, where a confidence is asked for after every `every` tokens."""
SHOWN = looks(
    {
        WITH_TOKENS: ("companion of prefixes, reading token probabilities, too", "#3035c4", "D", "-"),
        PREFIXES: ("companion of prefixes", "#3035c4", "o", "--"),
        WHOLE: ("companion of whole responses", "#8a5a1e", "s", "-"),
        OWN: ("mean token probability so far", "#74297c", "P", "-"),
    }
)


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if study.reports.prefixes:
        yield FigureExhibit(
            title="Confidence while a response grows",
            chapter="Analysis",
            position=67,
            caption="Left: AUROC of the confidence after a share of each response's tokens, among the responses that "
            "have one by then. Right: the share of all tokens saved where a response is stopped as soon as its "
            "confidence falls below a threshold, by the share of right responses that this loses, with the threshold "
            "chosen on these responses. The companions are fitted by `cocal fit` on the rollouts of the main policy: "
            "on whole responses, on prefixes, too, and reading token probabilities beside the states.",
            layout=layout_of(study),
            inputs={"prefixes": [study.reports.prefixes]},
        )


def prepare(layout: Layout, prefixes: pd.DataFrame) -> pd.DataFrame:
    """The measured rows of the drawn study, or all rows if only another study was measured."""
    own = prefixes[prefixes["backbone"] == layout.backbone]
    return (own if len(own) else prefixes)[list(COLUMNS)].reset_index(drop=True)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A panel for the AUROC, and one for what is saved."""
    every = int(numbers["every"].iloc[0])
    said = f"{layout.backbone_label}, mean over the mathematical sets; a confidence after every {every} tokens"
    handles = [entry(**look) for look in SHOWN.values()]
    for handle in handles:
        handle.set_markeredgewidth(1)
    titles = ["AUROC ↑", "Tokens saved (%) ↑"]
    figure, (left, right) = panel_row(titles, height=1.6, handles=handles, columns=2, source=said)
    for ax, metric, scale in ((left, AUROC, 1), (right, SAVED, 100)):
        for method, look in SHOWN.items():
            part = numbers[(numbers["method"] == method) & (numbers["metric"] == metric)]
            ax.plot(100 * part["at"], scale * part["value"], **look)
        ax.grid(axis="y", linewidth=0.3, color="#dddddd")
    left.set_xlabel("Tokens so far (% of the response)")
    right.set_xlabel("Right responses lost (%)")
    return figure
