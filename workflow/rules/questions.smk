# Question sets, each in a job of its own: registered sets come from their sources, a user's sets from files, and
# synthetic sets from a seed. The registry's entry of a set determines its content by checksums, so the time stamps and
# places of the files rerun nothing.
if "sources" in PLAN.rules:

    # This runs where Snakemake does, since compute nodes often have no network. Files are kept in the cache and not
    # among the outputs, which Snakemake deletes when a job fails, so that a broken download resumes.
    rule sources:
        output:
            **outputs("sources"),
        log:
            "logs/sources/{source}.log",
        benchmark:
            results.benchmark_file("sources", "{source}")
        localrule: True
        conda:
            "../../envs/cocal.yaml"
        params:
            **params("sources"),
        shell:
            "cocal sources {params.settings:q} --output {output} > {log} 2>&1"


# These jobs take seconds and run where Snakemake does.
rule questions:
    input:
        unpack(inputs("questions")),
    output:
        **outputs("questions"),
    log:
        "logs/questions/{dataset}.log",
    benchmark:
        results.benchmark_file("questions", "{dataset}")
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        **params("questions"),
        folder=results.QUESTIONS,
    shell:
        "cocal questions {params.settings:q} --output {params.folder} > {log} 2>&1"


# The evaluation questions that also occur in the sources of training, and whether they were excluded.
rule overlap:
    input:
        unpack(inputs("overlap")),
    output:
        **outputs("overlap"),
    log:
        "logs/checks/overlap.log",
    benchmark:
        results.benchmark_file("checks", "overlap")
    conda:
        "../../envs/cocal.yaml"
    params:
        **params("overlap"),
        folder=results.QUESTIONS,
    shell:
        "cocal overlap {params.settings:q} --questions {params.folder} --output {output} > {log} 2>&1"
