"""Confidences of every method, those of rivals that learn from the same rollouts, and the checks of the protocol."""

import argparse
import logging
from collections import Counter
from pathlib import Path

import pandas as pd

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.commands.words import named_folders
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import ORDERS
from cocal.companion.supervision import check_features, prompts_of, question_texts
from cocal.errors import ConfigError
from cocal.features.store import FeatureReader, open_features
from cocal.runtime.machine import fix_threads
from cocal.store import read_frame, write_document, write_frame
from cocal.store.contracts import PREDICTIONS, QUESTIONS
from cocal.store.lineage import Source, descent, trace
from cocal_study.checks.predictions import read_predictions
from cocal_study.checks.recalibration import check_confidences, check_unseen, read_recalibrated
from cocal_study.checks.report import check_protocol
from cocal_study.checks.training import Fit, read_table
from cocal_study.config import parse_settings
from cocal_study.config.evaluation import EstimatorSettings, QualitySettings
from cocal_study.config.method import Reader, Rival
from cocal_study.config.methods import METHODS
from cocal_study.methods.predictions import Checkpoint, predict
from cocal_study.methods.recalibration.confidences import (
    Scorer,
    check_companions,
    fit_linear,
    predict_rivals,
    read_experience,
    scores_to_learn_from,
    with_classes,
)
from cocal_study.methods.recalibration.fits import fit_rivals, read_fits
from cocal_study.methods.responses import EvaluationSets, Inputs
from cocal_study.planning.rivals import RIVALS, Basis


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
        from cocal_study.methods.companion_scores import load_experiences  # loads torch

        fix_threads()
        loaded = load_experiences(companions)
    inputs = Inputs(settings, options.pool, features, loaded)
    table = predict(names, sets, responses, inputs, Checkpoint(**cell))
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
    folders = _reader_folders(options, rivals)
    # all must be of the same backbone, policy and step
    prompt_format = METHODS[rivals[0].method].prompt_format
    sources = [*map(Source, (options.rollouts, options.questions, *options.evaluated))]
    sources += [
        Source(options.responses / f"{name}.parquet", prompt_format=prompt_format, dataset=name) for name in samples
    ]
    sources += [Source(options.features / f"{name}.zarr", dataset=name) for name in samples if options.features]
    sources += [Source(path) for path in [options.rollout_features] if path]
    resampled = (options.resampled, options.resampled_features)
    sources += [Source(path, experience="resampled") for path in resampled if path]
    sources += [
        Source(folder, experience="rollouts" if kind == "one-layer" else kind) for kind, folder in folders.items()
    ]
    cell = {"backbone": options.backbone, "algorithm": options.algorithm, "step": options.step}
    depends_on = {"rivals": options.rivals, "estimators": settings, "split": split, "samples": samples}
    depends_on |= {"pool": options.pool, "verifier": bounds, "previous_stage": options.previous_stage}

    bases = _bases(options, rivals, split, bounds)
    companions = {}
    if folders:
        from cocal.companion.companions import load_companions  # loads torch

        fix_threads()
        companions = {kind: load_companions(folder) for kind, folder in folders.items()}
    check_companions(companions, split, options.step, folders)
    rollouts, states = bases["all"]
    linear = [] if states is None else fit_linear(options.rivals, rollouts, states)
    scorer = Scorer(options.rivals, settings, companions, linear, options.pool)
    experience = {
        basis: (table, scores_to_learn_from(scorer.on(basis), table, states))
        for basis, (table, states) in bases.items()
    }
    fits = fit_rivals(experience, linear)
    table = predict_rivals(scorer, fits, samples, options.responses, options.features, Checkpoint(**cell))
    for path, write, content in (
        (options.output_calibrators, write_document, [fits.model_dump(mode="json")]),
        (options.output, write_frame, [table, PREDICTIONS]),
    ):
        write(path, *content, descent(path, "recalibrate", depends_on, sources, **cell))
    logging.info("%s: %d rows of %d fits", options.output, len(table), len(fits.fits))


