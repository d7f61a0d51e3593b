# Synthetic question sets, disjoint by text.
rule questions:
    output:
        expand("results/questions/{dataset}.parquet", dataset=STUDY.datasets),
    params:
        settings=canonical({"datasets": STUDY.datasets, "world": STUDY.world, "seed": STUDY.seed}),
    log:
        "logs/questions.log",
    benchmark:
        "results/benchmarks/questions.tsv"
    shell:
        "cocal questions --settings {params.settings:q} --output results/questions > {log} 2>&1"
