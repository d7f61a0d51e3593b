# Inputs and parameters of the rule of checks.
def checked_experiences(backbone):
    methods = plan.methods_of(STUDY, backbone, "grpo", FINAL)
    return plan.experiences_of(methods)


def check_inputs(wildcards):
    backbone = wildcards.backbone
    experiences = checked_experiences(backbone)
    inputs = {
        "rollouts": f"results/rollouts/{backbone}/grpo",
        "questions": TRAINING_SET,
        "overlap": "results/checks/overlap.csv",
        "companions": [companion_folder(backbone, e) for e in experiences],
        "ablations": f"results/companions/{backbone}/ablations",
        "predictions": [
            *prediction_files(wildcards),
            *sweep_files(wildcards),
            *budget_files(wildcards),
            f"results/predictions/{backbone}/grpo/step-{FINAL}-ablations.parquet",
        ],
    }
    if "resampled" in experiences:
        inputs["resampled"] = f"results/rollouts/{backbone}/postcal"
    return inputs


def check_companions(wildcards):
    """All companions with the kind of experience that they learnt from, as words for `cocal checks`."""
    backbone = wildcards.backbone
    folders = [
        f"{e}={companion_folder(backbone, e)}/{prefix.folder}"
        for e in checked_experiences(backbone)
        for prefix in plan.companion_prefixes(STUDY, backbone, e)
    ]
    states = plan.ablation_states(STUDY, backbone)
    return folders + [
        f"ablations=results/companions/{backbone}/ablations/{s}/steps-{FINAL}" for s in states
    ]


def resampled_flag(wildcards, input):
    return f"--resampled {input.resampled}" if "resampled" in input.keys() else ""
