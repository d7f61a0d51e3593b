"""The evaluation questions that also occur in the sources of training, and whether they were excluded."""

import logging
from pathlib import Path
from typing import ClassVar

from cocal_study.config.data import QuestionSetsSettings
from cocal_study.questions.registry import Registry
from cocal_study.stages.base import Out
from cocal_study.stages.shared import Cached


class Overlap(Cached):
    """Compares the sources of training with the evaluation sets and with the training sets that were built."""

    command: ClassVar[str] = "overlap"
    computed: ClassVar[bool] = False

    settings: QuestionSetsSettings
    """JSON: datasets (by name), world, seed, overlap"""
    registry: Registry = Registry()
    """JSON or YAML file of the dataset registry, if a set is registered"""
    questions: Path
    """folder of the built question sets"""
    output: Out
    """CSV file with one row per pair of questions"""

    def reads(self):
        return [self.questions / f"{name}.parquet" for name in self.settings.datasets]

    def run(self) -> None:
        """Compare, and write what they share.

        Raises:
            ContractError: if a training set still has a question that the settings exclude.
        """
        from cocal.store import read_frame, write_text
        from cocal.store.contracts import QUESTIONS
        from cocal_study.questions.build import build_questions
        from cocal_study.questions.loaders import load_files, load_registered
        from cocal_study.questions.overlap import excluded_or_kept

        settings = self.settings
        built = {name: read_frame(path, QUESTIONS) for name, path in zip(settings.datasets, self.reads(), strict=True)}
        # training sets are read from their sources, since the built ones lack the questions that were excluded
        training = {name for name, dataset in settings.datasets.items() if dataset.role == "training"}
        registered = {name: source for name, source in settings.registered.items() if name in training}
        files = {name: source for name, source in settings.files.items() if name in training}
        sources = build_questions(
            {name: settings.datasets[name] for name in (*registered, *files)},
            settings.world,
            settings.seed,
            load_registered(registered, self.registry, self.cache) | load_files(files),
        )
        shared = excluded_or_kept(built, sources, settings.overlap, self.questions)
        write_text(self.output, shared.to_csv(index=False))
        for (name, action), rows in shared.groupby(["dataset", "action"]):
            named = ", ".join(rows["question_id"])
            logging.info("%s: %d question(s) also in training, %s: %s", name, len(rows), action, named)
        logging.info("%s: %d pair(s) of questions in all", self.output, len(shared))
