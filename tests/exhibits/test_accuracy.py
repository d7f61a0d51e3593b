"""The main table: marks, layout, numbers."""

import re

import pandas as pd
import pytest

from cocal.config import load_study
from cocal.config.evaluation import MetricSettings
from cocal.errors import ContractError
from cocal.exhibits.typesetting.accuracy import AccuracyLayout, grid, prepare
from cocal.exhibits.typesetting.blocks import marks
from cocal.exhibits.typesetting.html import page
from cocal.exhibits.typesetting.latex import latex
from cocal.metrics.cube import metric_cube
from cocal.metrics.shown import csv_text, metric_text
from exhibits_by_name import exhibit_of
from sample_predictions import OURS, STAGES, sample_predictions
from sample_tables import accuracy_layout as layout

DATASETS = ("math500", "aime24", "aime25", "amc23", "amc24")


@pytest.fixture(scope="module")
def cube():
    return metric_cube(
        sample_predictions(*DATASETS),
        MetricSettings(resamples=20),
        {"macro-mathematics": DATASETS, "macro-one": DATASETS[:1]},
    )


def tex(cube, chosen: AccuracyLayout) -> str:
    return latex(grid(prepare(chosen, cube), chosen, metrics=cube))


def html(cube, chosen: AccuracyLayout) -> str:
    return page(grid(prepare(chosen, cube), chosen, metrics=cube))


# Marks


def test_ties_are_decided_on_the_rounded_values():
    shown = [metric_text("ece", value) for value in (0.1004, 0.0996, 0.1249, 0.1251)]
    assert shown == ["0.100", "0.100", "0.125", "0.125"]
    assert marks(shown, "lower") == ["best", "best", "second", "second"]


def test_a_table_marks_its_values_as_it_shows_them(cube):
    """Two methods whose ECE differs in the fourth decimal alone share the mark."""
    chosen = layout(*DATASETS, methods=["verbal", "token-probability", "cocal-binary"], highlight=None)
    numbers = prepare(chosen, cube)
    first = (numbers["dataset"] == DATASETS[0]) & (numbers["metric"] == "ece")
    numbers.loc[first, "value"] = [0.1004, 0.0996, 0.3]
    row_of = grid(numbers, chosen, metrics=cube).blocks[0].groups
    cells = [row.cells[2] for group in row_of for row in group.rows]
    assert [(cell.text, cell.mark) for cell in cells] == [("0.100", "best"), ("0.100", "best"), ("0.300", "second")]


def test_undefined_values_are_shown_as_dashes_and_never_ranked():
    assert metric_text("auroc", float("nan")) == "–"
    assert marks(["–", "0.700", "0.900"], "higher") == [None, "second", "best"]
    assert marks(["–", "–"], "lower") == [None, None]


def test_equal_accuracies_do_not_round_apart():
    exact = 0.8625  # 345 of 400: half-way between two shown values
    assert {metric_text("accuracy", v) for v in (exact, exact + 1e-15, exact - 1e-15)} == {"86.2"}


# Numbers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["verbal", "p-true"]}, "method p-true: no such method"),
        ({"macro": "macro-factual"}, "no such dataset.*macro-mathematics"),
    ],
)
def test_what_is_absent_is_named(cube, change, message):
    with pytest.raises(ContractError, match=message):
        prepare(layout(*DATASETS, **change), cube)


def test_the_csv_keeps_what_the_table_rounds(cube, tmp_path):
    frame = prepare(layout(*DATASETS), cube)
    path = tmp_path / "main.csv"
    path.write_text(csv_text(frame))
    pd.testing.assert_frame_equal(pd.read_csv(path), frame, rtol=1e-11, check_dtype=False)


# Layout


def test_two_blocks_of_three_datasets_the_macro_average_last(cube):
    text = tex(cube, layout(*DATASETS))
    heads = re.findall(r"\\multicolumn\{4\}\{c\}\{(.+?)\}", text)
    assert heads == ["MATH500", "AIME24", "AIME25", "AMC23", "AMC24", "Macro Average"]
    assert text.count(r"\begin{tabular}{l*{12}{c}}") == 2
    first = text.split(r"\end{tabular}")[0]
    body = [line for line in first.splitlines() if " & " in line and "Acc." not in line]
    assert all(line.count("&") == 12 for line in body)
    assert body[-1].startswith(r"\textbf{CoCal (binary)} & ")
    assert body[0].startswith("Base + Verbal & ")
    assert first.count(r"\midrule") == 3  # below the head, and between the groups of the methods chosen


