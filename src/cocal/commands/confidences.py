"""Confidences of every method, and of rivals that learn from the same rollouts."""

import argparse
import logging
from pathlib import Path

import pandas as pd

from cocal.answers.equivalence import Verifier
from cocal.commands.words import named_folders
from cocal.companion.spec import ORDERS
from cocal.companion.supervision import check_features
from cocal.config import parse_settings
from cocal.config.evaluation import CompanionSettings, EstimatorSettings, VerifierSettings
from cocal.config.methods import METHODS
from cocal.errors import ConfigError
from cocal.features.store import open_features
from cocal.methods.predictions import predict
from cocal.methods.recalibration.confidences import (
    Scorer,
    check_companions,
    fit_linear,
    predict_rivals,
    scores_of_rollouts,
)
from cocal.methods.recalibration.experience import read_experience, with_classes
from cocal.methods.recalibration.fits import fit_rivals
from cocal.methods.responses import EvaluationSets, Inputs
from cocal.runtime.machine import fix_threads
from cocal.store import read_frame, write_document, write_frame
from cocal.store.contracts import PREDICTIONS, QUESTIONS
from cocal.study.lineage import Source, descent
from cocal.study.rivals import RIVALS


def run_predictions(options: argparse.Namespace) -> None:
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
    loaded = {}
    if companions:
        from cocal.methods.companion_scores import load_experiences  # loads torch

        fix_threads()
        loaded = load_experiences(companions)
    inputs = Inputs(settings, options.pool, features, loaded)
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


def run_recalibrate(options: argparse.Namespace) -> None:
    """Fit the calibrators, apply them, and write both."""
    settings = parse_settings(EstimatorSettings, options.settings)
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    split = parse_settings(CompanionSettings, options.split, "--split")
    samples = parse_settings(EvaluationSets, options.samples, "--samples").root
    if unknown := [name for name in options.rivals if name not in RIVALS]:
        raise ConfigError(f"--rivals: there is no {unknown[0]!r}; there are {', '.join(RIVALS)}")
    rivals = [RIVALS[name] for name in options.rivals]
    kinds = list(dict.fromkeys(rival.reader for rival in rivals if rival.reader not in (None, "linear")))
    given = named_folders("--companions", options.companions, ["rollouts", "one-layer"])
    if set(given) != set(kinds) or any(len(paths) > 1 for paths in given.values()):
        raise ConfigError(f"--companions: these rivals need one folder of each of {', '.join(kinds) or 'no kind'}")
    reads = any(rival.reader for rival in rivals)
    if reads != (options.features is not None) or reads != (options.rollout_features is not None):
        raise ConfigError("--features and --rollout-features belong to rivals that read states; give both or none")
    folders = {kind: given[kind][0] for kind in kinds}
    # all must be of the same backbone, policy and step
    prompt_format = METHODS[rivals[0].method].prompt_format
    sources = [*map(Source, (options.rollouts, options.questions, *options.evaluated))]
    sources += [
        Source(options.responses / f"{name}.parquet", prompt_format=prompt_format, dataset=name) for name in samples
    ]
    if reads:
        sources.append(Source(options.rollout_features))
        sources += [Source(options.features / f"{name}.zarr", dataset=name) for name in samples]
    sources += [Source(folder, experience="rollouts") for folder in folders.values()]
    cell = {"backbone": options.backbone, "algorithm": options.algorithm, "step": options.step}
    depends_on = {"rivals": options.rivals, "estimators": settings, "split": split, "samples": samples}
    depends_on |= {"pool": options.pool, "verifier": bounds}

    evaluated = pd.concat([read_frame(path, QUESTIONS) for path in options.evaluated], ignore_index=True)
    rollouts = read_experience(options.rollouts, options.questions, options.step, split, evaluated)
    if any(METHODS[rival.method].needs_pool for rival in rivals):
        with Verifier(bounds) as judge:
            rollouts = with_classes(rollouts, judge)
    companions = {}
    if folders:
        from cocal.companion.companions import load_companions  # loads torch

        fix_threads()
        companions = {kind: load_companions(folder) for kind, folder in folders.items()}
    check_companions(companions, split, options.step, folders)
    states, linear = None, []
    if reads:
        states = open_features(options.rollout_features)
        check_features(rollouts, states)
        linear = fit_linear(options.rivals, rollouts, states)
    scorer = Scorer(options.rivals, settings, companions, linear, options.pool)
    fits = fit_rivals(rollouts, scores_of_rollouts(scorer, rollouts, states), linear)
    table = predict_rivals(scorer, fits, samples, options.responses, options.features, **cell)
    for path, write, content in (
        (options.output_calibrators, write_document, [fits.model_dump(mode="json")]),
        (options.output, write_frame, [table, PREDICTIONS]),
    ):
        write(path, *content, descent(path, "recalibrate", depends_on, sources, **cell))
    logging.info("%s: %d rows of %d scores", options.output, len(table), len(fits.fits))
