"""The table of proper scores and the figure of risk against coverage."""

import re

import numpy as np
import pandas as pd
import pytest

from cocal.drawing.style import TEXT_WIDTH, paper_style
from cocal.metrics.scores import ALL, scores
from cocal.metrics.settings import MetricSettings
from cocal_study.config import load_study
from cocal_study.cubes.cube import metric_cube
from cocal_study.exhibits import proper_scores, risk_coverage
from cocal_study.exhibits.typesetting.html import page
from cocal_study.exhibits.typesetting.latex import latex
from drawn_texts import assert_texts_apart
from exhibits_by_name import exhibit_of
from sample_predictions import METHODS, sample_predictions

MATHEMATICS, FACTUAL = ("math500", "amc24"), ("popqa",)
GROUPS = {"macro-mathematics": MATHEMATICS, "macro-factual": FACTUAL}
STATED = {
    "study": "embedded",
    "caption": "Tiny policies of 0.4 M parameters & synthetic questions.",
    "backbone": "tiny-a",
    "backbone_label": "Tiny A",
    "step": 60,
    "methods": METHODS,
}
DOMAINS = [
    {"name": "macro-mathematics", "label": "mathematical set", "datasets": MATHEMATICS},
    {"name": "macro-factual", "label": "factual set", "datasets": FACTUAL},
]


def table_layout(**changes) -> proper_scores.Layout:
    return proper_scores.Layout(**(STATED | {"domains": DOMAINS} | changes))


def figure_layout(**changes) -> risk_coverage.Layout:
    return risk_coverage.Layout(**(STATED | {"datasets": MATHEMATICS} | changes))


def predictions() -> pd.DataFrame:
    return sample_predictions(*MATHEMATICS, *FACTUAL)


@pytest.fixture(scope="module")
def cube():
    return metric_cube(predictions(), MetricSettings(resamples=20), GROUPS, metrics=ALL)


def set_table(cube, layout: proper_scores.Layout, numbers: pd.DataFrame | None = None):
    numbers = proper_scores.prepare(layout, cube) if numbers is None else numbers
    return proper_scores.grid(numbers, layout, metrics=cube)


# Table


def test_print_and_page_name_both_domains(cube):
    shown = set_table(cube, table_layout())
    text, html = latex(shown), page(shown)
    heads = ["Macro average over two mathematical sets", "Macro average over one factual set"]
    assert re.findall(r"\\multicolumn\{12\}\{c\}\{(.*?)\}", text) == heads
    assert [head for head in heads if head in html] == heads
    assert "on two mathematical sets and one factual set using Tiny A after 60 training steps." in text
    assert "Companion results average two seeds." in text
    assert r"1.2 $\times$ 10$^{-7}$" in text


def test_a_negative_ratio_has_a_minus_and_an_undefined_one_a_dash(cube):
    layout = table_layout()
    numbers = proper_scores.prepare(layout, cube)
    of_macro = (numbers["dataset"] == "macro-factual") & (numbers["metric"] == "prr")
    numbers.loc[of_macro, "value"] = [-0.25, np.nan, 0.5, 0.1, 0.2, 0.3]
    text = latex(set_table(cube, layout, numbers))
    assert " & $-$0.250 & " in text
    assert "the PRR of a single class" in text
    line = next(line for line in text.rpartition("factual set}")[2].splitlines() if line.startswith("Verbal"))
    assert " & -- & " in line


# Figure


def test_curves_end_at_the_share_of_wrong_responses_and_start_at_the_most_confident():
    frame = sample_predictions("math500", methods=("verbal", "cocal-binary"))
    numbers = risk_coverage.prepare(figure_layout(methods=("verbal", "cocal-binary"), datasets=("math500",)), [frame])
    assert list(numbers["curve"].unique()) == ["verbal", "cocal-binary", "optimal", "random"]
    ends = numbers[numbers["coverage"] == 1].set_index("curve")["risk"]
    for method in ("verbal", "cocal-binary"):
        rows = frame[(frame["method"] == method) & frame["valid"]]
        risks = 1 - rows.groupby("seed")["correct"].mean()
        assert ends[method] == pytest.approx(risks.mean())
    half = numbers[numbers["coverage"] == 0.5].set_index("curve")["risk"]
    of_seeds = [
        scores(rows["confidence"].to_numpy(), rows["correct"].to_numpy(), 10)["accuracy_at_50"]
        for _, rows in frame[frame["method"] == "cocal-binary"].groupby("seed")
    ]
    assert half["cocal-binary"] == pytest.approx(1 - np.mean(of_seeds))
    rows = frame[(frame["method"] == "cocal-binary") & (frame["seed"] == 42)]
    risk = 1 - rows["correct"].mean()
    assert ends["optimal"] == ends["random"] == half["random"] == pytest.approx(risk)
    assert half["optimal"] == pytest.approx(max(0, (risk - 0.5) / 0.5))


def test_no_order_is_better_than_the_optimal_one():
    numbers = risk_coverage.prepare(figure_layout(), [predictions()]).pivot(
        index="coverage", columns="curve", values="risk"
    )
    for method in figure_layout().sharing:
        assert (numbers["optimal"] <= numbers[method] + 1e-12).all(), method
    assert numbers["random"].nunique() == 1


@pytest.mark.parametrize("name", ["config", "paper"])
def test_nothing_overlaps_in_the_figure(repository, name):
    layout = exhibit_of(load_study(repository / f"config/{name}.yaml"), "risk_coverage").layout
    frame = sample_predictions(*layout.datasets, methods=layout.methods, step=layout.step)
    with paper_style():
        figure = risk_coverage.draw(risk_coverage.prepare(layout, [frame.assign(backbone=layout.backbone)]), layout)
        assert len(figure.axes) == 2
        assert_texts_apart(figure)
    assert figure.get_figwidth() == TEXT_WIDTH
    same, own = figure.axes
    assert len(same.lines) == len(layout.sharing) + 2
    assert len(own.lines) == len(layout.methods) - len(layout.sharing) + 1
    assert same.get_ylim() == own.get_ylim()


@pytest.mark.parametrize(
    ("methods", "lines"), [(("p-true", "cocal-binary"), 4), (("verbal", "rlcr"), 2)], ids=["shared", "own"]
)
def test_a_study_of_one_kind_of_method_has_one_panel(methods, lines):
    frame = sample_predictions(*MATHEMATICS, methods=methods)
    layout = figure_layout(methods=methods)
    with paper_style():
        figure = risk_coverage.draw(risk_coverage.prepare(layout, [frame]), layout)
        assert_texts_apart(figure)
    (panel,) = figure.axes
    assert len(panel.lines) == lines
