# Companions of a policy step: all seeds and targets in one job, on the rollouts up to that step.
rule companions:
    input:
        rollouts="results/rollouts/{backbone}/{algorithm}",
        features="results/features/{backbone}/{algorithm}/rollouts.zarr",
        questions=f"results/questions/{STUDY.policy.dataset}.parquet",
    output:
        directory("results/companions/{backbone}/{algorithm}/steps-{step}"),
    log:
        "logs/companions/{backbone}-{algorithm}-{step}.log",
    benchmark:
        "results/benchmarks/companions/{backbone}-{algorithm}-{step}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.companion),
    shell:
        "cocal companions --settings {params.settings:q} --rollouts {input.rollouts} --features {input.features}"
        " --questions {input.questions} --steps {wildcards.step} --output {output} 2>&1 | tee {log}"
