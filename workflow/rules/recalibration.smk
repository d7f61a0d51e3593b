# Rivals of the companions that learn from the same rollouts (tables/recalibrated).


# Companions of one hidden layer: a shallower probe of the same states.
use rule companions as one_layer_companions with:
    output:
        companions=directory("results/companions/{backbone}/one-layer"),
        cost="results/costs/{backbone}/companions-one-layer.json",
    log:
        "logs/companions/{backbone}-one-layer.log",
    benchmark:
        "results/benchmarks/one_layer_companions/{backbone}-one-layer.tsv"
    params:
        settings=canonical(rivals.one_layer_companion(STUDY)),
        how="--order chronological",
        steps=FINAL,
        code=computing("cocal.commands.companions"),


# Platt scaling and isotonic regression of the rivals on one policy, fitted on rollouts of the training questions, and
# their confidences in the policy's evaluation responses.
rule recalibrate:
    input:
        unpack(recalibration_inputs),
    output:
        predictions=f"results/predictions/{{backbone}}/{{algorithm}}/step-{FINAL}-recalibrated.parquet",
        calibrators=f"results/recalibration/{{backbone}}/{{algorithm}}/step-{FINAL}.json",
    log:
        "logs/recalibration/{backbone}-{algorithm}.log",
    benchmark:
        "results/benchmarks/recalibrate/{backbone}-{algorithm}.tsv"
    wildcard_constraints:
        algorithm=either(STUDY.policy.algorithms),
    conda:
        "../../envs/cocal.yaml"
    params:
        names=rival_names,
        settings=rival_settings,
        split=canonical(STUDY.companion),
        verifier=canonical(STUDY.verifier),
        samples=rival_samples,
        pool=STUDY.generation.pool,
        step=FINAL,
        flags=rival_flags,
        code=rival_code,
    shell:
        "CUDA_VISIBLE_DEVICES= cocal recalibrate --rivals {params.names} --settings {params.settings:q} --split {params.split:q}"
        " --verifier {params.verifier:q} --samples {params.samples:q} --pool {params.pool}"
        " --backbone {wildcards.backbone} --algorithm {wildcards.algorithm} --step {params.step}"
        " --rollouts {input.rollouts} --questions {input.questions} --evaluated {input.evaluated} {params.flags}"
        " --output-calibrators {output.calibrators} --output {output.predictions} > {log} 2>&1"


# The metrics of recalibrated rivals.
use rule metrics as recalibrated_metrics with:
    input:
        recalibrated_files,
    output:
        cube="results/metrics/{backbone}-recalibrated.nc",
    log:
        "logs/metrics/{backbone}-recalibrated.log",
    benchmark:
        "results/benchmarks/recalibrated_metrics/{backbone}-recalibrated.tsv"
    params:
        settings=canonical(STUDY.metrics),
        groups=macro_averages,
        seeds=STUDY.companion.seeds,
        cube="",
        resamples="",
        code=computing("cocal.commands.metrics"),
