"""Confidence quality by extraction layer: cubes of several backbones, the best and the final layer, the command."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cocal.errors import ContractError
from cocal.metrics.settings import MetricSettings
from cocal_study.cubes.cube import metric_cube
from cocal_study.exhibits import layers
from sample_predictions import sample_predictions

DATASETS = ("amc23", "amc24")
MACRO = "macro-mathematics"
DEPTHS = {"tiny-a": 3, "tiny-b": 5}


def layout(depths=DEPTHS, **changes) -> layers.Layout:
    content = {
        "study": "embedded",
        "caption": "Tiny policies.",
        "backbones": [
            {"name": name, "label": name.title().replace("-", " "), "layers": tuple(range(depth))}
            for name, depth in depths.items()
        ],
        "macro": MACRO,
        "step": 60,
    }
    return layers.Layout(**(content | changes))


@pytest.fixture(scope="module")
def cubes() -> list[xr.Dataset]:
    """One cube a backbone, of two steps, two methods and two poolings."""
    made = []
    for backbone, depth in DEPTHS.items():
        parts = []
        for step in (20, 60):
            frame = sample_predictions("amc23", "amc24", methods=("cocal-group", "cocal-binary"), step=step)
            frame = frame.assign(backbone=backbone)
            for layer in range(depth):
                for pooling, share in (("last", 0.5), ("last+mean", 0.2)):
                    noise = np.random.default_rng([depth, layer, len(pooling)]).random(len(frame))
                    confidence = (1 - share) * frame["confidence"] + share * noise
                    parts.append(frame.assign(layer=layer, pooling=pooling, confidence=confidence))
        frame = pd.concat(parts)
        made.append(metric_cube(frame, MetricSettings(resamples=20), {MACRO: DATASETS}, sweep=["layer", "pooling"]))
    return made


def prepare(cubes, chosen=None) -> pd.DataFrame:
    return layers.prepare(chosen or layout(), cubes)


def coded(cube: xr.Dataset, right_values: dict[str, list[float]]) -> xr.Dataset:
    """`cube` with these values a layer in the cells that belong in the figure, and -9 in all others."""
    right = (cube["seed"] == "mean") & (cube["method"] == "cocal-binary") & (cube["dataset"] == MACRO)
    right = right & (cube["step"] == 60) & (cube["pooling"] == "last+mean") & cube["metric"].isin(list(right_values))
    values = xr.concat(
        [xr.DataArray(v, dims="layer", coords={"layer": cube["layer"]}) for v in right_values.values()],
        pd.Index(list(right_values), name="metric"),
    ).reindex(metric=cube["metric"])
    return cube.assign(value=xr.zeros_like(cube["value"]) + values.where(right, -9.0))


def level_with_best(numbers) -> dict[tuple[str, str], list[int]]:
    return numbers[numbers["level_with_best"]].groupby(["backbone", "metric"])["layer"].agg(list).to_dict()


def test_layers_whose_interval_reaches_the_best_ones_are_level_with_it(cubes):
    first = coded(cubes[0], {"ece": [0.3, 0.2, 0.1], "auroc": [0.7, 0.8, 0.75]})
    second = coded(cubes[1], {"ece": [0.35, 0.25, 0.15, 0.12, 0.14], "auroc": [0.6, np.nan, 0.8, 0.8, 0.79]})
    both = [cube.assign(lower=cube["value"] - 0.012, upper=cube["value"] + 0.012) for cube in (first, second)]
    numbers = prepare(both)
    assert level_with_best(numbers) == {
        ("tiny-a", "ece"): [2],
        ("tiny-a", "auroc"): [1],
        ("tiny-b", "ece"): [3, 4],
        ("tiny-b", "auroc"): [2, 3, 4],
    }
    final = numbers[numbers["final"]].groupby(["backbone", "metric"])["layer"].agg(list)
    assert final.to_dict() == {(name, m): [depth - 1] for name, depth in DEPTHS.items() for m in ("ece", "auroc")}


def test_without_intervals_no_layer_is_told_apart_and_without_values_none_is_marked(cubes):
    values = coded(cubes[0], {"ece": [0.3, 0.2, 0.1], "auroc": [np.nan] * 3})
    blank = values.assign(lower=values["lower"] * np.nan, upper=values["upper"] * np.nan)
    numbers = prepare([blank], chosen=layout({"tiny-a": 3}))
    assert level_with_best(numbers) == {("tiny-a", "ece"): [0, 1, 2]}


def test_absent_and_repeated_backbones_and_absent_layers_are_named(cubes):
    with pytest.raises(ContractError, match="backbone tiny-b is in none of the cubes"):
        prepare(cubes[:1])
    with pytest.raises(ContractError, match="backbone tiny-a is in several cubes"):
        prepare([cubes[0], *cubes])
    with pytest.raises(ContractError, match=r"no such layer \(there are: 0, 1, 2\)"):
        prepare(cubes, chosen=layout({"tiny-a": 4}))
    with pytest.raises(ContractError, match=r"pooling mean.*no such pooling"):
        prepare(cubes, chosen=layout(pooling="mean"))


def test_layouts_refuse_unordered_layers_and_repeated_or_too_many_backbones():
    one = {"name": "tiny-a", "label": "Tiny A", "layers": (0, 1)}
    with pytest.raises(ValueError, match="must rise"):
        layout(backbones=[one | {"layers": (1, 0)}])
    with pytest.raises(ValueError, match="repeats a name"):
        layout(backbones=[one, one])
    with pytest.raises(ValueError, match="at most 2"):
        layout({"tiny-a": 1, "tiny-b": 1, "tiny-c": 1})
