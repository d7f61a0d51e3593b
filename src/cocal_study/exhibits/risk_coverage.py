"""Selective risk against coverage of every method (beyond the paper)."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from cocal.drawing.style import INK, Figure
from cocal.metrics.ordered import Ordered
from cocal.settings.base import Name
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import ComparedLayout, FigureExhibit, of_main
from cocal_study.exhibits.base.inputs import rows_by_seed
from cocal_study.exhibits.drawing.curves import entry, look_of, method_handles, panel_row
from cocal_study.exhibits.main import main_methods
from cocal_study.exhibits.typesetting.wording import counted
from cocal_study.planning.plan import final_predictions

COVERAGES = np.arange(5, 101) / 100
"""Coverages that are drawn; smaller ones rest on a few responses."""
REFERENCES = {
    "optimal": {"color": INK, "linestyle": (0, (1, 1.4)), "linewidth": 1.0, "label": "optimal order"},
    "random": {"color": INK, "linestyle": (0, (4, 2.5)), "linewidth": 0.7, "label": "random order"},
}
"""The curves of the best order and of a random one, by name."""
_COMMON = "cocal-binary"
"""Method that all panels show, so that they can be compared."""


class Layout(ComparedLayout):
    """The contents of the figure: one curve per method."""

    datasets: tuple[Name, ...]

    @property
    def sharing(self) -> tuple[str, ...]:
        """The methods that are evaluated on the same responses."""
        return tuple(name for name in self.methods if METHODS[name].prompt_format == "answer")


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if main_methods(study):
        yield FigureExhibit(
            title="Selective risk against coverage",
            chapter="Main results",
            position=15,
            caption="The share of wrong responses among the most confident ones, against their share of all responses, "
            "averaged over the mathematical sets. Companions and methods without one score the same responses; for "
            "these, the dotted curve is the best order, with all wrong responses last, and the dashed line a random "
            "one. The methods on the right score responses of their own, and so end at different risks. CoCal (binary) "
            "is in all panels, each of which has a scale of its own. Tied responses count evenly, and companions are "
            "averaged over their seeds.",
            layout=Layout(
                **of_main(study), methods=main_methods(study), datasets=tuple(study.evaluation_sets("mathematics"))
            ),
            inputs={"predictions": final_predictions(study, study.main_backbone)},
        )


def prepare(layout: Layout, predictions: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Average the curves over seeds, then over data sets. The result has the columns curve (a method, or one of
    `REFERENCES` for the responses that methods share), coverage and risk, NaN if a data set has no response with a
    valid confidence."""
    table = pd.concat(predictions, ignore_index=True)
    curves: dict[str, list[np.ndarray]] = {}
    for dataset in layout.datasets:
        for method in layout.methods:
            by_seed = rows_by_seed(table, layout, dataset, method)
            of_seeds = [_risks(rows["confidence"], rows["correct"]) for rows in by_seed.values()]
            curves.setdefault(method, []).append(np.mean(of_seeds, axis=0))
            if method == next(iter(layout.sharing), None):
                correct = next(iter(by_seed.values()))["correct"]
                curves.setdefault("optimal", []).append(_risks(correct.astype(np.float64), correct))
                curves.setdefault("random", []).append(np.full(len(COVERAGES), 1 - correct.mean()))
    names = [*layout.methods, *(name for name in REFERENCES if name in curves)]
    parts = [{"curve": name, "coverage": COVERAGES, "risk": np.mean(curves[name], axis=0)} for name in names]
    return pd.concat(map(pd.DataFrame, parts), ignore_index=True)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A panel of the companions, one of the other methods that share their responses, and one of those that do not."""
    groups = {
        "companions": [name for name in layout.sharing if METHODS[name].target],
        "no companion": [name for name in layout.sharing if not METHODS[name].target],
        "own responses": [name for name in layout.methods if name not in layout.sharing],
    }
    common = [_COMMON] if _COMMON in layout.sharing else []
    panels = {title: dict.fromkeys((*names, *common)) for title, names in groups.items() if names}
    handles = method_handles(layout.methods)
    if layout.sharing:
        handles += [entry(**look) for look in REFERENCES.values()]
    figure, axes = panel_row(
        [f"Risk (%), {title}" for title in panels],
        height=1.7,
        label="Coverage (%)",
        handles=handles,
        source=f"{layout.study} study, {layout.backbone_label}, step-{layout.step} policy, mean of "
        f"{counted(len(layout.datasets), 'data set')}",
        columns=5,
    )
    for ax, (title, shown) in zip(axes, panels.items(), strict=True):
        references = () if title == "own responses" else REFERENCES
        panel = numbers[numbers["curve"].isin([*shown, *references])]
        for place, (name, curve) in enumerate(panel.groupby("curve", sort=False)):
            own = {"zorder": 1} if name in REFERENCES else {**look_of(name), "markevery": (4 * place, 24)}
            ax.plot(100 * curve["coverage"], 100 * curve["risk"], **REFERENCES.get(name, {}), **own)
        highest = 100 * panel["risk"].max() or 1.0
        ax.set_xlim(0, 102)
        ax.set_xticks([0, 25, 50, 75, 100])
        ax.set_ylim(-0.02 * highest, 1.05 * highest)  # a curve at 0 is not cut by the axis
    return figure


def _risks(confidence: pd.Series, correct: pd.Series) -> np.ndarray:
    """The selective risk at `COVERAGES` of the responses with a valid confidence, float64 [coverages]."""
    valid = confidence.notna().to_numpy()
    if not valid.any():
        return np.full(len(COVERAGES), np.nan)
    ordered = Ordered.of(np.arange(valid.sum()), confidence.to_numpy()[valid], correct.to_numpy()[valid])
    counted_once = ordered.counted(np.ones((valid.sum(), 1), dtype=np.int32))
    return counted_once.risk_at(COVERAGES[:, None])[:, 0]
