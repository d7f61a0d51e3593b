# The metric cubes of a backbone (cocal_study.planning.comparisons): every policy, method, data set and seed, with bootstrap
# intervals. Beside each cube lie the metrics of its resamples, from which differences between methods are computed.
# The rivals have a cube alone.
for name, cube in {"metrics": "{cube}", "recalibrated_metrics": RECALIBRATED}.items():

    rule:
        name:
            name
        input:
            unpack(inputs(name)),
        output:
            **outputs(name),
        log:
            f"logs/metrics/{{backbone}}{cube}.log",
        benchmark:
            results.benchmark_file(name, f"{{backbone}}{cube}")
        conda:
            "../../envs/cocal.yaml"
        params:
            **params(name),
            resamples=flagged("--resamples", "resamples"),
        shell:
            "cocal metrics {params.settings:q} --predictions {input.predictions} --output {output.cube}"
            " {params.resamples} > {log} 2>&1"


# Checks that the study kept the protocol; a violation fails the run and is named.
rule checks:
    input:
        unpack(inputs("checks")),
    output:
        **outputs("checks"),
    log:
        "logs/checks/{backbone}.log",
    benchmark:
        results.benchmark_file("checks", "{backbone}")
    conda:
        "../../envs/cocal.yaml"
    params:
        **params("checks"),
    shell:
        "cocal checks {params.settings:q} --rollouts {input.rollouts} --questions {input.questions}"
        " --predictions {input.predictions} --output {output} > {log} 2>&1"
