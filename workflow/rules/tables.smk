# Tables of the paper, each as LaTeX, as numbers and as a page of the report. They belong to the configured study,
# which their captions name. No table is written of a study that broke the protocol.
TABLES = tables_of_study()


# main.tex shows the end of training, main_step{N}.tex an earlier stage.
rule table_main:
    input:
        metrics=f"results/metrics/{MAIN}.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        tex="results/tables/main{stage}.tex",
        csv="results/tables/main{stage}.csv",
        html=report(
            "results/tables/main{stage}.html",
            caption="../report/main.rst",
            category=category("main"),
            labels=main_table_labels,
        ),
    log:
        "logs/tables/main{stage}.log",
    benchmark:
        "results/benchmarks/tables/main{stage}.tsv"
    wildcard_constraints:
        stage=r"|_step\d+",
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        name="main",
        flags=main_table_flags,
        layout=main_table_layout,
        code=exhibit_code("cocal.commands.table:_write_main"),
    shell:
        "cocal table {params.name} {params.flags} --layout {params.layout:q} --output {output.tex} --csv {output.csv}"
        " --html {output.html} > {log} 2>&1"


# Factual questions, of which companions saw none.
if SETS["factual"]:

    use rule table_main as table_ood with:
        input:
            metrics=f"results/metrics/{MAIN}.nc",
            checks=f"results/checks/{MAIN}.json",
        output:
            tex="results/tables/ood.tex",
            csv="results/tables/ood.csv",
            html=report(
                "results/tables/ood.html",
                caption="../report/ood.rst",
                category=category("ood"),
                labels=labels("ood", "Math-to-factual transfer"),
            ),
        log:
            "logs/tables/ood.log",
        benchmark:
            "results/benchmarks/tables/ood.tsv"
        localrule: True
        params:
            name="main",
            flags=f"--metrics results/metrics/{MAIN}.nc --backbone {MAIN} --step {FINAL}",
            layout=laid_out(layouts.ood_layout, WRONG_ROWS),
            code=exhibit_code("cocal.commands.table:_write_main"),


if SECOND:

    use rule table_main as table_scale with:
        input:
            metrics=f"results/metrics/{SECOND}.nc",
            checks=f"results/checks/{SECOND}.json",
        output:
            tex="results/tables/scale.tex",
            csv="results/tables/scale.csv",
            html=report(
                "results/tables/scale.html",
                caption="../report/scale.rst",
                category=category("scale"),
                labels=labels("scale", f"Main table of {STUDY.backbones[SECOND].label}"),
            ),
        log:
            "logs/tables/scale.log",
        benchmark:
            "results/benchmarks/tables/scale.tsv"
        localrule: True
        params:
            name="main",
            flags=f"--metrics results/metrics/{SECOND}.nc --backbone {SECOND} --step {FINAL}",
            layout=laid_out(layouts.scale_layout, SECOND, WRONG_ROWS),
            code=exhibit_code("cocal.commands.table:_write_main"),


use rule table_main as table_token_aggregation with:
    input:
        metrics=ABLATION_CUBES,
        checks=expand("results/checks/{backbone}.json", backbone=STUDY.backbones),
    output:
        tex="results/tables/token_aggregation.tex",
        csv="results/tables/token_aggregation.csv",
        html=report(
            "results/tables/token_aggregation.html",
            caption="../report/token_aggregation.rst",
            category=category("token_aggregation"),
            labels=labels("token_aggregation", "Token aggregation"),
        ),
    log:
        "logs/tables/token_aggregation.log",
    benchmark:
        "results/benchmarks/tables/token_aggregation.tsv"
    localrule: True
    params:
        name="token_aggregation",
        flags=["--metrics", *ABLATION_CUBES],
        layout=canonical(layouts.token_aggregation_layout(STUDY)),
        code=exhibit_code("cocal.commands.table:_write_token_aggregation"),


