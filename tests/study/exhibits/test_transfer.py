"""Transfer between stages (cross_iteration): colours and texts."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from cocal.drawing.style import INK, TEXT_WIDTH, paper_style
from cocal.metrics.shown import UNDEFINED
from cocal_study.exhibits import cross_iteration
from cocal_study.exhibits.cross_iteration import plot_cross_iteration, shades
from cocal_study.exhibits.drawing.curves import CONFIDENCE_QUALITY, HALF_WIDTH
from drawn_texts import assert_texts_apart
from sample_tables import curves_layout

LONG = {"study": "rehearsal", "backbone_label": "Tiny-Qwen3-deep"}
"""Words of the small print that take much room."""


def values(steps=(20, 40, 60)) -> pd.DataFrame:
    """A value of its own for each source, target and metric."""
    rows = [
        {"source_step": source, "step": step, "metric": metric, "value": 0.8 + 0.001 * source - 0.0021 * step}
        for source in steps
        for step in steps
        for metric in CONFIDENCE_QUALITY
    ]
    return pd.DataFrame(rows)


def luminance(colour) -> float:
    """Relative luminance of sRGB (WCAG 2)."""
    parts = np.array(to_rgb(colour))
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("metric", "best"), [("ece", "idxmin"), ("auroc", "idxmax")])
def test_the_best_cell_is_the_darkest(metric, best):
    panel = values().query("metric == @metric").reset_index(drop=True)
    figure = Figure()
    ax = figure.subplots()
    plot_cross_iteration(ax, panel)
    figure.draw_without_rendering()
    shown = [luminance(colour) for colour in ax.collections[0].get_facecolors()]
    assert panel["value"].nunique() == len(panel)
    assert np.argmin(shown) == getattr(panel["value"], best)()


def test_ink_can_be_read_on_every_shade_and_shades_darken():
    cmap = shades()
    shown = np.array([luminance(colour) for colour in cmap(np.arange(cmap.N))])
    assert (np.diff(shown) < 0).all()
    for background in (*shown, luminance(cmap.get_bad())):
        assert (background + 0.05) / (luminance(INK) + 0.05) >= 4.5


def test_an_undefined_value_is_no_number_and_leaves_the_others_their_colours():
    numbers = values().query("metric == 'auroc'")
    ax = Figure().subplots()
    plot_cross_iteration(ax, numbers.assign(value=numbers["value"].mask(numbers["source_step"] == 40)))
    assert [text.get_text() for text in ax.texts].count(UNDEFINED) == 3
    low, high = ax.collections[0].get_clim()
    rest = numbers.loc[numbers["source_step"] != 40, "value"]
    assert (low, high) == pytest.approx((rest.min(), rest.max()))


@pytest.mark.parametrize(("stages", "width"), [(1, HALF_WIDTH), (3, HALF_WIDTH), (4, TEXT_WIDTH), (9, TEXT_WIDTH)])
def test_cells_are_square_and_texts_apart(stages, width):
    steps = [40 * (place + 1) for place in range(stages)]
    with paper_style():
        figure = cross_iteration.draw(values(steps), curves_layout(["cocal-binary"], steps, **LONG))
        assert_texts_apart(figure)
    assert figure.get_figwidth() == width
    for ax in figure.axes:
        box = ax.get_window_extent()
        assert box.width == pytest.approx(box.height)
        wide = [text.get_text() for text in ax.texts if text.get_window_extent().width >= box.width / stages]
        assert not wide, "numbers are wider than their cells"
