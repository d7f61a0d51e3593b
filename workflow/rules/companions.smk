# One job fits the companions of all prefixes, seeds and targets on one kind of experience, whose features it reads
# once.
rule companions:
    input:
        rollouts="results/rollouts/{backbone}/grpo",
        features="results/features/{backbone}/grpo/rollouts.zarr",
        questions=TRAINING_SET,
    output:
        companions=directory("results/companions/{backbone}/grpo"),
        cost="results/costs/{backbone}/companions-grpo.json",
    log:
        "logs/companions/{backbone}-grpo.log",
    benchmark:
        "results/benchmarks/companions/{backbone}-grpo.tsv"
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=1,
    params:
        settings=canonical(STUDY.companion),
        how="--order chronological",
        steps=companion_steps("rollouts"),
        code=computing("cocal.commands.companions"),
    shell:
        "cocal companions --settings {params.settings:q} --rollouts {input.rollouts} --features {input.features}"
        " --questions {input.questions} --steps {params.steps} {params.how} --output {output.companions}"
        " --cost {output.cost} > {log} 2>&1"


use rule companions as postcal_companions with:
    input:
        rollouts="results/rollouts/{backbone}/postcal",
        features="results/features/{backbone}/postcal/rollouts.zarr",
        questions=TRAINING_SET,
    output:
        companions=directory("results/companions/{backbone}/postcal"),
        cost="results/costs/{backbone}/companions-postcal.json",
    log:
        "logs/companions/{backbone}-postcal.log",
    benchmark:
        "results/benchmarks/postcal_companions/{backbone}-postcal.tsv"
    params:
        settings=canonical(STUDY.companion),
        how=f"--order shuffled --shuffle-seed {STUDY.postcal.shuffle_seed}",
        steps=companion_steps("resampled"),
        code=computing("cocal.commands.companions"),


# Pre-generation companions learn the accuracy of the groups from the states of their prompts.
use rule companions as prompt_companions with:
    input:
        rollouts="results/rollouts/{backbone}/grpo",
        features="results/features/{backbone}/grpo/prompts.zarr",
        questions=TRAINING_SET,
    output:
        companions=directory("results/companions/{backbone}/prompts"),
        cost="results/costs/{backbone}/companions-prompts.json",
    log:
        "logs/companions/{backbone}-prompts.log",
    benchmark:
        "results/benchmarks/prompt_companions/{backbone}-prompts.tsv"
    params:
        settings=canonical(plan.prompt_companion(STUDY)),
        how="--prompts",
        steps=companion_steps("prompts"),
        code=computing("cocal.commands.companions"),


# Companions that read every layer, and each pooling alone.
use rule companions as ablation_companions with:
    output:
        companions=directory("results/companions/{backbone}/ablations"),
        cost="results/costs/{backbone}/companions-ablations.json",
    log:
        "logs/companions/{backbone}-ablations.log",
    benchmark:
        "results/benchmarks/ablation_companions/{backbone}-ablations.tsv"
    params:
        settings=canonical(plan.ablation_companion(STUDY)),
        how=ablation_flags,
        steps=FINAL,
        code=computing("cocal.commands.companions"),


# Companions that learn from each rollout step when it is produced; the states are those that were kept for replay, in
# the order of the training. They are scored on every step before they learn from it, beside the replayed companions.
rule online:
    input:
        rollouts="results/rollouts/{backbone}/grpo",
        features="results/features/{backbone}/grpo/rollouts.zarr",
        questions=TRAINING_SET,
        replayed=companion_folder("{backbone}", "rollouts"),
    output:
        companions=directory(companion_folder("{backbone}", "online")),
        scores=online.online_file("{backbone}"),
    log:
        "logs/companions/{backbone}-online.log",
    benchmark:
        "results/benchmarks/online/{backbone}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.companion),
        windows=online.windows(STUDY),
        stages=STUDY.policy.stages,
        replayed=online.replayed_folders(STUDY),
        steps=FINAL,
        bins=STUDY.metrics.bins,
        code=computing("cocal.commands.online"),
    shell:
        "cocal online --settings {params.settings:q} --rollouts {input.rollouts} --features {input.features}"
        " --questions {input.questions} --steps {params.steps} --windows {params.windows} --stages {params.stages}"
        " --replayed {params.replayed} --bins {params.bins}"
        " --output-companions {output.companions} --output {output.scores} > {log} 2>&1"
