"""`cocal checks`: refuse a study that breaks the protocol, and report what was checked."""

import argparse
import logging
from collections import Counter
from pathlib import Path

import pandas as pd

from cocal.checks.companions import Fit
from cocal.checks.predictions import read_predictions
from cocal.checks.recalibration import check_confidences, check_unseen, read_recalibrated
from cocal.checks.report import check_protocol
from cocal.checks.tables import read_table
from cocal.commands.words import named_folders
from cocal.companion.spec import ORDERS
from cocal.companion.supervision import prompts_of, question_texts
from cocal.config import parse_settings
from cocal.config.evaluation import CompanionSettings, QualitySettings
from cocal.errors import ConfigError
from cocal.methods.recalibration.fits import read_fits
from cocal.store import read_frame, write_document
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import Source, descent, trace
from cocal.study.comparisons import PlannedFiles


def run(options: argparse.Namespace) -> None:
    """Read the inputs, check the protocol, and write the report."""
    settings = parse_settings(CompanionSettings, options.settings)
    kinds = dict.fromkeys(ORDERS, settings)
    kinds["prompts"] = parse_settings(CompanionSettings, options.prompt_settings, "--prompt-settings")
    kinds["ablations"] = parse_settings(CompanionSettings, options.ablation_settings, "--ablation-settings")
    kinds["one-layer"] = parse_settings(CompanionSettings, options.one_layer_settings, "--one-layer-settings")
    companions = named_folders("--companions", options.companions, list(kinds))
    folders = {"rollouts": options.rollouts, "resampled": options.resampled}
    tables = {name: read_table(path, options.questions) for name, path in folders.items() if path}
    if "prompts" in companions:
        tables["prompts"] = prompts_of(tables["rollouts"])
    if "online" in companions:
        tables["online"] = tables["rollouts"]
    fits = [
        Fit.read(kind if kind in ORDERS else "rollouts", kinds[kind], folder)
        for kind, given in companions.items()
        for folder in given
    ]
    predictions = {path: read_predictions(path, options.backbone) for path in options.predictions}
    quality = parse_settings(QualitySettings, options.quality, "--quality")
    planned = parse_settings(PlannedFiles, options.planned, "--planned").root
    checks = check_protocol(settings, tables, question_texts(options.questions), fits, predictions, quality, planned)
    checks |= _rivals(options, tables["rollouts"], settings, predictions)
    recalibrated = [Path(word.partition("=")[2]) for word in (*options.calibrators, *options.recalibrated)]
    traced = [product for _, product in trace(*predictions, *recalibrated, *(fit.folder for fit in fits))]
    checks["ancestors_unchanged"] = dict(sorted(Counter(one.facts.get("stage", "given") for one in traced).items()))
    depends_on = {"companion": settings, "quality": quality}
    made_from = [options.rollouts, options.questions, *predictions, *(fit.folder for fit in fits)]
    made_from += [options.resampled] if options.resampled else []
    made_from += [*recalibrated, *options.evaluated]
    attributes = descent(options.output, "checks", depends_on, map(Source, made_from), backbone=options.backbone)
    write_document(options.output, {"checks": checks}, attributes)
    logging.info("%s: %d checks of %d fits and %d files hold", options.output, len(checks), len(fits), len(predictions))


def _rivals(options: argparse.Namespace, rollouts, settings, predictions) -> dict[str, object]:
    """The checks of the recalibrated rivals of every policy; none where the study has no rivals.

    Args:
        options: Flags of the command.
        rollouts: GRPO's rollouts.
        settings: Settings of the companions.
        predictions: Predictions of all methods, by file.
    """
    algorithms = ("grpo", "rlcr", "dcpo")
    calibrators = named_folders("--calibrators", options.calibrators, algorithms)
    recalibrated = named_folders("--recalibrated", options.recalibrated, algorithms)
    coupled = named_folders("--coupled", options.coupled, algorithms[1:])
    if not calibrators.keys() == recalibrated.keys() == (coupled.keys() | (calibrators.keys() & {"grpo"})):
        raise ConfigError("--calibrators, --recalibrated and --coupled must name the same policies")
    if not calibrators:
        return {}
    if not options.evaluated or any(len(given) > 1 for given in (*calibrators.values(), *recalibrated.values())):
        raise ConfigError("--calibrators: give one file of each policy, and the evaluation sets with --evaluated")
    evaluated = pd.concat([read_frame(path, QUESTIONS) for path in options.evaluated], ignore_index=True)
    training = question_texts(options.questions)
    learnt, applied = {}, {}
    for algorithm, (path,) in calibrators.items():
        fits, (file,) = read_fits(path), recalibrated[algorithm]
        theirs = read_table(coupled[algorithm][0], options.questions) if algorithm in coupled else rollouts
        learnt[str(path)] = check_unseen(fits, theirs, training, settings, evaluated, path)
        applied[str(file)] = check_confidences(
            read_recalibrated(file, options.backbone), fits, list(predictions.values()), file
        )
    return {"evaluation_questions_unseen_by_calibrators": learnt, "recalibrated_confidences": applied}
