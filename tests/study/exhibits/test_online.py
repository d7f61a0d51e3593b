"""figures/online: online companions beside replayed ones."""

import numpy as np
import pytest

from cocal_study.exhibits import online
from cocal_study.planning.variants import replayed_folders, windows
from coded_inputs import coded_scores
from planned_jobs import study_of


@pytest.fixture(scope="module")
def layout():
    (exhibit,) = online.of_study(study_of("smoke"), {})
    return exhibit.layout


def test_a_study_has_windows_of_one_step_and_of_its_passes():
    study = study_of("smoke")
    assert windows(study) == (1, 2)
    wider = study.reports.model_copy(update={"online_window": 5})
    assert windows(study.model_copy(update={"reports": wider})) == (1, 5)
    once = study.companion.model_copy(update={"passes": 1})
    assert windows(study.model_copy(update={"companion": once})) == (1,)
    assert [folder.rpartition("/")[2] for folder in replayed_folders(study)] == ["steps-1", "steps-2"]


def test_the_legend_says_the_most_that_is_kept(layout):
    """What is kept grows with the steps; the label has room for one number, and says where it is none."""
    scores = coded_scores(layout.windows, 4)
    grown = scores.assign(kept_bytes=scores["kept_bytes"] * scores["source_step"] * (scores["window"] != 1))
    (legend,) = online.draw(online.prepare(layout, grown), layout).legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["online (no states kept)", "online, last 2 steps (3.1 MB kept)", "replayed (7.3 GB kept)"]


def test_curves_end_with_the_last_new_question_and_bold_ones_are_means_of_ten_steps(layout):
    """By hand: step t has the ECE t / 100, so that ten of them, the last of which is t, have the mean (t - 4.5) / 100;
    no step from the 31st on has a new question."""
    scores = coded_scores(layout.windows, 40)
    scores = scores.assign(ece=scores["source_step"] / 100)
    late = scores["source_step"] > 30
    scores.loc[late, ["ece", "auroc"]] = float("nan")
    scores.loc[late, "responses"] = 0
    figure = online.draw(online.prepare(layout, scores), layout.model_copy(update={"steps": 41}))
    thin, bold = (line.get_xydata() for line in figure.axes[0].lines[:2])
    assert thin[[0, -1]] == pytest.approx(np.array([[1, 0.01], [30, 0.3]]))
    known = bold[~np.isnan(bold[:, 1])]
    assert known[[0, -1]] == pytest.approx(np.array([[10, 0.055], [30, 0.255]]))
    assert figure.axes[0].get_xlim()[1] == pytest.approx(30.9)
    assert "no step after 31 of 41 asks a new question" in figure.texts[-1].get_text()
