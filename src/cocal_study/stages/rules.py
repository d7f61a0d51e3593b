"""All rules of the workflow except those of tables and figures, with what their jobs read and depend on.

`workflow/rules/stages.smk` makes a Snakemake rule of each. Everything about them derives from this table.
"""

from functools import cached_property
from typing import Any

from cocal_study.config.study import Study
from cocal_study.planning.comparisons import CUBES, KINDS, RECALIBRATED, SECOND
from cocal_study.planning.variants import VARIANTS
from cocal_study.stages.backbones import BackboneRules
from cocal_study.stages.checks import CheckRules
from cocal_study.stages.companions import CompanionRules
from cocal_study.stages.jobs import Rule, either
from cocal_study.stages.latency import LatencyRules
from cocal_study.stages.metrics import MetricRules
from cocal_study.stages.predictions import PredictionRules
from cocal_study.stages.questions import QuestionRules
from cocal_study.stages.recalibrate import RecalibrationRules
from cocal_study.stages.responses import ResponseRules
from cocal_study.stages.rollouts import RolloutRules
from cocal_study.stages.states import StateRules
from cocal_study.stages.training import TrainingRules

PARTS = (
    QuestionRules,
    BackboneRules,
    TrainingRules,
    RolloutRules,
    ResponseRules,
    StateRules,
    CompanionRules,
    PredictionRules,
    RecalibrationRules,
    MetricRules,
    LatencyRules,
    CheckRules,
)
"""The rules of each file of stages, in the order of the data."""


class Plan:
    """The rules of a study and their jobs; for the options see `cocal_study.stages.jobs.Rules`."""

    def __init__(self, study: Study, *, registry: Any, **options: Any):
        self.study, self._registry = study, registry
        self._parts = [part(study, registry=registry, **options) for part in PARTS]

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rules that the study needs, by name."""
        return {rule.name: rule for part in self._parts for rule in part.rules()}

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
