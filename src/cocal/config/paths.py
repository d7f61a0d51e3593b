"""Relative paths in a study, which start at the root of the repository wherever the results are."""

import os
from pathlib import Path

from cocal.config.backbone import BackboneSettings, ImportedSettings
from cocal.config.data import DatasetSettings, FileSettings
from cocal.config.engine import EngineSettings
from cocal.config.study import Study


def located(study: Study, root: str | Path, folder: str | Path) -> Study:
    """The study with its relative paths rewritten so that they start at another folder.

    `sources.cache` stays as it is, because it is relative to the folder of the results.

    Args:
        root: Folder at which relative paths start.
        folder: Folder in which the workflow runs (`snakemake --directory`).
    """
    root, folder = Path(root), Path(folder)
    if root.resolve() == folder.resolve():
        return study

    def seen(path: str | None) -> str | None:
        if path is None or Path(path).is_absolute():
            return path
        # both are resolved, because `..` after a symbolic link leads elsewhere
        relative = os.path.relpath(root.resolve() / path, folder.resolve())
        # without `./`, a path with one slash would be a name on the hub
        return relative if relative.startswith("..") else f"./{relative}"

    def seen_engine(engine: EngineSettings) -> EngineSettings:
        python = getattr(engine, "python", None)
        # a bare name is looked up in PATH
        return engine.model_copy(update={"python": seen(python)}) if python and "/" in python else engine

    def seen_dataset(dataset: DatasetSettings) -> DatasetSettings:
        if not isinstance(dataset.source, FileSettings):
            return dataset
        return dataset.model_copy(
            update={"source": dataset.source.model_copy(update={"path": seen(dataset.source.path)})}
        )

    def seen_training(training: ImportedSettings) -> ImportedSettings:
        stages = {step: seen(path) for step, path in training.stages.items()}
        rollouts = training.rollouts
        if rollouts is not None:
            places = {"path": seen(rollouts.path), "weights": seen(rollouts.weights)}
            rollouts = rollouts.model_copy(update=places)
        return training.model_copy(update={"stages": stages, "rollouts": rollouts})

    def seen_backbone(backbone: BackboneSettings) -> BackboneSettings:
        update = {"imported": {name: seen_training(one) for name, one in backbone.imported.items()}}
        if backbone.source == "checkpoint" and not backbone.on_hub:
            update["path"] = seen(backbone.path)
        return backbone.model_copy(update=update)

    judge = study.judge
    if judge.kind == "llm":
        update = {"prompts": seen(judge.prompts), "engine": seen_engine(judge.engine)}
        if judge.local:
            update["checkpoint"] = seen(judge.checkpoint)
        judge = judge.model_copy(update=update)
    weights = {name: seen(path) for name, path in study.policy.slime.torch_dist.items()}
    slime = study.policy.slime.model_copy(update={"torch_dist": weights})
    return study.model_copy(
        update={
            "datasets": {name: seen_dataset(dataset) for name, dataset in study.datasets.items()},
            "sources": study.sources.model_copy(update={"registry": seen(study.sources.registry)}),
            "backbones": {name: seen_backbone(backbone) for name, backbone in study.backbones.items()},
            "policy": study.policy.model_copy(update={"slime": slime}),
            "generation": study.generation.model_copy(update={"engine": seen_engine(study.generation.engine)}),
            "judge": judge,
        }
    )
