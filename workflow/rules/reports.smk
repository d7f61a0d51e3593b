# Tables and figures of the paper. They belong to the configured study, whose name and caption they carry.
CUBE = f"results/metrics/{STUDY.main_backbone}.nc"
SWEEP_CUBE = f"results/metrics/{STUDY.main_backbone}-sweep.nc"
CHECKS = f"results/checks/{STUDY.main_backbone}.json"
FINAL_CELLS = [cell for cell in plan.evaluated_cells(STUDY) if cell[1] in (0, STUDY.policy.steps)]


# main.tex shows the end of training, main_step{N}.tex an earlier stage.
rule table_main:
    input:
        cube=CUBE,
        checks=CHECKS,
    output:
        tex="results/tables/main{stage}.tex",
        csv="results/tables/main{stage}.csv",
    log:
        "logs/tables/main{stage}.log",
    benchmark:
        "results/benchmarks/tables/main{stage}.tsv"
    wildcard_constraints:
        stage=r"|_step\d+",
    conda:
        "../../envs/cocal.yaml"
    params:
        layout=table_layout,
        backbone=STUDY.main_backbone,
        step=table_step,
    shell:
        "cocal table main --metrics {input.cube} --backbone {params.backbone} --step {params.step}"
        " --layout {params.layout:q} --output {output.tex} --csv {output.csv} > {log} 2>&1"


rule figure_reliability:
    input:
        expand(prediction_files(FINAL_CELLS), backbone=STUDY.main_backbone),
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
        name="reliability",
        layout=canonical(plan.reliability_layout(STUDY, [STUDY.reports.reliability_dataset])),
        step=STUDY.policy.steps,
    shell:
        "cocal figure {params.name} --predictions {input} --step {params.step} --layout {params.layout:q}"
        " --output {output.pdf} > {log} 2>&1"


use rule figure_reliability as figure_reliability_all with:
    output:
        pdf="results/figures/reliability_all.pdf",
        png="results/figures/reliability_all.png",
        csv="results/figures/reliability_all.csv",
    log:
        "logs/figures/reliability_all.log",
    benchmark:
        "results/benchmarks/figures/reliability_all.tsv"
    params:
        name="reliability_all",
        layout=canonical(plan.reliability_layout(STUDY, MATHEMATICS)),
        step=STUDY.policy.steps,


rule figure_training_dynamics:
    input:
        CUBE,
    output:
        pdf="results/figures/training_dynamics.pdf",
        png="results/figures/training_dynamics.png",
        csv="results/figures/training_dynamics.csv",
    log:
        "logs/figures/training_dynamics.log",
    benchmark:
        "results/benchmarks/figures/training_dynamics.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        layout=canonical(
            plan.curves_layout(STUDY, STUDY.reports.stage_methods, STUDY.policy.stages)
        ),
    shell:
        "cocal figure training_dynamics --metrics {input} --layout {params.layout:q} --output {output.pdf} > {log} 2>&1"


rule figure_early_steps:
    input:
        SWEEP_CUBE,
    output:
        pdf="results/figures/early_steps.pdf",
        png="results/figures/early_steps.png",
        csv="results/figures/early_steps.csv",
    log:
        "logs/figures/early_steps.log",
    benchmark:
        "results/benchmarks/figures/early_steps.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        name="early_steps",
        layout=canonical(
            plan.curves_layout(STUDY, ("cocal-group", "cocal-binary"), STUDY.reports.early_steps)
        ),
        step=STUDY.policy.stages[0],
    shell:
        "cocal figure {params.name} --metrics {input} --step {params.step} --layout {params.layout:q}"
        " --output {output.pdf} > {log} 2>&1"


use rule figure_early_steps as figure_budgets with:
    output:
        pdf="results/figures/budgets.pdf",
        png="results/figures/budgets.png",
        csv="results/figures/budgets.csv",
    log:
        "logs/figures/budgets.log",
    benchmark:
        "results/benchmarks/figures/budgets.tsv"
    params:
        name="budgets",
        layout=canonical(
            plan.curves_layout(STUDY, ("cocal-binary", "postcal-binary"), STUDY.reports.budgets)
        ),
        step=STUDY.policy.steps,


rule figure_composition:
    input:
        cube=SWEEP_CUBE,
        companions=expand(
            "results/companions/{backbone}/{experience}/steps-{step}",
            backbone=STUDY.main_backbone,
            experience=EXPERIENCES.values(),
            step=STUDY.reports.budgets,
        ),
    output:
        pdf="results/figures/composition.pdf",
        png="results/figures/composition.png",
        csv="results/figures/composition.csv",
    log:
        "logs/figures/composition.log",
    benchmark:
        "results/benchmarks/figures/composition.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        layout=canonical(
            plan.curves_layout(STUDY, ("cocal-binary", "postcal-binary"), STUDY.reports.budgets)
        ),
        step=STUDY.policy.steps,
    shell:
        "cocal figure composition --metrics {input.cube} --step {params.step} --companions {input.companions}"
        " --layout {params.layout:q} --output {output.pdf} > {log} 2>&1"
