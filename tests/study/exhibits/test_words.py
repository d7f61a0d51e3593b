"""The words and numbers of tables and figures: golden files of what is printed and drawn, cells against their cubes."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from claims_study import SCOPE
from cocal.drawing.style import paper_style
from cocal.metrics.scores import ALL
from cocal_study.exhibits import claims, claims_forest
from cocal_study.exhibits.base.registry import module_of
from coded_inputs import policy_of
from drawn_texts import assert_texts_apart
from golden import assert_golden, drawn, printed
from meant_words import DATASETS, FIGURES, METHODS, TABLES, inputs_of, judged, made

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def tables():
    """Numbers, grid and inputs of each table, made when they are asked for."""
    return cache(made)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_prints_the_words_and_numbers_that_were_read(name, tables):
    _, grid, _ = tables(name)
    lines = dict.fromkeys([*printed(grid.blocks), *printed(grid.page_blocks)])  # the page repeats what is in print
    assert len(lines) > 1
    assert_golden(GOLDEN / f"{name}.txt", lines)


CELLS = {
    "scale": {"backbone": "qwen3-14b"},
    "main_step40": {"step": 40},
    "main_step80": {"step": 80},
    "early_steps": {"step": 40},
}
FINAL_LAYER = {"qwen3-8b": 35, "qwen3-14b": 39}
OF_CUBES = ["main", "main_step40", "main_step80", "scale", "ood", "proper_scores", "recalibrated", "token_aggregation"]
OF_CUBES += ["pre_generation", "training_dynamics", "cross_policy", "budgets", "early_steps", "composition"]


@pytest.mark.parametrize("name", [*OF_CUBES, "cross_iteration", "layers"])
def test_every_number_comes_from_the_cell_that_its_columns_name(name, tables, figures):
    numbers, _, inputs = tables(name) if name in TABLES else figures(name)
    cubes = inputs["metrics"] if isinstance(inputs["metrics"], list) else [inputs["metrics"]]
    fixed = {"backbone": "qwen3-8b", "step": 120, "dataset": "macro-mathematics", "method": "cocal-binary"}
    fixed |= {"pooling": "last+mean"} | CELLS.get(name, {})
    for row in numbers[numbers["value"].notna() & numbers["metric"].isin(ALL)].to_dict("records"):
        cell = fixed | row | {"dataset": row.get("domain", row.get("dataset", fixed["dataset"]))}
        cell |= {"layer": FINAL_LAYER[cell["backbone"]]} if "layer" not in row else {}
        cell |= policy_of(cell["method"], cell["step"])
        (cube,) = (cube for cube in cubes if cell["backbone"] in cube["backbone"])
        assert row["value"] == cube["value"].sel({dim: cell[dim] for dim in cube["value"].dims}).item(), cell


CONDITIONS = {
    "Accuracy before training (%)": ("main", "base-verbal", "accuracy"),
    "Accuracy after GRPO (%)": ("main", "token-probability", "accuracy"),
    "Stated confidence before training": ("main", "base-verbal", "mean_confidence"),
    "Mean token probability after GRPO": ("main", "token-probability", "mean_confidence"),
    "Factual accuracy after GRPO (%)": ("ood", "token-probability", "accuracy"),
    "Stated confidence before training, factual": ("ood", "base-verbal", "mean_confidence"),
    "Mean token probability after GRPO, factual": ("ood", "token-probability", "mean_confidence"),
}
COUNTED = {
    "PostCal, training": (143_000, 152_065),
    "PostCal, validation": (14_000, 16_968),
    "Responses of GRPO's final policy (PostCal)": (1 - 157_000 / 245_760, 1 - (152_065 + 16_968) / 245_760),
    **{"Sampling temperature": (0.7, 0.7), "Top-p": (0.8, 0.8), "Top-k": (20, 20), "Presence penalty": (1.5, 1.5)},
    "Rollout steps": (120, 120),
}
KNOWN = "AUROC of what the policy knows itself"
ELSEWHERE = {"Responses to each evaluation set", "Gradient updates of a companion"}
"""Conditions that test_conditions recomputes, with the paper's value."""
"""The study's and the paper's value."""


