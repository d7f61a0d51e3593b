"""All rules of the workflow but those of tables and figures, with what their jobs read and depend on.

`workflow/rules/stages.smk` makes a rule of Snakemake of each. Everything about them derives from this table.
"""

from functools import cached_property

from cocal_study.planning.comparisons import CUBES, KINDS, RECALIBRATED, SECOND
from cocal_study.planning.variants import VARIANTS
from cocal_study.stages.confidence_rules import ConfidenceRules
from cocal_study.stages.evaluation_rules import EvaluationRules
from cocal_study.stages.jobs import Rule, either
from cocal_study.stages.policy_rules import PolicyRules
from cocal_study.stages.question_rules import QuestionRules


class Plan(QuestionRules, PolicyRules, EvaluationRules, ConfidenceRules):
    """The rules of a study and their jobs."""

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rules that the study needs, by name."""
        parts = (self._question_rules(), self._policy_rules(), self._evaluation_rules(), self._confidence_rules())
        return {rule.name: rule for rules in parts for rule in rules}

    @property
    def wildcards(self) -> dict[str, str]:
        """Regular expression of each wildcard."""
        return {
            "dataset": either(self.study.datasets),
            "backbone": either(self.study.backbones),
            "algorithm": either(["base", *self.study.policy.algorithms]),
            "step": r"\d+",
            "prompt_format": r"[a-z_]+",
            "sampling": f"({SECOND})?" if self.study.second_sampling else "()",
            "variant": either(VARIANTS),
            "comparison": either(KINDS),
            "cube": either(kind for kind in CUBES if kind != RECALIBRATED),
            "source": either(self._registry.sets),
        }
