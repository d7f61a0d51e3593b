"""Table and figure of the regimes: CoCal less PostCal under conditions that are changed one at a time."""

from pathlib import Path

import pandas as pd
import pytest

from cocal.drawing.style import paper_style
from cocal_study.config import load_study
from cocal_study.evidence.published import read_published
from cocal_study.evidence.regimes import COLUMNS
from cocal_study.exhibits import regimes, regimes_forest
from cocal_study.exhibits.base.registry import exhibits_of

ROOT = Path(__file__).parents[3]
STUDY = load_study(ROOT / "config/config.yaml")
LAYOUT = regimes.layout_of(STUDY)
AXES = {"Sampling": ("as rollouts", "the paper's"), "Rate": ("none", "as rollouts", "twice")}
MARGINS = {("Sampling", "the paper's"): -0.06, ("Rate", "none"): -0.004, ("Rate", "twice"): 0.03}


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
    numbers = regimes.prepare(LAYOUT, points())
    shown = regimes.grid(numbers, LAYOUT)
    (block,) = shown.blocks
    assert [group.title for group in block.groups] == ["Sampling", "Rate"]
    rows = {(group.title, row.label): row for group in block.groups for row in group.rows}
    sampling, twice, none = (
        rows[place].cells for place in (("Sampling", "the paper's"), ("Rate", "twice"), ("Rate", "none"))
    )
    assert [cell.text for cell in twice[:4]] == ["62.0", "45.0", "+17.0", "+0.084"]
    assert (sampling[4].mark, twice[4].mark, none[4].mark) == ("second", "best", None)
    assert twice[4].text.startswith("+0.034 [")
    assert twice[4].text.endswith("] 4/4")
    assert sampling[4].text.endswith("] 0/4")
    assert rows["Sampling", "as rollouts"] == rows["Rate", "as rollouts"]


def test_the_figure_has_means_replicates_and_the_papers_point():
    numbers = regimes_forest.prepare(LAYOUT, points(), read_published(ROOT / "config/paper"))
    paper = numbers[numbers["axis"] == regimes_forest.PAPER].set_index("metric")
    assert set(paper.index) == {"ece", "auroc"}, "the paper states no Brier score"
    assert paper["bias"].unique() == pytest.approx([0.711 - 0.638])
    assert tuple(paper["value"]) == pytest.approx((0.120 - 0.096, 0.896 - 0.872))
    means = numbers[(numbers["replicate"] == 0) & (numbers["metric"] == "ece")].set_index(["axis", "level"])
    assert means.loc[("Rate", "twice"), "value"] == pytest.approx(0.03 + 0.004 * (1 + 2 + 0 + 1) / 4)
    assert means.loc[("Rate", "twice"), "bias"] == pytest.approx(0.05 + 0.03 + 0.004)
    own = {place for place in means.index if means.loc[place, "own"]}
    assert own == {("Sampling", "as rollouts"), ("Rate", "as rollouts")}
    with paper_style():
        figure = regimes_forest.draw(numbers, LAYOUT)
    assert len(figure.axes) == 6
    dots = [len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() == "."]
    assert dots == [4] * 5


def test_regimes_that_were_not_gathered_are_left_out(tmp_path):
    def named(repository):
        return {one.module for one in exhibits_of(STUDY, {}, str(repository))} & {"regimes", "regimes_forest"}

    assert named(tmp_path) == set()
    gathered = tmp_path / STUDY.reports.regimes / "points.csv"
    gathered.parent.mkdir(parents=True)
    points().to_csv(gathered, index=False)
    assert named(tmp_path) == {"regimes", "regimes_forest"}
