# Companions: all prefixes, seeds and targets of one kind of experience in one job, over one reading of its features.
rule companions:
    input:
        rollouts="results/rollouts/{backbone}/grpo",
        features="results/features/{backbone}/grpo/rollouts.zarr",
        questions=f"results/questions/{STUDY.policy.dataset}.parquet",
    output:
        [
            directory(f"results/companions/{{backbone}}/grpo/steps-{n}")
            for n in plan.companion_steps(STUDY, "rollouts")
        ],
    log:
        "logs/companions/{backbone}-grpo.log",
    benchmark:
        "results/benchmarks/companions/{backbone}-grpo.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.companion),
        order="--order chronological",
        steps=plan.companion_steps(STUDY, "rollouts"),
        folder=subpath(output[0], parent=True),
    shell:
        "cocal companions --settings {params.settings:q} --rollouts {input.rollouts} --features {input.features}"
        " --questions {input.questions} --steps {params.steps} {params.order} --output {params.folder} > {log} 2>&1"


use rule companions as postcal_companions with:
    input:
        rollouts="results/rollouts/{backbone}/postcal",
        features="results/features/{backbone}/postcal/rollouts.zarr",
        questions=f"results/questions/{STUDY.policy.dataset}.parquet",
    output:
        [
            directory(f"results/companions/{{backbone}}/postcal/steps-{n}")
            for n in plan.companion_steps(STUDY, "resampled")
        ],
    log:
        "logs/companions/{backbone}-postcal.log",
    benchmark:
        "results/benchmarks/companions/{backbone}-postcal.tsv"
    params:
        settings=canonical(STUDY.companion),
        order=f"--order shuffled --shuffle-seed {STUDY.postcal.shuffle_seed}",
        steps=plan.companion_steps(STUDY, "resampled"),
        folder=subpath(output[0], parent=True),
