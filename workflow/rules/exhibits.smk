# Tables and figures of the paper. Their captions name the configured study; none is made of a study that broke the
# protocol. A table is LaTeX, numbers and a page of the report; a figure is vector PDF, PNG and the numbers drawn, of which
# a diagram has none.
for exhibit in EXHIBITS:
    kind = "table" if exhibit in TABLES else "figure"
    place = results.table_file if exhibit in TABLES else results.figure_file
    first, shown = ("tex", "html") if exhibit in TABLES else ("pdf", "png")
    category, labels = report_entry(exhibit, EXHIBITS)

    rule:
        name:
            f"{kind}_{exhibit.name}"
        input:
            unpack(exhibited(exhibit)),
        output:
            **({"csv": place(exhibit.name, "csv")} if exhibit.layout else {}),
            main=place(exhibit.name, first),
            shown=report(
                place(exhibit.name, shown),
                caption="../report/exhibit.rst",
                category=category,
                labels=labels,
            ),
        log:
            f"logs/{kind}s/{exhibit.name}.log",
        benchmark:
            results.benchmark_file(f"{kind}s", exhibit.name)
        localrule: True
        conda:
            "../../envs/cocal.yaml"
        params:
            **exhibit_parameters(exhibit),
            start=["cocal"],
            words=words_of(exhibit),
            to="&>",
        shell:
            "{params.start:q} {params.words:q} {params.to} {log}"


# One document of all tables.
rule table_all:
    input:
        [results.table_file(table.name) for table in TABLES],
    output:
        results.table_file("all"),
    log:
        "logs/tables/all.log",
    benchmark:
        results.benchmark_file("tables", "all")
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        code=code_digest("cocal_study.commands.exhibits:run_document"),
    shell:
        "cocal document --tables {input} --output {output} > {log} 2>&1"


# The page on which the report opens, and the verdict with which a run ends.
rule landing:
    input:
        numbers=[results.table_file(one.name, "csv") for one in TABLES if one.name == "verdict"],
        figures=[results.figure_file(figure.name, "png") for figure in FIGURES],
    output:
        page=results.LANDING,
        verdict=results.VERDICT,
    log:
        "logs/landing.log",
    benchmark:
        results.benchmark_file("landing", "landing")
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        layout=landing_of(STUDY, EXHIBITS).model_dump_json(),
        numbers=lambda wildcards, input: f"--verdict {input.numbers}" * bool(input.numbers),
        code=code_digest("cocal_study.commands.exhibits:run_landing"),
    shell:
        "cocal landing --layout {params.layout:q} {params.numbers} --figures {input.figures} "
        "--output {output.page} > {log} 2>&1"
