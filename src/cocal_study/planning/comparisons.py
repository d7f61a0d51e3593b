"""The tables of predictions of a study, each of which compares methods on the responses of one checkpoint, and the
metric cubes that are computed from them."""

from collections.abc import Iterator
from dataclasses import dataclass

from cocal.companion.spec import Prefix
from cocal_study.config.study import Study
from cocal_study.planning import plan
from cocal_study.planning.results import companion_folder, predictions_file, variant_folder
from cocal_study.planning.rivals import recalibrated_algorithms

RECALIBRATED = "-recalibrated"
"""Kind of the predictions of the recalibrated rivals, which `cocal recalibrate` makes."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A table of predictions: methods that score the responses of one checkpoint, and the companions that they apply.

    Attributes:
        backbone: Backbone of the checkpoint.
        algorithm: Algorithm that trained it, or "base".
        step: Its rollout step.
        kind: End of the table's name: "" for all methods of the checkpoint, or that of one of `KINDS`.
        methods: Names of the methods.
        domains: Domains of the questions.
        prefixes: Prefixes of the companions by the experience that they learnt from.
        beside: Further folders of fitted companions with their experience.
    """

    backbone: str
    algorithm: str
    step: int
    kind: str
    methods: list[str]
    domains: list[str]
    prefixes: dict[str, list[Prefix]]
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> str:
        """Path of the table."""
        return predictions_file(self.backbone, self.algorithm, self.step, self.kind)

    @property
    def companions(self) -> dict[str, list[str]]:
        """Folders of the companions that are applied, by their experience."""
        found = {
            experience: [f"{companion_folder(self.backbone, experience)}/{prefix.folder}" for prefix in prefixes]
            for experience, prefixes in self.prefixes.items()
        }
        for experience, folder in self.beside:
            found[experience].append(folder)
        return found


@dataclass(frozen=True)
class Cube:
    """A metric cube of a backbone.

    Attributes:
        kind: End of its name.
        compared: End of the names of the predictions that it is computed from.
        flags: Fields of its stage (`cocal_study.stages.metrics.Metrics`).
        all_domains: True if factual sets have a macro average, too.
        algorithms: Algorithms of the policies; by default all.
    """

    kind: str
    compared: str
    flags: dict[str, object]
    all_domains: bool = False
    algorithms: tuple[str, ...] | None = None


CUBES = {
    cube.kind: cube
    for cube in (
        Cube("", "", {"scores": True}, all_domains=True),
        Cube("-sweep", "-sweep", {"sweep": ["source_step"]}),
        Cube("-budgets", "-budgets", {"sweep": ["source_step"]}),
        Cube("-ablations", "-ablations", {"sweep": ["layer", "pooling"]}),
        # the coupled methods, and CoCal on their policies, on the same responses
        Cube("-cross-policy", "", {"common_responses": True}, algorithms=("rlcr", "dcpo")),
        Cube(RECALIBRATED, RECALIBRATED, {"scores": True}, all_domains=True),
    )
}
"""The metric cubes by the ends of their names."""
KINDS = ("", "-sweep", "-budgets", "-ablations")
"""Ends of the names of the tables that `cocal predictions` makes."""


def comparisons(study: Study, backbone: str) -> Iterator[Comparison]:
    """The tables of predictions of a backbone: all methods on each checkpoint, and companions compared with one another
    on the responses of GRPO's policies: those of several stages and early steps, of matched budgets, and of other
    states."""
    for algorithm, step in plan.evaluated_cells(study, backbone):
        methods = plan.methods_of(study, backbone, algorithm, step)
        yield Comparison(
            backbone=backbone,
            algorithm=algorithm,
            step=step,
            kind="",
            methods=methods,
            domains=plan.domains_of(study, backbone, algorithm, step),
            prefixes={experience: [plan.restricted(step)] for experience in plan.experiences_of(methods)},
        )

    def of_grpo(step: int, kind: str, methods: list[str], prefixes: dict[str, list[Prefix]], **more) -> Comparison:
        return Comparison(
            backbone=backbone,
            algorithm="grpo",
            step=step,
            kind=kind,
            methods=methods,
            domains=["mathematics"],
            prefixes=prefixes,
            **more,
        )

    final = study.policy.steps
    if backbone == study.main_backbone:
        if methods := plan.companion_methods(study, "rollouts"):
            for step in study.policy.stages:
                yield of_grpo(step, "-sweep", methods, {"rollouts": plan.sweep_prefixes(study, step)})
        if plan.has_methods(study, "cocal-binary", "postcal-binary"):
            methods = plan.companion_methods(study, "rollouts", "resampled")
            budgets = plan.budget_prefixes(study)
            yield of_grpo(final, "-budgets", methods, dict.fromkeys(plan.experiences_of(methods), budgets))
    states = [f"{variant_folder(backbone, 'ablations')}/{s}" for s in plan.ablation_states(study, backbone)]
    last = plan.restricted(final)
    beside = tuple(("rollouts", f"{folder}/{last.folder}") for folder in states)
    yield of_grpo(final, "-ablations", ["cocal-binary"], {"rollouts": [last]}, beside=beside)


def comparison_of(study: Study, backbone: str, algorithm: str, step: int, kind: str) -> Comparison:
    """The comparison in a file.

    Raises:
        ValueError: if the study has no such comparison.
    """
    wanted = predictions_file(backbone, algorithm, step, kind)
    for one in comparisons(study, backbone):
        if one.file == wanted:
            return one
    raise ValueError(f"the study has no predictions {wanted}")


def samples_of(study: Study, domains: list[str]) -> dict[str, int]:
    """Number of evaluated responses per question, by the evaluation sets of these domains."""
    return {name: study.datasets[name].samples for domain in domains for name in study.evaluation_sets(domain)}


def predictions_of(study: Study, backbone: str, cube: Cube) -> list[str]:
    """The tables of predictions that a metric cube is computed from."""
    if cube.compared == RECALIBRATED:
        return recalibrated_files(study, backbone)
    return [
        one.file
        for one in comparisons(study, backbone)
        if one.kind == cube.compared and (cube.algorithms is None or one.algorithm in cube.algorithms)
    ]


def recalibrated_files(study: Study, backbone: str) -> list[str]:
    """Predictions of the recalibrated rivals on all policies. Only the main backbone has them."""
    algorithms = recalibrated_algorithms(study) if backbone == study.main_backbone else []
    return [predictions_file(backbone, algorithm, study.policy.steps, RECALIBRATED) for algorithm in algorithms]


def groups_of(study: Study, backbone: str, cube: Cube) -> dict[str, list[str]]:
    """Question sets of each macro average of a cube."""
    groups = plan.macro_averages(study, backbone)
    return groups if cube.all_domains else {name: sets for name, sets in groups.items() if name == "macro-mathematics"}


def cube_settings(study: Study, backbone: str, cube: Cube) -> dict[str, object]:
    """Settings of a cube, as fields of `cocal_study.stages.metrics.Metrics`."""
    return {
        **cube.flags,
        "settings": study.metrics,
        "groups": groups_of(study, backbone, cube),
        "seeds": study.companion.seeds,
    }
