# Backbones, and the policies that reinforcement learning trains from them.
rule backbone:
    input:
        expand("results/questions/{dataset}.parquet", dataset=STUDY.datasets),
    output:
        directory("results/policies/{backbone}/base/step-0"),
    log:
        "logs/backbone/{backbone}.log",
    benchmark:
        "results/benchmarks/backbone/{backbone}.tsv"
    wildcard_constraints:
        backbone=either(PRETRAINED),
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=backbone_settings,
        world=canonical(STUDY.world),
        prompts=STUDY.prompts,
        texts=prompt_texts(),
        seed=STUDY.seed,
        code=computing("cocal.commands.backbone"),
    shell:
        "cocal backbone --name {wildcards.backbone} --settings {params.settings:q} --questions {input} --prompts {params.prompts}"
        " --world {params.world:q} --seed {params.seed} --output {output} 2>&1 | tee {log}"


# A checkpoint that exists already. The rule runs where Snakemake does, since compute nodes often have no network.
rule existing_backbone:
    output:
        directory("results/policies/{backbone}/base/step-0"),
    log:
        "logs/backbone/{backbone}.log",
    benchmark:
        "results/benchmarks/existing_backbone/{backbone}.tsv"
    wildcard_constraints:
        backbone=either(EXISTING),
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=backbone_settings,
        code=computing("cocal.commands.backbone"),
    shell:
        "cocal backbone --name {wildcards.backbone} --settings {params.settings:q} --output {output} 2>&1 | tee {log}"


# GRPO, whose rollouts and live features companions learn from. Snakemake deletes the outputs of a failed job, so
# unfinished work lies in results/runs, from which the next attempt resumes.
rule train:
    input:
        base="results/policies/{backbone}/base/step-0",
        questions=TRAINING_SET,
    output:
        stages=[
            directory(f"results/policies/{{backbone}}/{{algorithm}}/step-{s}")
            for s in STUDY.policy.stages
        ],
        rollouts=directory("results/rollouts/{backbone}/{algorithm}"),
        cost="results/costs/{backbone}/train-{algorithm}.json",
        features=directory("results/features/{backbone}/{algorithm}/rollouts.zarr"),
    log:
        "logs/train/{backbone}-{algorithm}.log",
    benchmark:
        "results/benchmarks/train/{backbone}-{algorithm}.tsv"
    wildcard_constraints:
        backbone=trained_by("trl", ["grpo"]),
        algorithm="grpo",
    conda:
        TRAINING_ENVIRONMENT
    resources:
        gpus=STUDY.policy.trl.devices,
    params:
        train=TRAIN,
        settings=training_settings,
        verifier=canonical(STUDY.verifier),
        prompts=STUDY.prompts,
        texts=training_texts,
        features=canonical(plan.live_features(STUDY)),
        output_features=features_flag,
        code=computing("cocal.commands.train"),
    shell:
        "{params.train:q} --algorithm {wildcards.algorithm} --settings {params.settings:q}"
        " --features {params.features:q} --verifier {params.verifier:q} --prompts {params.prompts}"
        " --base {input.base} --questions {input.questions}"
        " --run-folder results/runs/train/{wildcards.backbone}/{wildcards.algorithm}"
        " --stages results/policies/{wildcards.backbone}/{wildcards.algorithm} --rollouts {output.rollouts}"
        " --cost {output.cost} {params.output_features} 2>&1 | tee {log}"


# RLCR and DCPO, from which no companion learns, so that no features are kept.
use rule train as train_coupled with:
    output:
        stages=[
            directory(f"results/policies/{{backbone}}/{{algorithm}}/step-{s}")
            for s in STUDY.policy.stages
        ],
        rollouts=directory("results/rollouts/{backbone}/{algorithm}"),
        cost="results/costs/{backbone}/train-{algorithm}.json",
    benchmark:
        "results/benchmarks/train_coupled/{backbone}-{algorithm}.tsv"
    wildcard_constraints:
        backbone=trained_by("trl", ["rlcr", "dcpo"]),
        algorithm="rlcr|dcpo",
    params:
        train=TRAIN,
        settings=training_settings,
        verifier=canonical(STUDY.verifier),
        prompts=STUDY.prompts,
        texts=training_texts,
        features="{}",
        output_features="",
        code=computing("cocal.commands.train"),


# Training by slime, the paper's engine, in its container. The rule replay reads the features afterwards.
rule slime:
    input:
        base="results/policies/{backbone}/base/step-0",
        questions=TRAINING_SET,
    output:
        stages=[
            directory(f"results/policies/{{backbone}}/{{algorithm}}/step-{s}")
            for s in STUDY.policy.stages
        ],
        rollouts=directory("results/rollouts/{backbone}/{algorithm}"),
        cost="results/costs/{backbone}/train-{algorithm}.json",
    log:
        "logs/slime/{backbone}-{algorithm}.log",
    benchmark:
        "results/benchmarks/slime/{backbone}-{algorithm}.tsv"
    wildcard_constraints:
        backbone=trained_by("slime", STUDY.policy.algorithms),
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=STUDY.policy.slime.devices,
    params:
        settings=training_settings,
        backbone=backbone_settings,
        verifier=canonical(STUDY.verifier),
        prompts=STUDY.prompts,
        texts=training_texts,
        per_node=f"{workflow.basedir}/workflow/scripts/slime.sh",
        code=code_digest("cocal.commands.slime", "cocal.integrations.slime.hooks"),
    shell:
        "cocal slime --algorithm {wildcards.algorithm} --settings {params.settings:q} --backbone {params.backbone:q}"
        " --backbone-name {wildcards.backbone} --verifier {params.verifier:q} --prompts {params.prompts}"
        " --base {input.base} --questions {input.questions} --per-node {params.per_node}"
        " --run-folder results/runs/slime/{wildcards.backbone}/{wildcards.algorithm}"
        " --stages results/policies/{wildcards.backbone}/{wildcards.algorithm} --rollouts {output.rollouts}"
        " --cost {output.cost} 2>&1 | tee {log}"


