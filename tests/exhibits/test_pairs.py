"""Tables of ECE and AUROC: pooled states, and before against after the response."""

import pytest

from cocal.errors import ContractError
from cocal.exhibits import pre_generation, token_aggregation
from cocal.exhibits.typesetting.latex import latex
from sample_tables import aggregation_cubes, aggregation_layout, pre_generation_cube, pre_generation_layout


@pytest.fixture(scope="module")
def cubes():
    return aggregation_cubes()


@pytest.fixture(scope="module")
def cube():
    return pre_generation_cube()


def test_undefined_values_of_an_aggregation_are_explained(cubes):
    layout = aggregation_layout()
    numbers = token_aggregation.prepare(layout, cubes)
    numbers.loc[[0, 1, 2, 3, 4, 5], "value"] = [0.1, float("nan"), 0.3, 0.2, 0.2, 0.4]  # of the first backbone
    text = latex(token_aggregation.grid(numbers, layout, metrics=cubes))
    assert r"Last token & \textbf{0.100} & -- &" in text
    assert r"Last + mean & 0.200 & \textbf{0.400} &" in text
    assert "-- marks an undefined value" in text


def test_an_absent_backbone_layer_or_cube_is_named(cubes):
    with pytest.raises(ContractError, match=r"backbone qwen3-14b is in none of the cubes"):
        token_aggregation.prepare(aggregation_layout(), cubes[1:])
    wrong = [{"name": "qwen3-8b", "label": "Qwen3-8B", "layer": 36}]
    with pytest.raises(ContractError, match=r"no such layer \(there are: 34, 35, 39\)"):
        token_aggregation.prepare(aggregation_layout(backbones=wrong), cubes)
    flat = [cube.isel(layer=0, pooling=0, drop=True) for cube in cubes]
    with pytest.raises(ContractError, match=r"but .*layer, pooling.* are needed"):
        token_aggregation.prepare(aggregation_layout(), flat)
    with pytest.raises(ValueError, match="repeats a name"):
        aggregation_layout(backbones=wrong * 2)


def pre_generation_tex(cube, layout) -> str:
    return latex(pre_generation.grid(pre_generation.prepare(layout, cube), layout, metrics=cube))


def test_one_domain_alone(cube):
    layout = pre_generation_layout(domains=[{"name": "macro-factual", "label": "Factual QA"}])
    text = pre_generation_tex(cube, layout)
    assert text.count(r"\multicolumn{2}{c}") == 1
    assert "and the evaluation sets of Factual QA." in text


def test_an_absent_domain_is_named(cube):
    layout = pre_generation_layout(domains=[{"name": "macro-code", "label": "Code"}])
    with pytest.raises(ContractError, match=r"dataset macro-code, method cocal-pre-generation: no such dataset"):
        pre_generation.prepare(layout, cube)
