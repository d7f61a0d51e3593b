# Backbones, and the policies that reinforcement learning trains from them.
# Those that exist already are made where Snakemake runs, since compute nodes often have no network.
for name in ("backbone", "existing_backbone"):

    rule:
        name:
            name
        input:
            unpack(inputs(name)),
        output:
            **outputs(name),
        log:
            "logs/backbone/{backbone}.log",
        benchmark:
            results.benchmark_file(name, "{backbone}")
        wildcard_constraints:
            **limits(name),
        localrule: name == "existing_backbone"
        conda:
            "../../envs/cocal.yaml"
        threads: TRAINING_THREADS
        params:
            **params(name),
            questions=lambda wildcards, input: ["--questions", *input] if input else [],
        shell:
            "cocal backbone {params.settings:q} {params.questions} --output {output} 2>&1 | tee {log}"


# Training by TRL, or by slime, the paper's engine, in its container. Snakemake deletes the outputs of a failed job, so
# unfinished work lies in results/runs, from which the next attempt resumes.
SCRIPTS = f"{workflow.basedir}/workflow/scripts"
LAUNCHED = {
    "train": (
        train_command(STUDY.policy.trl, f"{SCRIPTS}/accelerate.sh"),
        TRAINING_ENVIRONMENT,
        STUDY.policy.trl,
    ),
    "slime": (
        ["cocal", "slime", "--per-node", f"{SCRIPTS}/slime.sh"],
        "../../envs/cocal.yaml",
        STUDY.policy.slime,
    ),
}
for name in PLAN.rules:
    trainer, _, algorithm = name.partition("_")
    if trainer in LAUNCHED:

        rule:
            name:
                name
            input:
                unpack(inputs(name)),
            output:
                **outputs(name),
            log:
                f"logs/{trainer}/{{backbone}}-{algorithm}.log",
            benchmark:
                results.benchmark_file(name, f"{{backbone}}-{algorithm}")
            wildcard_constraints:
                **limits(name),
            conda:
                LAUNCHED[trainer][1]
            threads: TRAINING_THREADS
            resources:
                gpus=LAUNCHED[trainer][2].devices,
            params:
                **params(name),
                train=LAUNCHED[trainer][0],
                run_folder=results.run_folder(trainer, "{backbone}", algorithm),
                stages=results.training_folder("{backbone}", algorithm),
                features=flagged("--output-features", "features"),
            shell:
                "{params.train:q} {params.settings:q} --base {input.base} --questions {input.questions}"
                " --run-folder {params.run_folder} --stages {params.stages} --rollouts {output.rollouts}"
                " --cost {output.cost} {params.features} 2>&1 | tee {log}"

    # Policies that another engine trained elsewhere.
    elif trainer == "import" and algorithm in STUDY.policy.algorithms:

        rule:
            name:
                name
            input:
                unpack(inputs(name)),
            output:
                **outputs(name),
            log:
                f"logs/import/{{backbone}}-{algorithm}-policy.log",
            benchmark:
                results.benchmark_file(name, f"{{backbone}}-{algorithm}-policy")
            wildcard_constraints:
                **limits(name),
            conda:
                "../../envs/cocal.yaml"
            params:
                **params(name),
                folder=results.training_folder("{backbone}", algorithm),
            shell:
                "cocal import-checkpoints {params.settings:q} --base {input.base} --output {params.folder} > {log} 2>&1"


if "import_rollouts" in PLAN.rules:

    rule import_rollouts:
        input:
            unpack(inputs("import_rollouts")),
        output:
            **outputs("import_rollouts"),
        log:
            "logs/import/{backbone}-grpo-rollouts.log",
        benchmark:
            results.benchmark_file("import_rollouts", "{backbone}-grpo-rollouts")
        wildcard_constraints:
            **limits("import_rollouts"),
        conda:
            "../../envs/cocal.yaml"
        resources:
            gpus=1,
        params:
            **params("import_rollouts"),
            run_folder=results.run_folder("import", "{backbone}-grpo"),
        shell:
            "cocal import-rollouts {params.settings:q} --dumps {input.dumps:q} --questions {input.questions}"
            " --policy {input.policy} --run-folder {params.run_folder} --output {output} 2>&1 | tee {log}"

    rule import_cost:
        input:
            unpack(inputs("import_cost")),
        output:
            **outputs("import_cost"),
        log:
            "logs/import/{backbone}-grpo-cost.log",
        wildcard_constraints:
            **limits("import_cost"),
        localrule: True
        conda:
            "../../envs/cocal.yaml"
        params:
            **params("import_cost"),
        shell:
            "printf '%s\\n' {params.settings[1]:q} > {output} 2> {log}"


# For PostCal, the final policy answers the questions of every rollout step again.
rule resample:
    input:
        unpack(inputs("resample")),
    output:
        **outputs("resample"),
    log:
        "logs/resample/{backbone}.log",
    benchmark:
        results.benchmark_file("resample", "{backbone}")
    conda:
        GENERATION_ENVIRONMENT
    resources:
        gpus=SAMPLING_GPUS,
    params:
        **params("resample"),
        run_folder=results.run_folder("resample", "{backbone}"),
    shell:
        "cocal resample {params.settings:q} --checkpoint {input.checkpoint} --questions {input.questions}"
        " --like {input.asked} --run-folder {params.run_folder} --rollouts {output.rollouts}"
        " --output-features {output.features} --cost {output.cost} 2>&1 | tee {log}"