def _reader_folders(options: argparse.Namespace, rivals: list[Rival]) -> dict[Reader, Path]:
    """Folders of the companions that score the rivals, by their kind; the flags must be those that the rivals need."""
    readers = {rival.reader for rival in rivals} - {None}
    kinds = list(dict.fromkeys(rival.reader for rival in rivals if rival.reader not in (None, "linear")))
    given = named_folders("--companions", options.companions, ["rollouts", "resampled", "one-layer"])
    if set(given) != set(kinds) or any(len(paths) > 1 for paths in given.values()):
        raise ConfigError(f"--companions: these rivals need one folder of each of {', '.join(kinds) or 'no kind'}")
    wanted = (bool(readers), bool(readers - {"resampled"}))
    if (options.features is not None, options.rollout_features is not None) != wanted:
        raise ConfigError(
            "--features and --rollout-features belong to rivals that read states; PostCal needs the first"
        )
    resampled = (options.resampled is not None, options.resampled_features is not None)
    if len({*resampled}) > 1 or ("resampled" in readers and not all(resampled)):
        raise ConfigError("--resampled and --resampled-features go together; PostCal needs them")
    if options.previous_stage and options.previous_stage >= options.step:
        raise ConfigError(f"--previous-stage: no step up to {options.step} is after step {options.previous_stage}")
    return {kind: given[kind][0] for kind in kinds}


def _bases(
    options: argparse.Namespace, rivals: list[Rival], split: CompanionSettings, bounds: VerifierSettings
) -> dict[Basis, tuple[pd.DataFrame, FeatureReader | None]]:
    """The responses of each basis, and their states where a rival reads them."""
    evaluated = pd.concat([read_frame(path, QUESTIONS) for path in options.evaluated], ignore_index=True)

    def read(folder: Path, features: Path | None) -> tuple[pd.DataFrame, FeatureReader | None]:
        table = read_experience(folder, options.questions, options.step, split, evaluated)
        states = features and open_features(features)
        if states is not None:
            check_features(table, states)
        return table, states

    rollouts, states = read(options.rollouts, options.rollout_features)
    if any(METHODS[rival.method].needs_pool for rival in rivals):
        with Verifier(bounds) as judge:
            rollouts = with_classes(rollouts, judge)
    bases: dict[Basis, tuple[pd.DataFrame, FeatureReader | None]] = {"all": (rollouts, states)}
    if options.previous_stage:
        bases["last"] = rollouts[rollouts["step"] > options.previous_stage], states
    if options.resampled:
        bases["resampled"] = read(options.resampled, options.resampled_features)
    return bases


def run_checks(options: argparse.Namespace) -> None:
    """Read the inputs, check the protocol, and write the report."""
    settings = parse_settings(CompanionSettings, options.settings)
    companions = named_folders("--companions", options.companions, [*ORDERS, "ablations", "one-layer"])
    folders = {"rollouts": options.rollouts, "resampled": options.resampled}
    tables = {name: read_table(path, options.questions) for name, path in folders.items() if path}
    if "prompts" in companions:
        tables["prompts"] = prompts_of(tables["rollouts"])
    if "online" in companions:
        tables["online"] = tables["rollouts"]
    fits = [
        Fit.read(kind if kind in ORDERS else "rollouts", folder)
        for kind, given in companions.items()
        for folder in given
    ]
    predictions = {path: read_predictions(path, options.backbone) for path in options.predictions}
    quality = parse_settings(QualitySettings, options.quality, "--quality")
    checks = check_protocol(settings, tables, question_texts(options.questions), fits, predictions, quality)
    checks |= _rivals(options, tables, settings, predictions)
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


def _rivals(options: argparse.Namespace, tables, settings, predictions) -> dict[str, object]:
    """The checks of the recalibrated rivals of every policy, given GRPO's rollouts and PostCal's responses; none where
    there are no rivals."""
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
        if "resampled" in fits.learnt and not options.resampled:
            raise ConfigError(f"{path}: rivals learnt from PostCal's responses; give these with --resampled")
        theirs = read_table(coupled[algorithm][0], options.questions) if algorithm in coupled else tables["rollouts"]
        given = {"all": theirs, "last": theirs, "resampled": tables.get("resampled")}
        learnt[str(path)] = check_unseen(fits, given, training, settings, evaluated, path)
        applied[str(file)] = check_confidences(
            read_recalibrated(file, options.backbone), fits, list(predictions.values()), file
        )
    return {"evaluation_questions_unseen_by_calibrators": learnt, "recalibrated_confidences": applied}
