# The metric cube of a backbone: every policy, method, data set and seed, with bootstrap intervals.
rule metrics:
    input:
        [
            f"results/predictions/{{backbone}}/{by_name(a)}.parquet"
            for a in plan.evaluated_algorithms(STUDY)
        ],
    output:
        "results/metrics/{backbone}.nc",
    log:
        "logs/metrics/{backbone}.log",
    benchmark:
        "results/benchmarks/metrics/{backbone}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.metrics),
        groups=canonical(MACRO),
        seeds=STUDY.companion.seeds,
    shell:
        "cocal metrics --settings {params.settings:q} --groups {params.groups:q} --seeds {params.seeds}"
        " --predictions {input} --output {output} > {log} 2>&1"
