# The metric cubes of a backbone: every policy, method, data set and seed, with bootstrap intervals. Beside each cube lie
# the metrics of its resamples, from which the differences between methods are computed.
rule metrics:
    input:
        prediction_files,
    output:
        cube="results/metrics/{backbone}.nc",
        resamples="results/resamples/{backbone}.nc",
    log:
        "logs/metrics/{backbone}.log",
    benchmark:
        "results/benchmarks/metrics/{backbone}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.metrics),
        groups=macro_averages,
        seeds=STUDY.companion.seeds,
        cube="--scores",
        resamples=resamples_flag,
        code=computing("cocal.commands.metrics"),
    shell:
        "cocal metrics {params.cube} --settings {params.settings:q} --groups {params.groups:q}"
        " --seeds {params.seeds} --predictions {input} --output {output.cube} {params.resamples} > {log} 2>&1"


# The metrics by the rollout steps that a companion learnt from.
use rule metrics as sweep_metrics with:
    input:
        sweep_files,
    output:
        cube="results/metrics/{backbone}-sweep.nc",
        resamples="results/resamples/{backbone}-sweep.nc",
    log:
        "logs/metrics/{backbone}-sweep.log",
    benchmark:
        "results/benchmarks/sweep_metrics/{backbone}-sweep.tsv"
    params:
        settings=canonical(STUDY.metrics),
        groups=canonical({MATHEMATICS: SETS["mathematics"]}),
        seeds=STUDY.companion.seeds,
        cube="--sweep source_step",
        resamples=resamples_flag,
        code=computing("cocal.commands.metrics"),


# The metrics by matched budget.
use rule sweep_metrics as budget_metrics with:
    input:
        budget_files,
    output:
        cube="results/metrics/{backbone}-budgets.nc",
        resamples="results/resamples/{backbone}-budgets.nc",
    log:
        "logs/metrics/{backbone}-budgets.log",
    benchmark:
        "results/benchmarks/budget_metrics/{backbone}-budgets.tsv"


# The metrics by the states that a companion reads.
use rule metrics as ablation_metrics with:
    input:
        f"results/predictions/{{backbone}}/grpo/step-{FINAL}-ablations.parquet",
    output:
        cube="results/metrics/{backbone}-ablations.nc",
        resamples="results/resamples/{backbone}-ablations.nc",
    log:
        "logs/metrics/{backbone}-ablations.log",
    benchmark:
        "results/benchmarks/ablation_metrics/{backbone}-ablations.tsv"
    params:
        settings=canonical(STUDY.metrics),
        groups=canonical({MATHEMATICS: SETS["mathematics"]}),
        seeds=STUDY.companion.seeds,
        cube="--sweep layer pooling",
        resamples=resamples_flag,
        code=computing("cocal.commands.metrics"),


# The metrics of the coupled methods, and of CoCal on their policies, on the same responses.
use rule metrics as cross_policy_metrics with:
    input:
        cross_policy_files,
    output:
        cube="results/metrics/{backbone}-cross-policy.nc",
        resamples="results/resamples/{backbone}-cross-policy.nc",
    log:
        "logs/metrics/{backbone}-cross-policy.log",
    benchmark:
        "results/benchmarks/cross_policy_metrics/{backbone}-cross-policy.tsv"
    params:
        settings=canonical(STUDY.metrics),
        groups=canonical({MATHEMATICS: SETS["mathematics"]}),
        seeds=STUDY.companion.seeds,
        cube="--common-responses",
        resamples=resamples_flag,
        code=computing("cocal.commands.metrics"),
