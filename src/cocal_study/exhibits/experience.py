"""How good confidences are by the number of rollouts that there were to learn from (beyond the paper)."""

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.drawing.style import INK, Axes, Figure
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.evidence.published import METRICS, Published
from cocal_study.evidence.regimes import SCORES
from cocal_study.evidence.verdicts import over_replicates
from cocal_study.exhibits.base.exhibit import FigureExhibit
from cocal_study.exhibits.drawing.curves import entry, look_of, looks, panel_rows
from cocal_study.exhibits.regimes import Layout, layout_of

PAPER = "paper"
"""The source of the paper's own points."""
RECALIBRATED = "token-probability+platt-all"
SHOWN = {name: {**look_of(name), "label": METHODS[name].label} for name in ("cocal-binary", "postcal-binary")}
SHOWN |= looks({"linear-binary": ("linear probe", "#8a5a1e", (4, 1, 0), "--")})  # brown, which no method has
SHOWN["linear-binary"]["markersize"] = 5
SHOWN["token-probability"] = {**look_of("token-probability"), "label": "TokenProb"}
SHOWN[RECALIBRATED] = SHOWN["token-probability"] | {"label": "TokenProb, recalibrated", "linestyle": ":"}
SHOWN[RECALIBRATED] |= {"markerfacecolor": "white", "markeredgecolor": SHOWN[RECALIBRATED]["color"]}
OWN = {"auroc": "token-probability", **dict.fromkeys(("ece", "brier"), RECALIBRATED)}
"""The confidence from the policy's own probabilities, by metric: Platt scaling leaves the ranking as it is."""
_TITLES = {"auroc": "AUROC ↑", "ece": "ECE ↓", "brier": "Brier score ↓"}
_HEIGHT = 1.32
"""Height of a panel, in inches."""
_APART = 1.13
"""Ratio of the places of two methods at one number of responses, so that their marks and intervals do not overlap."""
_PLACES = {name: place - 1 for place, name in enumerate(SHOWN)}


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if study.reports.experience:
        yield FigureExhibit(
            title="How many rollouts a companion needs",
            chapter="Claims",
            position=2.5,
            caption="AUROC, ECE and Brier score by the number of responses that companions learnt from, with two to 96 "
            "questions in each of 120 rollout steps, none asked twice, and responses sampled as rollouts are: CoCal "
            "and PostCal with binary supervision, a linear probe of the same states, the policy's own token "
            "probability, and the same after Platt scaling on the rollouts, which leaves its AUROC as it is. Above are"
            " means over replicates, and as stars the paper's numbers, at the 152,065 responses that it retains for "
            "training. Below are their differences from what the policy's own probabilities reach in the same "
            "replicate (token probability, for ECE and Brier score after Platt scaling): each replicate, and the mean "
            "with the interval of Student's t. Methods are drawn side by side, and intervals that leave a panel are "
            "longer than it shows.",
            layout=layout_of(study),
            inputs={"experience": [f"{study.reports.experience}/points.csv"], "published": ["config/paper"]},
        )


def prepare(layout: Layout, experience: pd.DataFrame, published: Published) -> pd.DataFrame:
    """The mean of every metric at every point, its differences from that of `OWN`, and the paper's own numbers: columns
    source ("study", `PAPER`, or "replicate N"), less (the method whose number is subtracted, or ""), level (questions
    per step), method, metric, learnt (responses that CoCal's companion learnt from, as mean over replicates), value,
    lower, upper (NaN for the paper and for one replicate) and replicates."""
    learnt = experience[experience["method"] == "cocal-binary"].groupby("level", sort=False)["learnt"].mean()
    rows = []
    for metric in SCORES:
        measured = experience.pivot(index=["level", "replicate"], columns="method", values=metric)
        for level in learnt.index:
            values = measured.loc[level]
            for method in (name for name in SHOWN if name in measured):
                place = str(level), method, metric, learnt[level]
                rows += _means(layout, "", place, values[method].dropna())
                if method not in OWN.values() and OWN[metric] in measured:
                    rows += _means(layout, OWN[metric], place, (values[method] - values[OWN[metric]]).dropna())
    paper, _ = published.numbers("PostCal retains")
    for method in SHOWN:
        for metric in SCORES if method in METHODS else ():
            if metric in METRICS.values():
                value, _ = published.metric("main", method, metric)
                rows.append((PAPER, "", "256", method, metric, paper, value, math.nan, math.nan, 1))
    names = ["source", "less", "level", "method", "metric", "learnt", "value", "lower", "upper", "replicates"]
    return pd.DataFrame(rows, columns=names)


