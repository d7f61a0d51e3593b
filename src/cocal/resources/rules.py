"""The needs of each rule's jobs: the one table from which estimates, forecasts and checks derive theirs."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

Stage = Literal["questions", "policies", "responses", "features", "companions", "predictions", "results"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Memory = Literal["update", "engine", "policy", "states", "fits"]
"""Kinds of what lies on a GPU: a training, an engine that samples, a policy beside it, a pass over stored responses,
companions (`cocal.resources.memory`)."""


class Rule(NamedTuple):
    """The needs of a job of one rule."""

    stage: Stage
    """Stage of the study to which it belongs."""
    seconds: float | None = None
    """Seconds of a job, for rules whose jobs take about as long in every study; others are estimated."""
    memory: tuple[Memory, ...] = ()
    """Kinds of what it holds on its GPUs; empty for a rule without any."""


RULES: dict[str, Rule] = {
    "sources": Rule("questions", 60),
    "questions": Rule("questions", 2),
    "overlap": Rule("questions", 2),
    "backbone": Rule("policies"),
    "existing_backbone": Rule("policies", 60),
    "train_": Rule("policies", memory=("update",)),
    "slime_": Rule("policies"),
    "import_": Rule("policies", 60),
    "resample": Rule("policies", memory=("engine", "policy")),
    "judge_checkpoint": Rule("responses", 600),
    "responses": Rule("responses", memory=("engine",)),
    "features": Rule("features", memory=("states",)),
    "replay": Rule("features", memory=("states",)),
    "companions": Rule("companions", memory=("fits",)),
    "online": Rule("companions"),
    "predictions": Rule("predictions", 4),
    "recalibrate": Rule("predictions", 10),
    "latency": Rule("predictions", 60, memory=("engine", "policy")),
    "metrics": Rule("results", 4),
    "checks": Rule("results", 3),
    "table_": Rule("results", 2),
    "figure_": Rule("results", 4),
    "all": Rule("results", 0),
}
"""By the rule's name. A name that ends with an underscore stands for all rules that begin with it, and any other also
for its variants, as `responses` for `factual_responses`."""


def rule_of(name: str) -> Rule | None:
    """The needs of a rule's jobs; None if the table has no such rule."""
    families = [key for key in RULES if key.endswith("_") and f"{name}_".startswith(key)]
    variants = [key for key in RULES if name.endswith(f"_{key}")]
    return next((RULES[key] for key in (name, *families, *variants) if key in RULES), None)


def memory_of(names: Iterable[str]) -> set[Memory]:
    """The kinds of what the jobs of these rules hold on GPUs."""
    return {kind for name in names if (rule := rule_of(name)) for kind in rule.memory}
