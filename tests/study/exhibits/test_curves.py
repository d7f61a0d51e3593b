"""Figures over training steps: the cells they read, what is drawn of them, and their commands."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from cocal.metrics.settings import MetricSettings
from cocal_study.exhibits import budgets, training_dynamics
from cocal_study.exhibits.drawing.curves import CONFIDENCE_QUALITY, SEED_WHISKERS, plot_curves, plot_stages, read_curves
from coded_inputs import coded_cube
from sample_predictions import STAGES, metric_cube, sample_predictions
from sample_tables import curves_layout

DATASETS = ("amc23", "amc24")
MACRO = "macro-mathematics"


def test_variants_of_equal_accuracy_stand_beside_each_other():
    frame = pd.concat([sample_predictions(*DATASETS, methods=STAGES, step=step) for step in (20, 60)])
    stages = metric_cube(frame, MetricSettings(resamples=20), {MACRO: DATASETS})
    panel = training_dynamics.prepare(curves_layout(STAGES, (20, 60)), stages).query("metric == 'accuracy'")
    figure = Figure(dpi=72)
    ax = figure.subplots()
    plot_stages(ax, panel)
    group, binary = (box.lines[0] for box in ax.containers[-2:])
    on_paper = [line.get_transform().transform(line.get_xydata()) for line in (group, binary)]
    assert on_paper[1] - on_paper[0] == pytest.approx(np.array([[2.0, 0.0]] * 2))  # points
    bands = [line for line in ax.lines if len({*line.get_xdata()}) == 1 and line.get_linewidth() > 5]
    assert [band.get_xdata()[0] for band in bands] == [20, 60]
    for band, step in zip(bands, range(2), strict=True):
        middle = ax.transData.transform((band.get_xdata()[0], 0))[0]
        marks = [box.lines[0].get_transform().transform(box.lines[0].get_xydata())[step, 0] for box in ax.containers]
        assert max(abs(mark - middle) for mark in marks) < band.get_linewidth() / 2, "a mark leaves its band"


@pytest.mark.parametrize(("low", "high"), [(0.07, 0.52), (0.02, 0.06), (0.16, 0.39), (0.5, 0.5)])
def test_the_values_can_be_read_off_three_ticks_or_more(low, high):
    panel = pd.DataFrame({"method": "rlcr", "step": [1, 2], "value": [low, high], "low": low, "high": high})
    ax = Figure().subplots()
    plot_curves(ax, panel, steps="step")
    bottom, top = ax.get_ylim()
    assert sum(bottom <= tick <= top for tick in ax.get_yticks()) >= 3


def test_an_undefined_value_is_a_gap_and_a_panel_without_any_value_says_so():
    panel = pd.DataFrame({"method": "rlcr", "step": [1, 2, 3], "value": [0.5, np.nan, 0.7], "low": 0.4, "high": 0.8})
    some, none = Figure().subplots(2)
    plot_curves(some, panel, steps="step")
    assert np.isnan(some.containers[0].lines[0].get_ydata(orig=False)).tolist() == [False, True, False]
    plot_curves(none, panel.assign(value=np.nan, low=np.nan, high=np.nan), steps="step")
    assert [text.get_text() for text in none.texts] == ["undefined"]
    assert not len(none.get_yticks())


def test_a_curve_over_replicates_is_their_mean_and_without_all_of_them_the_seeds_are_shown():
    """By hand: of 0.2, 0.3 and 0.4 the mean is 0.3 and the standard deviation 0.1."""
    layout = curves_layout(("cocal-binary",), (20, 60), step=60)
    sweep = coded_cube("tiny-a", ["cocal-binary"], source_step=[20, 60])
    own = read_curves(layout, sweep, CONFIDENCE_QUALITY)
    gathered = own[["source_step", "method", "metric"]].assign(mean=0.3, sd=0.1, replicate_1=0.2, replicate_2=0.4)
    numbers = budgets.prepare(layout, sweep, gathered.assign(replicate_3=0.3))
    pd.testing.assert_frame_equal(numbers[list(own)], own)
    figure = budgets.draw(numbers, layout)
    assert "mean and standard deviation of 3 replicates" in figure.texts[-1].get_text()
    for ax, metric in zip(figure.axes, ("ece", "auroc"), strict=True):
        (curve,) = ax.containers
        assert curve.lines[0].get_ydata() == pytest.approx(np.array([0.3, 0.3]))
        assert curve.lines[2][0].get_segments()[0][:, 1] == pytest.approx(np.array([0.2, 0.4]))
        assert ax.lines[0].get_ydata() == pytest.approx(own.loc[own["metric"] == metric, "value"].to_numpy())
    for lacking in (None, gathered.iloc[1:]):
        figure = budgets.draw(budgets.prepare(layout, sweep, lacking), layout)
        assert SEED_WHISKERS in figure.texts[-1].get_text()
        (curve,) = figure.axes[0].containers
        assert curve.lines[0].get_ydata() == pytest.approx(own.loc[own["metric"] == "ece", "value"].to_numpy())
