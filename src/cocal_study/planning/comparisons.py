"""The tables of predictions of a study, each of which compares methods on the responses of one checkpoint, and the
metric cubes that are computed from them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from cocal_study.config.study import Study
from cocal_study.planning import plan
from cocal_study.planning.baselines import recalibrated_algorithms
from cocal_study.planning.results import metrics_file, predictions_file, resamples_file
from cocal_study.planning.variants import ablation_folders

RECALIBRATED = "-recalibrated"
"""Kind of the predictions of the recalibrated baselines, which `cocal recalibrate` makes."""
SECOND = "-second"
"""Kind of the predictions on responses of the second sampling, and end of the names of their folders."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A table of predictions: methods that score the responses of one checkpoint, and the companions that they use."""

    backbone: str
    algorithm: str = "grpo"
    step: int
    """Rollout step of the checkpoint."""
    kind: str = ""
    """End of the table's name: "" for all methods of the checkpoint, or another one of `KINDS`."""
    methods: list[str]
    domains: list[str] = field(default_factory=lambda: ["mathematics"])
    """Domains of the questions."""
    companions: dict[str, list[str]]
    """Folders of the companions that are applied, by their experience."""

    @property
    def file(self) -> str:
        """Path of the table."""
        return predictions_file(self.backbone, self.algorithm, self.step, self.kind)

    @property
    def sampling(self) -> str:
        """End of the names of the folders of its responses and their features: "" or `SECOND`."""
        return self.kind if self.kind == SECOND else ""


class Cube(NamedTuple):
    """A metric cube of a backbone."""

    flags: dict[str, object]
    """Fields of its stage (`cocal_study.stages.metrics.Metrics`)."""
    compared: str
    """End of the names of the predictions that it is computed from."""
    algorithms: tuple[str, ...] | None = None
    """Algorithms of the policies; None for all."""


CUBES = {
    "": Cube({"scores": True}, ""),
    "-sweep": Cube({"sweep": ["source_step"]}, "-sweep"),
    "-budgets": Cube({"sweep": ["source_step"]}, "-budgets"),
    "-ablations": Cube({"sweep": ["layer", "pooling"]}, "-ablations"),
    # the coupled methods, and CoCal on their policies, on the same responses
    "-cross-policy": Cube({"common_responses": True}, "", algorithms=("rlcr", "dcpo")),
    RECALIBRATED: Cube({"scores": True}, RECALIBRATED),
    SECOND: Cube({"scores": True}, SECOND),
}
"""The metric cubes by the ends of their names."""
KINDS = ("", SECOND, "-sweep", "-budgets", "-ablations")
"""Ends of the names of the tables that `cocal predictions` makes."""


def comparisons(study: Study, backbone: str) -> Iterator[Comparison]:
    """The tables of predictions of a backbone: all methods on each checkpoint, and companions compared with one another
    on the responses of GRPO's policies: those of several stages and early steps, of matched budgets, and of other
    states."""
    for algorithm, step in plan.evaluated_cells(study, backbone):
        methods = plan.methods_of(study, backbone, algorithm, step)
        comparison = Comparison(
            backbone=backbone,
            algorithm=algorithm,
            step=step,
            methods=methods,
            domains=plan.domains_of(study, backbone, algorithm, step),
            companions={
                kind: plan.fitted(backbone, kind, plan.restricted(step)) for kind in plan.experiences_of(methods)
            },
        )
        yield comparison
        # policies of the main backbone answer under the second sampling, too, before and after training
        if study.second_sampling and backbone == study.main_backbone and step in (0, study.policy.steps):
            yield replace(comparison, kind=SECOND)
    of_grpo, final = partial(Comparison, backbone=backbone), study.policy.steps
    if backbone == study.main_backbone:
        if methods := plan.companion_methods(study, "rollouts"):
            for step in study.policy.stages:
                companions = {"rollouts": plan.fitted(backbone, "rollouts", *plan.sweep_prefixes(study, step))}
                yield of_grpo(step=step, kind="-sweep", methods=methods, companions=companions)
        if plan.has_methods(study, "cocal-binary", "postcal-binary"):
            methods, budgets = plan.companion_methods(study, "rollouts", "resampled"), plan.budget_prefixes(study)
            companions = {kind: plan.fitted(backbone, kind, *budgets) for kind in plan.experiences_of(methods)}
            yield of_grpo(step=final, kind="-budgets", methods=methods, companions=companions)
    whole = plan.fitted(backbone, "rollouts", plan.restricted(final))
    companions = {"rollouts": [*whole, *ablation_folders(study, backbone)]}
    yield of_grpo(step=final, kind="-ablations", methods=["cocal-binary"], companions=companions)


def comparison_of(study: Study, backbone: str, algorithm: str, step: int, kind: str) -> Comparison:
    """The comparison in a file. Raises ValueError if the study has no such comparison."""
    wanted = predictions_file(backbone, algorithm, step, kind)
    for comparison in comparisons(study, backbone):
        if comparison.file == wanted:
            return comparison
    raise ValueError(f"the study has no predictions {wanted}")


def samples_of(study: Study, domains: list[str]) -> dict[str, int]:
    """Number of evaluated responses per question, by the evaluation sets of these domains."""
    return {name: study.datasets[name].samples for domain in domains for name in study.evaluation_sets(domain)}


def cube_fields(study: Study, backbone: str, kind: str) -> dict[str, Any]:
    """A metric cube with its resamples, as fields of `cocal_study.stages.metrics.Metrics`. The cubes of all methods,
    also of the recalibrated ones, have a macro average of factual sets, too."""
    flags, compared, algorithms = CUBES[kind]
    output, seeds = metrics_file(backbone, kind), study.companion.seeds
    fields = {"settings": study.metrics, "seeds": seeds, "output": output, **flags}
    groups = plan.macro_averages(study, backbone)
    if kind == RECALIBRATED:  # only the main backbone has baselines
        known = recalibrated_algorithms(study) if backbone == study.main_backbone else []
        files = [predictions_file(backbone, algorithm, study.policy.steps, RECALIBRATED) for algorithm in known]
        return {**fields, "groups": groups, "predictions": files}
    if kind not in ("", SECOND):
        groups = {"macro-mathematics": groups["macro-mathematics"]}
    predictions = [
        comparison.file
        for comparison in comparisons(study, backbone)
        if comparison.kind == compared and (algorithms is None or comparison.algorithm in algorithms)
    ]
    return {**fields, "groups": groups, "predictions": predictions, "resamples": resamples_file(backbone, kind)}
