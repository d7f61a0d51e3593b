"""Rules of question sets, each of which has a job of its own."""

# pyright: reportArgumentType=false
# Pydantic makes the fields of stages from the texts of paths and from plain mappings.

from typing import Any

from cocal_study.planning import results
from cocal_study.stages.jobs import Job, Rule, Rules
from cocal_study.stages.questions import Overlap, Questions, Sources


class QuestionRules(Rules):
    """Registered sets come from their sources, a user's own from files, and synthetic ones from a seed. The registry's
    entry of a set determines its content by checksums, so the place of a file reruns nothing."""

    def _question_rules(self) -> list[Rule]:
        set_ = results.questions_file("{dataset}")
        rules = [
            Rule(name="questions", make=self._question_set, places={}, files=[set_], local=True),
            Rule(name="overlap", make=self._overlap, places={"output": results.OVERLAP}),
        ]
        if self._registry.sets:
            source = {"output": results.source_file("{source}")}
            rules.append(Rule(name="sources", make=self._source, places=source, local=True))
        return rules

    def _source(self, source: str, **made: str) -> Job:
        return self._job(Sources(registry=self._registry.slice([source]), cache=self.study.sources.cache, **made))

    def _entries(self, names: list[str]) -> Any:
        """The slice of the registry that determines the content of these sets."""
        registered = self.study.question_sets.registered
        return self._registry.slice([registered[name].name for name in names if name in registered]).content()

    def _sources(self, names: list[str]) -> list[str]:
        """The files that questions come from: the markers of downloaded registered sources, and a user's own files."""
        registered, files = self.study.question_sets.registered, self.study.question_sets.files
        sources = [results.source_file(registered[name].name) for name in names if name in registered]
        return [*sources, *(source.path for name, source in files.items() if name in names)]

    def _question_set(self, dataset: str) -> Job:
        sets = self.study.question_sets
        others = [results.questions_file(name) for name in sets.built_before(dataset)]
        entries = self._entries([dataset])
        stage = Questions(settings=sets.of(dataset), registry=entries, others=others, output=results.QUESTIONS)
        return self._job(stage, beside=self._sources([dataset]))

    def _overlap(self, **made: str) -> Job:
        names = [name for name, dataset in self.study.datasets.items() if dataset.role == "training"]
        sets = self.study.question_sets.bare()
        stage = Overlap(settings=sets, registry=self._entries(names), questions=results.QUESTIONS, **made)
        return self._job(stage, beside=self._sources(names))
