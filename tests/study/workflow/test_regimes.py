"""All points of a replicate of regimes, run by the script that `make regimes` calls."""

import pandas as pd
import pytest
import yaml

import started
from cocal import cli
from started import ROOT

KEYS = {
    "study": "small-regimes",
    "datasets": {"smoke-facts": None},
    "backbones": {"smoke-deep": None, "smoke": {"steps": 30}},
    "policy": {"algorithms": ["grpo"], "steps": 2, "stages": [2]},
    "features": {"layers": "final"},
    "estimators": {"methods": ["postcal-group", "postcal-binary", "cocal-group", "cocal-binary"]},
    "reports": {"early_steps": [2], "budgets": [2], "stage_methods": ["cocal-group", "cocal-binary"]},
    "metrics": {"resamples": 20},
}
AXES = [
    {"name": "Sampling", "levels": [{"name": "own"}, {"name": "colder", "keys": {"generation": {"temperature": 0.3}}}]},
    {"name": "Passes", "levels": [{"name": "2"}, {"name": "3", "keys": {"companion": {"passes": 3}}}]},
]
MADE = ("policies/smoke/grpo", "responses/smoke/grpo", "companions/smoke/grpo", "metrics")
"""What a point makes, from the first to the last."""


@pytest.mark.long
def test_points_start_from_the_unchanged_one_and_make_again_what_their_keys_change(tmp_path):
    file, folder = tmp_path / "regimes.yaml", tmp_path / "7"
    file.write_text(yaml.safe_dump({"study": str(ROOT / "config/smoke.yaml"), "keys": KEYS, "axes": AXES}))
    words = ["regimes", "--regimes", file, "--number", 7, "--output", folder]
    assert cli.main([*map(str, words)]) == 0
    script = [ROOT / "workflow/scripts/regimes.sh", folder, "results/metrics/smoke.nc"]
    started.said(script)

    def changed(point):
        """Which of `MADE` are newer than those of the unchanged point, from which copies take their times."""
        found = []
        for name in MADE:
            ours, theirs = (
                {path.relative_to(place): path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}
                for place in (folder / point / "results" / name, folder / "base/results" / name)
            )
            found += [name] * (ours != theirs)
        return found

    assert changed("sampling-colder") == ["responses/smoke/grpo", "metrics"]
    assert changed("passes-3") == ["companions/smoke/grpo", "metrics"]
    assert "Nothing to be done" in started.said(script)
    words = ["gather", folder, "--regimes", file, "--output", tmp_path / "gathered"]
    assert cli.main([*map(str, words)]) == 0
    points = pd.read_csv(tmp_path / "gathered/points.csv", dtype={"level": str})
    assert points.groupby(["axis", "level"], sort=False).ngroups == 4
    one = points[points["method"] == "cocal-binary"].set_index(["axis", "level"])["ece"]
    assert one["Sampling", "own"] == one["Passes", "2"]
    assert len(set(one)) == 3
