"""What confidence knows while a response grows, and what stopping by it saves (beyond the paper)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.drawing.style import LEGEND, SMALL_PRINT, TEXT_WIDTH, Figure
from cocal_study.config.study import Study
from cocal_study.evidence.prefixes import AUROC, COLUMNS, OWN, PREFIXES, SAVED, WHOLE, WITH_TOKENS
from cocal_study.exhibits.base.exhibit import GROWING, FigureExhibit
from cocal_study.exhibits.regimes import Layout, layout_of

SHOWN = {
    WITH_TOKENS: ("companion of prefixes, reading token probabilities, too", "#1b6e53", "D", "-"),
    PREFIXES: ("companion of prefixes", "#1b6e53", "o", "--"),
    WHOLE: ("companion of whole responses", "#b3401f", "s", "-"),
    OWN: ("mean token probability so far", "#6a6a6a", "v", "-"),
}
"""Words, colour, mark and line of each method."""
_HEIGHT, _BOTTOM, _TOP = 2.75, 0.86, 0.2


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure, where a study says where the measurements were gathered."""
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
            inputs={GROWING: study.reports.prefixes},
            needs=(GROWING,),
        )


def prepare(layout: Layout, prefixes: pd.DataFrame) -> pd.DataFrame:
    """What was measured, as it is drawn: the rows of the study that is drawn, or of all if there is but another.

    Args:
        prefixes: What was measured (`cocal_study.evidence.prefixes.COLUMNS`).

    Returns:
        The same columns.
    """
    own = prefixes[prefixes["backbone"] == layout.backbone]
    return (own if len(own) else prefixes)[list(COLUMNS)].reset_index(drop=True)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A panel for the AUROC, and one for what is saved."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(TEXT_WIDTH, _HEIGHT))
    left, right = figure.subplots(1, 2)
    for ax, metric in ((left, AUROC), (right, SAVED)):
        for method, (_, colour, mark, line) in SHOWN.items():
            part = numbers[(numbers["method"] == method) & (numbers["metric"] == metric)]
            scale = 1 if metric == AUROC else 100
            look = {"color": colour, "marker": mark, "linestyle": line}
            ax.plot(100 * part["at"], scale * part["value"], **look, markersize=3.2, markeredgewidth=0, linewidth=1)
        ax.grid(axis="y", linewidth=0.3, color="#dddddd")
    left.set_xlabel("Tokens so far (% of the response)")
    left.set_ylabel("AUROC ↑")
    right.set_xlabel("Right responses lost (%)")
    right.set_ylabel("Tokens saved (%) ↑")
    figure.subplots_adjust(0.075, _BOTTOM / _HEIGHT, 0.99, 1 - _TOP / _HEIGHT, wspace=0.22)
    handles = [
        Line2D([], [], label=words, color=colour, marker=mark, linestyle=line, linewidth=1, markersize=3.2)
        for words, colour, mark, line in SHOWN.values()
    ]
    figure.legend(handles=handles, loc="lower center", ncols=2, bbox_to_anchor=(0.5, 0.2 / _HEIGHT), **LEGEND)
    every = int(numbers["every"].iloc[0])
    said = f"{layout.backbone_label}, mean over the mathematical sets; a confidence after every {every} tokens"
    figure.text(0.5, 0.04 / _HEIGHT, said, ha="center", va="bottom", **SMALL_PRINT)
    return figure
