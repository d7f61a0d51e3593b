# What the rules of times, tables and figures ask for.
def timing_flags():
    timing = STUDY.timing
    flags = ["--samples", timing.samples, "--concurrent", timing.concurrent]
    return [*flags, "--predictions", timing.predictions, "--seed", timing.seed]


# The set whose questions are answered to time inference: the one with the most.
GENERATED = max(SETS["mathematics"], key=lambda name: STUDY.datasets[name].size)
# The backbone of tables/scale, if there is one.
SECOND = next((name for name in STUDY.backbones if name != MAIN), None)
ABLATION_CUBES = [f"results/metrics/{backbone}-ablations.nc" for backbone in STUDY.backbones]
FINAL_PREDICTIONS = [
    f"results/predictions/{MAIN}/{algorithm}/step-{step}.parquet"
    for algorithm, step in plan.evaluated_cells(STUDY, MAIN)
    if step in (0, FINAL)
]


def tables_of_study():
    """Names of results/tables/{name}.tex."""
    names = ["main", "cost", *(["ood"] if SETS["factual"] else []), "hyperparameters"]
    names += [f"main_step{step}" for step in EARLIER_STAGES]
    names += ["scale"] if SECOND else []
    names += ["token_aggregation", "pre_generation", "time_to_confidence"]
    return [name for name in names if layouts.shown_by(STUDY, name)]


FIGURES = [
    name
    for name in (
        *(
            "paradigms",
            "overview",
            "reliability",
            "training_dynamics",
            "cross_iteration",
            "cross_policy",
        ),
        *("early_steps", "reliability_all", "budgets", "composition", "layers"),
    )
    if layouts.shown_by(STUDY, name)
]


def exhibit_code(definition):
    """Digest of what writes a table or figure, and of how the study's methods look and are called in it."""
    return code_digest(definition, *declarations(STUDY.estimators.methods))


def laid_out(layout, *arguments):
    """A function of the wildcards: what a table or figure shows. It is asked only of those that are drawn: a study may
    have no method to show in another."""

    def layout_of_study(wildcards):
        return canonical(layout(STUDY, *arguments))

    return layout_of_study


def table_step(wildcards):
    """Step of results/tables/main{stage}.tex."""
    return int(wildcards.stage.removeprefix("_step") or FINAL)


def main_table_flags(wildcards):
    step = table_step(wildcards)
    return f"--metrics results/metrics/{MAIN}.nc --backbone {MAIN} --step {step}"


def main_table_layout(wildcards):
    return canonical(layouts.main_layout(STUDY, table_step(wildcards), WRONG_ROWS))


def cost_flags(wildcards, input):
    times = {name: file for name, file in input.items() if name != "checks"}
    return [f"--{name.replace('_', '-')}={file}" for name, file in times.items()]


def composition_flags():
    folders = [
        f"{companion_folder(MAIN, experience)}/{prefix.folder}"
        for experience in ("rollouts", "resampled")
        for prefix in plan.budget_prefixes(STUDY)
    ]
    metrics = f"results/metrics/{MAIN}-budgets.nc"
    return ["--metrics", metrics, "--step", FINAL, "--companions", *folders]
