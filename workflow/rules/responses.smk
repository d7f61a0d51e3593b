# Evaluation responses of a checkpoint, one prompt format a job: sampled, verified, asked P(True).
rule responses:
    input:
        checkpoint="results/policies/{backbone}/{algorithm}/step-{step}",
        questions=expand("results/questions/{dataset}.parquet", dataset=MATHEMATICS),
    output:
        expand(
            "results/responses/{{backbone}}/{{algorithm}}/step-{{step}}/{{protocol}}/{dataset}.parquet",
            dataset=MATHEMATICS,
        ),
    log:
        "logs/responses/{backbone}-{algorithm}-{step}-{protocol}.log",
    benchmark:
        "results/benchmarks/responses/{backbone}-{algorithm}-{step}-{protocol}.tsv"
    conda:
        "../../envs/cocal.yaml"
    params:
        settings=canonical(STUDY.generation),
        verifier=canonical(STUDY.verifier),
        plan=response_plan,
        prompts=STUDY.prompts,
        folder=subpath(output[0], parent=True),
    shell:
        "cocal responses --settings {params.settings:q} --verifier {params.verifier:q} --plan {params.plan:q}"
        " --protocol {wildcards.protocol} --questions results/questions --checkpoint {input.checkpoint}"
        " --backbone {wildcards.backbone} --algorithm {wildcards.algorithm} --step {wildcards.step}"
        " --prompts {params.prompts} --output {params.folder}"
        " --run-folder results/runs/responses/{wildcards.backbone}/{wildcards.algorithm}-{wildcards.step}-{wildcards.protocol}"
        " 2>&1 | tee {log}"
