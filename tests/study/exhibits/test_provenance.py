"""The provenance of a number: the cell that holds it, and the files that it rests on, of the smoke study."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cocal.cli import main
from cocal.errors import ConfigError, ContractError
from cocal.metrics.calibration import evaluate
from cocal.store import read_frame
from cocal_study.exhibits.base.provenance import provenance_of
from cocal_study.store.contracts import PREDICTIONS

MACRO = "macro-mathematics"


@pytest.fixture
def tables(smoke, monkeypatch) -> Path:
    monkeypatch.chdir(smoke)
    return Path("results/tables")


def _places(provenance, kind):
    return {str(product.path).removeprefix("results/") for of, product in provenance.products if of == kind}


def _ece(rows):
    """The macro average over sets of the mean over seeds."""
    found = [
        evaluate(one["confidence"].to_numpy(), one["valid"].to_numpy(), one["correct"].to_numpy(), 10)["ece"]
        for _, one in rows.groupby(["dataset", "seed"])
    ]
    return np.mean(found)


@pytest.mark.parametrize(("table", "step", "other"), [("main", 4, 2), ("main_step2", 2, 4)])
def test_a_companions_number_is_that_of_the_rows_and_rests_on_its_own_files(tables, table, step, other):
    provenance = provenance_of(tables / f"{table}.tex", "cocal-group", MACRO, "ece")
    (cell,) = provenance.cells
    assert cell == {
        **{"backbone": "smoke", "algorithm": "grpo", "step": step, "dataset": MACRO},
        **{"method": "cocal-group", "seed": "mean", "metric": "ece"},
    }
    (number,) = provenance.numbers["value"]
    assert number == pytest.approx(_ece(provenance.rows), abs=1e-9)
    whole = read_frame(f"results/predictions/smoke/grpo/step-{other}.parquet", PREDICTIONS)
    wrong = whole[(whole["method"] == "cocal-group") & whole["dataset"].isin(["smoke-large", "smoke-small"])]
    assert number != pytest.approx(_ece(wrong), abs=1e-6), "the two stages differ, so that a wrong one is noticed"
    assert _places(provenance, "cube") == {"metrics/smoke.nc"}
    assert _places(provenance, "predictions") == {f"predictions/smoke/grpo/step-{step}.parquet"}
    assert _places(provenance, "companion") == {f"companions/smoke/grpo/steps-{step}"}
    answers = {f"smoke/grpo/step-{step}/answer/{name}" for name in ("smoke-large", "smoke-small")}
    assert _places(provenance, "responses") == {f"responses/{name}.parquet" for name in answers}
    assert _places(provenance, "states") == {
        "features/smoke/grpo/rollouts.zarr",
        *(f"features/{name}.zarr" for name in answers),
    }
    assert _places(provenance, "rollouts") == {"rollouts/smoke/grpo"}
    assert _places(provenance, "checkpoint") == {f"policies/smoke/grpo/step-{step}", "policies/smoke/base/step-0"}
    assert "questions/smoke-train.parquet" in _places(provenance, "questions")
    assert not provenance.absent


def test_a_method_without_a_companion_rests_on_responses_in_its_own_format(tables):
    provenance = provenance_of(tables / "main.csv", "base-verbal", "smoke-small", "accuracy")
    assert [(cell["algorithm"], cell["step"]) for cell in provenance.cells] == [("base", 0)]
    assert _places(provenance, "responses") == {"responses/smoke/base/step-0/verbal/smoke-small.parquet"}
    assert _places(provenance, "checkpoint") == {"policies/smoke/base/step-0"}
    assert not _places(provenance, "companion") | _places(provenance, "states") | _places(provenance, "rollouts")
    assert provenance.rows["correct"].mean() == pytest.approx(provenance.numbers["value"].iloc[0])
    assert {*provenance.rows["dataset"]} == {"smoke-small"}


def test_an_exhibit_whose_numbers_are_no_cells_says_so(tables):
    with pytest.raises(ConfigError, match=r"layers\.csv: has no column 'dataset'"):
        provenance_of(Path("results/figures/layers.pdf"), "cocal-binary", MACRO, "ece")
    first = pd.read_csv(tables / "comparisons.csv").iloc[0]
    with pytest.raises(ConfigError, match="is not made from a metric cube"):
        provenance_of(tables / "comparisons.csv", first["method"], first["dataset"], first["metric"])


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (("cocal", MACRO, "ece"), "has no method 'cocal'; it has base-verbal, verbal"),
        (("rlcr", "smoke-facts", "ece"), "has no dataset 'smoke-facts'; it has smoke-large, smoke-small, macro-math"),
        (("rlcr", MACRO, "f1"), "has no metric 'f1'; it has accuracy"),
    ],
)
def test_a_cell_that_is_not_there_is_refused_with_those_that_are(tables, cell, words):
    with pytest.raises(ConfigError, match=words):
        provenance_of(tables / "main.csv", *cell)


def test_a_number_that_was_changed_is_in_no_cell(smoke, tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    for folder in ("metrics", "resamples", "predictions"):
        (tmp_path / "results" / folder).symlink_to(smoke / "results" / folder)
    shutil.copytree(smoke / "results/tables", tmp_path / "results/tables")
    monkeypatch.chdir(tmp_path)
    file = Path("results/tables/main.csv")
    assert provenance_of(file, "verbal", MACRO, "ece").cells
    numbers = pd.read_csv(file)
    chosen = (numbers["method"] == "verbal") & (numbers["dataset"] == MACRO) & (numbers["metric"] == "auroc")
    numbers.loc[chosen, "lower"] += 0.001
    numbers.to_csv(file, index=False, na_rep="NaN")
    with pytest.raises(ContractError, match="the file has changed since it was written"):
        provenance_of(file, "verbal", MACRO, "ece")
    file.with_name(".main.sha256").unlink()
    with pytest.raises(ContractError, match=r"results/metrics/smoke\.nc does not hold its numbers of verbal on macro"):
        provenance_of(file, "verbal", MACRO, "ece")


def test_the_command_prints_number_cell_job_parameters_and_versions(tables, capsys):
    assert main(["trace", str(tables / "main.csv"), "--cell", "postcal-binary", "smoke-large", "auroc"]) == 0
    lines = capsys.readouterr().out.splitlines()
    value = (
        pd.read_csv(tables / "main.csv")
        .set_index(["method", "dataset", "metric"])
        .at[("postcal-binary", "smoke-large", "auroc"), "value"]
    )
    assert f"value={value}" in lines[1]
    text = "\n".join(lines)
    for part in (
        "cell  backbone=smoke algorithm=grpo step=4 dataset=smoke-large method=postcal-binary seed=mean metric=auroc",
        "rows  seed=137, companion source_step=4 validation_step=4 layer=1 pooling=last+mean: 40 confidences, 40 of",
        "companion  results/companions/smoke/postcal/steps-4  ",
        "  job  cocal resample  ",
        '"passes":2',
        "versions  {",
        "numerics portable",
        "commit  ",
    ):
        assert part in text
