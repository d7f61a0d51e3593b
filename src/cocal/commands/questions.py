"""`cocal questions`: the synthetic question sets of a study."""

import argparse
import logging
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--settings", required=True, help="JSON: datasets (by name), world, seed")
    parser.add_argument("--output", required=True, type=Path, help="folder for one .parquet a set")


def run(options: argparse.Namespace) -> None:
    """Build, check for overlap, write.

    Raises:
        ContractError: if an evaluation question occurs in a training set.
    """
    from cocal.config import parse_settings
    from cocal.config.data import QuestionSets
    from cocal.errors import ContractError
    from cocal.questions.build import build_questions, overlap
    from cocal.schemas import QUESTIONS
    from cocal.store import provenance, write_frame

    settings = parse_settings(QuestionSets, options.settings)
    frames = build_questions(settings.datasets, settings.world, settings.seed)
    evaluation = [frame for name, frame in frames.items() if settings.datasets[name].role == "evaluation"]
    for name, frame in frames.items():
        if settings.datasets[name].role == "training":
            for other in evaluation:
                shared = overlap(frame, other)
                if len(shared):
                    row = shared.iloc[0]
                    raise ContractError(
                        f"{name} and {row['dataset']} share {len(shared)} question(s), first {row['question_id']}: "
                        f"{row['question']!r}; training and evaluation must be disjoint by text"
                    )
    for name, frame in frames.items():
        path = options.output / f"{name}.parquet"
        write_frame(path, frame, QUESTIONS, provenance("questions", settings, dataset=name))
        logging.info("%s: %d questions", path, len(frame))
