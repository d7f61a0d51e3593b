"""The public source files, where they are at hand: a folder in the layout of the hosts, which serves as a mirror."""

import json
import os
from pathlib import Path

import pytest

from cocal_study.config.parse import parse_settings
from cocal_study.questions.loaders import Question, load
from cocal_study.questions.registry import Registry

REPOSITORY = Path(__file__).resolve().parents[2]
RAW = Path(os.environ.get("COCAL_RAW_DATA", REPOSITORY / "../shared/data/raw")).resolve()
needs_raw = pytest.mark.skipif(
    not RAW.is_dir(), reason=f"no public source files in {RAW}; COCAL_RAW_DATA names their folder"
)
CLEANED = {"deepscaler-union": "deepscaler_union", "deepscaler-dcpo": "deepscaler_uniform_dcpo"}
CLEANED |= {name: f"honesty_{name}" for name in ("squad", "webq", "cwq", "musique", "popqa")}
MATHEMATICS = ("math500", "aime24", "aime25", "amc23", "amc24")


def registry() -> Registry:
    """config/datasets.yaml."""
    return parse_settings(Registry, str(REPOSITORY / "config/datasets.yaml"))


def questions(name: str, corrections: bool = False) -> list[Question]:
    """A registered set, by its loader, from the bytes of its source."""
    entry = registry().sets[name]
    return load(name, entry, [RAW / entry.source.place(file) for file in entry.source.files], corrections)


def cleaned(name: str) -> list[dict]:
    """The same set as others read it."""
    file = RAW.parent / f"{CLEANED.get(name, name)}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
