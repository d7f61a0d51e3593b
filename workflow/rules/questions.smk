# Question sets, each in a job of its own: registered ones from their sources, those of a
# user from a file, synthetic ones from a seed.
if REGISTRY.sets:

    # On the machine that runs Snakemake, which has a network where compute nodes have none. Files stay in the cache,
    # out of reach of the deletion of a failed job's outputs: a broken download goes on where it stopped.
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


# Seconds each: where Snakemake runs. What a registered set is made of is said by its entry, with checksums: when its
# files came, and where they lie, reruns nothing.
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


# Which evaluation questions the sources of training ask too, and what was done about it.
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
