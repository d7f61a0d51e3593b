"""Regimes: the studies of the points at which one condition is changed."""

from pathlib import Path

import pytest
import yaml

from cocal.errors import ConfigError
from cocal_study.planning.regimes import BASE, read_regimes, studies_of
from flat_keys import flat
from golden import assert_golden
from planned_jobs import study_of
from started import ROOT


def test_every_point_changes_its_own_condition_alone():
    """The file has the keys by which each point differs from the unchanged one."""
    studies = studies_of(ROOT / "config/regimes.yaml", 2)
    base, changed = flat(studies.pop(BASE).model_dump(mode="json")), []
    for name, study in studies.items():
        ours = flat(study.model_dump(mode="json"))
        keys = [key for key in sorted(ours | base) if ours.get(key) != base.get(key)]
        changed += [f"{name}: {key} = {ours.get(key)} instead of {base.get(key)}" for key in keys]
    assert_golden(Path(__file__).parent / "golden/regimes.txt", changed)


def test_the_unchanged_point_is_a_replicate_of_the_embedded_studys_main_policy():
    base, embedded = studies_of(ROOT / "config/regimes.yaml", 2)[BASE], study_of("config")
    assert list(base.backbones) == [embedded.main_backbone]
    seeds = {"seed": embedded.seed + 2, "policy": embedded.policy.seed + 2, "generation": embedded.generation.seed + 2}
    assert seeds == {"seed": base.seed, "policy": base.policy.seed, "generation": base.generation.seed}
    ours, theirs = base.generation, embedded.second_sampling
    assert theirs is not None, "the points are sampled as the embedded study samples once more: as rollouts are"
    assert (ours.temperature, ours.top_p, ours.presence_penalty) == (1, 1, 0)
    assert (theirs.temperature, theirs.top_p, theirs.presence_penalty) == (1, 1, 0)
    assert (ours.engine, ours.pool) == (embedded.generation.engine, embedded.generation.pool)
    for name in ("companion", "postcal", "policy"):
        ours = getattr(base, name).model_dump(exclude={"seed", "algorithms", "stages"})
        assert ours == getattr(embedded, name).model_dump(exclude={"seed", "algorithms", "stages"}), name
    assert base.evaluation_sets("mathematics") == embedded.evaluation_sets("mathematics")
    assert not base.evaluation_sets("factual")


def test_the_paper_study_samples_as_the_level_of_its_name():
    sampled = studies_of(ROOT / "config/regimes.yaml", 1)["sampling-of-the-evaluation-the-paper-s"].generation
    paper = study_of("paper").generation
    names = ("temperature", "top_p", "top_k", "presence_penalty")
    assert [getattr(sampled, name) for name in names] == [getattr(paper, name) for name in names]


def regimes(tmp_path, levels, keys=None):
    study = str(ROOT / "config/smoke.yaml")
    content = {"study": study, "keys": keys or {}, "axes": [{"name": "Passes", "levels": levels}]}
    path = tmp_path / "regimes.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_key_without_a_value_is_removed(tmp_path):
    path = regimes(tmp_path, [{"name": "3", "keys": {"companion": {"passes": 3}}}, {"name": "2"}], {"features": None})
    assert "features" in yaml.safe_load((ROOT / "config/smoke.yaml").read_text())
    assert studies_of(path, 1)["passes-3"].companion.passes == 3
    assert "features" not in studies_of(path, 1)[BASE].model_fields_set


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ([{"name": "2"}, {"name": "3"}], "exactly one level"),
        ([{"name": "3", "keys": {"seed": 3}}, {"name": "4", "keys": {"seed": 4}}], "exactly one level"),
        (
            [{"name": "2"}, {"name": "3!", "keys": {"seed": 3}}, {"name": "3?", "keys": {"seed": 4}}],
            "folder passes-3: give them other names",
        ),
    ],
)
def test_levels_that_say_too_little_or_the_same_are_refused(tmp_path, levels, said):
    with pytest.raises(ConfigError, match=rf"regimes\.yaml: .*\n.*{said}"):
        read_regimes(regimes(tmp_path, levels))
