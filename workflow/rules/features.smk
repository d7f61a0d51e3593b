# Hidden-state features of evaluation responses. Those of rollouts are captured while the policy trains.
rule features:
    input:
        checkpoint="results/policies/{backbone}/{algorithm}/step-{step}",
        responses=expand(
            "results/responses/{{backbone}}/{{algorithm}}/step-{{step}}/{{prompt_format}}/{dataset}.parquet",
            dataset=SETS["mathematics"],
        ),
    output:
        [
            directory(
                f"results/features/{{backbone}}/{{algorithm}}/step-{{step}}/{{prompt_format}}/{dataset}.zarr"
            )
            for dataset in SETS["mathematics"]
        ],
    log:
        "logs/features/{backbone}-{algorithm}-{step}-{prompt_format}.log",
    benchmark:
        "results/benchmarks/features/{backbone}-{algorithm}-{step}-{prompt_format}.tsv"
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=1,
    params:
        settings=feature_settings,
        samples=samples_of("mathematics"),
        pooled=pooled_flags,
        # input[0] is the checkpoint; the responses follow
        responses=subpath(input[1], parent=True),
        folder=subpath(output[0], parent=True),
        code=computing("cocal.commands.features"),
    shell:
        "cocal features --settings {params.settings:q} --samples {params.samples:q} --responses {params.responses}"
        " --checkpoint {input.checkpoint} {params.pooled} --output {params.folder} 2>&1 | tee {log}"


use rule features as factual_features with:
    input:
        checkpoint="results/policies/{backbone}/{algorithm}/step-{step}",
        responses=expand(
            "results/responses/{{backbone}}/{{algorithm}}/step-{{step}}/{{prompt_format}}/{dataset}.parquet",
            dataset=SETS["factual"],
        ),
    output:
        [
            directory(
                f"results/features/{{backbone}}/{{algorithm}}/step-{{step}}/{{prompt_format}}/{dataset}.zarr"
            )
            for dataset in SETS["factual"]
        ],
    log:
        "logs/features/{backbone}-{algorithm}-{step}-{prompt_format}-factual.log",
    benchmark:
        "results/benchmarks/factual_features/{backbone}-{algorithm}-{step}-{prompt_format}-factual.tsv"
    params:
        settings=canonical(STUDY.features.model_copy(update={"layers": "final"})),
        samples=samples_of("factual"),
        pooled=pooled_flags,
        responses=subpath(input[1], parent=True),
        folder=subpath(output[0], parent=True),
        code=computing("cocal.commands.features"),


# Rollouts whose training kept no features are read again: by the policies that sampled them where these were kept,
# otherwise by the checkpoint of the stage that followed.
rule replay:
    input:
        checkpoints=[
            f"results/policies/{{backbone}}/grpo/step-{step}" for step in STUDY.policy.stages
        ],
        exact=exact_weights,
        rollouts="results/rollouts/{backbone}/grpo",
    output:
        directory("results/features/{backbone}/grpo/rollouts.zarr"),
    log:
        "logs/features/{backbone}-rollouts.log",
    benchmark:
        "results/benchmarks/replay/{backbone}-rollouts.tsv"
    wildcard_constraints:
        backbone=f"{trained_by('imported', ['grpo'])}|{trained_by('slime', ['grpo'])}",
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=1,
    params:
        settings=canonical(STUDY.features),
        readers=reader_flags,
        code=computing("cocal.commands.replay"),
    shell:
        "cocal replay --settings {params.settings:q} --rollouts {input.rollouts} {params.readers:q}"
        " --run-folder results/runs/replay/{wildcards.backbone} --output {output} 2>&1 | tee {log}"


# The prompts of the rollouts are read by the checkpoint of the stage that followed (appendix F.4).
rule prompt_features:
    input:
        checkpoints=[
            f"results/policies/{{backbone}}/grpo/step-{step}" for step in STUDY.policy.stages
        ],
        exact=exact_weights,
        rollouts="results/rollouts/{backbone}/grpo",
    output:
        directory("results/features/{backbone}/grpo/prompts.zarr"),
    log:
        "logs/features/{backbone}-prompts.log",
    benchmark:
        "results/benchmarks/prompt_features/{backbone}-prompts.tsv"
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=1,
    params:
        settings=canonical(STUDY.features.model_copy(update={"layers": "final"})),
        readers=reader_flags,
        code=computing("cocal.commands.prompts"),
    shell:
        "cocal prompts --settings {params.settings:q} --rollouts {input.rollouts} {params.readers:q}"
        " --output {output} 2>&1 | tee {log}"