def test_each_condition_is_what_its_name_says_in_the_study_and_in_the_paper(tables):
    numbers, _, inputs = tables("conditions")
    cells = inputs["published"].cells
    cube = inputs["metrics"]["value"].sel(backbone="qwen3-8b")

    def both(table: str, method: str, metric: str, dataset: str) -> tuple[float, float]:
        ours = cube.sel({**policy_of(method, 120), "method": method, "metric": metric, "dataset": dataset}).item()
        named_ = {"table": table, "method": method, "metric": metric, "dataset": dataset}
        (paper,) = cells["value"][np.logical_and.reduce([cells[name] == value for name, value in named_.items()])]
        return ours, paper / (100 if metric == "accuracy" else 1)

    for row in numbers.itertuples():
        if row.condition in CONDITIONS:
            table, method, metric = CONDITIONS[row.condition]
            macro = "macro-mathematics" if table == "main" else "macro-factual"
            expected = both(table, method, metric, DATASETS.get(row.of, macro))
        elif row.condition == KNOWN:
            expected = both("main", METHODS[row.of], "auroc", "macro-mathematics")
        elif row.condition in ELSEWHERE:
            continue
        elif row.condition == "Valid stated confidences before training (%)":
            dataset = {"Mathematics": "macro-mathematics", "Factual": "macro-factual"}[row.of]
            where = {**policy_of("base-verbal", 120), "method": "base-verbal", "dataset": dataset}
            expected = inputs["metrics"]["valid_rate"].sel(where | {"backbone": "qwen3-8b"}).item(), np.nan
        elif row.of in COUNTED:
            expected = COUNTED[row.of]
        else:
            assert np.isnan(row.paper), row
            continue  # numbers of the rollouts, which test_conditions recomputes
        assert (row.value, row.paper) == pytest.approx(expected, nan_ok=True), row
        assert row.ratio == pytest.approx(expected[0] / expected[1], nan_ok=True), row


def test_the_times_of_a_method_are_those_of_its_jobs(tables):
    numbers = tables("cost")[0].set_index("method")
    no = float("nan")
    assert numbers.loc["CoCal"].tolist() == pytest.approx([61_812, no, 2460, 15.31, 1.372, 1.99e-4], nan_ok=True)
    assert numbers.loc["PostCal"].tolist() == pytest.approx([61_812, 47_052, 1740, 12.87, 1.372, 1.99e-4], nan_ok=True)
    assert numbers.loc["SelfConsis"].tolist() == pytest.approx([61_812, no, no, no, 3.225, no], nan_ok=True)


# Figures

DRAWN = ["training_dynamics", "cross_policy", "budgets", "composition", "early_steps", "layers", "online"]
DRAWN += ["risk_coverage", "cross_iteration", "reliability", "reliability_all", "overview", "paradigms"]


@pytest.fixture(scope="module")
def figures():
    """Numbers, drawing and inputs of each figure."""

    @cache
    def made_of(name: str):
        one = FIGURES[name]
        module, inputs = module_of(name), inputs_of(one)
        if one.layout is None:  # a diagram
            return None, module.draw(), inputs
        numbers = module.prepare(one.layout, **inputs)
        with paper_style():
            return numbers, module.draw(numbers, one.layout), inputs

    return made_of


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_draws_the_words_and_curves_that_were_read(name, figures):
    assert_golden(GOLDEN / f"{name}.txt", drawn(figures(name)[1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, one in FIGURES.items() if one.layout and name != "claims_forest"])
def test_no_text_of_a_figure_lies_on_another_or_beyond_the_page(name, figures):
    with paper_style():
        assert_texts_apart(figures(name)[1])


def test_margins_stand_beside_their_claims_and_look_like_their_verdicts():
    layout = claims.Layout(study="s", caption="c.", labels=("Tiny A", "Tiny B"), scope=SCOPE)
    numbers = claims_forest.prepare(layout, **judged()[2])
    of_study = numbers[numbers["source"] == "study"]
    joint = of_study.assign(source="replicates", lower=of_study["value"] - 9, upper=of_study["value"] + 9)
    ones = [
        of_study.assign(source=f"replicate {k}", value=of_study["value"] + shift)
        for k, shift in ((2, 0.01), (9, -0.02))
    ]
    numbers = pd.concat([numbers, joint, *ones], ignore_index=True)
    with paper_style():
        figure = claims_forest.draw(numbers, layout)
    assert_golden(GOLDEN / "claims_forest.txt", drawn(figure))
