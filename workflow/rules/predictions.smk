# Confidences in a checkpoint's evaluation responses, by every method that is evaluated on them.
rule predictions:
    input:
        unpack(prediction_inputs),
    output:
        "results/predictions/{backbone}/{algorithm}/step-{step}.parquet",
    log:
        "logs/predictions/{backbone}-{algorithm}-{step}.log",
    benchmark:
        "results/benchmarks/predictions/{backbone}-{algorithm}-{step}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=prediction_settings,
        samples=prediction_samples,
        pool=STUDY.generation.pool,
        flags=prediction_flags,
        code=prediction_code,
    shell:
        "CUDA_VISIBLE_DEVICES= cocal predictions --settings {params.settings:q} --samples {params.samples:q} --pool {params.pool}"
        " --backbone {wildcards.backbone} --algorithm {wildcards.algorithm} --step {wildcards.step} {params.flags}"
        " --output {output} > {log} 2>&1"


# Companions of several stages and early steps on the same responses.
rule sweep_predictions:
    input:
        unpack(sweep_inputs),
    output:
        "results/predictions/{backbone}/grpo/step-{step}-sweep.parquet",
    log:
        "logs/predictions/{backbone}-grpo-{step}-sweep.log",
    benchmark:
        "results/benchmarks/sweep_predictions/{backbone}-grpo-{step}-sweep.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=estimators_with(plan.sweep_methods(STUDY)),
        samples=samples_of("mathematics"),
        companions=sweep_companions,
        code=estimator_code(plan.sweep_methods(STUDY)),
    shell:
        "CUDA_VISIBLE_DEVICES= cocal predictions --settings {params.settings:q} --samples {params.samples:q}"
        " --backbone {wildcards.backbone} --algorithm grpo --step {wildcards.step}"
        " --responses answer=results/responses/{wildcards.backbone}/grpo/step-{wildcards.step}/answer"
        " --features answer=results/features/{wildcards.backbone}/grpo/step-{wildcards.step}/answer"
        " --companions {params.companions} --output {output} > {log} 2>&1"


# CoCal and PostCal at matched budgets, validated on a fixed pool.
use rule sweep_predictions as budget_predictions with:
    input:
        unpack(budget_inputs),
    output:
        "results/predictions/{backbone}/grpo/step-{step}-budgets.parquet",
    log:
        "logs/predictions/{backbone}-grpo-{step}-budgets.log",
    benchmark:
        "results/benchmarks/budget_predictions/{backbone}-grpo-{step}-budgets.tsv"
    params:
        settings=estimators_with(plan.budget_methods(STUDY)),
        samples=samples_of("mathematics"),
        companions=budget_companions,
        code=estimator_code(plan.budget_methods(STUDY)),


# Companions that read other layers and poolings.
use rule sweep_predictions as ablation_predictions with:
    input:
        unpack(ablation_inputs),
    output:
        "results/predictions/{backbone}/grpo/step-{step}-ablations.parquet",
    log:
        "logs/predictions/{backbone}-grpo-{step}-ablations.log",
    benchmark:
        "results/benchmarks/ablation_predictions/{backbone}-grpo-{step}-ablations.tsv"
    params:
        settings=estimators_with(["cocal-binary"]),
        samples=samples_of("mathematics"),
        companions=ablation_companions,
        code=estimator_code(["cocal-binary"]),
