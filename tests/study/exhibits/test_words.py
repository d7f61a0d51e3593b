"""The words and numbers of tables and figures: golden files of what is printed and drawn, cells against their cubes."""

from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from claims_study import SCOPE
from cocal.drawing.style import paper_style
from cocal.metrics.scores import ALL
from cocal_study.exhibits import claims, claims_forest
from cocal_study.exhibits.base.registry import module_of
from coded_inputs import policy_of
from drawn_texts import assert_texts_apart
from golden import assert_golden, drawn, printed, seen
from meant_words import FIGURES, TABLES, inputs_of, judged, made

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def tables():
    """Numbers, grid and inputs of each table, made when they are asked for."""
    return cache(made)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_prints_the_words_and_numbers_that_were_read(name, tables):
    _, grid, _ = tables(name)
    lines = [grid.caption, *printed((*grid.blocks, *grid.page_blocks))]
    assert len(lines) > 3
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


# Figures

DRAWN = ["training_dynamics", "cross_policy", "budgets", "composition", "early_steps", "layers", "online"]
DRAWN += ["risk_coverage", "cross_iteration", "reliability"]


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


@pytest.mark.parametrize("name", ["reliability_all", "overview", "paradigms"])
def test_a_figure_of_many_panels_and_a_diagram_show_their_words(name, figures):
    assert_golden(GOLDEN / f"{name}.txt", seen(figures(name)[1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, one in FIGURES.items() if one.layout and name != "claims_forest"])
def test_no_text_of_a_figure_lies_on_another_or_beyond_the_page(name, figures):
    with paper_style():
        assert_texts_apart(figures(name)[1])


def test_margins_stand_beside_their_claims_and_look_like_their_verdicts():
    layout = claims.Layout(study="s", caption="c.", labels=("Tiny A", "Tiny B"), scope=SCOPE)
    numbers = claims_forest.prepare(layout, **judged()[2])
    families = numbers.loc[numbers["family"] != ""].groupby("family")["claim"]
    assert len(families) > 5
    assert families.nunique().eq(1).all(), "claims that restate one another share a row"
    of_study = numbers[numbers["source"] == "study"]
    joint = of_study.assign(source="replicates", lower=of_study["value"] - 9, upper=of_study["value"] + 9)
    numbers = pd.concat([numbers, joint], ignore_index=True)
    with paper_style():
        figure = claims_forest.draw(numbers, layout)
    assert_golden(GOLDEN / "claims_forest.txt", drawn(figure))
