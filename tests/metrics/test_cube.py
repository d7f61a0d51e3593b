"""The metric cube: seeds, macro averages, intervals, sweeps (appendix A.2; section 5, evaluation protocol)."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cocal.cli import main
from cocal.config.evaluation import MetricSettings
from cocal.errors import ContractError
from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_metrics
from cocal.metrics.calibration import evaluate
from cocal.metrics.cells import policy_cell
from cocal.metrics.cube import metric_cube
from cocal.metrics.scores import Sample
from cocal.store import read_dataset, write_frame
from cocal.store.contracts import PREDICTIONS

SEEDS = (42, 137, 500)
QUICK = MetricSettings(resamples=40)


def rows(method: str, dataset: str = "easy", seed: int = -1, stream: int = 0, **changes) -> pd.DataFrame:
    """Predictions of one method and seed: 20 questions, two responses each, the same outcomes for all methods."""
    outcome = np.random.default_rng([len(dataset), ord(dataset[0])])
    correct = outcome.random(40) < np.repeat(outcome.random(20), 2)
    noise = np.random.default_rng([stream, max(seed, 0)]).random(40)
    columns = {
        "backbone": "tiny",
        "algorithm": "grpo",
        "step": 20,
        "dataset": dataset,
        "question_id": [f"{dataset}-{i // 2:02d}" for i in range(40)],
        "response_id": np.arange(40),
        "method": method,
        "seed": seed,
        "source_step": 20 if seed >= 0 else -1,
        "validation_step": 20 if seed >= 0 else -1,
        "layer": 2 if seed >= 0 else -1,
        "pooling": "last+mean" if seed >= 0 else "",
        "confidence": 0.3 * correct + 0.7 * noise,
        "valid": True,
        "correct": correct,
        "truncated": np.arange(40) < 4,
        "answered": True,
        "decided": True,
        "exact_match": None,
        "p_true_mass": np.nan,
    }
    return pd.DataFrame(columns | changes)


def table(*datasets: str) -> pd.DataFrame:
    """One method without seeds and one with three, on each dataset."""
    parts = []
    for dataset in datasets:
        parts.append(rows("verbal", dataset))
        parts += [rows("cocal-binary", dataset, seed, stream=1) for seed in SEEDS]
    return pd.concat(parts, ignore_index=True)


def cell(cube, method: str, dataset: str = "easy", *, seed: str = "mean", algorithm: str = "grpo", step: int = 20):
    labels = {"backbone": "tiny", "algorithm": algorithm, "step": step, "dataset": dataset}
    return cube.sel(labels | {"method": method, "seed": seed})


def test_the_mean_over_seeds_averages_metrics_not_confidences():
    frame = table("easy")
    cube = metric_cube(frame, QUICK)
    per_seed = []
    for seed in SEEDS:
        one = frame[frame["seed"] == seed]
        confidence, valid, correct = (one[name].to_numpy() for name in ("confidence", "valid", "correct"))
        expected = list(evaluate(confidence, valid, correct).values())
        np.testing.assert_allclose(cell(cube, "cocal-binary", seed=str(seed))["value"], expected)
        per_seed.append(expected)
    mean = cell(cube, "cocal-binary")
    np.testing.assert_allclose(mean["value"], np.mean(per_seed, axis=0))
    np.testing.assert_allclose(mean["seed_sd"], np.std(per_seed, axis=0, ddof=1))
    assert (mean["lower"] <= mean["value"]).all()
    assert (mean["value"] <= mean["upper"]).sel(metric=["accuracy", "mean_confidence", "auroc"]).all()
    assert (int(mean["n"]), int(mean["n_valid"])) == (40, 40)
    assert float(mean["truncation_rate"]) == pytest.approx(0.1)


def test_the_mean_has_as_many_valid_confidences_as_its_worst_seed():
    frame = table("easy")
    silent = frame.index[frame["seed"] == 137][:3]
    frame.loc[silent, ["confidence", "valid"]] = [np.nan, False]
    cube = metric_cube(frame, QUICK)
    counts = [int(cell(cube, "cocal-binary", seed=seed)["n_valid"]) for seed in ("mean", *map(str, SEEDS))]
    assert counts == [37, 40, 37, 40]


def test_methods_without_seeds_fill_the_mean_alone():
    cube = metric_cube(table("easy"), QUICK)
    assert cube["seed"].values.tolist() == ["mean", "42", "137", "500"]
    verbal = cube["value"].sel({"method": "verbal"})
    assert verbal.sel(seed="mean").notnull().all()
    assert verbal.sel(seed=["42", "137", "500"]).isnull().all()
    assert cell(cube, "verbal")["seed_sd"].isnull().all()


def test_macro_averages_are_unweighted_and_absent_when_a_dataset_is_missing():
    groups = {"macro-both": ["easy", "hard"], "macro-more": ["easy", "missing"]}
    frame = table("easy", "hard")
    frame = frame[~((frame["dataset"] == "hard") & frame["question_id"].str.endswith(("0", "1", "2", "3")))]
    cube = metric_cube(frame, QUICK, groups)
    assert cube["dataset"].values.tolist() == ["easy", "hard", "macro-both", "macro-more"]
    parts = [cell(cube, "cocal-binary", name) for name in ("easy", "hard")]
    macro = cell(cube, "cocal-binary", "macro-both")
    assert int(parts[0]["n"]) != int(parts[1]["n"])
    np.testing.assert_allclose(macro["value"], (parts[0]["value"] + parts[1]["value"]) / 2)
    assert int(macro["n"]) == sum(int(part["n"]) for part in parts)
    widths = [float((one["upper"] - one["lower"]).sel(metric="accuracy")) for one in (*parts, macro)]
    assert widths[2] < max(widths[:2])
    more = cell(cube, "cocal-binary", "macro-more")
    assert more["value"].isnull().all()
    assert int(more["n"]) == 0


def test_a_group_must_not_take_the_name_of_a_dataset():
    with pytest.raises(ContractError, match="'easy' has the name of a dataset"):
        metric_cube(table("easy"), QUICK, {"easy": ["easy"]})


def test_a_missing_seed_is_named():
    frame = table("easy", "hard")
    lost = (frame["seed"] == 137) & (frame["dataset"] == "hard")
    with pytest.raises(ContractError, match=r"'cocal-binary'.*on hard lacks seed\(s\) 137"):
        metric_cube(frame[~lost], QUICK)
    with pytest.raises(ContractError, match=r"lacks seed\(s\) 700"):
        metric_cube(frame, QUICK, seeds=(*SEEDS, 700))
    with pytest.raises(ContractError, match=r"unexpected seed\(s\) 500"):
        metric_cube(frame, QUICK, seeds=(42, 137))


@pytest.mark.parametrize("column", ["correct", "truncated"])
def test_the_seeds_of_a_method_are_about_the_same_responses(column):
    frame = table("easy")
    frame.loc[frame.index[frame["seed"] == 500][0], column] ^= True
    with pytest.raises(ContractError, match="seed 500 has other responses than seed 42"):
        metric_cube(frame, QUICK)


def test_duplicates_are_refused():
    with pytest.raises(ContractError, match="must be unique"):
        metric_cube(pd.concat([table("easy"), rows("verbal")]), QUICK)


def test_without_valid_confidences_only_accuracy_is_defined():
    silent = rows("base-verbal", confidence=np.nan, valid=False, algorithm="base", step=0)
    one = cell(metric_cube(silent, QUICK), "base-verbal", algorithm="base", step=0)
    assert (int(one["n"]), int(one["n_valid"]), float(one["valid_rate"])) == (40, 0, 0.0)
    for name in ("value", "lower", "upper"):
        assert one[name].notnull().values.tolist() == [True, False, False, False]


def test_a_single_class_leaves_only_auroc_undefined():
    one = cell(metric_cube(rows("verbal", correct=True), QUICK), "verbal")
    for name in ("value", "lower", "upper"):
        assert one[name].notnull().values.tolist() == [True, True, True, False]


def test_no_resamples_means_no_intervals():
    one = cell(metric_cube(rows("verbal"), MetricSettings(resamples=0)), "verbal")
    assert one["value"].notnull().all()
    assert one["lower"].isnull().all()


def test_the_order_of_the_rows_does_not_matter():
    frame = table("easy", "hard")
    shuffled = frame.sample(frac=1, random_state=0)
    groups = {"macro": ["easy", "hard"]}
    assert metric_cube(frame, QUICK, groups).identical(metric_cube(shuffled, QUICK, groups))


def test_intervals_do_not_depend_on_the_other_methods():
    both = metric_cube(table("easy"), QUICK)
    alone = metric_cube(rows("verbal"), QUICK)
    for name in ("lower", "upper"):
        np.testing.assert_array_equal(cell(both, "verbal")[name], cell(alone, "verbal")[name])


def sweep(*source_steps: int) -> pd.DataFrame:
    """One method by companions of several source steps, three seeds each."""
    parts = [rows("cocal-binary", seed=s, stream=n, source_step=n) for n in source_steps for s in SEEDS]
    return pd.concat(parts, ignore_index=True)


def test_several_source_steps_are_refused_in_the_main_cube():
    with pytest.raises(ContractError, match=r"'cocal-binary'.*source steps, 5, 20; .*metrics --sweep"):
        metric_cube(pd.concat([table("easy"), sweep(5)]), QUICK)


@pytest.mark.parametrize("dataset", ["easy", "hard"])
def test_intervals_are_those_of_the_settings_and_of_resampled_questions(dataset):
    settings = MetricSettings(bins=4, resamples=30, level=0.5, seed=3)
    frame = rows("verbal", dataset)
    confidence, valid, correct = (frame[name].to_numpy() for name in ("confidence", "valid", "correct"))
    value = np.array(list(evaluate(confidence, valid, correct, bins=4).values()))
    sample = Sample(np.repeat(np.arange(20), 2), confidence, correct)
    (resampled,) = resampled_metrics([sample], 20, bins=4, resamples=30, generator=generator_for(3, dataset))
    lower, upper = centred_interval(value, resampled.T, 0.5)
    found = cell(metric_cube(frame, settings), "verbal", dataset)
    np.testing.assert_allclose(found["value"], value)
    np.testing.assert_allclose(found["lower"], lower)
    np.testing.assert_allclose(found["upper"], upper)


def test_a_sweep_has_the_cube_of_each_source_step():
    postcal = pd.concat([rows("postcal-binary", seed=seed, stream=9, source_step=20) for seed in SEEDS])
    cube = metric_cube(pd.concat([sweep(2, 5, 20), postcal]), QUICK, sweep=["source_step"])
    assert cube["value"].dims == (
        *("backbone", "algorithm", "step", "source_step", "dataset", "method", "seed"),
        "metric",
    )
    assert cube["source_step"].dtype == np.int64
    assert cube["source_step"].values.tolist() == [2, 5, 20]
    for source_step in (2, 5, 20):
        alone = metric_cube(sweep(source_step), QUICK)
        assert "source_step" not in alone.coords
        part = cube.sel({"source_step": source_step, "method": ["cocal-binary"]}, drop=True)
        xr.testing.assert_identical(part, alone)
    absent = cube.sel({"source_step": 2, "method": "postcal-binary"})
    assert absent["value"].isnull().all()
    assert (absent["n"] == 0).all()


def test_layers_and_poolings_are_told_apart():
    parts = {(0, "last"): 1, (0, "mean"): 2, (2, "last+mean"): 3}
    frames = {
        key: pd.concat([rows("cocal-binary", seed=s, stream=n, layer=key[0], pooling=key[1]) for s in SEEDS])
        for key, n in parts.items()
    }
    together = pd.concat(frames.values())
    cube = metric_cube(together, QUICK, sweep=["layer", "pooling"])
    assert cube["n"].dims == ("backbone", "algorithm", "step", "layer", "pooling", "dataset", "method", "seed")
    assert cube["layer"].dtype == np.int64
    for (layer, pooling), frame in frames.items():
        part = cube.sel({"layer": layer, "pooling": pooling}, drop=True)
        assert part.equals(metric_cube(frame, QUICK))
    assert (cube["n"].sel({"layer": 2, "pooling": "mean"}) == 0).all()
    for sweep_by, other in (([], "layer"), (["layer"], "pooling"), (["source_step"], "layer")):
        with pytest.raises(ContractError, match=rf"several {other}s, .*metrics --sweep {other}"):
            metric_cube(together, QUICK, sweep=sweep_by)


def test_one_number_of_steps_with_two_validation_pools_is_not_mixed():
    frame = pd.concat([rows("cocal-binary", seed=s, stream=n, validation_step=n) for n in (2, 20) for s in SEEDS])
    with pytest.raises(ContractError, match=r"several validation steps, 2, 20; .*metrics --sweep validation_step"):
        metric_cube(frame, QUICK, sweep=["source_step"])
    cube = metric_cube(frame, QUICK, sweep=["validation_step"])
    for validation_step in (2, 20):
        alone = metric_cube(frame[frame["validation_step"] == validation_step], QUICK)
        assert cube.sel({"validation_step": validation_step}, drop=True).equals(alone)


def test_source_steps_see_the_same_resamples():
    """Accuracy depends on the questions alone, so equal resamples give equal intervals."""
    cube = metric_cube(sweep(2, 20), QUICK, sweep=["source_step"])
    for bound in ("lower", "upper"):
        accuracy = cube[bound].sel(metric="accuracy", seed="mean").squeeze()
        assert np.unique(accuracy.values).size == 1
        assert np.unique(cube[bound].sel(metric="auroc", seed="mean")).size == 2


def test_a_missing_seed_of_a_source_step_is_named():
    frame = sweep(2, 20)
    lost = (frame["seed"] == 137) & (frame["source_step"] == 2)
    with pytest.raises(ContractError, match=r"'cocal-binary'.*source step 2\) on easy lacks seed\(s\) 137"):
        metric_cube(frame[~lost], QUICK, sweep=["source_step"])


def test_the_command_writes_a_sweep(tmp_path, capsys):
    write_frame(tmp_path / "sweep.parquet", sweep(2, 20), PREDICTIONS, {})
    output = tmp_path / "sweep.nc"
    options = ["metrics", "--settings", '{"resamples": 20}', "--predictions", str(tmp_path / "sweep.parquet")]
    assert main([*options, "--output", str(output)]) == 2
    assert "metrics --sweep" in capsys.readouterr().err
    assert not output.exists()
    assert main([*options, "--sweep", "source_step", "--output", str(output)]) == 0
    expected = metric_cube(sweep(2, 20), MetricSettings(resamples=20), sweep=["source_step"])
    assert read_dataset(output).drop_attrs().equals(expected)


def test_the_prerl_model_comes_from_the_base_cell():
    assert policy_cell("base-verbal", 120) == ("base", 0)
    assert policy_cell("cocal-binary", 120) == ("grpo", 120)


def test_the_command_writes_the_same_bytes_again(tmp_path):
    files = []
    for name in ("easy", "hard"):
        files.append(str(tmp_path / f"{name}.parquet"))
        write_frame(files[-1], table(name), PREDICTIONS, {})
    groups = json.dumps({"macro-mathematics": ["easy", "hard"]})
    written = []
    for order in (files, files[::-1]):
        output = tmp_path / f"{len(written)}.nc"
        options = ["--settings", '{"resamples": 20}', "--groups", groups, "--seeds", *map(str, SEEDS)]
        assert main(["metrics", *options, "--predictions", *order, "--output", str(output)]) == 0
        written.append(output.read_bytes())
    assert written[0] == written[1]
    cube = read_dataset(tmp_path / "0.nc")
    expected = metric_cube(table("easy", "hard"), MetricSettings(resamples=20), json.loads(groups))
    assert cube.drop_attrs().equals(expected)
    assert cube.attrs["stage"] == "metrics"


def test_the_command_names_a_bad_group(tmp_path, capsys):
    options = ["--groups", '{"macro": []}', "--predictions", "none.parquet", "--output", str(tmp_path / "x.nc")]
    assert main(["metrics", *options]) == 2
    assert "--groups" in capsys.readouterr().err