use rule table_main as table_pre_generation with:
    input:
        metrics=f"results/metrics/{MAIN}.nc",
        checks=f"results/checks/{MAIN}.json",
    output:
        tex="results/tables/pre_generation.tex",
        csv="results/tables/pre_generation.csv",
        html=report(
            "results/tables/pre_generation.html",
            caption="../report/pre_generation.rst",
            category=category("pre_generation"),
            labels=labels("pre_generation", "Before and after generation"),
        ),
    log:
        "logs/tables/pre_generation.log",
    benchmark:
        "results/benchmarks/tables/pre_generation.tsv"
    localrule: True
    params:
        name="pre_generation",
        flags=f"--metrics results/metrics/{MAIN}.nc",
        layout=canonical(layouts.pre_generation_layout(STUDY)),
        code=code_digest("cocal.commands.table:_write_pre_generation"),


use rule table_main as table_time_to_confidence with:
    input:
        latency=f"results/costs/{MAIN}/latency.json",
        checks=f"results/checks/{MAIN}.json",
    output:
        tex="results/tables/time_to_confidence.tex",
        csv="results/tables/time_to_confidence.csv",
        html=report(
            "results/tables/time_to_confidence.html",
            caption="../report/time_to_confidence.rst",
            category=category("time_to_confidence"),
            labels=labels("time_to_confidence", "Time to confidence"),
        ),
    log:
        "logs/tables/time_to_confidence.log",
    benchmark:
        "results/benchmarks/tables/time_to_confidence.tsv"
    localrule: True
    params:
        name="time_to_confidence",
        flags=f"--latency results/costs/{MAIN}/latency.json",
        layout=canonical(layouts.times_layout(STUDY)),
        code=code_digest("cocal.commands.table:_write_time_to_confidence"),


use rule table_main as table_cost with:
    input:
        training=f"results/costs/{MAIN}/train-grpo.json",
        sampling=f"results/costs/{MAIN}/resample.json",
        companions=f"results/costs/{MAIN}/companions-grpo.json",
        postcal_companions=f"results/costs/{MAIN}/companions-postcal.json",
        latency=f"results/costs/{MAIN}/latency.json",
        checks=f"results/checks/{MAIN}.json",
    output:
        tex="results/tables/cost.tex",
        csv="results/tables/cost.csv",
        html=report(
            "results/tables/cost.html",
            caption="../report/cost.rst",
            category=category("cost"),
            labels=labels("cost", "Cost of training and inference"),
        ),
    log:
        "logs/tables/cost.log",
    benchmark:
        "results/benchmarks/tables/cost.tsv"
    localrule: True
    params:
        name="cost",
        flags=cost_flags,
        layout=canonical(layouts.cost_layout(STUDY, GENERATED)),
        code=code_digest("cocal.commands.table:_write_cost"),


rule table_hyperparameters:
    output:
        tex="results/tables/hyperparameters.tex",
        csv="results/tables/hyperparameters.csv",
        html=report(
            "results/tables/hyperparameters.html",
            caption="../report/hyperparameters.rst",
            category=category("hyperparameters"),
            labels=labels("hyperparameters", "Hyperparameters"),
        ),
    log:
        "logs/tables/hyperparameters.log",
    benchmark:
        "results/benchmarks/tables/hyperparameters.tsv"
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        # in its own order: the first backbone is the main one; with its paths as they were written
        study=CONFIGURED.model_dump_json(),
        wrong=canonical(WRONG_ROWS),
        code=code_digest("cocal.commands.table:_write_hyperparameters"),
    shell:
        "cocal table hyperparameters --study {params.study:q} --wrong-rows {params.wrong:q} --output {output.tex} --csv {output.csv}"
        " --html {output.html} > {log} 2>&1"


# One document of all tables.
rule table_all:
    input:
        expand("results/tables/{table}.tex", table=TABLES),
    output:
        "results/tables/all.tex",
    log:
        "logs/tables/all.log",
    benchmark:
        "results/benchmarks/tables/all.tsv"
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        code=code_digest("cocal.commands.table:_write_all"),
    shell:
        "cocal table all --tables {input} --output {output} > {log} 2>&1"
