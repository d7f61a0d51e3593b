# Checks that the study kept the protocol; a violation fails the run and is named.
rule checks:
    input:
        unpack(check_inputs),
    output:
        "results/checks/{backbone}.json",
    log:
        "logs/checks/{backbone}.log",
    benchmark:
        "results/benchmarks/checks/{backbone}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.companion),
        prompt_settings=canonical(plan.prompt_companion(STUDY)),
        ablation_settings=canonical(plan.ablation_companion(STUDY)),
        one_layer_settings=canonical(rivals.one_layer_companion(STUDY)),
        recalibration=recalibration_flags,
        quality=canonical(STUDY.quality),
        planned=planned_predictions,
        resampled=resampled_flag,
        companions=check_companions,
        code=code_digest("cocal.commands.checks"),
    shell:
        "cocal checks --settings {params.settings:q} --prompt-settings {params.prompt_settings:q}"
        " --ablation-settings {params.ablation_settings:q} --one-layer-settings {params.one_layer_settings:q} --quality {params.quality:q} --planned {params.planned:q}"
        " --backbone {wildcards.backbone} --rollouts {input.rollouts} {params.resampled}"
        " --questions {input.questions} --companions {params.companions} --predictions {input.predictions}"
        " {params.recalibration}"
        " --output {output} > {log} 2>&1"
