# Confidences of a checkpoint's evaluation responses by every method that is evaluated on them.
rule predictions:
    input:
        unpack(prediction_inputs),
    output:
        "results/predictions/{backbone}/{algorithm}/step-{step}.parquet",
    log:
        "logs/predictions/{backbone}-{algorithm}-{step}.log",
    benchmark:
        "results/benchmarks/predictions/{backbone}-{algorithm}-{step}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=prediction_settings,
        verifier=canonical(STUDY.verifier),
        datasets=canonical(plan.evaluation_sets(STUDY, MATHEMATICS)),
        pool=STUDY.generation.pool,
        flags=prediction_flags,
    shell:
        "cocal predictions --settings {params.settings:q} --verifier {params.verifier:q}"
        " --datasets {params.datasets:q} --pool {params.pool} --backbone {wildcards.backbone}"
        " --algorithm {wildcards.algorithm} --step {wildcards.step} {params.flags} --output {output} 2>&1 | tee {log}"