# Policies that another engine trained elsewhere.
rule import_policy:
    input:
        base="results/policies/{backbone}/base/step-0",
        stages=imported_stages,
    output:
        stages=[
            directory(f"results/policies/{{backbone}}/{{algorithm}}/step-{s}")
            for s in STUDY.policy.stages
        ],
    log:
        "logs/import/{backbone}-{algorithm}-policy.log",
    benchmark:
        "results/benchmarks/import_policy/{backbone}-{algorithm}-policy.tsv"
    wildcard_constraints:
        backbone=trained_by("imported", STUDY.policy.algorithms),
    conda:
        "../../envs/cocal.yaml"
    params:
        backbone=backbone_settings,
        stages=imported_stage_flags,
        code=code_digest("cocal.commands.import_checkpoints"),
    shell:
        "cocal import-checkpoints --backbone {params.backbone:q} --algorithm {wildcards.algorithm} --base {input.base} --stages {params.stages:q}"
        " --output results/policies/{wildcards.backbone}/{wildcards.algorithm} > {log} 2>&1"


rule import_rollouts:
    input:
        policy="results/policies/{backbone}/base/step-0",
        checkpoints=stage_folders,
        exact=exact_weights,
        dumps=imported_dumps,
        questions=TRAINING_SET,
    output:
        directory("results/rollouts/{backbone}/{algorithm}"),
    log:
        "logs/import/{backbone}-{algorithm}-rollouts.log",
    benchmark:
        "results/benchmarks/import_rollouts/{backbone}-{algorithm}-rollouts.tsv"
    wildcard_constraints:
        backbone=trained_by("imported", ["grpo"]),
        algorithm="grpo",
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=1,
    params:
        settings=rollout_settings,
        features=canonical(STUDY.features),
        verifier=canonical(STUDY.verifier),
        texts=imported_texts,
        flags=import_flags,
        readers=reader_flags,
        code=code_digest("cocal.commands.import_rollouts"),
    shell:
        "cocal import-rollouts --settings {params.settings:q} --algorithm {wildcards.algorithm} --verifier {params.verifier:q}"
        " --features {params.features:q} --dumps {input.dumps:q} --questions {input.questions} --policy {input.policy}"
        " {params.flags:q} {params.readers:q}"
        " --run-folder results/runs/import/{wildcards.backbone}-{wildcards.algorithm} --output {output}"
        " 2>&1 | tee {log}"


rule import_cost:
    output:
        "results/costs/{backbone}/train-{algorithm}.json",
    log:
        "logs/import/{backbone}-{algorithm}-cost.log",
    wildcard_constraints:
        backbone=trained_by("imported", ["grpo"]),
        algorithm="grpo",
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        cost=imported_cost,
    shell:
        "printf '%s\\n' {params.cost:q} > {output} 2> {log}"


# For PostCal, the final policy answers the questions of every rollout step again.
rule resample:
    input:
        checkpoint=f"results/policies/{{backbone}}/grpo/step-{FINAL}",
        questions=TRAINING_SET,
        asked="results/rollouts/{backbone}/grpo",
    output:
        rollouts=directory("results/rollouts/{backbone}/postcal"),
        features=directory("results/features/{backbone}/postcal/rollouts.zarr"),
        cost="results/costs/{backbone}/resample.json",
    log:
        "logs/resample/{backbone}.log",
    benchmark:
        "results/benchmarks/resample/{backbone}.tsv"
    conda:
        GENERATION_ENVIRONMENT
    resources:
        gpus=SAMPLING_GPUS,
    params:
        settings=canonical(plan.resampling(STUDY)),
        policy=canonical(STUDY.policy.rollout_settings("grpo")),
        features=canonical(STUDY.features.model_copy(update={"layers": "final"})),
        verifier=canonical(STUDY.verifier),
        prompts=STUDY.prompts,
        texts=prompt_texts("answer"),
        engine=canonical(STUDY.generation.engine),
        code=computing("cocal.commands.resample", *ENGINE_CODE),
    shell:
        "cocal resample --settings {params.settings:q} --policy {params.policy:q} --features {params.features:q}"
        " --verifier {params.verifier:q} --prompts {params.prompts} --engine {params.engine:q}"
        " --checkpoint {input.checkpoint} --backbone {wildcards.backbone} --questions {input.questions} --like {input.asked}"
        " --run-folder results/runs/resample/{wildcards.backbone} --rollouts {output.rollouts}"
        " --output-features {output.features} --cost {output.cost} 2>&1 | tee {log}"
