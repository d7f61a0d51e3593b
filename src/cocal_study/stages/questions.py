"""Question sets: synthetic, registered, or from a user's files."""

import logging
from typing import ClassVar

from cocal_study.config.data import QuestionSetsSettings
from cocal_study.questions.registry import Registry
from cocal_study.stages.base import In, OutTables
from cocal_study.stages.shared import Cached


class Questions(Cached):
    """Builds question sets and settles the questions that training and evaluation share."""

    command: ClassVar[str] = "questions"
    computed: ClassVar[bool] = False

    settings: QuestionSetsSettings
    """JSON: datasets (by name), world, seed, overlap"""
    registry: Registry = Registry()
    """JSON or YAML file of the dataset registry, if a set is registered (config/datasets.yaml)"""
    others: tuple[In, ...] = ()
    """sets that are already built; their questions are not drawn again, and training sets are compared with the
    evaluation sets among them"""
    output: OutTables
    """folder for one .parquet per set"""

    def writes(self):
        return [self.output / f"{name}.parquet" for name in self.settings.datasets]

    def run(self) -> None:
        """Build the sets, settle what is shared, and write them.

        Raises:
            ContractError: if a source file is missing or differs from its entry in the registry, or if an evaluation
                question occurs in a training set and the settings refuse that.
        """
        from cocal.store import read_frame, write_frame
        from cocal.store.contracts import QUESTIONS
        from cocal.store.lineage import descent
        from cocal_study.questions.build import build_questions
        from cocal_study.questions.loaders import load_files, load_registered
        from cocal_study.questions.overlap import settle

        settings = self.settings
        others = [read_frame(path, QUESTIONS) for path in self.others]
        loaded = load_registered(settings.registered, self.registry, self.cache) | load_files(settings.files)
        taken = [text for frame in others for text in frame["question"]]
        frames = build_questions(settings.datasets, settings.world, settings.seed, loaded, taken)
        evaluation = [frame for frame in (*others, *frames.values()) if frame["split"].iloc[0] == "evaluation"]
        for name, frame in frames.items():
            dataset = settings.datasets[name]
            kept = settle(frame, evaluation, dataset.source, settings.overlap) if dataset.role == "training" else frame
            path = self.output / f"{name}.parquet"
            write_frame(path, kept, QUESTIONS, descent(path, self.command, settings.of(name), [], dataset=name))
            logging.info("%s: %d questions", path, len(kept))
