"""Table and figure of the regimes: CoCal less PostCal under conditions that are changed one at a time."""

from pathlib import Path

import pandas as pd

from cocal.drawing.style import paper_style
from cocal_study.evidence.published import read_published
from cocal_study.evidence.regimes import COLUMNS
from cocal_study.exhibits import regimes, regimes_forest
from drawn_texts import assert_texts_apart
from golden import assert_golden, drawn, printed
from planned_jobs import study_of
from started import ROOT

GOLDEN = Path(__file__).parent / "golden"
STUDY = study_of("config")
LAYOUT = regimes.layout_of(STUDY)
AXES = {"Sampling": ("as rollouts", "the paper's"), "Rate": ("none", "as rollouts", "twice")}
MARGINS = {("Sampling", "the paper's"): -0.06, ("Rate", "none"): -0.005, ("Rate", "twice"): 0.03}


def points():
    """Four replicates; the level "as rollouts" is the study's own and stands on both axes."""
    rows = []
    for axis, levels in AXES.items():
        for level in levels:
            margin = MARGINS.get((axis, level), 0.05)
            for k in range(1, 5):
                shift = 0.004 * (k % 3)
                stated = 0.5 + margin + shift
                row = (axis, level, k)
                rows.append((*row, "postcal-binary", 0.41, 0.62, 90, 0.5, 0.45, stated, 0.2, 0.21, 0.6, 0.7))
                better = (0.2 - margin - shift, 0.21 - margin / 2, 0.5, 0.7 + margin / 3)
                rows.append((*row, "cocal-binary", 0.41, 0.62, 80, 0.4, 0.45, 0.44, *better))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_the_table_marks_what_is_separable_either_way():
    """Best and second are CoCal's and PostCal's; the study's own point stands on both axes."""
    shown = regimes.grid(regimes.prepare(LAYOUT, points()), LAYOUT)
    assert_golden(GOLDEN / "regimes.txt", printed(shown.blocks))


def test_the_figure_has_means_replicates_and_the_papers_point():
    """The file was compared with means by hand and with the paper's differences, which have no Brier score; the study's
    own points stand above on both axes, and below once, four of them."""
    numbers = regimes_forest.prepare(LAYOUT, points(), read_published(ROOT / "config/paper"))
    assert_golden(GOLDEN / "regimes_counted.txt", numbers.to_csv(index=False, float_format="%.6g").splitlines())
    with paper_style():
        figure = regimes_forest.draw(numbers, LAYOUT)
        assert_texts_apart(figure)
    assert_golden(GOLDEN / "regimes_forest.txt", drawn(figure))
