"""`cocal overlap`: report the evaluation questions that also occur in the sources of training."""

import argparse
import logging
from pathlib import Path

from cocal.commands.flags import add_cache, add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", required=True, help="JSON: datasets (by name), world, seed, overlap")
    parser.add_argument("--registry", help="JSON or YAML file of the dataset registry, if a set is registered")
    add_cache(parser)
    parser.add_argument("--questions", required=True, type=Path, help="folder of the built question sets")
    add_output(parser, "--output", required=True, help="CSV file with one row per pair of questions")


def run(options: argparse.Namespace) -> None:
    """Compare the sources of training with the evaluation sets and with the training sets that were built.

    Raises:
        ContractError: if a training set still has a question that the settings exclude.
    """
    from cocal.config import parse_settings
    from cocal.config.data import QuestionSetsSettings
    from cocal.questions.build import build_questions
    from cocal.questions.files import load_files
    from cocal.questions.loaders import load_registered
    from cocal.questions.overlap import excluded_or_kept
    from cocal.questions.registry import Registry
    from cocal.store import read_frame, write_text
    from cocal.store.contracts import QUESTIONS

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
