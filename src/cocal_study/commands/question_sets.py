"""Question sets: download their sources, build them, and compare evaluation with training."""

import argparse
import logging

from cocal.store import provenance, read_frame, write_document, write_frame, write_text
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import descent
from cocal.store.provenance import file_digest
from cocal_study.config import parse_settings
from cocal_study.config.data import QuestionSetsSettings
from cocal_study.questions.build import build_questions
from cocal_study.questions.loaders import load_files, load_registered
from cocal_study.questions.overlap import excluded_or_kept, settle
from cocal_study.questions.registry import Registry
from cocal_study.questions.sources import fetch


def run_sources(options: argparse.Namespace) -> None:
    """Fetch the files that the cache lacks, verify all files, and report them."""
    registry = parse_settings(Registry, options.registry, "--registry")
    registry = registry.slice(options.sets or registry.sets)
    report = {}
    for name, entry in registry.sets.items():
        for file in entry.source.files:
            path = fetch(entry.source, file, options.cache, options.mirror)
            facts = {"sha256": file_digest(path), "bytes": path.stat().st_size}
            report.setdefault(name, {})[entry.source.place(file)] = facts
        logging.info("%s: %d file(s) verified; licence: %s", name, len(report[name]), entry.licence)
    if options.output:
        write_document(options.output, {"files": report}, provenance("sources", registry))


def run_questions(options: argparse.Namespace) -> None:
    """Build the sets, settle the questions that training and evaluation share, and write the sets.

    Raises:
        ContractError: if a source file is missing or differs from its entry in the registry, or if an evaluation
            question occurs in a training set and the settings refuse that.
    """
    settings = parse_settings(QuestionSetsSettings, options.settings)
    registry = parse_settings(Registry, options.registry, "--registry")
    others = [read_frame(path, QUESTIONS) for path in options.others]
    loaded = load_registered(settings.registered, registry, options.cache) | load_files(settings.files)
    taken = [text for frame in others for text in frame["question"]]
    frames = build_questions(settings.datasets, settings.world, settings.seed, loaded, taken)
    evaluation = [frame for frame in (*others, *frames.values()) if frame["split"].iloc[0] == "evaluation"]
    for name, frame in frames.items():
        dataset = settings.datasets[name]
        kept = settle(frame, evaluation, dataset.source, settings.overlap) if dataset.role == "training" else frame
        path = options.output / f"{name}.parquet"
        write_frame(path, kept, QUESTIONS, descent(path, "questions", settings.of(name), [], dataset=name))
        logging.info("%s: %d questions", path, len(kept))


def run_overlap(options: argparse.Namespace) -> None:
    """Compare the sources of training with the evaluation sets and with the training sets that were built.

    Raises:
        ContractError: if a training set still has a question that the settings exclude.
    """
    settings = parse_settings(QuestionSetsSettings, options.settings)
    registry = parse_settings(Registry, options.registry, "--registry")
    built = {name: read_frame(options.questions / f"{name}.parquet", QUESTIONS) for name in settings.datasets}
    # training sets are read from their sources, since the built ones lack the questions that were excluded
    training = {name for name, dataset in settings.datasets.items() if dataset.role == "training"}
    registered = {name: source for name, source in settings.registered.items() if name in training}
    files = {name: source for name, source in settings.files.items() if name in training}
    sources = build_questions(
        {name: settings.datasets[name] for name in (*registered, *files)},
        settings.world,
        settings.seed,
        load_registered(registered, registry, options.cache) | load_files(files),
    )
    shared = excluded_or_kept(built, sources, settings.overlap, options.questions)
    write_text(options.output, shared.to_csv(index=False))
    for (name, action), rows in shared.groupby(["dataset", "action"]):
        named = ", ".join(rows["question_id"])
        logging.info("%s: %d question(s) also in training, %s: %s", name, len(rows), action, named)
    logging.info("%s: %d pair(s) of questions in all", options.output, len(shared))
