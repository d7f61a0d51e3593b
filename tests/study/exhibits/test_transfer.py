"""Transfer between stages (cross_iteration) and between policies (cross_policy): colours and texts."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from cocal.drawing.style import INK, TEXT_WIDTH, paper_style
from cocal.errors import ConfigError
from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import UNDEFINED
from cocal_study.cubes.cube import metric_cube
from cocal_study.exhibits import cross_iteration
from cocal_study.exhibits.cross_iteration import plot_cross_iteration, shades
from cocal_study.exhibits.drawing.curves import CONFIDENCE_QUALITY
from cocal_study.exhibits.drawing.sizes import HALF_WIDTH
from drawn_texts import assert_texts_apart
from sample_predictions import sample_predictions
from sample_tables import curves_layout

DATASETS = ("amc23", "amc24")
MACRO = "macro-mathematics"
STAGES = (20, 40, 60)
LONG = {"study": "rehearsal", "backbone_label": "Tiny-Qwen3-deep"}
"""Words of the small print that take much room."""


@pytest.fixture(scope="module")
def sweep() -> xr.Dataset:
    """Companions of every stage, and of one more prefix, on every stage's policy."""
    parts = []
    for target in STAGES:
        frame = sample_predictions(*DATASETS, methods=("cocal-group", "cocal-binary"), step=target)
        for place, source in enumerate((5, *STAGES)):
            noise = np.random.default_rng([target, source]).random(len(frame))
            mixed = (0.9 - 0.1 * place) * frame["confidence"] + (0.1 + 0.1 * place) * noise
            parts.append(frame.assign(source_step=source, confidence=mixed))
    return metric_cube(pd.concat(parts), MetricSettings(resamples=20), {MACRO: DATASETS}, sweep=["source_step"])


def iterations(cube) -> pd.DataFrame:
    return cross_iteration.prepare(curves_layout(["cocal-binary"], STAGES), cube)


def luminance(colour) -> float:
    """Relative luminance of sRGB (WCAG 2)."""
    parts = np.array(to_rgb(colour))
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("metric", "best"), [("ece", "idxmin"), ("auroc", "idxmax")])
def test_the_best_cell_is_the_darkest(sweep, metric, best):
    panel = iterations(sweep).query("metric == @metric").reset_index(drop=True)
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


def test_an_undefined_value_is_no_number_and_leaves_the_others_their_colours(sweep):
    numbers = iterations(sweep).query("metric == 'auroc'")
    ax = Figure().subplots()
    plot_cross_iteration(ax, numbers.assign(value=numbers["value"].mask(numbers["source_step"] == 40)))
    assert [text.get_text() for text in ax.texts].count(UNDEFINED) == 3
    low, high = ax.collections[0].get_clim()
    rest = numbers.loc[numbers["source_step"] != 40, "value"]
    assert (low, high) == pytest.approx((rest.min(), rest.max()))


@pytest.mark.parametrize(("stages", "width"), [(1, HALF_WIDTH), (3, HALF_WIDTH), (4, TEXT_WIDTH), (9, TEXT_WIDTH)])
def test_cells_are_square_and_texts_apart(stages, width):
    steps = [40 * (place + 1) for place in range(stages)]
    rows = [
        {"source_step": source, "step": step, "metric": metric, "value": 0.8 + 0.001 * source - 0.002 * step}
        for source in steps
        for step in steps
        for metric in CONFIDENCE_QUALITY
    ]
    with paper_style():
        figure = cross_iteration.draw(pd.DataFrame(rows), curves_layout(["cocal-binary"], steps, **LONG))
        assert_texts_apart(figure)
    assert figure.get_figwidth() == width
    for ax in figure.axes:
        box = ax.get_window_extent()
        assert box.width == pytest.approx(box.height)
        assert all(text.get_window_extent().width < box.width / stages for text in ax.texts), (
            "a number is wider than its cell"
        )


# Cross-policy


def test_heat_maps_of_two_methods_are_refused(sweep):
    with pytest.raises(ConfigError, match="shows one method, not cocal-group, cocal-binary"):
        cross_iteration.prepare(curves_layout(("cocal-group", "cocal-binary"), STAGES), sweep)
