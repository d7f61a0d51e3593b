# Inference times of the main backbone's final policy and its companions. All other rules take one thread; this one
# takes two, so that on a machine of two cores nothing runs beside it. The times differ from run to run; only the tables
# of times depend on them.
rule latency:
    input:
        checkpoint=f"results/policies/{{backbone}}/grpo/step-{FINAL}",
        companions="results/companions/{backbone}/grpo",
        prompt_companions="results/companions/{backbone}/prompts",
        questions=expand("results/questions/{dataset}.parquet", dataset=SETS["mathematics"]),
    output:
        "results/costs/{backbone}/latency.json",
    log:
        "logs/latency/{backbone}.log",
    benchmark:
        "results/benchmarks/latency/{backbone}.tsv"
    conda:
        GENERATION_ENVIRONMENT
    threads: 2
    resources:
        gpus=SAMPLING_GPUS,
    params:
        settings=canonical(STUDY.generation),
        datasets=canonical(
            {name: STUDY.datasets[name].max_response_length for name in SETS["mathematics"]}
        ),
        prompts=STUDY.prompts,
        texts=prompt_texts("answer"),
        timing=[
            f"--samples={STUDY.timing.samples}",
            f"--concurrent={STUDY.timing.concurrent}",
            f"--predictions={STUDY.timing.predictions}",
            f"--seed={STUDY.timing.seed}",
        ],
        steps=f"steps-{FINAL}",
        code=code_digest("cocal.commands.latency", *ENGINE_CODE),
    shell:
        "cocal latency --settings {params.settings:q} --datasets {params.datasets:q} --questions results/questions"
        " --checkpoint {input.checkpoint} --companions {input.companions}/{params.steps}"
        " --prompt-companions {input.prompt_companions}/{params.steps} --prompts {params.prompts} {params.timing}"
        " --output {output} > {log} 2>&1"
