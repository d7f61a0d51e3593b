"""`cocal predictions`: estimate the confidence in one checkpoint's evaluation responses by every method."""

import argparse
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from cocal.commands.words import named_folders
from cocal.companion.spec import ORDERS, Experience
from cocal.config import parse_settings
from cocal.config.evaluation import EstimatorSettings
from cocal.config.methods import METHODS
from cocal.errors import ConfigError
from cocal.methods.predictions import predict
from cocal.methods.responses import EvaluationSets, Inputs
from cocal.store import write_frame
from cocal.store.contracts import PREDICTIONS
from cocal.store.lineage import Source, descent


def run(options: argparse.Namespace) -> None:
    """Estimate the confidences and write them. Torch is loaded only for companions."""
    settings = parse_settings(EstimatorSettings, options.settings)
    sets = parse_settings(EvaluationSets, options.samples, "--samples")
    if options.methods:
        names = options.methods.split(",")
    else:
        names = [name for name in settings.methods if METHODS[name].policy == options.algorithm]
    cell = {"backbone": options.backbone, "algorithm": options.algorithm, "step": options.step}
    responses, features = _formats("--responses", options.responses), _formats("--features", options.features)
    chosen = [METHODS[name] for name in names if name in METHODS]
    formats = {method.prompt_format for method in chosen}
    read_by_companions = {method.prompt_format for method in chosen if method.experience}
    sources = [
        Source(folder / f"{name}{ending}", prompt_format=prompt_format, dataset=name)
        for folders, ending, needed in ((responses, ".parquet", formats), (features, ".zarr", read_by_companions))
        for prompt_format, folder in folders.items()
        if prompt_format in needed
        for name in sets.root
    ]
    companions = named_folders("--companions", options.companions, list(ORDERS))
    # companions learn from GRPO's rollouts, also where RLCR or DCPO trained the policy (appendix D)
    sources += [
        Source(folder, experience=experience, algorithm="grpo")
        for experience, folders in companions.items()
        for folder in folders
    ]
    depends_on = {"estimators": settings, "samples": sets, "pool": options.pool, "methods": names}
    attributes = descent(options.output, "predictions", depends_on, sources, **cell)
    inputs = Inputs(settings, options.pool, features, _loaded(companions))
    table = predict(names, sets, responses, inputs, **cell)
    write_frame(options.output, table, PREDICTIONS, attributes)
    logging.info("%s: %d rows", options.output, len(table))


def _formats(flag: str, words: list[str]) -> dict[str, Path]:
    """Folder of each prompt format, from the words of a flag."""
    formats = sorted({method.prompt_format for method in METHODS.values()})
    folders = named_folders(flag, words, formats)
    for name, given in folders.items():
        if len(given) > 1:
            raise ConfigError(f"{flag}: {len(given)} folders of the {name} format; give one")
    return {name: given[0] for name, given in folders.items()}


def _loaded(folders: Mapping[Experience, Sequence[Path]]):
    """The fitted companions by experience, if there are any to load."""
    if not folders:
        return {}
    from cocal.methods.companion_scores import load_experiences
    from cocal.runtime.machine import fix_threads

    fix_threads()
    return load_experiences(folders)
