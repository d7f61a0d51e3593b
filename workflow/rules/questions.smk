# Synthetic question sets, disjoint by text.
rule questions:
    output:
        expand("results/questions/{dataset}.parquet", dataset=STUDY.datasets),
    log:
        "logs/questions.log",
    benchmark:
        "results/benchmarks/questions.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical({"datasets": STUDY.datasets, "world": STUDY.world, "seed": STUDY.seed}),
    shell:
        "cocal questions --settings {params.settings:q} --output results/questions > {log} 2>&1"
