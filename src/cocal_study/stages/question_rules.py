"""Rules of question sets, each of which has a job of its own."""

from typing import Any

from cocal_study.planning import results
from cocal_study.stages.jobs import Job, Rule, Rules
from cocal_study.stages.questions import Overlap, Questions, Sources


class QuestionRules(Rules):
    """Registered sets come from their sources, a user's own from files, and synthetic ones from a seed. The registry's
    entry of a set determines its content by checksums, so the place of a file reruns nothing."""

    def _question_rules(self) -> list[Rule]:
        set_, source = results.questions_file("{dataset}"), {"output": results.source_file("{source}")}
        rules = [
            Rule(name="questions", make=self._question_set, places={}, files=[set_], local=True),
            Rule(name="overlap", make=self._overlap, places={"output": results.OVERLAP}),
        ]
        if self._registry.sets:
            rules.append(Rule(name="sources", make=self._source, places=source, local=True))
        return rules

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
        entries, sources = self._of_sets([name for name, one in sets.datasets.items() if one.role == "training"])
        given = {"settings": sets.bare(), "registry": entries, "questions": results.QUESTIONS}
        return self._job(Overlap, **given, beside=sources, **made)
