"""Relative paths in a study, which start at the root of the repository wherever the results are."""

import os
from pathlib import Path
from typing import Any

from cocal.settings.base import Model
from cocal_study.config.backbone import CheckpointSettings, ImportedRolloutSettings, ImportedSettings
from cocal_study.config.data import FileSettings, SourceSettings
from cocal_study.config.evaluation import LlmJudgeSettings
from cocal_study.config.study import Study

_PLACES = {
    FileSettings: lambda settings: ["path"],
    SourceSettings: lambda settings: ["registry"],  # the cache is relative to the folder of the results
    CheckpointSettings: lambda settings: [] if settings.on_hub else ["path"],
    ImportedSettings: lambda settings: ["stages"],
    ImportedRolloutSettings: lambda settings: ["path", "weights"],
    LlmJudgeSettings: lambda settings: ["prompts", "checkpoint"] if settings.local else ["prompts"],
}
"""The fields of settings that hold a path, or several paths by name."""


def located(study: Study, root: str | Path, folder: str | Path) -> Study:
    """The study with its relative paths, which start at `root`, rewritten so that they start at the folder in which the
    workflow runs (`snakemake --directory`)."""
    root, folder = Path(root).resolve(), Path(folder).resolve()  # `..` after a symbolic link leads elsewhere

    def seen(value: Any, is_path: bool) -> Any:
        if isinstance(value, dict):
            return {key: seen(inner, is_path) for key, inner in value.items()}
        if isinstance(value, Model):
            places = _PLACES[type(value)](value) if type(value) in _PLACES else []
            update = {key: seen(getattr(value, key), key in places) for key in type(value).model_fields}
            changed = {key: new for key, new in update.items() if new != getattr(value, key)}
            return value.model_copy(update=changed)
        if not is_path or value is None or Path(value).is_absolute():
            return value
        relative = os.path.relpath(root / value, folder)
        # without `./`, a path with one slash would be a name on the hub
        return relative if relative.startswith("..") else f"./{relative}"

    return study if root == folder else seen(study, False)
