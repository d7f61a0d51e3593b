"""`cocal questions`: build the question sets of a study."""

import argparse
import logging

from cocal.config import parse_settings
from cocal.config.data import QuestionSetsSettings
from cocal.questions.build import build_questions
from cocal.questions.files import load_files
from cocal.questions.loaders import load_registered
from cocal.questions.overlap import settle
from cocal.questions.registry import Registry
from cocal.store import read_frame, write_frame
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import descent


def run(options: argparse.Namespace) -> None:
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
