"""Confidence quality by extraction layer: cubes of several backbones, the best and the final layer, what is refused."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from cocal.errors import ContractError
from cocal_study.exhibits import layers
from coded_inputs import coded_cube
from planned_jobs import study_of

ROOT = Path(__file__).resolve().parents[3]
DEPTHS = {"tiny-a": 3, "tiny-b": 5}


def layout(depths=DEPTHS, **changes) -> layers.Layout:
    backbones = [{"name": name, "label": name, "layers": range(depth)} for name, depth in depths.items()]
    return layers.Layout(**{"study": "s", "caption": "c.", "backbones": backbones, "step": 60} | changes)


@pytest.fixture(scope="module")
def cubes() -> list[xr.Dataset]:
    sweep = {"pooling": ["last", "last+mean"]}
    return [coded_cube(name, ["cocal-group", "cocal-binary"], layer=range(n), **sweep) for name, n in DEPTHS.items()]


def coded(cube: xr.Dataset, right_values: dict[str, list[float]], apart=0.012) -> xr.Dataset:
    """`cube` with these values by layer in the cells that belong in the figure, and their intervals."""
    cube = cube.copy(deep=True)
    right = {"seed": "mean", "method": "cocal-binary", "dataset": "macro-mathematics", "step": 60}
    for metric, values in right_values.items():
        cell = right | {"pooling": "last+mean", "metric": metric, "algorithm": "grpo"}
        cube["value"].loc[cell] = np.array(values).reshape(cube["value"].loc[cell].shape)
    return cube.assign(lower=cube["value"] - apart, upper=cube["value"] + apart)


def level_with_best(numbers) -> dict[tuple[str, str], list[int]]:
    return numbers[numbers["level_with_best"]].groupby(["backbone", "metric"])["layer"].agg(list).to_dict()


def test_layers_whose_interval_reaches_the_best_ones_are_level_with_it(cubes):
    first = coded(cubes[0], {"ece": [0.3, 0.2, 0.1], "auroc": [0.7, 0.8, 0.75]})
    second = coded(cubes[1], {"ece": [0.35, 0.25, 0.15, 0.12, 0.14], "auroc": [0.6, np.nan, 0.8, 0.8, 0.79]})
    numbers = layers.prepare(layout(), [first, second])
    assert level_with_best(numbers) == {
        ("tiny-a", "ece"): [2],
        ("tiny-a", "auroc"): [1],
        ("tiny-b", "ece"): [3, 4],
        ("tiny-b", "auroc"): [2, 3, 4],
    }
    final = numbers[numbers["final"]].groupby(["backbone", "metric"])["layer"].agg(list)
    assert final.to_dict() == {(name, m): [depth - 1] for name, depth in DEPTHS.items() for m in ("ece", "auroc")}


def test_without_intervals_no_layer_is_told_apart_and_without_values_none_is_marked(cubes):
    blank = coded(cubes[0], {"ece": [0.3, 0.2, 0.1], "auroc": [np.nan] * 3}, apart=np.nan)
    assert level_with_best(layers.prepare(layout({"tiny-a": 3}), [blank])) == {("tiny-a", "ece"): [0, 1, 2]}


@pytest.mark.parametrize(
    ("places", "chosen", "message"),
    [
        ([0], {}, "tiny-b.*no such backbone"),
        ([0, 1], {"depths": {"tiny-a": 4}}, r"no such layer \(there are: 0, 1, 2\)"),
    ],
)
def test_absent_backbones_and_layers_are_named(cubes, places, chosen, message):
    with pytest.raises(ContractError, match=message):
        layers.prepare(layout(**chosen), [cubes[place] for place in places])


def test_a_backbone_of_two_layers_is_left_out():
    """Of the smoke study's two backbones the second has three; the embedded study has none."""
    (one,) = layers.of_study(study_of("smoke"), {})
    assert [(backbone.name, backbone.layers) for backbone in one.layout.backbones] == [("smoke-deep", (0, 1, 2))]
    assert one.inputs == {"metrics": ["results/metrics/smoke-deep-ablations.nc"]}
    assert [*layers.of_study(study_of("config"), {})] == []
