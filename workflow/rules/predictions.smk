# Confidences in a checkpoint's evaluation responses: by every method that is evaluated on them, or by companions that a
# comparison of the plan applies to them (cocal_study.planning.comparisons).
rule predictions:
    input:
        unpack(inputs("predictions")),
    output:
        **outputs("predictions"),
    log:
        "logs/predictions/{backbone}-{algorithm}-{step}{comparison}.log",
    benchmark:
        results.benchmark_file("predictions", "{backbone}-{algorithm}-{step}{comparison}")
    conda:
        "../../envs/cocal.yaml"
    params:
        **params("predictions"),
    shell:
        "CUDA_VISIBLE_DEVICES= cocal predictions {params.settings:q} --output {output} > {log} 2>&1"


# Rivals that learn from the same responses as the companions: Platt scaling and isotonic regression of the scores on one
# policy, and their confidences in its evaluation responses.
rule recalibrate:
    input:
        unpack(inputs("recalibrate")),
    output:
        **outputs("recalibrate"),
    log:
        "logs/recalibration/{backbone}-{algorithm}.log",
    benchmark:
        results.benchmark_file("recalibrate", "{backbone}-{algorithm}")
    wildcard_constraints:
        **limits("recalibrate"),
    conda:
        "../../envs/cocal.yaml"
    params:
        **params("recalibrate"),
    shell:
        "CUDA_VISIBLE_DEVICES= cocal recalibrate {params.settings:q} --rollouts {input.rollouts}"
        " --questions {input.questions} --evaluated {input.evaluated}"
        " --output-calibrators {output.calibrators} --output {output.predictions} > {log} 2>&1"


# Inference times of the main backbone's final policy and its companions. All other rules take one thread; this one
# takes two, so that on a machine of two cores nothing runs beside it. The times differ from run to run.
rule latency:
    input:
        unpack(inputs("latency")),
    output:
        **outputs("latency"),
    log:
        "logs/latency/{backbone}.log",
    benchmark:
        results.benchmark_file("latency", "{backbone}")
    conda:
        GENERATION_ENVIRONMENT
    threads: 2
    resources:
        gpus=SAMPLING_GPUS,
    params:
        **params("latency"),
        questions=results.QUESTIONS,
        run_folder=results.run_folder("latency", "{backbone}"),
    shell:
        "cocal latency {params.settings:q} --questions {params.questions} --checkpoint {input.checkpoint}"
        " --run-folder {params.run_folder} --output {output} > {log} 2>&1"
