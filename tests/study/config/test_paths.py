"""Where the relative paths of a study lead."""

import os
from pathlib import Path

import pytest
import yaml

from cocal_study.config.parse import validate
from cocal_study.config.paths import located
from cocal_study.config.study import Study


@pytest.fixture
def content(repository) -> dict:
    """A study with every kind of path."""
    content = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    own = {"source": "checkpoint", "label": "A", "depth": 2, "width": 8}
    rollouts = {"format": "slime", "path": "runs/dump", "weights": "/far/weights"}
    imported = {"grpo": {"stages": {2: "runs/iter1", 4: "/far/iter3"}, "rollouts": rollouts}}
    content["backbones"] = {
        "folder": own | {"path": "./owner/name", "imported": imported},
        "hub": own | {"path": "owner/name", "revision": "0" * 40},
        "trained": content["backbones"]["smoke"],
    }
    content["sources"] = {"registry": "config/datasets.yaml", "cache": "results/sources"}
    content["judge"] = {"kind": "llm", "checkpoint": "./judge", "prompts": "wording", "engine": {"kind": "vllm"}}
    content["datasets"]["mine"] = content["datasets"]["smoke-small"] | {
        "source": {"kind": "file", "path": "data/mine.jsonl"}
    }
    return content


def test_relative_paths_start_at_the_repository(tmp_path, content):
    root, folder = tmp_path / "checkout", tmp_path / "checkout/studies/mine"
    folder.mkdir(parents=True)
    study = validate(Study, content, "study.yaml")
    assert located(study, root, root) == study
    moved = located(study, root, folder)
    backbone = moved.backbones["folder"]
    training = backbone.imported["grpo"]
    found = {
        backbone.path: "owner/name",
        training.stages[2]: "runs/iter1",
        training.rollouts.path: "runs/dump",
        moved.datasets["mine"].source.path: "data/mine.jsonl",
        moved.sources.registry: "config/datasets.yaml",
        moved.judge.checkpoint: "judge",
        moved.judge.prompts: "wording",
    }
    for seen, path in found.items():
        assert not Path(seen).is_absolute(), "a checkout that is moved has nothing to run again"
        assert os.path.normpath(folder / seen) == str(root / path)
    assert (training.stages[4], training.rollouts.weights) == ("/far/iter3", "/far/weights")
    assert moved.backbones["hub"] == study.backbones["hub"]
    assert moved.backbones["trained"] == study.backbones["trained"]
    assert moved.sources.cache == "results/sources"
    assert moved.generation == study.generation
    above = located(study, root, tmp_path).backbones["folder"]
    assert above.path == "./checkout/owner/name"
    assert not above.on_hub
    assert located(study, root / "a", root).backbones["folder"].path == "./a/owner/name", "not a name on the hub"
