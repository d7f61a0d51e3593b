"""`cocal overlap`: report the evaluation questions that also occur in the sources of training."""

import argparse
import logging

from cocal.config import parse_settings
from cocal.config.data import QuestionSetsSettings
from cocal.questions.build import build_questions
from cocal.questions.loaders import load_files, load_registered
from cocal.questions.overlap import excluded_or_kept
from cocal.questions.registry import Registry
from cocal.store import read_frame, write_text
from cocal.store.contracts import QUESTIONS


def run(options: argparse.Namespace) -> None:
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
