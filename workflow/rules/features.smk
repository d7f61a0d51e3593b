# Hidden-state features of evaluation responses; those of rollouts are captured while the policy trains.
rule features:
    input:
        checkpoint="results/policies/{backbone}/{algorithm}/step-{step}",
        responses=expand(
            "results/responses/{{backbone}}/{{algorithm}}/step-{{step}}/{{protocol}}/{dataset}.parquet",
            dataset=MATHEMATICS,
        ),
    output:
        [
            directory(f"results/features/{{backbone}}/{{algorithm}}/step-{{step}}/{{protocol}}/{dataset}.zarr")
            for dataset in MATHEMATICS
        ],
    params:
        settings=canonical(STUDY.features),
        samples=samples_of(MATHEMATICS),
        responses=subpath(input.responses[0], parent=True),
        folder=subpath(output[0], parent=True),
    log:
        "logs/features/{backbone}-{algorithm}-{step}-{protocol}.log",
    benchmark:
        "results/benchmarks/features/{backbone}-{algorithm}-{step}-{protocol}.tsv"
    shell:
        "cocal features --settings {params.settings:q} --samples {params.samples:q} --responses {params.responses}"
        " --checkpoint {input.checkpoint} --output {params.folder} 2>&1 | tee {log}"
