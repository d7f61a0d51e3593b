"""The metrics of every resample as a file: each cell has its own numbers, and equal questions share a digest."""

import numpy as np
import pandas as pd
import pytest

from cocal.errors import ContractError
from cocal.metrics.scores import ALL, PAIRED
from cocal.metrics.settings import MetricSettings
from cocal_study.cubes.cube import evaluate_cells
from cocal_study.cubes.resamples import MAIN, Key, Resamples, read_resamples, resamples_of
from cocal_study.store.datasets import write_dataset
from sample_predictions import SEEDS, sample_predictions

FRAME = sample_predictions("amc23", "amc24", methods=("verbal", "p-true", "cocal-binary"))
GROUPS = {"macro-mathematics": ["amc23", "amc24"], "macro-one": ["amc23"]}
EVALUATED = evaluate_cells(FRAME, MetricSettings(resamples=20, level=0.9), GROUPS, metrics=ALL)
KEPT = [ALL.index(name) for name in PAIRED]


def test_each_cell_has_its_values_seeds_and_resamples(tmp_path):
    write_dataset(tmp_path / "tiny-a-budgets.nc", resamples_of(EVALUATED), {})
    found = read_resamples(tmp_path / "tiny-a-budgets.nc")
    assert (found.backbone, found.comparison, found.level) == ("tiny-a", "budgets", 0.9)
    assert found.source == str(tmp_path / "tiny-a-budgets.nc")
    assert len(found.places) == 3 * 4
    dims = {name: found.data[name].dims for name in ("value", "by_seed", "resampled", "questions", "method")}
    shared = {"value": ("cell", "metric"), "by_seed": ("cell", "seed", "metric"), "questions": ("cell",)}
    assert dims == shared | {"resampled": ("cell", "metric", "resample"), "method": ("cell",)}
    by_seed, questions = found.data["by_seed"].to_numpy(), found.data["questions"].to_numpy()
    for (cell, dataset), one in EVALUATED.cells.items():
        place = found.places[Key(cell.method, "grpo", 60, dataset)]
        values, drawn = one.values[:, KEPT], one.resampled[:, :, KEPT]
        np.testing.assert_array_equal(found.data["value"][place], values.mean(axis=0))
        np.testing.assert_array_equal(found.data["resampled"][place], drawn.mean(axis=0).T)
        seeded = cell.method == "cocal-binary"
        np.testing.assert_array_equal(by_seed[place], values if seeded else np.full((2, len(KEPT)), np.nan))
        assert questions[place] == one.questions
    assert found.data["seed"].values.tolist() == list(map(str, SEEDS))
    assert found.data["metric"].values.tolist() == list(PAIRED)
    assert len(set(questions)) == 4, "two sets, and two macro averages"
    both = pd.concat([FRAME, FRAME.assign(backbone="tiny-b")])
    with pytest.raises(ContractError, match="here: cells of 2 backbones; make one file for each"):
        Resamples.of(resamples_of(evaluate_cells(both, MetricSettings(resamples=0))), "here")
    write_dataset(tmp_path / "tiny-a.nc", resamples_of(EVALUATED), {})
    assert read_resamples(tmp_path / "tiny-a.nc").comparison == MAIN
