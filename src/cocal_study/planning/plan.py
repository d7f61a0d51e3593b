"""The plan of a study: which checkpoints are evaluated, on which questions, in which formats and how often.

The first backbone is that of the main table and has every part of the study. The others are evaluated on mathematics at
the end of training only, for tables/scale, tables/token_aggregation and figures/layers.
"""

from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import Prefix
from cocal.settings.base import Count, Model, Name
from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.planning.results import companion_folder, predictions_file

MATHEMATICS, FACTUAL = "macro-mathematics", "macro-factual"
"""Macro averages, as `macro_averages` names them."""


class SetPlan(Model):
    """Sampling of one question set under one prompt format."""

    samples: Count
    """Number of evaluated responses per question; they are the first of the sampled ones."""
    sampled: Count
    """Number of sampled responses per question: the evaluated ones and the rest of the self-consistency pool."""
    max_response_length: Count
    pool: bool = False
    """True if the answers to a question are sorted into equivalence classes, for self-consistency."""
    p_true: bool = False
    """True if the policy is asked whether the evaluated responses are correct."""


class ResponsePlan(Model):
    """Everything that one job samples from a checkpoint under one prompt format."""

    sets: dict[Name, SetPlan]

    def formats(self, prompt_format: str) -> tuple[str, ...]:
        """Prompt formats that the policy is given: that of the responses, and "p_true" if a set needs it."""
        return (prompt_format, "p_true") if any(how.p_true for how in self.sets.values()) else (prompt_format,)


def available_methods(study: Study) -> list[str]:
    """The methods of `estimators.methods` in their order, without those of a policy that the study does not train
    (`policy.algorithms`)."""
    return [m for m in study.methods if METHODS[m].policy in ("base", *study.policy.algorithms)]


def evaluated_cells(study: Study, backbone: str) -> list[tuple[str, int]]:
    """Checkpoints whose responses are evaluated, as (algorithm, step): the base policy at step 0, then the stages."""
    cells = [("base", 0), *((algorithm, step) for step in study.policy.stages for algorithm in study.policy.algorithms)]
    return [cell for cell in cells if methods_of(study, backbone, *cell)]


def methods_of(study: Study, backbone: str, algorithm: str, step: int) -> list[str]:
    """The study's methods that are evaluated on responses of this checkpoint.

    On the main backbone, these are all methods at the end of training, and at the earlier stages
    `reports.stage_methods` and transferred companions, with the policy's own stated confidence, beside which they are
    drawn. On other backbones, they are those of the main table at the end of training.
    """
    own = [m for m in study.methods if METHODS[m].policy == algorithm]
    final = algorithm == "base" or step == study.policy.steps
    if backbone != study.main_backbone:
        return [m for m in own if final and METHODS[m].group is not None]
    transfers = [m for m in own if METHODS[m].experience and algorithm != "grpo"]  # companions of another policy
    transfers += [algorithm] if transfers else []
    return [m for m in own if final or m in study.reports.stage_methods or m in transfers]


def trainer_of(study: Study, backbone: str, algorithm: str) -> str:
    """ "trl" if this workflow trains a policy, or "imported" if it is already trained."""
    return "imported" if algorithm in study.backbones[backbone].imported else "trl"


def domains_of(study: Study, backbone: str, algorithm: str, step: int) -> list[str]:
    """Domains that this checkpoint is evaluated on; factual questions only for the main backbone's final policies."""
    final = algorithm == "base" or step == study.policy.steps
    domains = ["mathematics"]
    if final and backbone == study.main_backbone and study.evaluation_sets("factual"):
        domains.append("factual")
    return domains


def experiences_of(methods: list[str]) -> list[str]:
    """The training data of these methods' companions: any of "rollouts", "resampled" and "prompts"."""
    return list(dict.fromkeys(learnt for m in methods if (learnt := METHODS[m].experience)))


def companion_prefixes(study: Study, backbone: str, experience: str) -> list[Prefix]:
    """The rollout steps on which companions of a kind of experience are trained and validated."""
    prefixes = {restricted(study.policy.steps)}
    if backbone == study.main_backbone and experience != "prompts":
        prefixes.update(budget_prefixes(study))
        if experience == "rollouts":
            prefixes.update(map(restricted, (*study.policy.stages, *study.reports.early_steps)))
    return sorted(prefixes)


def fitted(backbone: str, experience: str, *prefixes: Prefix) -> list[str]:
    """Folders of the companions of a kind of experience that are fitted on these prefixes."""
    return [f"{companion_folder(backbone, experience)}/{prefix.folder}" for prefix in prefixes]


def restricted(steps: int) -> Prefix:
    """The prefix of a companion that is trained and validated on the same steps: of a stage, or of the early steps."""
    return Prefix(steps, steps)


