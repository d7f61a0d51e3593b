# The metric cubes of a backbone: every policy, method, data set and seed, with bootstrap intervals.
rule metrics:
    input:
        prediction_files(plan.evaluated_cells(STUDY)),
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
        sweep="",
    shell:
        "cocal metrics {params.sweep} --settings {params.settings:q} --groups {params.groups:q}"
        " --seeds {params.seeds} --predictions {input} --output {output} > {log} 2>&1"


# The same by the rollout steps that a companion learnt from.
use rule metrics as sweep_metrics with:
    input:
        SWEEP_FILES,
    output:
        "results/metrics/{backbone}-sweep.nc",
    log:
        "logs/metrics/{backbone}-sweep.log",
    benchmark:
        "results/benchmarks/metrics/{backbone}-sweep.tsv"
    params:
        settings=canonical(STUDY.metrics),
        groups=canonical(MACRO),
        seeds=STUDY.companion.seeds,
        sweep="--sweep",
