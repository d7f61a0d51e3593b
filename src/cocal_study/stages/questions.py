"""Question sets: their sources, the sets, and the evaluation questions that also occur in training."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from cocal.store import provenance, read_frame, write_document, write_frame, write_text
from cocal.store.folders import file_digest
from cocal_study.config.data import QuestionSetsSettings
from cocal_study.config.parse import parse_settings
from cocal_study.planning import results
from cocal_study.planning.results import SOURCES
from cocal_study.provenance.lineage import descent
from cocal_study.questions.loaders import load_files, load_registered
from cocal_study.questions.registry import Registry
from cocal_study.questions.sources import fetch
from cocal_study.stages.base import In, Out, OutTables, Stage, from_environment
from cocal_study.stages.jobs import Job, Rule, Rules


class _Cached(Stage):
    cache: Path = from_environment("COCAL_SOURCES", SOURCES)
    """source files, in the layout of their hosts (default: the variable COCAL_SOURCES, else results/sources)"""


class Sources(_Cached):
    """Fetches the files that the cache lacks, verifies all files, and reports them."""

    computed: ClassVar[bool] = False

    registry: Registry = Field(default_factory=lambda: parse_settings(Registry, "config/datasets.yaml"))
    """YAML file of the registry, or a part of it as JSON (default: config/datasets.yaml)"""
    sets: tuple[str, ...] = ()
    """registered names (default: all)"""
    mirror: str | None = from_environment("COCAL_MIRROR")
    """address that replaces the hosts: http(s)://... or file:///folder (default: the variable COCAL_MIRROR)"""
    output: Out | None = None
    """JSON report of the files and their checksums"""

    def run(self) -> None:
        registry, report = self.registry.slice(self.sets or self.registry.sets), {}
        for name, entry in registry.sets.items():
            for file in entry.source.files:
                path = fetch(entry.source, file, self.cache, self.mirror)
                facts = {"sha256": file_digest(path), "bytes": path.stat().st_size}
                report.setdefault(name, {})[entry.source.place(file)] = facts
            logging.info("%s: %d file(s) verified; licence: %s", name, len(report[name]), entry.licence)
        if self.output:
            write_document(self.output, {"files": report}, provenance("sources", registry))


class Questions(_Cached):
    """Builds question sets and settles the questions that training and evaluation share."""

    computed: ClassVar[bool] = False

    settings: QuestionSetsSettings
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
        from cocal_study.questions.build import build_questions
        from cocal_study.questions.overlap import settle
        from cocal_study.store.contracts import QUESTIONS

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


class Overlap(_Cached):
    """Compares the sources of training with the evaluation sets and with the training sets that were built."""

    computed: ClassVar[bool] = False

    settings: QuestionSetsSettings
    registry: Registry = Registry()
    """JSON or YAML file of the dataset registry, if a set is registered"""
    questions: Path
    output: Out
    """CSV file with one row per pair of questions"""

    def reads(self):
        return [self.questions / f"{name}.parquet" for name in self.settings.datasets]

    def run(self) -> None:
        from cocal_study.questions.build import build_questions
        from cocal_study.questions.overlap import excluded_or_kept
        from cocal_study.store.contracts import QUESTIONS

        settings = self.settings
        built = {name: read_frame(path, QUESTIONS) for name, path in zip(settings.datasets, self.reads(), strict=True)}
        # training sets are read from their sources, since the built ones lack the questions that were excluded
        training = {name: dataset for name, dataset in settings.datasets.items() if dataset.role == "training"}
        given = settings.model_copy(update={"datasets": training})
        loaded = load_registered(given.registered, self.registry, self.cache) | load_files(given.files)
        sets = {name: training[name] for name in loaded}
        sources = build_questions(sets, settings.world, settings.seed, loaded)
        shared = excluded_or_kept(built, sources, settings.overlap, self.questions)
        write_text(self.output, shared.to_csv(index=False))
        for (name, action), rows in shared.groupby(["dataset", "action"]):
            named = ", ".join(rows["question_id"])
            logging.info("%s: %d question(s) also in training, %s: %s", name, len(rows), action, named)
        logging.info("%s: %d pair(s) of questions in all", self.output, len(shared))


class QuestionRules(Rules):
    """Registered sets come from their sources, a user's own from files, and synthetic ones from a seed. The registry's
    entry of a set determines its content by checksums, so the place of a file reruns nothing."""

    def rules(self) -> Iterator[Rule]:
        set_, source = results.questions_file("{dataset}"), {"output": results.source_file("{source}")}
        yield Rule(name="questions", make=self._question_set, places={}, files=[set_], local=True)
        yield Rule(name="overlap", make=self._overlap, places={"output": results.OVERLAP})
        if self._registry.sets:
            yield Rule(name="sources", make=self._source, places=source, local=True)

    def _source(self, source: str, **made: str) -> Job:
        return self._job(Sources, registry=self._registry.slice([source]), cache=self.study.sources.cache, **made)

    def _of_sets(self, names: list[str]) -> tuple[Any, list[str]]:
        """The slice of the registry that determines the content of these sets, and the files that they come from: the
        markers of downloaded sources, and a user's own."""
        sets = self.study.question_sets
        registered = [sets.registered[name].name for name in names if name in sets.registered]
        own = [source.path for name, source in sets.files.items() if name in names]
        return self._registry.slice(registered).content(), [*map(results.source_file, registered), *own]

    def _question_set(self, dataset: str) -> Job:
        sets = self.study.question_sets
        others = [results.questions_file(name) for name in sets.built_before(dataset)]
        entries, sources = self._of_sets([dataset])
        given = {"settings": sets.of(dataset), "registry": entries, "others": others}
        return self._job(Questions, **given, output=results.QUESTIONS, beside=sources)

    def _overlap(self, **made: str) -> Job:
        sets = self.study.question_sets
        entries, sources = self._of_sets(
            [name for name, dataset in sets.datasets.items() if dataset.role == "training"]
        )
        given = {"settings": sets.bare(), "registry": entries, "questions": results.QUESTIONS}
        return self._job(Overlap, **given, beside=sources, **made)