def budget_prefixes(study: Study) -> list[Prefix]:
    """The prefixes of the budgets, whose companions are validated on the fixed pool of all steps."""
    return [Prefix(budget, study.policy.steps) for budget in study.reports.budgets]


def sweep_prefixes(study: Study, step: int) -> list[Prefix]:
    """Prefixes of the CoCal companions that are compared on the responses of the main backbone's GRPO policy at `step`.

    The companions of all stages are compared on every stage (figures/cross_iteration), and those of the early steps on
    the first stage (figures/early_steps).
    """
    early = study.reports.early_steps if step == study.policy.stages[0] else ()
    return sorted({restricted(steps) for steps in (*study.policy.stages, *early)})


def has_methods(study: Study, *names: str) -> bool:
    """True if the study can have all of these methods."""
    return set(names) <= set(available_methods(study))


def companion_methods(study: Study, *experiences: str) -> list[str]:
    """Companion methods with these kinds of experience that are evaluated on GRPO's responses."""
    return [m for m in study.methods if METHODS[m].experience in experiences and METHODS[m].policy == "grpo"]


def layers_of(study: Study, backbone: str) -> list[int]:
    """Zero-based indices of the blocks whose states are stored; the final block comes last."""
    count, wanted = study.backbones[backbone].depth, study.features.layers
    if wanted == "all":
        return list(range(count))
    return sorted({*(() if wanted == "final" else wanted), count - 1})


def ablation_states(study: Study, backbone: str) -> list[str]:
    """States that the companions of the ablations read, as LAYER/POOLINGS: last + mean of every earlier layer
    (figures/layers), and last or mean alone of the final layer (tables/token_aggregation)."""
    *earlier, final = layers_of(study, backbone)
    return [*(f"{layer}/last+mean" for layer in earlier), f"{final}/last", f"{final}/mean"]


def prompt_companion(study: Study) -> CompanionSettings:
    """Settings of the pre-generation companions: a row for each group of rollouts, and in a batch as many groups as one
    of CoCal's batches holds."""
    questions = max(1, study.companion.batch_size // study.policy.responses_per_question)
    return study.companion.model_copy(update={"targets": ("question",), "batch_size": questions})


def estimator_settings(study: Study, methods: list[str]) -> EstimatorSettings:
    """Settings on which the predictions of these methods depend, without those that only other methods read."""
    settings = study.estimators.model_copy(update={"methods": tuple(methods)})
    if any(METHODS[m].needs_pool for m in methods):
        return settings
    return settings.model_copy(update={"missing_answer": EstimatorSettings().missing_answer})


def response_plan(
    study: Study, backbone: str, algorithm: str, step: int, prompt_format: str, datasets: list[str]
) -> ResponsePlan:
    """The plan for sampling `datasets` from a checkpoint under one prompt format."""
    methods = [METHODS[name] for name in methods_of(study, backbone, algorithm, step)]
    methods = [method for method in methods if method.prompt_format == prompt_format]
    pool = any(method.needs_pool for method in methods)
    asked = any(method.asks_p_true for method in methods)
    sets = {}
    for name in datasets:
        samples, length = study.datasets[name].samples, study.datasets[name].max_response_length
        sampled = study.generation.pool if pool else samples
        sets[name] = SetPlan(samples=samples, sampled=sampled, max_response_length=length, pool=pool, p_true=asked)
    return ResponsePlan(sets=sets)


def final_predictions(study: Study, backbone: str) -> list[str]:
    """The tables of predictions that compare methods at the end of training, with those of the pre-RL model."""
    return [predictions_file(backbone, *cell) for cell in _final_cells(study, backbone)]


def final_methods(study: Study, backbone: str) -> list[str]:
    """The methods that are compared at the end of training, with those of the pre-RL model, in their order."""
    compared = {name for cell in _final_cells(study, backbone) for name in methods_of(study, backbone, *cell)}
    return [name for name in study.methods if name in compared]


def _final_cells(study: Study, backbone: str) -> list[tuple[str, int]]:
    return [cell for cell in evaluated_cells(study, backbone) if cell[1] in (0, study.policy.steps)]


def macro_averages(study: Study, backbone: str) -> dict[str, list[str]]:
    """Data sets of each macro average, which is their unweighted mean, by its name."""
    domains = domains_of(study, backbone, "grpo", study.policy.steps)
    return {f"macro-{domain}": study.evaluation_sets(domain) for domain in domains}


def generated_set(study: Study) -> str:
    """The evaluation set whose questions are answered to time inference: the mathematical one with most questions."""
    return max(study.evaluation_sets("mathematics"), key=lambda name: study.datasets[name].size or 0)
