"""The table of proper scores and the figure of risk against coverage."""

import numpy as np
import pytest

from cocal.drawing.style import paper_style
from cocal.metrics.scores import ALL
from cocal.metrics.settings import MetricSettings
from cocal_study.exhibits import proper_scores, risk_coverage
from cocal_study.exhibits.typesetting.latex import latex
from drawn_texts import assert_texts_apart
from sample_predictions import METHODS, metric_cube, sample_predictions
from sample_tables import BACKBONE

MATHEMATICS, FACTUAL = ("math500", "amc24"), ("popqa",)
GROUPS = {"macro-mathematics": MATHEMATICS, "macro-factual": FACTUAL}


def test_a_negative_ratio_has_a_minus_and_an_undefined_one_a_dash():
    layout = proper_scores.Layout(**BACKBONE, methods=METHODS, domains=GROUPS)
    predictions = sample_predictions(*MATHEMATICS, *FACTUAL)
    cube = metric_cube(predictions, MetricSettings(resamples=20), GROUPS, metrics=ALL)
    numbers = proper_scores.prepare(layout, cube)
    of_macro = (numbers["dataset"] == "macro-factual") & (numbers["metric"] == "prr")
    numbers.loc[of_macro, "value"] = [-0.25, np.nan, 0.5, 0.1, 0.2, 0.3]
    text = latex(proper_scores.grid(numbers, layout, metrics=cube))
    assert " & $-$0.250 & " in text
    assert "the PRR of a single class" in text
    line = next(line for line in text.rpartition("factual set}")[2].splitlines() if line.startswith("Verbal"))
    assert " & -- & " in line


@pytest.mark.parametrize(
    ("methods", "panels"),
    [
        (("p-true", "cocal-binary"), {"companions": 3, "no companion": 4}),  # curves of methods, and of two orders
        (("verbal", "rlcr"), {"own responses": 2}),
        (("verbal", "p-true"), {"no companion": 3, "own responses": 1}),
    ],
)
def test_risks_have_a_panel_for_each_kind_of_method(methods, panels):
    frame = sample_predictions(*MATHEMATICS, methods=methods)
    layout = risk_coverage.Layout(**BACKBONE, methods=methods, datasets=MATHEMATICS)
    with paper_style():
        figure = risk_coverage.draw(risk_coverage.prepare(layout, [frame]), layout)
        assert_texts_apart(figure)
    assert {ax.get_title(): len(ax.lines) for ax in figure.axes} == {f"Risk (%), {k}": n for k, n in panels.items()}
