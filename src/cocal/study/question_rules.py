"""Rules of question sets."""

from typing import Any

from cocal.study import results
from cocal.study.given import Given
from cocal.study.jobs import Files, Job, Rule


class QuestionRules(Given):
    """Rules of question sets."""

    def _question_rules(self) -> list[Rule]:
        rules = [
            Rule(name="questions", outputs={"set": results.questions_file("{dataset}")}, job=self._question_set),
            Rule(name="overlap", outputs={"overlap": results.OVERLAP}, job=self._overlap),
        ]
        if self._registry.sets:
            rules.append(Rule(name="sources", outputs={"source": results.source_file("{source}")}, job=self._source))
        return rules

    def _source(self, source: str) -> Job:
        settings = {"registry": self._registry.slice([source]), "cache": self.study.sources.cache}
        return Job(settings=settings, code=self._code("cocal.commands.question_sets:run_sources", computed=False))

    def _entries(self, names: list[str]) -> Any:
        """The slice of the registry that determines the content of these sets."""
        registered = self.study.question_sets.registered
        return self._registry.slice([registered[name].name for name in names if name in registered]).content()

    def _sources(self, names: list[str]) -> dict[str, Files]:
        """Where questions come from: what says that registered sources are here, and a user's files."""
        registered, files = self.study.question_sets.registered, self.study.question_sets.files
        sources = dict.fromkeys(results.source_file(registered[name].name) for name in names if name in registered)
        return {"sources": list(sources), "files": [source.path for name, source in files.items() if name in names]}

    def _question_set(self, dataset: str) -> Job:
        sets = self.study.question_sets
        others = [results.questions_file(name) for name in sets.built_before(dataset)]
        settings = {"settings": sets.of(dataset), "registry": self._entries([dataset]), "others": others}
        code = self._code("cocal.commands.question_sets:run_questions", computed=False)
        return Job(inputs={**self._sources([dataset]), "others": others}, settings=settings, code=code)

    def _overlap(self) -> Job:
        """The evaluation questions that also occur in the sources of training, and whether they were excluded."""
        names = [name for name, dataset in self.study.datasets.items() if dataset.role == "training"]
        questions = [results.questions_file(name) for name in self.study.datasets]
        settings = {"settings": self.study.question_sets.bare(), "registry": self._entries(names)}
        code = self._code("cocal.commands.question_sets:run_overlap", computed=False)
        return Job(inputs={**self._sources(names), "questions": questions}, settings=settings, code=code)
