"""How good confidences are by the number of rollouts that there were to learn from (beyond the paper)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.drawing.style import INK, Axes, Figure
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.evidence.published import METRICS, Published
from cocal_study.evidence.regimes import SCORES
from cocal_study.evidence.verdicts import over_replicates
from cocal_study.exhibits.base.exhibit import FigureExhibit
from cocal_study.exhibits.drawing.curves import entry, looks, panels_above
from cocal_study.exhibits.regimes import Layout, layout_of

PAPER = "paper"
"""The source of the paper's own points."""
SHOWN = looks(
    {
        "cocal-binary": ("CoCal (binary)", "#1b6e53", "o", "-"),
        "postcal-binary": ("PostCal (binary)", "#b3401f", "s", "-"),
        "linear-binary": ("linear probe", "#4a5fa5", "^", "--"),
        "token-probability": ("TokenProb", "#6a6a6a", "v", "-"),
        "token-probability+platt-all": ("TokenProb, recalibrated", "#6a6a6a", "D", ":"),
    }
)
_TITLES = {"auroc": "AUROC", "ece": "ECE", "brier": "Brier score"}
_HEIGHT, _BOTTOM = 2.35, 0.78


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure, where a study says where the points were gathered."""
    if study.reports.experience:
        yield FigureExhibit(
            title="How many rollouts a companion needs",
            chapter="Claims",
            position=2.5,
            caption="AUROC, ECE and Brier score by the number of responses that companions learnt from, with two to 96 "
            "questions in each of 120 rollout steps, none asked twice: CoCal and PostCal with binary supervision, a "
            "linear probe of the same states, the policy's own token probability, and the same after Platt scaling on "
            "the rollouts. Means over replicates with the interval of Student's t. Stars are the paper's numbers, at "
            "the 152,065 responses that it retains for training.",
            layout=layout_of(study),
            inputs={"experience": f"{study.reports.experience}/points.csv", "published": "config/paper"},
        )


def prepare(layout: Layout, experience: pd.DataFrame, published: Published) -> pd.DataFrame:
    """The mean of every metric at every point, and the paper's own numbers. The result has the columns source ("study"
    or `PAPER`), level (questions per step), method, metric, learnt (responses that CoCal's companion learnt from, as
    mean over replicates), value, lower, upper (NaN of the paper) and replicates."""
    learnt = experience[experience["method"] == "cocal-binary"].groupby("level", sort=False)["learnt"].mean()
    rows = []
    for (level, method), part in experience.groupby(["level", "method"], sort=False):
        for metric in SCORES if method in SHOWN else ():
            if (values := part[metric].dropna().to_numpy()).size:
                mean = over_replicates(values, layout.level, "")
                rows.append(("study", str(level), method, metric, learnt[level], *mean[:3], len(values)))
    paper, _ = published.numbers("PostCal retains")
    for method in SHOWN:
        for metric in SCORES if method in METHODS else ():
            if metric in METRICS.values():
                value, _ = published.metric("main", method, metric)
                rows.append((PAPER, "256", method, metric, paper, value, float("nan"), float("nan"), 1))
    names = ["source", "level", "method", "metric", "learnt", "value", "lower", "upper", "replicates"]
    return pd.DataFrame(rows, columns=names)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A panel for each metric."""
    handles = [entry(**look) for method, look in SHOWN.items() if method in set(numbers["method"])]
    handles.append(entry("the paper", color=INK, marker="*", linestyle="none", markersize=6))
    said = f"{layout.backbone_label}, macro average of mathematics; bars: {100 * layout.level:g} % over replicates"
    figure, axes = panels_above(len(SCORES), (_HEIGHT, 0.06, _BOTTOM), handles, 3, said)
    for ax, metric in zip(axes, _TITLES, strict=True):
        _panel(ax, numbers[numbers["metric"] == metric])
        ax.set_title(f"{_TITLES[metric]} {'↑' if metric == 'auroc' else '↓'}")
    axes[len(SCORES) // 2].set_xlabel("Responses learnt from")
    return figure


def _panel(ax: Axes, panel: pd.DataFrame) -> None:
    for method, look in SHOWN.items():
        part = panel[panel["method"] == method].sort_values("learnt")
        own, stated = part[part["source"] != PAPER], part[part["source"] == PAPER]
        ax.plot(own["learnt"], own["value"], **look)
        ax.vlines(own["learnt"], own["lower"], own["upper"], color=look["color"], linewidth=0.7)
        ax.plot(stated["learnt"], stated["value"], "*", color=look["color"], markersize=6, markeredgewidth=0)
    ax.set_xscale("log")
