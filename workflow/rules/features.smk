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
            directory(
                f"results/features/{{backbone}}/{{algorithm}}/step-{{step}}/{{protocol}}/{dataset}.zarr"
            )
            for dataset in MATHEMATICS
        ],
    log:
        "logs/features/{backbone}-{algorithm}-{step}-{protocol}.log",
    benchmark:
        "results/benchmarks/features/{backbone}-{algorithm}-{step}-{protocol}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.features),
        samples=samples_of(MATHEMATICS),
        # input[0] is the checkpoint, the responses follow
        responses=subpath(input[1], parent=True),
        folder=subpath(output[0], parent=True),
    shell:
        "cocal features --settings {params.settings:q} --samples {params.samples:q} --responses {params.responses}"
        " --checkpoint {input.checkpoint} --output {params.folder} 2>&1 | tee {log}"
