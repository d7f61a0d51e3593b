# The metric cubes of a backbone: every policy, method, data set and seed, with bootstrap intervals.
rule metrics:
    input:
        prediction_files,
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
        groups=macro_averages,
        seeds=STUDY.companion.seeds,
        sweep="",
        code=code_digest("cocal.commands.metrics"),
    shell:
        "cocal metrics {params.sweep} --settings {params.settings:q} --groups {params.groups:q}"
        " --seeds {params.seeds} --predictions {input} --output {output} > {log} 2>&1"


# The metrics by the rollout steps that a companion learnt from.
use rule metrics as sweep_metrics with:
    input:
        sweep_files,
    output:
        "results/metrics/{backbone}-sweep.nc",
    log:
        "logs/metrics/{backbone}-sweep.log",
    benchmark:
        "results/benchmarks/sweep_metrics/{backbone}-sweep.tsv"
    params:
        settings=canonical(STUDY.metrics),
        groups=canonical({MATHEMATICS: SETS["mathematics"]}),
        seeds=STUDY.companion.seeds,
        sweep="--sweep source_step",
        code=code_digest("cocal.commands.metrics"),


# The metrics by matched budget.
use rule sweep_metrics as budget_metrics with:
    input:
        budget_files,
    output:
        "results/metrics/{backbone}-budgets.nc",
    log:
        "logs/metrics/{backbone}-budgets.log",
    benchmark:
        "results/benchmarks/budget_metrics/{backbone}-budgets.tsv"


# The metrics by the states that a companion reads.
use rule metrics as ablation_metrics with:
    input:
        f"results/predictions/{{backbone}}/grpo/step-{FINAL}-ablations.parquet",
    output:
        "results/metrics/{backbone}-ablations.nc",
    log:
        "logs/metrics/{backbone}-ablations.log",
    benchmark:
        "results/benchmarks/ablation_metrics/{backbone}-ablations.tsv"
    params:
        settings=canonical(STUDY.metrics),
        groups=canonical({MATHEMATICS: SETS["mathematics"]}),
        seeds=STUDY.companion.seeds,
        sweep="--sweep layer pooling",
        code=code_digest("cocal.commands.metrics"),


# The metrics of the coupled methods, and of CoCal on their policies, on the same responses.
use rule metrics as cross_policy_metrics with:
    input:
        cross_policy_files,
    output:
        "results/metrics/{backbone}-cross-policy.nc",
    log:
        "logs/metrics/{backbone}-cross-policy.log",
    benchmark:
        "results/benchmarks/cross_policy_metrics/{backbone}-cross-policy.tsv"
    params:
        settings=canonical(STUDY.metrics),
        groups=canonical({MATHEMATICS: SETS["mathematics"]}),
        seeds=STUDY.companion.seeds,
        sweep="--common-responses",
        code=code_digest("cocal.commands.metrics"),
