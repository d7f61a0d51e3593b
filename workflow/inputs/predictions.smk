# Inputs and parameters of the rules of confidences and metrics.
def evaluated_files(cell, room, suffix, prompt_format):
    """Responses or features of a checkpoint in one prompt format, of all sets that it is evaluated on."""
    backbone, algorithm, step = cell
    folder = f"results/{room}/{backbone}/{algorithm}/step-{step}/{prompt_format}"
    domains = plan.domains_of(STUDY, *cell)
    return [f"{folder}/{name}.{suffix}" for domain in domains for name in SETS[domain]]


def prediction_inputs(wildcards):
    cell = cell_of(wildcards)
    methods = plan.methods_of(STUDY, *cell)
    return {
        "responses": [
            file
            for prompt_format in plan.prompt_formats_of(STUDY, *cell)
            for file in evaluated_files(cell, "responses", "parquet", prompt_format)
        ],
        "features": [
            file
            for prompt_format in plan.feature_prompt_formats(STUDY, *cell)
            for file in evaluated_files(cell, "features", "zarr", prompt_format)
        ],
        "companions": [
            companion_folder(cell[0], experience) for experience in plan.experiences_of(methods)
        ],
    }


def prediction_flags(wildcards):
    """Places of the inputs, as flags of `cocal predictions`."""
    cell = cell_of(wildcards)
    backbone, algorithm, step = cell
    place = f"{backbone}/{algorithm}/step-{step}"
    flags = ["--responses"]
    flags += [f"{p}=results/responses/{place}/{p}" for p in plan.prompt_formats_of(STUDY, *cell)]
    experiences = plan.experiences_of(plan.methods_of(STUDY, *cell))
    if experiences:
        prompt_formats = plan.feature_prompt_formats(STUDY, *cell)
        flags += ["--features", *(f"{p}=results/features/{place}/{p}" for p in prompt_formats)]
        flags += ["--companions"]
        flags += [f"{e}={companion_folder(backbone, e)}/steps-{step}" for e in experiences]
    return flags


def prediction_samples(wildcards):
    return samples_of(*plan.domains_of(STUDY, *cell_of(wildcards)))


def prediction_settings(wildcards):
    return estimators_with(plan.methods_of(STUDY, *cell_of(wildcards)))


def estimator_code(methods):
    """Digest of the code of `cocal predictions` and these methods' estimates, which it imports by name, and digest of
    the methods' declarations, without what only their looks depend on."""
    chosen = [METHODS[method] for method in methods]
    code = computing("cocal.commands.predictions", *sorted({m.estimate for m in chosen}))
    return [code, digest([[m.name, m.target, m.columns] for m in chosen])]


def prediction_code(wildcards):
    return estimator_code(plan.methods_of(STUDY, *cell_of(wildcards)))


def answers_in_mathematics(wildcards):
    """GRPO's responses in the answer format, and their features."""
    cell = f"{wildcards.backbone}/grpo/step-{wildcards.step}/answer"
    return {
        "responses": [f"results/responses/{cell}/{name}.parquet" for name in SETS["mathematics"]],
        "features": [f"results/features/{cell}/{name}.zarr" for name in SETS["mathematics"]],
    }


def sweep_inputs(wildcards):
    return answers_in_mathematics(wildcards) | {
        "companions": companion_folder(wildcards.backbone, "rollouts")
    }


def sweep_companions(wildcards):
    """Companions of several steps, to be compared on one checkpoint's responses."""
    folder = companion_folder(wildcards.backbone, "rollouts")
    prefixes = plan.sweep_prefixes(STUDY, int(wildcards.step))
    return [f"rollouts={folder}/{prefix.folder}" for prefix in prefixes]


def estimators_with(methods):
    """The estimator settings that these methods read, so that a change of other settings reruns nothing."""
    return canonical(plan.estimator_settings(STUDY, methods))


BUDGET_EXPERIENCES = plan.experiences_of(plan.budget_methods(STUDY))


def budget_inputs(wildcards):
    return answers_in_mathematics(wildcards) | {
        "companions": [companion_folder(wildcards.backbone, e) for e in BUDGET_EXPERIENCES]
    }


def budget_companions(wildcards):
    """Companions of matched budgets."""
    return [
        f"{e}={companion_folder(wildcards.backbone, e)}/{prefix.folder}"
        for e in BUDGET_EXPERIENCES
        for prefix in plan.budget_prefixes(STUDY)
    ]


def ablation_inputs(wildcards):
    return answers_in_mathematics(wildcards) | {
        "companions": companion_folder(wildcards.backbone, "rollouts"),
        "ablations": f"results/companions/{wildcards.backbone}/ablations",
    }


def ablation_companions(wildcards):
    """The default companions, and those that read other states."""
    backbone, steps = wildcards.backbone, f"steps-{wildcards.step}"
    folders = [f"{companion_folder(backbone, 'rollouts')}/{steps}"]
    folders += [
        f"results/companions/{backbone}/ablations/{states}/{steps}"
        for states in plan.ablation_states(STUDY, backbone)
    ]
    return [f"rollouts={folder}" for folder in folders]


def prediction_files(wildcards):
    return [
        predictions_file(wildcards.backbone, algorithm, step)
        for algorithm, step in plan.evaluated_cells(STUDY, wildcards.backbone)
    ]


def sweep_files(wildcards):
    """Predictions of companions of several steps. Only the main backbone has them."""
    compared = wildcards.backbone == MAIN and plan.sweep_methods(STUDY)
    steps = STUDY.policy.stages if compared else []
    return [predictions_file(wildcards.backbone, "grpo", step, "-sweep") for step in steps]


def budget_files(wildcards):
    """Predictions of companions of matched budgets. Only the main backbone has them."""
    compared = wildcards.backbone == MAIN and plan.has_methods(
        STUDY, "cocal-binary", "postcal-binary"
    )
    file = predictions_file(wildcards.backbone, "grpo", FINAL, "-budgets")
    return [file] if compared else []


def cross_policy_files(wildcards):
    """Predictions for the responses of the policies that coupled methods trained."""
    return [
        predictions_file(wildcards.backbone, algorithm, step)
        for algorithm, step in plan.evaluated_cells(STUDY, wildcards.backbone)
        if algorithm in ("rlcr", "dcpo")
    ]


def macro_averages(wildcards):
    return canonical(plan.macro_averages(STUDY, wildcards.backbone))


def resamples_flag(wildcards, output) -> str:
    """The flag of `cocal metrics` for the metrics of every resample."""
    return f"--resamples {output.resamples}"
