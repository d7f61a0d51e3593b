"""`cocal recalibrate`: let rivals learn from the rollouts of training, and score a checkpoint's responses with them."""

import argparse
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from cocal.commands.flags import COUNT, add_cell, add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--rivals", required=True, nargs="+", metavar="NAME", help="scores to recalibrate")
    parser.add_argument("--settings", default="{}", help="JSON: missing_answer")
    parser.add_argument("--split", help="JSON: settings of companions, whose split of the questions is taken")
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier, which compares answers")
    parser.add_argument("--samples", required=True, help="JSON: evaluated responses per question, by question set")
    parser.add_argument("--pool", type=COUNT, default=10, help="responses per question in the self-consistency pool")
    add_cell(parser)
    parser.add_argument("--rollouts", required=True, type=Path, help="folder of rollout tables, to learn from")
    parser.add_argument("--questions", required=True, type=Path, help="whole training set, with validation questions")
    parser.add_argument(
        "--evaluated", required=True, nargs="+", type=Path, metavar="FILE", help="evaluation sets, never to learn from"
    )
    parser.add_argument("--responses", required=True, type=Path, help="folder of {set}.parquet, to score")
    parser.add_argument(
        "--rollout-features", type=Path, help="feature store of the rollouts, for rivals that read states"
    )
    parser.add_argument("--features", type=Path, help="folder of {set}.zarr, for rivals that read states")
    parser.add_argument(
        "--companions",
        nargs="+",
        default=[],
        metavar="KIND=FOLDER",
        help="folders of fitted companions: rollouts=FOLDER (CoCal), one-layer=FOLDER (of one hidden layer)",
    )
    add_output(parser, "--output-calibrators", required=True, metavar="FILE.json", help="fitted calibrators")
    add_output(parser, "--output", required=True, help="table of predictions to write")


def run(options: argparse.Namespace) -> None:
    """Fit the calibrators, apply them, and write both."""
    import pandas as pd

    from cocal.commands.flags import named_folders
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
    from cocal.methods.recalibration.experience import read_experience
    from cocal.methods.recalibration.fits import fit_rivals
    from cocal.methods.responses import EvaluationSets
    from cocal.store import read_frame, write_document, write_frame
    from cocal.store.contracts import PREDICTIONS, QUESTIONS
    from cocal.study.lineage import descent
    from cocal.study.rivals import RIVALS

    settings = parse_settings(EstimatorSettings, options.settings)
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
    depends_on |= {"pool": options.pool, "verifier": parse_settings(VerifierSettings, options.verifier, "--verifier")}

    evaluated = pd.concat([read_frame(path, QUESTIONS) for path in options.evaluated], ignore_index=True)
    rollouts = read_experience(options.rollouts, options.questions, options.step, split, evaluated)
    rollouts = _compared(rollouts, options)
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
    """What both files are made from, each of which must be of the same backbone, policy and step."""
    from cocal.study.lineage import Source

    yield from map(Source, (options.rollouts, options.questions, *options.evaluated))
    for name in samples:
        yield Source(options.responses / f"{name}.parquet", prompt_format=prompt_format, dataset=name)
    if options.features:
        yield Source(options.rollout_features)
        yield from (Source(options.features / f"{name}.zarr", dataset=name) for name in samples)
    yield from (Source(folder, experience="rollouts") for folder in folders.values())


def _compared(rollouts, options: argparse.Namespace):
    """The rollouts, with the classes of their answers if a rival reads them."""
    from cocal.config.methods import METHODS
    from cocal.methods.recalibration.experience import with_classes
    from cocal.study.rivals import RIVALS

    if not any(METHODS[RIVALS[name].method].needs_pool for name in options.rivals):
        return rollouts
    from cocal.answers.equivalence import Verifier
    from cocal.config import parse_settings
    from cocal.config.evaluation import VerifierSettings

    with Verifier(parse_settings(VerifierSettings, options.verifier, "--verifier")) as judge:
        return with_classes(rollouts, judge)


def _loaded(folders: dict[str, Path]):
    """The fitted companions by kind, if there are any to load; only they need torch."""
    if not folders:
        return {}
    from cocal.companion.companions import load_companions
    from cocal.runtime.machine import fix_threads

    fix_threads()
    return {kind: load_companions(folder) for kind, folder in folders.items()}