def _means(layout: Layout, less: str, place: tuple[str, str, str, float], values: pd.Series) -> Iterator[tuple]:
    """The rows of a number in several replicates: its mean and, for a difference, its value in each replicate."""
    if len(values):
        mean = over_replicates(values.to_numpy(), layout.level, "")
        yield "study", less, *place, *mean[:3], len(values)
    for number, value in values.items() if less else ():
        yield f"replicate {number}", less, *place, value, math.nan, math.nan, 1


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A column for each metric, with the metric above and its differences below."""
    handles = [entry(**look) for method, look in SHOWN.items() if method in set(numbers["method"])]
    handles.append(entry("the paper", color=INK, marker="*", linestyle="none", markersize=6))
    figure, axes = panel_rows(
        [
            list(_TITLES.values()),
            [f"less {SHOWN[OWN[metric]]['label']} {title[-1]}" for metric, title in _TITLES.items()],
        ],
        [_HEIGHT, _HEIGHT],
        label="Responses learnt from",
        handles=handles,
        source=f"{layout.backbone_label}, macro average of mathematics, {numbers['replicates'].max()} replicates "
        f"(small dots below); bars: {100 * layout.level:g} % intervals",
        columns=3,
    )
    for ax in (*axes[0][1:], *axes[1]):
        ax.sharex(axes[0][0])
    for metric, above, below in zip(_TITLES, *axes, strict=True):
        panel = numbers[numbers["metric"] == metric]
        for method, look in SHOWN.items():
            if (metric, method) == ("auroc", RECALIBRATED):
                continue  # Platt scaling leaves the ranking as it is, and two lines would be one
            part = panel[(panel["method"] == method) & (panel["less"] == "")].sort_values("learnt")
            ours, stated = part[part["source"] == "study"], part[part["source"] == PAPER]
            above.plot(ours["learnt"] * _APART ** _PLACES[method], ours["value"], **look)
            above.plot(stated["learnt"], stated["value"], "*", color=look["color"], markersize=6, markeredgewidth=0)
        _differences(below, panel[panel["less"] != ""])
        for ax in (above, below):
            ax.set_xscale("log")
            ax.minorticks_off()
            ax.grid(axis="y", linewidth=0.3, color="#dddddd")
    return figure


def _differences(ax: Axes, panel: pd.DataFrame) -> None:
    """Draw differences on an axis that fits the replicates, since an interval over few of them may be far longer."""
    ax.axhline(0, color=INK, linewidth=0.6)
    bars = []
    for method, look in SHOWN.items():
        part = panel[panel["method"] == method].sort_values("learnt")
        part = part.assign(learnt=part["learnt"] * _APART ** _PLACES[method])
        each, means = part[part["source"] != "study"], part[part["source"] == "study"]
        ax.plot(each["learnt"], each["value"], ".", color=look["color"], markersize=4, markeredgewidth=0, alpha=0.8)
        ax.plot(means["learnt"], means["value"], **look)
        bars.append((look["color"], means))
    limits = ax.get_ylim()
    for colour, means in bars:
        ax.vlines(means["learnt"], means["lower"], means["upper"], color=colour, linewidth=0.7)
    ax.set_ylim(limits)
