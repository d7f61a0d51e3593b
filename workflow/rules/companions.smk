# One job fits the companions of all prefixes, seeds and targets of a variant (cocal_study.planning.variants), whose features it
# reads once: CoCal's, PostCal's, those of prompts, of other states, and of one hidden layer.
rule companions:
    input:
        unpack(inputs("companions")),
    output:
        **outputs("companions"),
    log:
        "logs/companions/{backbone}-{variant}.log",
    benchmark:
        results.benchmark_file("companions", "{backbone}-{variant}")
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=1,
    params:
        **params("companions"),
    shell:
        "cocal companions {params.settings:q} > {log} 2>&1"


# Companions that learn from each rollout step when it is produced.
rule online:
    input:
        unpack(inputs("online")),
    output:
        **outputs("online"),
    log:
        "logs/companions/{backbone}-online.log",
    benchmark:
        results.benchmark_file("online", "{backbone}")
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=1,
    params:
        **params("online"),
    shell:
        "cocal online {params.settings:q} --rollouts {input.rollouts} --features {input.features}"
        " --questions {input.questions} --output-companions {output.companions} --output {output.scores} > {log} 2>&1"
