# Inputs and parameters of the rule of checks.
RECALIBRATED = rivals.recalibrated_algorithms(STUDY)


def checked_experiences(backbone):
    methods = plan.methods_of(STUDY, backbone, "grpo", FINAL)
    return plan.experiences_of(methods)


def has_online(backbone):
    """Whether figures/online shows online companions of a backbone."""
    return backbone == MAIN and plan.has_methods(STUDY, "cocal-binary")


def check_inputs(wildcards):
    backbone = wildcards.backbone
    experiences = checked_experiences(backbone)
    inputs = {
        "rollouts": f"results/rollouts/{backbone}/grpo",
        "questions": TRAINING_SET,
        "overlap": "results/checks/overlap.csv",
        "companions": [companion_folder(backbone, e) for e in experiences],
        "ablations": f"results/companions/{backbone}/ablations",
        "predictions": list(plan.planned_predictions(STUDY, backbone)),
    }
    if "resampled" in experiences:
        inputs["resampled"] = f"results/rollouts/{backbone}/postcal"
    if recalibrated := recalibrated_files(wildcards):
        inputs["recalibrated"] = recalibrated
        inputs["calibrators"] = [rivals.calibrators_file(backbone, a, FINAL) for a in RECALIBRATED]
        inputs["evaluated"] = evaluated_sets()
        inputs["coupled"] = [
            f"results/rollouts/{backbone}/{a}" for a in RECALIBRATED if a != "grpo"
        ]
        if rivals.reads_states(STUDY, "grpo"):
            inputs["one_layer"] = rivals.one_layer_folder(backbone)
    if has_online(backbone):
        inputs["online"] = companion_folder(backbone, "online")
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
    folders += [
        f"ablations=results/companions/{backbone}/ablations/{s}/steps-{FINAL}" for s in states
    ]
    if backbone == MAIN and rivals.reads_states(STUDY, "grpo"):
        folders.append(f"one-layer={rivals.reader_folders(STUDY)['one-layer']}")
    if has_online(backbone):
        folders += [f"online={folder}" for folder in online.online_folders(STUDY)]
    return folders


def planned_predictions(wildcards):
    return canonical(plan.planned_predictions(STUDY, wildcards.backbone))


def resampled_flag(wildcards, input):
    return f"--resampled {input.resampled}" if "resampled" in input.keys() else ""


def recalibration_flags(wildcards, input):
    """Files of the recalibrated rivals, by the algorithm of their policy."""
    if "recalibrated" not in input.keys():
        return []
    coupled = [a for a in RECALIBRATED if a != "grpo"]
    flags = ["--evaluated", *input.evaluated]
    for name, algorithms, files in (
        ("--calibrators", RECALIBRATED, input.calibrators),
        ("--recalibrated", RECALIBRATED, input.recalibrated),
        ("--coupled", coupled, input.coupled),
    ):
        flags += (
            [name, *(f"{a}={file}" for a, file in zip(algorithms, files))] if algorithms else []
        )
    return flags