PUBLISHED_NAMES = {
    "main": r"\textbf{\coco{} (binary)}",  # tab:main_iter119
    "main_step40": r"\coco{} (binary)",  # tab:appendix_iter39
    "main_step80": r"\coco{} (binary)",  # tab:appendix_iter79
    "ood": r"\textbf{\coco{} (binary)}",  # tab:honestybench_ood_iter119_8b_all
    "scale": r"\coco{} (binary)",  # tab:main_iter119_14b_compact
}
"""The form in which the paper prints the name of CoCal (binary) in each of its tables of methods."""


@pytest.mark.parametrize(("name", "published"), PUBLISHED_NAMES.items())
def test_the_name_of_cocal_is_bold_where_it_is_in_the_paper(repository, name, published):
    chosen = exhibit_of(load_study(repository / "config/paper.yaml"), name).layout
    frame = sample_predictions(*(one.name for one in chosen.datasets), methods=chosen.methods, step=chosen.step)
    frame["backbone"] = chosen.backbone
    groups = {chosen.macro: [one.name for one in chosen.datasets]}
    lines = tex(metric_cube(frame, MetricSettings(resamples=0), groups), chosen).splitlines()
    names = {line.split(" & ")[0] for line in lines if "CoCal (binary)" in line}
    assert names == {published.replace(r"\coco{}", "CoCal")}
    assert not any(r"\textbf" in line.split(" & ")[0] for line in lines if "CoCal (binary)" not in line)


def test_the_page_begins_with_the_macro_average(cube):
    chosen = layout(*DATASETS)
    frame = prepare(chosen, cube)
    text = html(cube, chosen)
    heads = re.findall(r'<th colspan="4">(.+?)</th>', text)
    order = ["Macro Average", "MATH500", "AIME24", "AIME25", "AMC23", "AMC24"]
    assert heads == [*order, *order], "values, then shares"
    line = next(line for line in text.splitlines() if "SelfConsis" in line)
    of_method = frame[frame["method"] == "self-consistency"]
    expected = [
        metric_text(row.metric, row.value)
        for name in ("macro-mathematics", "math500", "aime24")
        for row in of_method[of_method["dataset"] == name].itertuples()
    ]
    line = line.replace("<sup>‡</sup>", "")
    assert re.findall(r"<td>(?:<[bu]>)?(.+?)(?:</[bu]>)?</td>", line) == expected


def test_the_caption_says_what_was_measured(cube):
    text = tex(cube, layout(*DATASETS))
    assert "five mathematical sets using Tiny A after 60 training steps." in text
    assert r"Tiny policies of 0.4 M parameters \& synthetic questions." in text
    assert "Companion results average two seeds." in text
    assert "Base + Verbal uses the pre-RL model" in text
    assert r"\label{tab:main}" in text


def test_unknown_methods_and_keys_are_refused():
    with pytest.raises(ValueError, match="methods"):
        layout("math500", methods=["verbl"])
    with pytest.raises(ValueError, match="extra"):
        layout("math500", colour="red")
    with pytest.raises(ValueError, match="repeats"):
        layout("math500", "math500")


def test_all_eleven_methods_stand_in_the_papers_groups():
    methods = [name for name, group in OURS.items() if group is not None]
    cube = metric_cube(
        sample_predictions("math500", methods=methods), MetricSettings(resamples=0), {"macro-mathematics": ["math500"]}
    )
    lines = tex(cube, layout("math500", methods=methods)).splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    names = [line.split(" & ")[0] for line in body]
    assert names == [
        *("Base + Verbal", r"\midrule"),
        *("Verbal", "SelfConsis", "TokenProb", "P(True)", r"\midrule"),
        *("RLCR", "DCPO", "PostCal (group)", "PostCal (binary)", r"\midrule"),
        *("CoCal (group)", r"\textbf{CoCal (binary)}"),
    ]


def test_an_earlier_stage_shows_its_own_step_and_says_nothing_of_the_prerl_model():
    frame = pd.concat([sample_predictions("math500", methods=STAGES, step=20), sample_predictions("math500")])
    cube = metric_cube(frame, MetricSettings(resamples=0), {"macro-mathematics": ["math500"]})
    chosen = layout("math500", methods=STAGES, label="main_step20", step=20)
    shown = prepare(chosen, cube).set_index(["dataset", "method", "metric"])["value"]
    of_cube = cube["value"].sel({"backbone": "tiny-a", "step": 20, "dataset": "math500", "seed": "mean"})
    for method, algorithm in (("rlcr", "rlcr"), ("dcpo", "dcpo"), ("cocal-binary", "grpo")):
        one = of_cube.sel({"method": method, "algorithm": algorithm, "metric": "auroc"})
        assert shown["math500", method, "auroc"] == one
    text = tex(cube, chosen)
    assert r"\label{tab:main_step20}" in text
    assert "using Tiny A after 20 training steps." in text
    assert "pre-RL" not in text
    assert "training-free" not in text


# Command
