"""figures/online: online companions beside replayed ones."""

import pandas as pd
import pytest

from cocal_study.config import load_study
from cocal_study.exhibits import online
from cocal_study.planning.variants import replayed_folders, windows
from smoke_study import CONFIG


@pytest.fixture(scope="module")
def layout():
    (exhibit,) = online.of_study(load_study(CONFIG), {})
    return exhibit.layout


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    """Two seeds of both targets: windows of one and of two steps at three steps, replayed companions at the second."""
    rows = []
    for window, steps, kept in ((1, (1, 2, 3), 0), (2, (1, 2, 3), 2_500_000), (0, (2,), 4_030_000_000)):
        for step in steps:
            for target in ("binary", "group"):
                for seed, shift in ((42, 0.0), (137, 0.1)):
                    value = 0.1 * window + 0.01 * step + shift + (0.5 if target == "group" else 0.0)
                    about = {"window": window, "source_step": step, "step": step + 1, "target": target, "seed": seed}
                    numbers = {"responses": 64, "ece": value, "auroc": 1 - value, "kept_bytes": kept}
                    rows.append(about | numbers)
    return pd.DataFrame(rows)


def test_a_study_has_windows_of_one_step_and_of_its_passes():
    study = load_study(CONFIG)
    assert windows(study) == (1, 2)
    wider = study.reports.model_copy(update={"online_window": 5})
    assert windows(study.model_copy(update={"reports": wider})) == (1, 5)
    once = study.companion.model_copy(update={"passes": 1})
    assert windows(study.model_copy(update={"companion": once})) == (1,)
    assert [folder.rpartition("/")[2] for folder in replayed_folders(study)] == ["steps-1", "steps-2"]


def test_the_legend_says_the_most_that_is_kept(layout, scores):
    """What is kept grows with the steps; the label has room for one number."""
    grown = scores.assign(kept_bytes=scores["kept_bytes"] * scores["source_step"])
    (legend,) = online.draw(online.prepare(layout, grown), layout).legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["online (no states kept)", "online, last 2 steps (7.5 MB kept)", "replayed (8.1 GB kept)"]
