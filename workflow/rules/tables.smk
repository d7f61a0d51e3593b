# Tables of the paper, each as LaTeX, as numbers and as a page of the report. Their captions name the configured study.
# No table is written of a study that broke the protocol.
for table in TABLES:

    rule:
        name:
            f"table_{table.name}"
        input:
            **table.waits_for,
        output:
            tex=f"results/tables/{table.name}.tex",
            csv=f"results/tables/{table.name}.csv",
            html=report(
                f"results/tables/{table.name}.html",
                caption="../report/exhibit.rst",
                category=report_entry(table, EXHIBITS)[0],
                labels=report_entry(table, EXHIBITS)[1],
            ),
        log:
            f"logs/tables/{table.name}.log",
        benchmark:
            f"results/benchmarks/tables/{table.name}.tsv"
        localrule: True
        conda:
            "../../envs/cocal.yaml"
        params:
            arguments=table.arguments,
            caption=table.caption,
            code=exhibit_code(table),
        shell:
            "cocal exhibit {params.arguments:q} --output {output.tex} > {log} 2>&1"


# One document of all tables.
rule table_all:
    input:
        [f"results/tables/{table.name}.tex" for table in TABLES],
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
        code=code_digest("cocal.commands.document"),
    shell:
        "cocal document --tables {input} --output {output} > {log} 2>&1"
