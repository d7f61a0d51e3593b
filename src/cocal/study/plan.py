"""What follows from a study: which checkpoints are evaluated, on what, in which formats, with how many responses.

The first backbone, that of the main table, has every part of the study; the others have the end of training and the
mathematics: what tables/scale, tables/token_aggregation and figures/layers show.
"""

from cocal.config.base import Count, Model, Name
from cocal.config.evaluation import CompanionSettings, EstimatorSettings, FeatureSettings, PostCalSettings
from cocal.config.methods import METHODS
from cocal.config.study import Study
from cocal.study.prefix import Prefix


class SetPlan(Model):
    """Sampling of one question set under one prompt format."""

    samples: Count
    """Responses a question that are evaluated; the first of those sampled."""
    sampled: Count
    """Responses a question that are sampled: the evaluated ones, and the rest of the self-consistency pool."""
    max_response_length: Count
    pool: bool = False
    """Whether the answers to a question are sorted into classes of equal ones, for self-consistency."""
    p_true: bool = False
    """Whether the policy is asked if the evaluated responses are correct."""


class ResponsePlan(Model):
    """Everything that one job samples from a checkpoint under one prompt format."""

    sets: dict[Name, SetPlan]

    def formats(self, prompt_format: str) -> tuple[str, ...]:
        """Prompt formats whose texts the policy is given: that of the responses, and P(True)'s where it is asked."""
        return (prompt_format, "p_true") if any(how.p_true for how in self.sets.values()) else (prompt_format,)


def available_methods(study: Study) -> list[str]:
    """The methods of `estimators.methods` that the study can have, in their order: those of a policy that it does not
    train (`policy.algorithms`) drop out."""
    return [m for m in study.estimators.methods if METHODS[m].policy in ("base", *study.policy.algorithms)]


def evaluated_cells(study: Study, backbone: str) -> list[tuple[str, int]]:
    """Checkpoints whose responses are evaluated, as (algorithm, step): the base policy at step 0, then the stages."""
    cells = [("base", 0), *((algorithm, step) for step in study.policy.stages for algorithm in study.policy.algorithms)]
    return [cell for cell in cells if methods_of(study, backbone, *cell)]


def methods_of(study: Study, backbone: str, algorithm: str, step: int) -> list[str]:
    """The study's methods that are evaluated on responses of this checkpoint.

    Main backbone: all of them at the end of training, `reports.stage_methods` and transferred companions at the
    earlier stages. Others: those of the main table, at the end.
    """
    own = [m for m in study.estimators.methods if METHODS[m].policy == algorithm]
    final = algorithm == "base" or step == study.policy.steps
    if backbone != study.main_backbone:
        return [m for m in own if final and METHODS[m].group is not None]
    return [m for m in own if final or m in study.reports.stage_methods or _is_transfer(m)]


def _is_transfer(method: str) -> bool:
    """A companion of one policy on responses of another (appendix D)."""
    return METHODS[method].experience is not None and METHODS[method].policy != "grpo"


def trainer_of(study: Study, backbone: str, algorithm: str) -> str:
    """Who trains a policy: "trl" or "slime", or "imported" where it is trained already."""
    return "imported" if algorithm in study.backbones[backbone].imported else study.policy.engine


def domains_of(study: Study, backbone: str, algorithm: str, step: int) -> list[str]:
    """Domains that this checkpoint is evaluated on: factual questions at the end of training, main backbone."""
    final = algorithm == "base" or step == study.policy.steps
    domains = ["mathematics"]
    if final and backbone == study.main_backbone and study.evaluation_sets("factual"):
        domains.append("factual")
    return domains


def prompt_formats_of(study: Study, backbone: str, algorithm: str, step: int) -> list[str]:
    """Prompt formats that those methods need."""
    return list(dict.fromkeys(METHODS[m].prompt_format for m in methods_of(study, backbone, algorithm, step)))


def feature_prompt_formats(study: Study, backbone: str, algorithm: str, step: int) -> list[str]:
    """Prompt formats in which companions read the responses of a checkpoint."""
    methods = [METHODS[m] for m in methods_of(study, backbone, algorithm, step)]
    return list(dict.fromkeys(method.prompt_format for method in methods if method.experience))


def experiences_of(methods: list[str]) -> list[str]:
    """What the companions of these methods learnt from: "rollouts", "resampled", "prompts"; or none of them."""
    return list(dict.fromkeys(METHODS[m].experience for m in methods if METHODS[m].experience))


def companion_prefixes(study: Study, backbone: str, experience: str) -> list[Prefix]:
    """What companions of a kind of experience are fitted on, and validated on."""
    prefixes = {restricted(study.policy.steps)}
    if backbone == study.main_backbone and experience != "prompts":
        prefixes.update(budget_prefixes(study))
        if experience == "rollouts":
            prefixes.update(map(restricted, (*study.policy.stages, *study.reports.early_steps)))
    return sorted(prefixes)


def restricted(steps: int) -> Prefix:
    """The companion of a stage or of the early steps: trained and validated on the same steps."""
    return Prefix(steps, steps)


