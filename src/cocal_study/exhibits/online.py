"""Companions that learn while the policy trains, beside replayed ones (section 4.1, practical implementation)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.drawing.style import INK, Axes, Figure
from cocal.settings.base import Count
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.exhibits.base.exhibit import FigureExhibit, MethodsLayout, of_backbone
from cocal_study.exhibits.drawing.curves import entry, metric_row, value_axis
from cocal_study.planning.plan import has_methods
from cocal_study.planning.results import online_file
from cocal_study.planning.variants import windows

SMOOTHED = 10
"""Number of rollout steps over which the bold curves average."""
_METHOD = "cocal-binary"
_COLOURS = ("#8a5a1e", "#6b7a99")
"""Colours of the online companions without and with a buffer, brown and slate, which no method has."""


class Layout(MethodsLayout):
    windows: tuple[Count, ...]
    """Numbers of rollout steps that the online companions learn from together."""
    steps: Count


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if has_methods(study, _METHOD):
        yield FigureExhibit(
            title="Companions that learn while the policy trains",
            chapter="Analysis",
            position=64,
            caption="ECE and AUROC of companions on the rollouts of the step that follows those that they have learnt "
            "from, before they learn from it. Only responses to questions that no earlier step has asked are scored, "
            "since the others are not held out. Online companions learn from every rollout step when it is produced, "
            "either from this step alone, so that no states are kept, or from the last few steps again. Replayed "
            "companions (section 4.1, practical implementation) learn in several passes from all states, which are "
            "kept, and stand at the steps at which the study has fitted them. Thin lines and marks are single steps, "
            f"whose few responses raise every ECE; bold lines average over the last {SMOOTHED} of them, once there "
            "are as many. All end where no further step asks a new question. All values are means over the seeds.",
            layout=Layout(
                **of_backbone(study, study.main_backbone),
                methods=(_METHOD,),
                windows=windows(study),
                steps=study.policy.steps,
            ),
            inputs={"scores": [online_file(study.main_backbone)]},
        )


def prepare(layout: Layout, scores: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds of the binary companions. The result has the columns window (0 for replayed companions),
    source_step, responses, metric, value (mean over the seeds), seed_sd and kept_bytes; in the order of the windows,
    the steps, then the ECE before the AUROC."""
    binary = scores[(scores["target"] == METHODS[_METHOD].target) & scores["window"].isin([0, *layout.windows])]
    keys = ["window", "source_step", "metric"]
    long = binary.melt([*keys[:2], "responses", "kept_bytes"], list(CONFIDENCE_QUALITY), "metric", "value")
    long["metric"] = pd.Categorical(long["metric"], CONFIDENCE_QUALITY)
    cells = long.groupby(keys, observed=True)
    means = cells[["responses", "kept_bytes"]].first().assign(value=cells["value"].mean(), seed_sd=cells["value"].std())
    means = means.reset_index().astype({"metric": str})
    return means[["window", "source_step", "responses", "metric", "value", "seed_sd", "kept_bytes"]]


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A panel of the ECE and one of the AUROC."""
    from matplotlib.ticker import MaxNLocator

    kept = numbers.groupby("window")["kept_bytes"].max()
    looks = dict(zip(layout.windows, _COLOURS, strict=False))
    names = {window: "online" if window == 1 else f"online, last {window} steps" for window in looks}
    handles = [
        entry(f"{names[window]} ({_size(kept[window])} kept)", color=colour, linewidth=1.3)
        for window, colour in looks.items()
    ]
    mark = {"color": METHODS[_METHOD].colour, "marker": METHODS[_METHOD].marker, "linestyle": "none", "markersize": 4}
    if 0 in kept:
        handles.append(entry(f"replayed ({_size(kept[0])} kept)", **mark))
    scored = numbers[numbers["responses"] > 0]
    counts, last = sorted(scored["responses"].unique()) or [0], scored["source_step"].max()
    responses = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    over = SMOOTHED if last >= 2 * SMOOTHED else 1
    said = f"; bold: mean of {over} steps" if over > 1 else ""
    said += f"\nno step after {last + 1} of {layout.steps} asks a new question" if last + 1 < layout.steps else ""

    def plot(ax: Axes, panel: pd.DataFrame) -> None:
        by_window = {window: rows.set_index("source_step")["value"] for window, rows in panel.groupby("window")}
        for window, colour in looks.items():
            curve = by_window[window].dropna()
            ax.plot(curve, color=colour, linewidth=0.4, alpha=0.45)
            ax.plot(curve.rolling(over).mean(), color=colour, linewidth=1.3, zorder=3)
        if 0 in by_window:
            ax.plot(by_window[0], markeredgecolor="white", markeredgewidth=0.4, zorder=4, **mark)
        value_axis(ax, panel)
        ax.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10], integer=True))
        ax.set_xlim(0, 1.03 * (last if len(scored) else layout.steps))

    figure = metric_row(
        numbers,
        plot,
        height=1.6,
        label="Rollout steps learnt from",
        handles=handles,
        source=f"{layout.study} study, {layout.backbone_label}; {responses} rollouts of the step after{said}",
    )
    figure.axes[1].axhline(0.5, color=INK, linewidth=0.5, linestyle=(0, (4, 2.5)), zorder=0)
    return figure


def _size(count: int) -> str:
    if count < 1e6:
        return f"{count / 1e3:.0f} kB" if count else "no states"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
