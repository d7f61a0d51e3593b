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
            category="Main results",
            labels=labels("Training dynamics", "mathematics", "RLCR, DCPO, CoCal"),
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
    shell:
        "cocal figure {params.name} {params.flags} --layout {params.layout:q} --output {output.pdf} > {log} 2>&1"


use rule figure_training_dynamics as figure_cross_policy with:
    input:
        metrics=f"results/metrics/{MAIN}.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/cross_policy.pdf",
        csv="results/figures/cross_policy.csv",
        png=report(
            "results/figures/cross_policy.png",
            caption="../report/cross_policy.rst",
            category="Transfer",
            labels=labels("Cross-policy transfer", "mathematics", "RLCR, DCPO, CoCal (binary)"),
        ),
    log:
        "logs/figures/cross_policy.log",
    benchmark:
        "results/benchmarks/figures/cross_policy.tsv"
    localrule: True
    params:
        name="cross_policy",
        flags=f"--metrics results/metrics/{MAIN}.nc",
        layout=laid_out(layouts.cross_policy_layout),


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
            category="Transfer",
            labels=labels("Cross-iteration transfer", "mathematics", "CoCal (binary)"),
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
            category="Analysis",
            labels=labels("Early rollout steps", "mathematics", "CoCal"),
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


use rule figure_training_dynamics as figure_budgets with:
    input:
        metrics=f"results/metrics/{MAIN}-sweep.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        pdf="results/figures/budgets.pdf",
        csv="results/figures/budgets.csv",
        png=report(
            "results/figures/budgets.png",
            caption="../report/budgets.rst",
            category="Analysis",
            labels=labels("Matched budgets", "mathematics", "CoCal, PostCal (binary)"),
        ),
    log:
        "logs/figures/budgets.log",
    benchmark:
        "results/benchmarks/figures/budgets.tsv"
    localrule: True
    params:
        name="budgets",
        flags=f"--metrics results/metrics/{MAIN}-sweep.nc --step {FINAL}",
        layout=canonical(
            layouts.curves_layout(STUDY, ["cocal-binary", "postcal-binary"], STUDY.reports.budgets)
        ),


use rule figure_training_dynamics as figure_composition with:
    input:
        metrics=f"results/metrics/{MAIN}-sweep.nc",
        checks=f"results/checks/{MAIN}.json",
        companions=[companion_folder(MAIN, e) for e in ("rollouts", "resampled")],
    output:
        pdf="results/figures/composition.pdf",
        csv="results/figures/composition.csv",
        png=report(
            "results/figures/composition.png",
            caption="../report/composition.rst",
            category="Analysis",
            labels=labels("Training-data composition", "mathematics", "CoCal, PostCal (binary)"),
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
            category="Main results",
            labels=labels(
                "Reliability diagrams of one set", "mathematics", "RLCR, DCPO, Verbal, CoCal"
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
            category="Main results",
            labels=labels(
                "Reliability diagrams of all sets", "mathematics", "RLCR, DCPO, Verbal, CoCal"
            ),
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
            category="Analysis",
            labels=labels("Extraction layer", "mathematics", "CoCal (binary)", BACKBONES),
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


# Diagrams: drawn, not measured.
rule figure_paradigms:
    output:
        pdf="results/figures/paradigms.pdf",
        png=report(
            "results/figures/paradigms.png",
            caption="../report/paradigms.rst",
            category="Study",
            labels=labels(
                "Diagram: three paradigms", "none", "PostCal, RLCR, DCPO, CoCal", "none"
            ),
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
    shell:
        "cocal figure {params.name} --output {output.pdf} > {log} 2>&1"


use rule figure_paradigms as figure_overview with:
    output:
        pdf="results/figures/overview.pdf",
        png=report(
            "results/figures/overview.png",
            caption="../report/overview.rst",
            category="Study",
            labels=labels("Diagram: CoCal", "none", "CoCal", "none"),
        ),
    log:
        "logs/figures/overview.log",
    benchmark:
        "results/benchmarks/figures/overview.tsv"
    localrule: True
    params:
        name="overview",
