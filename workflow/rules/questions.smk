# Question sets, each in a job of its own: registered sets come from their sources, a user's sets from files, and
# synthetic sets from a seed.
if REGISTRY.sets:

    # This runs where Snakemake does, since compute nodes often have no network. Files are kept in the cache and not
    # among the outputs, which Snakemake deletes when a job fails, so that a broken download resumes.
    localrules:
        sources,

    rule sources:
        output:
            "results/sources/{source}.json",
        log:
            "logs/sources/{source}.log",
        benchmark:
            "results/benchmarks/sources/{source}.tsv"
        wildcard_constraints:
            source=either(REGISTRY.sets),
        conda:
            "../../envs/cocal.yaml"
        params:
            entry=entry_of_source,
            cache=STUDY.sources.cache,
            code=code_digest("cocal.commands.sources"),
        shell:
            "cocal sources --registry {params.entry:q} --cache {params.cache:q} --output {output} > {log} 2>&1"


# These jobs take seconds and run where Snakemake does. The registry's entry of a set determines its content by
# checksums, so the time stamps and places of the files rerun nothing.
rule questions:
    input:
        source=ancient(source_of_set),
        file=user_file_of_set,
        others=other_sets,
    output:
        "results/questions/{dataset}.parquet",
    log:
        "logs/questions/{dataset}.log",
    benchmark:
        "results/benchmarks/questions/{dataset}.tsv"
    localrule: True
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=set_settings,
        entry=entry_of_set,
        others=others_flag,
        code=code_digest("cocal.commands.questions"),
    shell:
        "cocal questions --settings {params.settings:q} --registry {params.entry:q} {params.others} --output results/questions > {log} 2>&1"


# The evaluation questions that also occur in the sources of training, and whether they were excluded.
rule overlap:
    input:
        sources=ancient(source_files(*TRAINING_SETS)),
        files=user_files(*TRAINING_SETS),
        questions=expand("results/questions/{dataset}.parquet", dataset=STUDY.datasets),
    output:
        "results/checks/overlap.csv",
    log:
        "logs/checks/overlap.log",
    benchmark:
        "results/benchmarks/checks/overlap.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(QUESTION_SETS.bare()),
        entries=training_entries,
        code=code_digest("cocal.commands.overlap"),
    shell:
        "cocal overlap --settings {params.settings:q} --registry {params.entries:q} --questions results/questions --output {output} > {log} 2>&1"
