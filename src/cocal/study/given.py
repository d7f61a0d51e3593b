"""The study, its texts and its registry, as the rules of all stages are given them."""

from collections.abc import Mapping
from typing import Any, Protocol

from cocal.config.evaluation import FeatureSettings
from cocal.config.study import Study
from cocal.runtime.numerics import Numerics
from cocal.store.code import code_digest
from cocal.store.provenance import canonical
from cocal.study import results

DOMAINS = {"": "mathematics", "factual_": "factual"}
"""Domain of the questions by the beginning of the names of its rules of responses and features."""


class Texts(Protocol):
    """The prompt texts of a study (`cocal.questions.prompts.Prompts`)."""

    def digest(self, *formats: str, domain: str = "mathematics") -> str:
        """Digest of the texts of these formats."""


class Given:
    """A study, with what the rules of all stages need of it.

    Args:
        study: The study.
        numerics: Numerics of its results; a change reruns what computes.
        prompts: Its prompt texts.
        formats: Prompt format of each algorithm's training.
        registry: The registered sources that it uses (`cocal.questions.registry.Registry`).
        judge_texts: Digest of the texts that a judge is given, if it is a language model.
    """

    def __init__(
        self,
        study: Study,
        *,
        numerics: Numerics,
        prompts: Texts,
        formats: Mapping[str, str],
        registry: Any,
        judge_texts: str = "",
    ):
        self.study, self._numerics, self._prompts = study, numerics, prompts
        self._formats, self._registry, self._judge_texts = formats, registry, judge_texts
        self._main, self._final = study.main_backbone, study.policy.steps
        self._training_set = results.questions_file(study.policy.dataset)
        self._sets = {domain: study.evaluation_sets(domain) for domain in DOMAINS.values()}

    def _code(self, *modules: str, computed: bool = True, without: tuple[str, ...] = ()) -> str:
        """Digest of the code of a command; with the study's numerics, if results depend on them."""
        code = code_digest(*modules, without=without)
        return f"{code} {canonical({'numerics': self._numerics})}" if computed else code

    def _texts(self, *formats: str, domain: str = "mathematics") -> str:
        return f"prompts:{self._prompts.digest(*formats, domain=domain)}"

    def _questions(self, *domains: str) -> list[str]:
        return [results.questions_file(name) for domain in domains for name in self._sets[domain]]

    def _final_states(self) -> FeatureSettings:
        return self.study.features.model_copy(update={"layers": "final"})

    def _engine_code(self, command: str, *engines: Any, **how: Any) -> str:
        """Code of a command that samples and of the engines."""
        return self._code(f"cocal.commands.{command}", *(engine.opens for engine in engines), **how)
