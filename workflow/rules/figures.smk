# Figures of the paper, as vector PDF, as PNG and as the numbers drawn; a diagram has no numbers. Their small print
# names the configured study. No figure is drawn of a study that broke the protocol.
for figure in FIGURES:

    rule:
        name:
            f"figure_{figure.name}"
        input:
            **figure.waits_for,
        output:
            **({"csv": f"results/figures/{figure.name}.csv"} if figure.layout else {}),
            pdf=f"results/figures/{figure.name}.pdf",
            png=report(
                f"results/figures/{figure.name}.png",
                caption="../report/exhibit.rst",
                category=report_entry(figure, EXHIBITS)[0],
                labels=report_entry(figure, EXHIBITS)[1],
            ),
        log:
            f"logs/figures/{figure.name}.log",
        benchmark:
            f"results/benchmarks/figures/{figure.name}.tsv"
        localrule: True
        conda:
            "../../envs/cocal.yaml"
        params:
            arguments=figure.arguments,
            caption=figure.caption,
            code=exhibit_code(figure),
        shell:
            "cocal exhibit {params.arguments:q} --output {output.pdf} > {log} 2>&1"
