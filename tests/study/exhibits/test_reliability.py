"""Reliability diagrams: the numbers, what is drawn of them, and equal bytes for equal data."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from cocal.drawing.bins import FEW
from cocal.errors import ContractError
from cocal.metrics.settings import MetricSettings
from cocal_study.config.methods import METHODS
from cocal_study.exhibits import reliability
from cocal_study.exhibits.layers import BACKBONE_COLOURS
from cocal_study.exhibits.reliability import Layout, plot_reliability
from sample_predictions import metric_cube, sample_predictions
from sample_tables import BACKBONE

SHOWN = ("verbal", "self-consistency", "cocal-group", "cocal-binary")


def layout(*datasets: str, methods=SHOWN, **changes) -> Layout:
    sets = [{"name": name, "label": name.upper()} for name in datasets]
    return Layout(**BACKBONE | {"datasets": sets, "methods": methods} | changes)


def prepare(frame: pd.DataFrame, *datasets: str, **changes) -> pd.DataFrame:
    return reliability.prepare(layout(*datasets, **changes), [frame])


def test_the_means_over_the_seeds_are_those_of_the_table():
    frame = sample_predictions("amc24")
    panels = prepare(frame, "amc24").groupby("method", sort=False).first()
    cube = metric_cube(frame, MetricSettings(resamples=0))["value"].sel({"backbone": "tiny-a", "dataset": "amc24"})
    for method in SHOWN:
        cell = cube.sel({"algorithm": "grpo", "step": 60, "method": method, "seed": "mean"})
        for metric in ("ece", "auroc"):
            assert panels.loc[method, f"{metric}_of_seeds"] == pytest.approx(cell.sel(metric=metric).item(), abs=1e-15)
    assert panels["seeds"].tolist() == [0, 0, 2, 2]
    assert panels.loc["cocal-binary", "ece"] != panels.loc["cocal-binary", "ece_of_seeds"]
    assert panels.loc["verbal", "ece"] == panels.loc["verbal", "ece_of_seeds"]


def test_invalid_confidences_are_left_out_and_reported():
    verbal = prepare(sample_predictions("amc24"), "amc24", methods=("verbal",))
    assert verbal["n"].iloc[0] == 40
    assert verbal["n_valid"].iloc[0] == 39
    empty = verbal["count"] == 0
    assert empty.any()
    assert verbal.loc[empty, ["accuracy", "mean_confidence"]].isna().all(axis=None)


def test_predictions_of_another_step_or_on_the_responses_of_another_policy_are_left_out():
    """As of CoCal on RLCR's policy (figure 7), which is CoCal, too."""
    frame = sample_predictions("amc24")
    transferred = frame[frame["method"] == "cocal-binary"].assign(algorithm="rlcr", confidence=0.05)
    together = pd.concat([frame, transferred, sample_predictions("amc24", step=20)], ignore_index=True)
    pd.testing.assert_frame_equal(prepare(together, "amc24"), prepare(frame, "amc24"))


def test_an_absent_panel_is_named():
    with pytest.raises(ContractError, match=r"'cocal-group' \(seed 7\) on amc24"):
        prepare(sample_predictions("amc24"), "amc24", seed=7)


def test_the_side_of_a_gap_shows_and_bins_of_few_responses_are_pale():
    bins = (
        [0.0, 0.2, FEW, 0.0, 0.1],
        [0.2, 0.4, FEW, 0.9, 0.3],
        [0.4, 0.6, FEW - 1, 0.1, 0.5],
        [0.6, 0.8, 1, 1.0, 0.7],
    )
    panel = pd.DataFrame(bins, columns=["left", "right", "count", "accuracy", "mean_confidence"])
    top, bottom = Figure().subplots(2)
    plot_reliability(top, bottom, panel, "#336699")
    bars = {patch.get_x(): patch for box in top.containers for patch in box}
    too_high, too_low, few, one = (bars[left] for left in panel["left"])
    assert [bool(bar.get_hatch()) for bar in (too_high, too_low, few, one)] == [True, False, False, False]
    full = to_rgb("#336699")
    assert too_high.get_edgecolor()[:3] == too_low.get_edgecolor()[:3] == full
    for bar in (few, one):
        assert bar.get_facecolor()[3] == 0
        assert np.mean(bar.get_edgecolor()[:3]) > np.mean(full) + 0.2


def test_methods_have_markers_and_colours_of_their_own_and_targets_differ_in_greyscale():
    assert len({(method.marker, method.hollow) for method in METHODS.values()}) == len(METHODS)
    own = [method.colour for method in METHODS.values() if not method.hollow]
    assert len({*own, *BACKBONE_COLOURS}) == len(own) + len(BACKBONE_COLOURS)
    grey = {name: np.dot(to_rgb(method.colour), [0.299, 0.587, 0.114]) for name, method in METHODS.items()}
    for family in ("cocal", "postcal"):
        assert grey[f"{family}-group"] - grey[f"{family}-binary"] > 0.25
