"""Confidence while responses grow: what `benchmarks/prefixes.py` measures, the figure, and where it is shown."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cocal.drawing.style import paper_style
from cocal_study.exhibits import prefixes
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.exhibits.prefixes import AUROC, COLUMNS, SAVED
from cocal_study.exhibits.regimes import layout_of
from drawn_texts import assert_texts_apart
from planned_jobs import study_of
from started import ROOT

STUDY = study_of("config")


@pytest.fixture
def script(monkeypatch):
    """The script, which imports others of its folder."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("prefixes")


@pytest.fixture
def grown(script):
    return script.Grown(
        until=[np.array(at) for at in ([4, 8, 9], [4, 8, 10], [4, 6], [3], [4, 8, 12])],
        trajectories=[
            np.array(one) for one in ([0.5, 0.2, 0.9], [0.3, 0.6, 0.1], [0.15, 0.8], [0.7], [0.25, 0.1, 0.4])
        ],
        correct=np.array([True, False, True, True, False]),
    )


def test_after_a_share_the_latest_confidence_counts_of_those_that_have_one(grown):
    # after 45 %: .5 (4 of 9), .3 (4 of 10), none of the 6 and of the 3, .25 (4 of 12)
    assert grown.auroc(0.45) == 1.0
    # after 80 %: .5, .6 (8 of 10), .15 (4 of 6), .1 (8 of 12)
    assert grown.auroc(0.8) == pytest.approx(0.5)
    # at the end: right .9, .8, .7; wrong .1, .4
    assert grown.auroc(1.0) == 1.0


def test_stopping_saves_what_comes_after_the_first_confidence_below_the_threshold(grown):
    """Before their ends, the lowest confidences of the right responses are .2, .15 and none."""
    tokens = 9 + 10 + 6 + 3 + 12
    assert grown.saved(0.0) == pytest.approx((12 - 8) / tokens), "below .15: only the last one, at .1"
    # one of three may be lost: below .2, the third stops after 4 of 6
    assert grown.saved(0.34) == pytest.approx((12 - 8 + 6 - 4) / tokens)
    # two may be lost: below any confidence, all that have one stop at their first
    assert grown.saved(0.67) == pytest.approx((9 - 4 + 10 - 4 + 6 - 4 + 12 - 4) / tokens)


def test_without_a_right_response_nothing_can_be_said(grown):
    wrong = grown._replace(correct=np.zeros(5, dtype=bool))
    assert np.isnan(wrong.saved(0.1))
    assert np.isnan(wrong.auroc(0.8))


def measurements():
    rows = [
        ("embedded", "tiny", 4, method, metric, at, value + 0.037 * k + (0.21 if metric == AUROC else 1.7) * at)
        for k, method in enumerate(prefixes.SHOWN)
        for metric, places, value in ((AUROC, (0.1, 0.4, 1.0), 0.5), (SAVED, (0.0, 0.05), 0.01))
        for at in places
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_the_figure_has_both_panels_and_texts_that_lie_apart():
    numbers = prefixes.prepare(layout_of(STUDY), measurements())
    with paper_style():
        figure = prefixes.draw(numbers, layout_of(STUDY))
        FigureCanvasAgg(figure).draw()
    assert_texts_apart(figure)
    for ax, metric, scale in zip(figure.axes, (AUROC, SAVED), (1, 100), strict=True):
        lines = {tuple(np.round(line.get_ydata(), 9)) for line in ax.lines}
        drawn = numbers[numbers["metric"] == metric].groupby("method")["value"]
        assert lines == {tuple(np.round(scale * part.to_numpy(), 9)) for _, part in drawn}


@pytest.mark.slow
def test_it_is_measured_on_a_finished_study_and_shown_where_it_was_gathered(script, smoke, tmp_path, monkeypatch):
    file = tmp_path / "prefixes.csv"

    def shown():
        reports = STUDY.reports.model_copy(update={"prefixes": str(file)})
        return "prefixes" in {one.name for one in exhibits_of(STUDY.model_copy(update={"reports": reports}), {})}

    assert not shown()
    words = ["prefixes.py", "--study", ROOT / "config/smoke.yaml", "--directory", smoke, "--every", 3, "--output", file]
    monkeypatch.setattr(sys, "argv", [*map(str, words)])
    script.main()
    found = pd.read_csv(file)
    assert found.columns.tolist() == list(COLUMNS)
    assert len(found) == len(prefixes.SHOWN) * (len(script.SHARES) + len(script.LOST))
    assert found["value"][found["metric"] == SAVED].dropna().between(0, 1).all()
    assert set(found["every"]) == {3}
    assert shown()
