"""`cocal recalibrate`: let rivals learn from the rollouts of training, and score a checkpoint's responses with them."""

import argparse
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from cocal.answers.equivalence import Verifier
from cocal.commands.words import named_folders
from cocal.companion.supervision import check_features
from cocal.config import parse_settings
from cocal.config.evaluation import CompanionSettings, EstimatorSettings, VerifierSettings
from cocal.config.methods import METHODS
from cocal.errors import ConfigError
from cocal.features.store import open_features
from cocal.methods.recalibration.confidences import (
    Scorer,
    check_companions,
    fit_linear,
    predict_rivals,
    scores_of_rollouts,
)
from cocal.methods.recalibration.experience import read_experience, with_classes
from cocal.methods.recalibration.fits import fit_rivals
from cocal.methods.responses import EvaluationSets
from cocal.store import read_frame, write_document, write_frame
from cocal.store.contracts import PREDICTIONS, QUESTIONS
from cocal.store.lineage import Source, descent
from cocal.study.rivals import RIVALS


def run(options: argparse.Namespace) -> None:
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
    sources = list(_sources(options, METHODS[rivals[0].method].prompt_format, samples, folders))
    cell = {"backbone": options.backbone, "algorithm": options.algorithm, "step": options.step}
    depends_on = {"rivals": options.rivals, "estimators": settings, "split": split, "samples": samples}
    depends_on |= {"pool": options.pool, "verifier": bounds}

    evaluated = pd.concat([read_frame(path, QUESTIONS) for path in options.evaluated], ignore_index=True)
    rollouts = read_experience(options.rollouts, options.questions, options.step, split, evaluated)
    if any(METHODS[rival.method].needs_pool for rival in rivals):
        with Verifier(bounds) as judge:
            rollouts = with_classes(rollouts, judge)
    companions = _loaded(folders)
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


def _sources(options: argparse.Namespace, prompt_format: str, samples: Iterable[str], folders: Mapping[str, Path]):
    """The sources of both files, each of which must be of the same backbone, policy and step."""
    yield from map(Source, (options.rollouts, options.questions, *options.evaluated))
    for name in samples:
        yield Source(options.responses / f"{name}.parquet", prompt_format=prompt_format, dataset=name)
    if options.features:
        yield Source(options.rollout_features)
        yield from (Source(options.features / f"{name}.zarr", dataset=name) for name in samples)
    yield from (Source(folder, experience="rollouts") for folder in folders.values())


def _loaded(folders: dict[str, Path]):
    """The fitted companions by kind, if there are any to load; only they need torch."""
    if not folders:
        return {}
    from cocal.companion.companions import load_companions
    from cocal.runtime.machine import fix_threads

    fix_threads()
    return {kind: load_companions(folder) for kind, folder in folders.items()}
