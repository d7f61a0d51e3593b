"""The tables of accuracy and confidence quality: marks, layout, captions, and values that rest on too little."""

import pytest

from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import metric_text
from cocal_study.config.evaluation import QualitySettings
from cocal_study.exhibits.main import Layout, grid, prepare
from cocal_study.exhibits.typesetting.grid import marks
from cocal_study.exhibits.typesetting.html import page
from cocal_study.exhibits.typesetting.latex import latex
from sample_predictions import doubtful_predictions, metric_cube, sample_predictions
from sample_tables import accuracy_layout as layout

DATASETS = ("math500", "aime24", "aime25", "amc23", "amc24")


@pytest.fixture(scope="module")
def cube():
    return metric_cube(sample_predictions(*DATASETS), MetricSettings(resamples=20), {"macro-mathematics": DATASETS})


def grid_of(cube, chosen: Layout):
    return grid(prepare(chosen, cube), chosen, metrics=cube)


def test_ties_are_decided_on_the_rounded_values_and_undefined_ones_are_never_ranked():
    shown = [metric_text("ece", value) for value in (0.1004, 0.0996, 0.1249, 0.1251)]
    assert marks(shown, "lower") == ["best", "best", "second", "second"]
    assert marks(["–", "0.700", "0.900"], "higher") == [None, "second", "best"]
    assert marks(["–", "–"], "lower") == [None, None]


def doubted(**floors: float):
    chosen = layout("amc23", "amc24", methods=["verbal", "p-true", "cocal-binary"], quality=QualitySettings(**floors))
    cube = metric_cube(doubtful_predictions(), MetricSettings(resamples=5), {chosen.macro: ["amc23", "amc24"]})
    return grid_of(cube, chosen)


def test_values_that_rest_on_too_little_are_marked_and_explained():
    shown = doubted(answered_rate=0.5, decided_rate=0.9)
    rows = [row for block in shown.blocks for _, lines in block.groups for row in lines]
    marked = {(label.text, place) for label, cells in rows for place, cell in enumerate(cells) if cell.doubtful}
    # mean confidence, ECE and AUROC on the first set and in the macro average; not accuracy, not the second set
    assert marked == {(label, place) for label in ("Verbal", "P(True)") for place in (1, 2, 3, 9, 10, 11)}
    sentence = (
        "marks values for which less than 90 % of the responses have a valid confidence, or the two words of "
        "P(True) have less than 50 % of the probability on average."
    )
    assert f"† {sentence}" in shown.caption
    assert latex(shown).count(r"$^{\dagger}$") == 12 + 1
    assert page(shown).count("<sup>†</sup>") == 12
    none = doubted(**dict.fromkeys(QualitySettings.model_fields, 0.0))
    assert "†" not in none.caption + page(none)


def test_an_answer_that_is_missing_casts_doubt_on_accuracy_too():
    (_, ((_, cells), *_)), *_ = doubted(valid_rate=0, p_true_mass=0).blocks[0].groups
    assert [cell.doubtful for cell in cells[:8]] == [True, False, True, True] + [False] * 4


def test_the_page_alone_lists_the_shares():
    shown = doubted()
    (block,) = shown.details
    assert block.heads[1] == ["Valid", "Answered", "Decided", "Truncated", "P(True or False)"] * 3
    ((_, (_, (_, cells), *_)),) = block.groups
    assert cells[5:10] == ["100.0", "80.0", "97.5", "0.0", "20.0"]
    assert "Answered" in page(shown)
    assert "Answered" not in latex(shown)


def test_a_confidence_that_is_constant_or_at_chance_is_marked_and_explained():
    frame = doubtful_predictions()
    frame.loc[frame["method"] == "verbal", "confidence"] = 0.7
    frame = frame.assign(valid=True).fillna({"confidence": 0.2})
    chosen = layout("amc23", "amc24", methods=["verbal", "p-true", "cocal-binary"])
    cube = metric_cube(frame, MetricSettings(resamples=50), {chosen.macro: ["amc23", "amc24"]})
    numbers = prepare(chosen, cube).set_index(["dataset", "method", "metric"])
    numbers.loc[(slice(None), "p-true", "auroc"), ["lower", "upper"]] = 0.51, 0.62
    numbers.loc[("amc24", "p-true", "auroc"), ["lower", "upper"]] = 0.45, 0.52
    numbers.loc[(slice(None), "cocal-binary", "auroc"), ["lower", "upper"]] = 0.3, 0.49
    shown = grid(numbers.reset_index(), chosen, metrics=cube)
    rows = [row for block in shown.blocks for _, lines in block.groups for row in lines]
    marked = {(label.text, place) for label, cells in rows for place, cell in enumerate(cells) if cell.degenerate}
    # ECE and AUROC of the constant everywhere; of the one at chance on the second set alone
    assert marked == {*(("Verbal", place) for place in (2, 3, 6, 7, 10, 11)), ("P(True)", 6), ("P(True)", 7)}
    assert latex(shown).count(r"$^{\ddagger}$") == page(shown).count("<sup>‡</sup>") + 1 == 8 + 1
    assert "‡ marks values of a confidence that is constant" in shown.caption
