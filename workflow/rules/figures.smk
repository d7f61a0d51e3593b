# Figures of the paper, as vector PDF, as PNG and as the numbers drawn. They belong to the configured study, which they
# name in their small print; none is drawn of a study that broke the protocol.


rule figure_training_dynamics:
    input:
        metrics=f"results/metrics/{MAIN}.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/training_dynamics.pdf",
        csv="results/figures/training_dynamics.csv",
        png=report(
            "results/figures/training_dynamics.png",
            caption="../report/training_dynamics.rst",
            category=category("training_dynamics"),
            labels=labels("training_dynamics", "Training dynamics"),
        ),
    log:
        "logs/figures/training_dynamics.log",
    benchmark:
        "results/benchmarks/figures/training_dynamics.tsv"
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        name="training_dynamics",
        flags=f"--metrics results/metrics/{MAIN}.nc",
        layout=laid_out(layouts.training_dynamics_layout),
        code=exhibit_code("cocal.commands.figure:_write_training_dynamics"),
    shell:
        "cocal figure {params.name} {params.flags} --layout {params.layout:q} --output {output.pdf} > {log} 2>&1"


use rule figure_training_dynamics as figure_cross_policy with:
    input:
        metrics=f"results/metrics/{MAIN}-cross-policy.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/cross_policy.pdf",
        csv="results/figures/cross_policy.csv",
        png=report(
            "results/figures/cross_policy.png",
            caption="../report/cross_policy.rst",
            category=category("cross_policy"),
            labels=labels("cross_policy", "Transfer to RLCR and DCPO"),
        ),
    log:
        "logs/figures/cross_policy.log",
    benchmark:
        "results/benchmarks/figures/cross_policy.tsv"
    localrule: True
    params:
        name="cross_policy",
        flags=f"--metrics results/metrics/{MAIN}-cross-policy.nc",
        layout=laid_out(layouts.cross_policy_layout),
        code=exhibit_code("cocal.commands.figure:_write_cross_policy"),


use rule figure_training_dynamics as figure_cross_iteration with:
    input:
        metrics=f"results/metrics/{MAIN}-sweep.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/cross_iteration.pdf",
        csv="results/figures/cross_iteration.csv",
        png=report(
            "results/figures/cross_iteration.png",
            caption="../report/cross_iteration.rst",
            category=category("cross_iteration"),
            labels=labels("cross_iteration", "Transfer between stages"),
        ),
    log:
        "logs/figures/cross_iteration.log",
    benchmark:
        "results/benchmarks/figures/cross_iteration.tsv"
    localrule: True
    params:
        name="cross_iteration",
        flags=f"--metrics results/metrics/{MAIN}-sweep.nc",
        layout=canonical(layouts.curves_layout(STUDY, ["cocal-binary"], STUDY.policy.stages)),
        code=code_digest("cocal.commands.figure:_write_cross_iteration"),


use rule figure_training_dynamics as figure_early_steps with:
    input:
        metrics=f"results/metrics/{MAIN}-sweep.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/early_steps.pdf",
        csv="results/figures/early_steps.csv",
        png=report(
            "results/figures/early_steps.png",
            caption="../report/early_steps.rst",
            category=category("early_steps"),
            labels=labels("early_steps", "The first rollout steps"),
        ),
    log:
        "logs/figures/early_steps.log",
    benchmark:
        "results/benchmarks/figures/early_steps.tsv"
    localrule: True
    params:
        name="early_steps",
        flags=f"--metrics results/metrics/{MAIN}-sweep.nc --step {STUDY.policy.stages[0]}",
        layout=canonical(
            layouts.curves_layout(
                STUDY, ["cocal-group", "cocal-binary"], STUDY.reports.early_steps
            )
        ),
        code=exhibit_code("cocal.commands.figure:_write_early_steps"),


use rule figure_training_dynamics as figure_budgets with:
    input:
        metrics=f"results/metrics/{MAIN}-budgets.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/budgets.pdf",
        csv="results/figures/budgets.csv",
        png=report(
            "results/figures/budgets.png",
            caption="../report/budgets.rst",
            category=category("budgets"),
            labels=labels("budgets", "CoCal and PostCal at matched budgets"),
        ),
    log:
        "logs/figures/budgets.log",
    benchmark:
        "results/benchmarks/figures/budgets.tsv"
    localrule: True
    params:
        name="budgets",
        flags=f"--metrics results/metrics/{MAIN}-budgets.nc --step {FINAL}",
        layout=canonical(
            layouts.curves_layout(STUDY, ["cocal-binary", "postcal-binary"], STUDY.reports.budgets)
        ),
        code=exhibit_code("cocal.commands.figure:_write_budgets"),


