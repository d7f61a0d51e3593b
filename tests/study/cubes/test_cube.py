"""The metric cube: seeds, macro averages, intervals, sweeps (appendix A.2; section 5, evaluation protocol)."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cocal.cli import main
from cocal.errors import ContractError
from cocal.metrics.calibration import METRICS
from cocal.metrics.scores import WITHIN
from cocal.metrics.settings import MetricSettings
from cocal.store import write_frame
from cocal_study.cubes.cube import on_common_responses
from cocal_study.store.contracts import PREDICTIONS
from cocal_study.store.datasets import read_dataset
from golden import assert_golden
from sample_predictions import metric_cube, predicted, sample_predictions

SEEDS = (42, 137, 500)
QUICK = MetricSettings(resamples=40)
SETTINGS = MetricSettings(resamples=20)
EVERYWHERE = (*METRICS, WITHIN)
"""The metrics of every cube."""


def rows(method: str, dataset: str = "easy", seed: int = -1, stream: int = 0, **changes) -> pd.DataFrame:
    """Predictions of one method and seed: 20 questions, two responses each, the same outcomes for all methods."""
    outcome = np.random.default_rng([len(dataset), ord(dataset[0])])
    correct = outcome.random(40) < np.repeat(outcome.random(20), 2)
    noise = np.random.default_rng([stream, max(seed, 0)]).random(40)
    names = [f"{dataset}-{i // 2:02d}" for i in range(40)]
    of_set = {"backbone": "tiny", "dataset": dataset, "question_id": names, "truncated": np.arange(40) < 4}
    return predicted(method, seed, 0.3 * correct + 0.7 * noise, correct, learnt_from=20, **of_set | changes)


def seeded(**changes) -> pd.DataFrame:
    """One method with a companion, of all seeds."""
    return pd.concat([rows("cocal-binary", seed=seed, **changes) for seed in SEEDS], ignore_index=True)


def table(*datasets: str) -> pd.DataFrame:
    """One method without seeds and one with three, on each dataset."""
    parts = [part for name in datasets for part in (rows("verbal", name), seeded(dataset=name, stream=1))]
    return pd.concat(parts, ignore_index=True)


def cell(cube, method: str, dataset: str = "easy", *, seed: str = "mean", algorithm: str = "grpo", step: int = 20):
    labels = {"backbone": "tiny", "algorithm": algorithm, "step": step, "dataset": dataset}
    return cube.sel(labels | {"method": method, "seed": seed})


# Values


def test_every_cell_has_its_mean_over_seeds_its_macro_average_and_its_interval():
    """The file was compared with the metrics of each seed and with resampled questions, under settings that are no
    defaults: means are of metrics and not of confidences, with as many valid ones as the worst seed; methods without
    seeds fill them alone; macro averages are unweighted, and absent when a set is missing."""
    frame = table("easy", "hard")
    frame = frame[~((frame["dataset"] == "hard") & frame["question_id"].str.endswith(("0", "1", "2", "3")))]
    frame.loc[frame.index[frame["seed"] == 137][:3], ["confidence", "valid"]] = [np.nan, False]
    settings = MetricSettings(bins=4, resamples=30, level=0.5, seed=3)
    groups = {"macro-both": ["easy", "hard"], "macro-more": ["easy", "missing"]}
    cells = metric_cube(frame, settings, groups).squeeze().to_dataframe().reset_index()
    lines = cells.drop(columns=["backbone", "algorithm", "step"]).to_csv(index=False, float_format="%.6g").splitlines()
    assert_golden(Path(__file__).with_name("cells.txt"), lines)
    without = metric_cube(rows("verbal"), MetricSettings(resamples=0))
    assert without["value"].notnull().all()
    assert without["lower"].isnull().all()


def test_neither_the_order_of_the_rows_nor_other_methods_matter():
    frame, groups = table("easy", "hard"), {"macro": ["easy", "hard"]}
    cube = metric_cube(frame, QUICK, groups)
    assert cube.identical(metric_cube(frame.sample(frac=1, random_state=0), QUICK, groups))
    alone = metric_cube(rows("verbal"), QUICK)
    for name in ("lower", "upper"):
        np.testing.assert_array_equal(cell(cube, "verbal")[name], cell(alone, "verbal")[name])


# Sweeps


@pytest.mark.parametrize(
    ("dimensions", "kinds"),
    [
        (["source_step"], [{"source_step": 2}, {"source_step": 5}, {"source_step": 20}]),
        (
            ["layer", "pooling"],
            [{"layer": 0, "pooling": "last"}, {"layer": 0, "pooling": "mean"}, {"layer": 2, "pooling": "last"}],
        ),
    ],
)
def test_a_sweep_has_the_cube_of_each_kind_of_companion(dimensions, kinds):
    frames = [seeded(stream=place, **kind) for place, kind in enumerate(kinds)]
    other = pd.concat([rows("postcal-binary", seed=seed, stream=9) for seed in SEEDS])
    cube = metric_cube(pd.concat([*frames, other]), QUICK, sweep=dimensions)
    names = ("backbone", "algorithm", "step", *dimensions, "dataset", "method", "seed")
    assert cube["n"].dims == names
    assert cube["value"].dims == (*names, "metric")
    for kind, frame in zip(kinds, frames, strict=True):
        alone = metric_cube(frame, QUICK)
        assert not {*dimensions} & {*alone.coords}
        xr.testing.assert_identical(cube.sel({**kind, "method": ["cocal-binary"]}, drop=True), alone)
    absent = cube.sel({**kinds[0], "method": "postcal-binary"})
    assert absent["value"].isnull().all()
    assert (absent["n"] == 0).all()
    accuracy = cube["lower"].sel({"metric": "accuracy", "seed": "mean", "method": "cocal-binary"}).values
    assert np.unique(accuracy[~np.isnan(accuracy)]).size == 1, "all see the same resamples"
    for missing in dimensions:
        rest = [name for name in dimensions if name != missing]
        words = missing.replace("_", " ")
        with pytest.raises(ContractError, match=rf"'cocal-binary'.*several {words}s, .*metrics --sweep {missing}"):
            metric_cube(pd.concat(frames), QUICK, sweep=rest)


# Refusals


def without(frame, **labels):
    return frame[~np.logical_and.reduce([frame[name] == value for name, value in labels.items()])]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (table("easy"), {"groups": {"easy": ["easy"]}}, "'easy' has the name of a dataset"),
        (without(table("easy", "hard"), seed=137, dataset="hard"), {}, r"'cocal-binary'.* on hard lacks seed\(s\) 137"),
        (table("easy"), {"seeds": (*SEEDS, 700)}, r"lacks seed\(s\) 700"),
        (table("easy"), {"seeds": (42, 137)}, r"unexpected seed\(s\) 500"),
        (
            without(pd.concat([seeded(source_step=2), seeded()]), seed=137, source_step=2),
            {"sweep": ["source_step"]},
            r"'cocal-binary'.*source step 2\) on easy lacks seed\(s\) 137",
        ),
        (pd.concat([table("easy"), rows("verbal")]), {}, "must be unique"),
    ],
)
def test_tables_that_do_not_do_are_refused(frame, options, message):
    with pytest.raises(ContractError, match=message):
        metric_cube(frame, QUICK, **options)


@pytest.mark.parametrize("column", ["correct", "truncated"])
def test_the_seeds_of_a_method_are_about_the_same_responses(column):
    frame = table("easy")
    frame.loc[frame.index[frame["seed"] == 500][0], column] ^= True
    with pytest.raises(ContractError, match="seed 500 has other responses than seed 42"):
        metric_cube(frame, QUICK)


# The same responses for several methods


def test_methods_are_compared_where_all_have_a_confidence():
    frame = sample_predictions("amc23", "amc24", methods=("rlcr", "cocal-on-rlcr", "dcpo"))
    for method, ids in {"rlcr": (3, 5), "cocal-on-rlcr": (5, 8)}.items():
        lost = (frame["method"] == method) & frame["response_id"].isin(ids) & (frame["dataset"] == "amc23")
        frame["confidence"] = frame["confidence"].mask(lost)
    frame["valid"] = frame["confidence"].notna()
    earlier = sample_predictions("amc23", "amc24", methods=("rlcr", "cocal-on-rlcr"), step=20)
    both = on_common_responses(pd.concat([frame, earlier], ignore_index=True))
    assert both.loc[both["step"] == 20, "valid"].all(), "another step has other responses"
    common = PREDICTIONS.check(on_common_responses(frame), "common")
    for (method, dataset), part in common.groupby(["method", "dataset"]):
        invalid = set(part.loc[~part["valid"], "response_id"])
        assert invalid == (set() if method == "dcpo" or dataset == "amc24" else {3, 5, 8}), method
    kept = common["valid"]
    pd.testing.assert_series_equal(common["confidence"][kept], frame["confidence"][kept])
    verbal = on_common_responses(sample_predictions("amc23", methods=("verbal", "token-probability")))
    assert verbal[verbal["method"] == "token-probability"]["valid"].all(), "another format has other responses"


# The command


def cube_of(folder, *flags, **files):
    """The cube that `cocal metrics` writes from tables of these names, and its bytes."""
    for name, frame in files.items():
        write_frame(folder / f"{name}.parquet", frame, PREDICTIONS, {})
    output = folder / "cube.nc"
    tables = [str(folder / f"{name}.parquet") for name in files]
    command = ["metrics", "--settings", '{"resamples": 20}', *flags, "--predictions", *tables, "--output", str(output)]
    assert main(command) == 0
    return read_dataset(output), output.read_bytes()


def test_the_command_writes_the_same_bytes_again(tmp_path):
    groups = {"macro-mathematics": ["easy", "hard"]}
    flags = ["--groups", json.dumps(groups), "--seeds", *map(str, SEEDS)]
    cube, written = cube_of(tmp_path, *flags, easy=table("easy"), hard=table("hard"))
    assert cube_of(tmp_path, *flags, hard=table("hard"), easy=table("easy"))[1] == written
    assert cube.drop_attrs().equals(metric_cube(table("easy", "hard"), SETTINGS, groups, metrics=EVERYWHERE))
    assert cube.attrs["stage"] == "metrics"


def test_the_command_writes_a_sweep_and_common_responses(tmp_path, capsys):
    swept = pd.concat([seeded(source_step=2), seeded(stream=3)])
    with pytest.raises(AssertionError):
        cube_of(tmp_path, swept=swept)
    assert "metrics --sweep" in capsys.readouterr().err
    assert not (tmp_path / "cube.nc").exists()
    cube, _ = cube_of(tmp_path, "--sweep", "source_step", swept=swept)
    assert cube.drop_attrs().equals(metric_cube(swept, SETTINGS, sweep=["source_step"], metrics=EVERYWHERE))
    silent = table("easy").assign(method=lambda frame: frame["method"].replace("verbal", "p-true"))
    silent.loc[:2, ["confidence", "valid"]] = [np.nan, False]
    common, _ = cube_of(tmp_path, "--common-responses", common=silent)
    expected = metric_cube(on_common_responses(silent), SETTINGS, metrics=EVERYWHERE)
    assert common.drop_attrs().equals(expected)
    assert int(cell(common, "cocal-binary")["n_valid"]) == 37
