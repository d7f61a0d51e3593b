# Tables and figures of the paper. They belong to the configured study, whose name and caption they carry.
rule table_main:
    input:
        f"results/metrics/{STUDY.main_backbone}.nc",
    output:
        tex="results/tables/main.tex",
        csv="results/tables/main.csv",
    log:
        "logs/tables/main.log",
    benchmark:
        "results/benchmarks/tables/main.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        layout=canonical(plan.main_layout(STUDY)),
        backbone=STUDY.main_backbone,
        step=STUDY.policy.steps,
    shell:
        "cocal table main --metrics {input} --backbone {params.backbone} --step {params.step}"
        " --layout {params.layout:q} --output {output.tex} --csv {output.csv} > {log} 2>&1"


rule figure_reliability:
    input:
        f"results/predictions/{STUDY.main_backbone}/{by_name('grpo')}.parquet",
    output:
        pdf="results/figures/reliability.pdf",
        png="results/figures/reliability.png",
        csv="results/figures/reliability.csv",
    log:
        "logs/figures/reliability.log",
    benchmark:
        "results/benchmarks/figures/reliability.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        layout=canonical(plan.reliability_layout(STUDY)),
        step=STUDY.policy.steps,
    shell:
        "cocal figure reliability --predictions {input} --step {params.step} --layout {params.layout:q}"
        " --output {output.pdf} > {log} 2>&1"
