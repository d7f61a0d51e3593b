"""Measured points of regimes, CoCal's margins over PostCal, and their intervals over replicates."""

import json
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
import yaml

from cocal import cli
from cocal.companion.spec import read_spec
from cocal.errors import ContractError
from cocal_study.evidence.regimes import COLUMNS, margins, over_points, together
from golden import assert_golden
from started import ROOT

LEVELS = {("Data", "little"): 0.00, ("Data", "own"): 0.03, ("Rate", "own"): 0.03, ("Rate", "twice"): -0.05}


def points(replicates=(1, 2, 3), levels=LEVELS):
    """Points at which CoCal's ECE is better by the number of the level, with other numbers in every replicate."""
    rows = []
    for (axis, level), margin in levels.items():
        for k in replicates:
            shift = 0.001 * k**2
            for target, more in (("binary", 0.0), ("group", 0.2)):
                better = margin + shift + more
                theirs = (0.4, 0.63, 90 + k, 0.5, 0.55, 0.72 + shift, 0.31, 0.22, 0.6, 0.7)
                ours = (0.4, 0.63, 80, 0.4, 0.55, 0.41, 0.31 - better, 0.2, 0.5, 0.69)
                rows += [(axis, level, k, f"postcal-{target}", *theirs), (axis, level, k, f"cocal-{target}", *ours)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_margins_are_positive_where_cocal_is_better_and_intervals_are_students_over_replicates():
    """The file was compared with differences by hand and with SciPy's test of one sample; adjusted values count three
    distinct points, one of which stands on both axes."""
    binary, group = margins(points()), margins(points(), "group")
    whole = over_points(binary, 0.95).query("metric == 'ece'")
    said = [one.to_csv(index=False, float_format="%.6g") for one in (binary, group, whole)]
    assert_golden(Path(__file__).with_name("regimes_counted.txt"), "\n".join(said).splitlines())


def test_one_replicate_has_no_interval():
    numbers = over_points(margins(points((4,))), 0.95)
    assert numbers[["lower", "upper", "p", "p_holm"]].isna().all(axis=None)
    assert len(numbers) == 4 * 3


def test_replicates_that_were_gathered_before_stay_unless_they_are_given_again():
    before, now = points((1, 3)), points((2, 3))
    now.loc[now["replicate"] == 3, "ece"] = 0.5
    found = together(now, before)
    assert list(found.loc[found["axis"] == "Data", "replicate"].unique()) == [1, 2, 3]
    assert (found.loc[found["replicate"] == 3, "ece"] == 0.5).all()
    assert (found.loc[found["replicate"] == 1, "ece"] != 0.5).all()
    order = found[["axis", "level", "replicate"]].drop_duplicates()
    assert list(order.itertuples(index=False, name=None)) == [(*place, k) for place in LEVELS for k in (1, 2, 3)]


def test_replicates_of_other_conditions_are_not_mixed():
    other = points((1,), {("Data", "little"): 0.1})
    with pytest.raises(ContractError, match="other conditions"):
        together(points((2,)), other)


@pytest.fixture
def replicate(smoke, tmp_path):
    """A replicate whose two points are the finished smoke study."""
    levels = [{"name": "2"}, {"name": "3", "keys": {"companion": {"passes": 3}}}]
    content = {"study": str(ROOT / "config/smoke.yaml"), "axes": [{"name": "Passes", "levels": levels}]}
    (tmp_path / "regimes.yaml").write_text(yaml.safe_dump(content))
    for point in ("base", "passes-3"):
        (tmp_path / "7" / point).mkdir(parents=True)
        (tmp_path / "7" / point / "results").symlink_to(smoke / "results")
    return tmp_path / "7"


def gather(replicate, folder):
    file = replicate.parent / "regimes.yaml"
    return cli.main(["gather", str(replicate), "--regimes", str(file), "--output", str(folder), "--overwrite"])


@pytest.mark.slow
def test_what_a_finished_study_has_measured(replicate, smoke, tmp_path):
    assert gather(replicate, tmp_path / "gathered") == 0
    found = pd.read_csv(tmp_path / "gathered/points.csv", dtype={"level": str})
    assert list(found) == list(COLUMNS)
    assert list(found["level"]) == ["2"] * 7 + ["3"] * 7
    row = found[(found["method"] == "postcal-group") & (found["level"] == "3")].iloc[0]
    with xr.open_dataset(smoke / "results/metrics/smoke.nc") as cube:
        cell = {"backbone": "smoke", "algorithm": "grpo", "step": 4, "dataset": "macro-mathematics"}
        means = cube["value"].sel({**cell, "method": "postcal-group", "seed": "mean"})
        for metric in ("accuracy", "brier", "ece"):
            assert row[metric] == pytest.approx(float(means.sel(metric=metric)), abs=1e-11), metric
    for column, name in (("rollout_accuracy", "grpo"), ("final_accuracy", "postcal")):
        rollouts = pd.read_parquet(smoke / f"results/rollouts/smoke/{name}")
        assert row[column] == pytest.approx(rollouts["correct"].mean())
    spec = read_spec(smoke / "results/companions/smoke/postcal/steps-4")
    assert row["learnt_right"] == pytest.approx(1 - spec.training_error_share)
    assert row["learnt"] == spec.training_responses
    assert json.loads((tmp_path / "gathered/gathered.json").read_text())["replicates"].keys() == {"7"}


@pytest.mark.slow
def test_an_unfinished_point_is_named(replicate, tmp_path, capfd):
    (replicate / "passes-3/results").unlink()
    assert gather(replicate, tmp_path / "gathered") != 0
    said = capfd.readouterr().err
    assert "passes-3/results/metrics/smoke.nc: is missing" in said
    assert "make regimes" in said
    assert not (tmp_path / "gathered").exists()
