"""Values that rest on too few usable responses: their marks in tables, and the shares on the page."""

import re

from cocal.config.evaluation import MetricSettings, QualitySettings
from cocal.exhibits.typesetting import accuracy
from cocal.exhibits.typesetting.html import page
from cocal.exhibits.typesetting.latex import latex
from cocal.metrics.cube import metric_cube
from sample_predictions import doubtful_predictions

GROUPS = {"macro-mathematics": ["amc23", "amc24"]}


def cube_of(frame):
    return metric_cube(frame, MetricSettings(resamples=5), GROUPS)


def chosen(**changes):
    content = {"study": "embedded", "caption": "Tiny.", "backbone": "tiny-a", "backbone_label": "Tiny A", "step": 60}
    content |= {"datasets": [{"name": name, "label": name.upper()} for name in ("amc23", "amc24")]}
    content |= {"macro": "macro-mathematics", "methods": ["verbal", "p-true", "cocal-binary"]}
    return accuracy.AccuracyLayout(**content | {"highlight": "cocal-binary"} | changes)


def grid_of(chosen):
    cube = cube_of(doubtful_predictions())
    return accuracy.grid(accuracy.prepare(chosen, cube), chosen, metrics=cube)


def test_values_that_rest_on_too_little_are_marked_and_explained():
    grid = grid_of(chosen(quality=QualitySettings(answered_rate=0.5, decided_rate=0.9)))
    marked = {
        (row.label, place)
        for block in grid.blocks
        for group in block.groups
        for row in group.rows
        for place, cell in enumerate(row.cells)
        if cell.doubtful
    }
    # mean confidence, ECE and AUROC on the first set and in the macro average; not accuracy, not the second set
    assert marked == {(label, place) for label in ("Verbal", "P(True)") for place in (1, 2, 3, 9, 10, 11)}
    text = latex(grid)
    assert text.count(r"$^{\dagger}$") == 12 + 1
    assert re.search(r"\nVerbal & \S+ & 0\.\d+\$\^\{\\dagger\}\$ & ", text)
    sentence = (
        "marks values for which less than 90 % of the responses have a valid confidence, or the two words of "
        "P(True) have less than 50 % of the probability on average."
    )
    assert f"† {sentence}" in grid.caption
    assert rf"$^{{\dagger}}$ {sentence}".replace("%", r"\%") in text
    assert page(grid).count("<sup>†</sup>") == 12


def test_an_answer_that_is_missing_casts_doubt_on_accuracy_too():
    grid = grid_of(chosen(quality=QualitySettings(valid_rate=0, p_true_mass=0)))
    row = grid.blocks[0].groups[0].rows[0]
    assert [cell.doubtful for cell in row.cells[:8]] == [True, False, True, True] + [False] * 4
    assert (
        "less than 90 % of the responses have an answer, or less than 99 % of the responses have a verd" in grid.caption
    )


def test_a_table_without_shortfalls_says_nothing_of_them():
    floors = dict.fromkeys(QualitySettings.model_fields, 0.0)
    grid = grid_of(chosen(quality=QualitySettings(**floors)))
    assert "†" not in grid.caption + page(grid)
    assert r"\dagger" not in latex(grid)


def test_a_confidence_that_is_constant_or_at_chance_is_marked_and_explained():
    frame = doubtful_predictions()
    frame.loc[frame["method"] == "verbal", "confidence"] = 0.7
    frame = frame.assign(valid=True).fillna({"confidence": 0.2})
    layout, cube = chosen(), metric_cube(frame, MetricSettings(resamples=50), GROUPS)
    numbers = accuracy.prepare(layout, cube).set_index(["dataset", "method", "metric"])
    numbers.loc[(slice(None), "p-true", "auroc"), ["lower", "upper"]] = 0.51, 0.62
    numbers.loc[("amc24", "p-true", "auroc"), ["lower", "upper"]] = 0.45, 0.52
    numbers.loc[(slice(None), "cocal-binary", "auroc"), ["lower", "upper"]] = 0.3, 0.49
    grid = accuracy.grid(numbers.reset_index(), layout, metrics=cube)
    marked = {
        (row.label, place)
        for block in grid.blocks
        for group in block.groups
        for row in group.rows
        for place, cell in enumerate(row.cells)
        if cell.degenerate
    }
    # ECE and AUROC of the constant everywhere; of the one at chance on the second set alone
    assert marked == {*(("Verbal", place) for place in (2, 3, 6, 7, 10, 11)), ("P(True)", 6), ("P(True)", 7)}
    assert latex(grid).count(r"$^{\ddagger}$") == page(grid).count("<sup>‡</sup>") + 1 == 8 + 1
    assert "‡ marks values of a confidence that is constant" in grid.caption


def test_the_page_alone_lists_the_shares():
    grid = grid_of(chosen())
    (block,) = grid.details
    assert [head.text for head in block.heads[1]] == ["Valid", "Answered", "Decided", "Truncated", "True or False"] * 3
    assert [cell.text for cell in block.groups[0].rows[1].cells[5:10]] == ["100.0", "80.0", "97.5", "0.0", "20.0"]
    assert "Answered" in page(grid)
    assert "Answered" not in latex(grid)


def test_accuracy_by_exact_match_stands_beside_the_judges():
    frame = doubtful_predictions()
    frame["exact_match"] = (frame["correct"] & (frame["response_id"] < 20)).astype("boolean")
    numbers = accuracy.prepare(chosen(), cube_of(frame))
    found = numbers.query("metric == 'accuracy' and dataset == 'amc23' and method == 'verbal'").iloc[0]
    rows = frame[(frame["dataset"] == "amc23") & (frame["method"] == "verbal")]
    assert found["exact_match_accuracy"] == rows["exact_match"].mean() < found["value"] == rows["correct"].mean()
