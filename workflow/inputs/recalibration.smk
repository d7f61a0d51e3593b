# Inputs and parameters of the rules of recalibrated rivals, which the main backbone has.
def recalibration_inputs(wildcards):
    """Rollouts to learn from, and responses to score; with their states where a rival reads them."""
    cell = wildcards.backbone, wildcards.algorithm, FINAL
    (prompt_format,) = {METHODS[r.method].prompt_format for r in rivals_of(wildcards)}
    inputs = {
        "rollouts": f"results/rollouts/{wildcards.backbone}/{wildcards.algorithm}",
        "questions": TRAINING_SET,
        "evaluated": evaluated_sets(),
        "responses": evaluated_files(cell, "responses", "parquet", prompt_format),
    }
    if rivals.reads_states(STUDY, wildcards.algorithm):
        inputs["states"] = evaluated_files(cell, "features", "zarr", prompt_format)
        inputs["rollout_states"] = f"results/features/{wildcards.backbone}/grpo/rollouts.zarr"
        inputs["companions"] = companion_folder(wildcards.backbone, "rollouts")
        inputs["one_layer"] = rivals.one_layer_folder(wildcards.backbone)
    return inputs


def rivals_of(wildcards):
    return rivals.rivals_of(STUDY, wildcards.algorithm)


def evaluated_sets():
    """All evaluation sets of the study, of whose questions no calibrator may learn."""
    return [
        f"results/questions/{name}.parquet" for name in (*SETS["mathematics"], *SETS["factual"])
    ]


def rival_names(wildcards):
    return [rival.name for rival in rivals_of(wildcards)]


def rival_settings(wildcards):
    return estimators_with(list(dict.fromkeys(rival.method for rival in rivals_of(wildcards))))


def rival_samples(wildcards):
    return samples_of(*plan.domains_of(STUDY, wildcards.backbone, wildcards.algorithm, FINAL))


def rival_flags(wildcards, input):
    """Places of the responses and, where a rival reads states, of these and of the companions."""
    flags = ["--responses", Path(input.responses[0]).parent]
    if "states" in input.keys():
        folders = rivals.reader_folders(STUDY)
        flags += [
            "--features",
            Path(input.states[0]).parent,
            "--rollout-features",
            input.rollout_states,
        ]
        flags += ["--companions", *(f"{kind}={folder}" for kind, folder in folders.items())]
    return flags


def rival_code(wildcards):
    """Digest of the code of `cocal recalibrate` and of the scores, which it imports by name, and of what the rivals'
    declarations say of computing."""
    chosen = rivals_of(wildcards)
    code = computing("cocal.commands.recalibrate", *sorted({r.score for r in chosen if r.score}))
    return [code, digest([[r.name, r.method, r.reader] for r in chosen])]


def recalibrated_files(wildcards):
    """Predictions of the recalibrated rivals on all policies. Only the main backbone has them."""
    algorithms = rivals.recalibrated_algorithms(STUDY) if wildcards.backbone == MAIN else []
    return [predictions_file(MAIN, algorithm, FINAL, "-recalibrated") for algorithm in algorithms]