def budget_prefixes(study: Study) -> list[Prefix]:
    """The companions of the budgets: validated on the fixed pool, that of all steps."""
    return [Prefix(budget, study.policy.steps) for budget in study.reports.budgets]


def sweep_prefixes(study: Study, step: int) -> list[Prefix]:
    """Companions on rollouts that are compared on the main backbone's responses of GRPO's `step`.

    Those of every stage on every stage (figures/cross_iteration), and of the early steps on the first stage
    (figures/early_steps).
    """
    early = study.reports.early_steps if step == study.policy.stages[0] else ()
    return sorted({restricted(steps) for steps in (*study.policy.stages, *early)})


def sweep_methods(study: Study) -> list[str]:
    """Companion methods of that comparison."""
    return _learnt_from(study, "rollouts")


def budget_methods(study: Study) -> list[str]:
    """Companion methods that are compared by budget at the end of training (figures/budgets, figures/composition)."""
    return _learnt_from(study, "rollouts", "resampled")


def compares_budgets(study: Study) -> bool:
    """Whether the study has both methods that are compared by budget."""
    return {"cocal-binary", "postcal-binary"} <= set(available_methods(study))


def _learnt_from(study: Study, *experiences: str) -> list[str]:
    """Companion methods that are evaluated on GRPO's responses."""
    return [m for m in study.estimators.methods if METHODS[m].experience in experiences and METHODS[m].policy == "grpo"]


def layers_of(study: Study, backbone: str) -> list[int]:
    """Zero-based indices of the blocks whose states are kept, the final one last."""
    count, wanted = study.backbones[backbone].depth, study.features.layers
    if wanted == "all":
        return list(range(count))
    return sorted({*(() if wanted == "final" else wanted), count - 1})


def ablation_states(study: Study, backbone: str) -> list[str]:
    """What the companions of the ablations read, as LAYER/POOLINGS: every layer (figures/layers), and each pooling
    of the final layer alone (tables/token_aggregation). Last + mean of the final layer is the default companion's."""
    *earlier, final = layers_of(study, backbone)
    return [*(f"{layer}/last+mean" for layer in earlier), f"{final}/last", f"{final}/mean"]


def ablation_companion(study: Study) -> CompanionSettings:
    """Settings of those companions: binary supervision (appendices F.2 and F.3)."""
    return study.companion.model_copy(update={"targets": ("binary",)})


def prompt_companion(study: Study) -> CompanionSettings:
    """Settings of the pre-generation companions: a batch covers as many rollouts as CoCal's, a row all of a group."""
    questions = max(1, study.companion.batch_size // study.policy.responses_per_question)
    return study.companion.model_copy(update={"targets": ("question",), "batch_size": questions})


def live_features(study: Study) -> FeatureSettings:
    """What is kept of the rollouts while a policy trains: in batches of the training's own size."""
    return study.features.model_copy(update={"batch_tokens": FeatureSettings().batch_tokens})


def resampling(study: Study) -> PostCalSettings:
    """How PostCal's responses are sampled; in which order its companions see them is settled later."""
    return study.postcal.model_copy(update={"shuffle_seed": PostCalSettings().shuffle_seed})


def estimator_settings(study: Study, methods: list[str]) -> EstimatorSettings:
    """Settings of these methods alone: other methods, and what only they read, do not touch their predictions."""
    settings = study.estimators.model_copy(update={"methods": tuple(methods)})
    if any(METHODS[m].needs_pool for m in methods):
        return settings
    return settings.model_copy(update={"missing_answer": EstimatorSettings().missing_answer})


def feature_settings(study: Study, algorithm: str, step: int, domain: str) -> FeatureSettings:
    """What is kept of evaluation responses: all of the study's layers where layers are compared, else the final one."""
    compared = (algorithm, step, domain) == ("grpo", study.policy.steps, "mathematics")
    return study.features if compared else study.features.model_copy(update={"layers": "final"})


def response_plan(
    study: Study, backbone: str, algorithm: str, step: int, prompt_format: str, datasets: list[str]
) -> ResponsePlan:
    """Sampling of `datasets` from a checkpoint under one prompt format."""
    methods = [
        METHODS[m] for m in methods_of(study, backbone, algorithm, step) if METHODS[m].prompt_format == prompt_format
    ]
    pool = any(method.needs_pool for method in methods)
    asked = any(method.asks_p_true for method in methods)

    def plan(name: str) -> SetPlan:
        dataset = study.datasets[name]
        return SetPlan(
            samples=dataset.samples,
            sampled=study.generation.pool if pool else dataset.samples,
            max_response_length=dataset.max_response_length,
            pool=pool,
            p_true=asked,
        )

    return ResponsePlan(sets={name: plan(name) for name in datasets})


def macro_averages(study: Study, backbone: str) -> dict[str, list[str]]:
    """Groups of data sets whose unweighted mean is shown, by name."""
    domains = domains_of(study, backbone, "grpo", study.policy.steps)
    return {f"macro-{domain}": study.evaluation_sets(domain) for domain in domains}


def generated_set(study: Study) -> str:
    """The evaluation set whose questions are answered to time inference: the mathematical one with the most."""
    return max(study.evaluation_sets("mathematics"), key=lambda name: study.datasets[name].size)