use rule figure_training_dynamics as figure_composition with:
    input:
        metrics=f"results/metrics/{MAIN}-budgets.nc",
        checks=f"results/checks/{MAIN}.json",
        companions=[companion_folder(MAIN, e) for e in ("rollouts", "resampled")],
    output:
        pdf="results/figures/composition.pdf",
        csv="results/figures/composition.csv",
        png=report(
            "results/figures/composition.png",
            caption="../report/composition.rst",
            category=category("composition"),
            labels=labels("composition", "Errors in the training data"),
        ),
    log:
        "logs/figures/composition.log",
    benchmark:
        "results/benchmarks/figures/composition.tsv"
    localrule: True
    params:
        name="composition",
        flags=composition_flags(),
        layout=canonical(
            layouts.curves_layout(STUDY, ["cocal-binary", "postcal-binary"], STUDY.reports.budgets)
        ),
        code=exhibit_code("cocal.commands.figure:_write_composition"),


use rule figure_training_dynamics as figure_reliability with:
    input:
        predictions=FINAL_PREDICTIONS,
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/reliability.pdf",
        csv="results/figures/reliability.csv",
        png=report(
            "results/figures/reliability.png",
            caption="../report/reliability.rst",
            category=category("reliability"),
            labels=labels(
                "reliability",
                f"Reliability diagrams, {STUDY.datasets[STUDY.reports.reliability_dataset].label}",
            ),
        ),
    log:
        "logs/figures/reliability.log",
    benchmark:
        "results/benchmarks/figures/reliability.tsv"
    localrule: True
    params:
        name="reliability",
        flags=["--step", FINAL, "--predictions", *FINAL_PREDICTIONS],
        layout=laid_out(layouts.reliability_layout, [STUDY.reports.reliability_dataset]),
        code=exhibit_code("cocal.commands.figure:_write_reliability"),


use rule figure_training_dynamics as figure_reliability_all with:
    input:
        predictions=FINAL_PREDICTIONS,
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/reliability_all.pdf",
        csv="results/figures/reliability_all.csv",
        png=report(
            "results/figures/reliability_all.png",
            caption="../report/reliability_all.rst",
            category=category("reliability_all"),
            labels=labels("reliability_all", "Reliability diagrams, all sets"),
        ),
    log:
        "logs/figures/reliability_all.log",
    benchmark:
        "results/benchmarks/figures/reliability_all.tsv"
    localrule: True
    params:
        name="reliability_all",
        flags=["--step", FINAL, "--predictions", *FINAL_PREDICTIONS],
        layout=laid_out(layouts.reliability_layout, SETS["mathematics"]),
        code=exhibit_code("cocal.commands.figure:_write_reliability"),


use rule figure_training_dynamics as figure_layers with:
    input:
        metrics=ABLATION_CUBES,
        checks=expand("results/checks/{backbone}.json", backbone=STUDY.backbones),
    output:
        pdf="results/figures/layers.pdf",
        csv="results/figures/layers.csv",
        png=report(
            "results/figures/layers.png",
            caption="../report/layers.rst",
            category=category("layers"),
            labels=labels("layers", "Extraction layers"),
        ),
    log:
        "logs/figures/layers.log",
    benchmark:
        "results/benchmarks/figures/layers.tsv"
    localrule: True
    params:
        name="layers",
        flags=["--metrics", *ABLATION_CUBES],
        layout=canonical(layouts.layers_layout(STUDY)),
        code=code_digest("cocal.commands.figure:_write_layers"),


# Diagrams: drawn, not measured.
rule figure_paradigms:
    output:
        pdf="results/figures/paradigms.pdf",
        png=report(
            "results/figures/paradigms.png",
            caption="../report/paradigms.rst",
            category=category("paradigms"),
            labels=labels("paradigms", "Diagram: three paradigms"),
        ),
    log:
        "logs/figures/paradigms.log",
    benchmark:
        "results/benchmarks/figures/paradigms.tsv"
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        name="paradigms",
        code=code_digest("cocal.commands.figure:_write_paradigms"),
    shell:
        "cocal figure {params.name} --output {output.pdf} > {log} 2>&1"


use rule figure_paradigms as figure_overview with:
    output:
        pdf="results/figures/overview.pdf",
        png=report(
            "results/figures/overview.png",
            caption="../report/overview.rst",
            category=category("overview"),
            labels=labels("overview", "Diagram: how CoCal works"),
        ),
    log:
        "logs/figures/overview.log",
    benchmark:
        "results/benchmarks/figures/overview.tsv"
    localrule: True
    params:
        name="overview",
        code=code_digest("cocal.commands.figure:_write_overview"),
