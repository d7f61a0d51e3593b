# What a reviewer will check of the protocol; a violation fails the run with its name.
rule checks:
    input:
        rollouts="results/rollouts/{backbone}/grpo",
        resampled="results/rollouts/{backbone}/postcal",
        questions=f"results/questions/{STUDY.policy.dataset}.parquet",
        companions=[
            f"results/companions/{{backbone}}/{folder}/steps-{n}"
            for experience, folder in EXPERIENCES.items()
            for n in plan.companion_steps(STUDY, experience)
        ],
        predictions=[*prediction_files(plan.evaluated_cells(STUDY)), *SWEEP_FILES],
    output:
        "results/checks/{backbone}.json",
    log:
        "logs/checks/{backbone}.log",
    benchmark:
        "results/benchmarks/checks/{backbone}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.companion),
        companions=check_companions,
    shell:
        "cocal checks --settings {params.settings:q} --backbone {wildcards.backbone} --rollouts {input.rollouts}"
        " --resampled {input.resampled} --questions {input.questions} --companions {params.companions}"
        " --predictions {input.predictions} --output {output} > {log} 2>&1"
