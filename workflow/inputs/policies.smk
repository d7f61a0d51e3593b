# Inputs and parameters of the rules of backbones and of their training.
# The environment of TRL's trainer holds vLLM if the trainer samples with it.
TRAINING_ENVIRONMENT = f"../../envs/{'gpu' if STUDY.policy.trl.vllm else 'cocal'}.yaml"
TRAIN = train_command(STUDY.policy.trl, f"{workflow.basedir}/workflow/scripts/accelerate.sh")


# Backbones by where they come from.
PRETRAINED = [n for n, backbone in STUDY.backbones.items() if backbone.source == "pretraining"]
EXISTING = [name for name in STUDY.backbones if name not in PRETRAINED]


def trained_by(who, algorithms):
    """Constraint of {backbone} to those whose policies are trained by "trl" or "slime", or are "imported". This depends
    on the algorithm, which follows in every path: {backbone}/{algorithm} or {backbone}/train-{algorithm}.
    """
    pairs = [
        rf"{re.escape(backbone)}(?=/(?:train-)?{algorithm}\b)"
        for backbone in STUDY.backbones
        for algorithm in STUDY.policy.algorithms
        if algorithm in algorithms and plan.trainer_of(STUDY, backbone, algorithm) == who
    ]
    return "|".join(pairs) or "(?!)"


def backbone_settings(wildcards):
    """The backbone's settings without its name in print and imported trainings, which concern only other rules."""
    backbone = STUDY.backbones[wildcards.backbone]
    return canonical(backbone.model_copy(update={"imported": {}, "label": wildcards.backbone}))


def imported(wildcards):
    """The training that another engine ran."""
    return STUDY.backbones[wildcards.backbone].imported[wildcards.algorithm]


def imported_stages(wildcards):
    return list(imported(wildcards).stages.values())


def imported_stage_flags(wildcards):
    return [f"{step}={folder}" for step, folder in imported(wildcards).stages.items()]


def stage_folders(wildcards):
    """The policies of all stages of a training."""
    folder = f"results/policies/{wildcards.backbone}/{wildcards.algorithm}"
    return [f"{folder}/step-{step}" for step in STUDY.policy.stages]


def imported_dumps(wildcards):
    return imported(wildcards).rollouts.path


def import_flags(wildcards):
    """Flags for reading the dumps of another engine."""
    dumps = imported(wildcards).rollouts
    flags = [
        "--format",
        dumps.format,
        "--correctness",
        dumps.correctness,
        "--reward-key",
        dumps.reward_key,
    ]
    return [*flags, *(["--tokenise", STUDY.prompts] if dumps.tokenise else [])]


def exact_weights(wildcards):
    """Folder of the weights of every step, if they were kept."""
    algorithms = STUDY.backbones[wildcards.backbone].imported
    dumps = algorithms["grpo"].rollouts if "grpo" in algorithms else None
    return [dumps.weights] if dumps and dumps.weights else []


def reader_flags(wildcards, input):
    """Flags of the checkpoints that read stored rollouts."""
    if input.get("exact"):
        return ["--exact", *input.exact]
    return ["--checkpoints", *input.checkpoints]


def imported_cost(wildcards):
    training = STUDY.backbones[wildcards.backbone].imported["grpo"]
    return canonical({"seconds": training.seconds, "items": FINAL, "device": training.device})


def training_settings(wildcards):
    return canonical(STUDY.policy.for_training(wildcards.algorithm))


def rollout_settings(wildcards):
    return canonical(STUDY.policy.rollout_settings(wildcards.algorithm))


def training_texts(wildcards):
    """Digest of the prompt texts of a training."""
    return prompt_texts(PROMPT_FORMATS[wildcards.algorithm])


def imported_texts(wildcards):
    """Digest of the prompt texts of dumps without token ids."""
    return training_texts(wildcards) if imported(wildcards).rollouts.tokenise else ""


def features_flag(wildcards, output):
    return f"--output-features {output.features}"
