# Evaluation responses of a checkpoint, with one job per prompt format. The job samples and verifies them and asks
# P(True).
rule responses:
    input:
        checkpoint="results/policies/{backbone}/{algorithm}/step-{step}",
        questions=expand("results/questions/{dataset}.parquet", dataset=SETS["mathematics"]),
    output:
        expand(
            "results/responses/{{backbone}}/{{algorithm}}/step-{{step}}/{{prompt_format}}/{dataset}.parquet",
            dataset=SETS["mathematics"],
        ),
    log:
        "logs/responses/{backbone}-{algorithm}-{step}-{prompt_format}.log",
    benchmark:
        "results/benchmarks/responses/{backbone}-{algorithm}-{step}-{prompt_format}.tsv"
    conda:
        GENERATION_ENVIRONMENT
    resources:
        gpus=SAMPLING_GPUS,
    params:
        settings=canonical(STUDY.generation),
        verifier=canonical(STUDY.verifier),
        # the judge of factual answers has no part in mathematics, so another one does not touch these files
        judge='{"kind":"exact-match"}',
        plan=response_plan("mathematics"),
        prompts=STUDY.prompts,
        texts=response_texts("mathematics"),
        domain="mathematics",
        folder=subpath(output[0], parent=True),
        code=computing("cocal.commands.responses", *ENGINE_CODE),
    shell:
        "cocal responses --settings {params.settings:q} --verifier {params.verifier:q} --judge {params.judge:q}"
        " --judgements results/judgements --plan {params.plan:q} --prompt-format {wildcards.prompt_format} --questions results/questions"
        " --checkpoint {input.checkpoint} --backbone {wildcards.backbone} --algorithm {wildcards.algorithm}"
        " --step {wildcards.step} --prompts {params.prompts} --output {params.folder} --run-folder"
        " results/runs/responses/{wildcards.backbone}/{wildcards.algorithm}-{wildcards.step}-{wildcards.prompt_format}-{params.domain}"
        " 2>&1 | tee {log}"


# A judge from the hub is downloaded where Snakemake runs, since compute nodes often have no network.
if JUDGE:

    localrules:
        judge_checkpoint,

    rule judge_checkpoint:
        output:
            JUDGE,
        log:
            "logs/judge.log",
        benchmark:
            "results/benchmarks/judge.tsv"
        conda:
            "../../envs/cocal.yaml"
        params:
            name=STUDY.judge.checkpoint,
            revision=STUDY.judge.revision,
            code=code_digest("cocal.commands.hub"),
        shell:
            "cocal hub --name {params.name:q} --revision {params.revision} --output {output} > {log} 2>&1"


# Responses to factual questions, which are out of domain for every companion and every policy.
use rule responses as factual_responses with:
    input:
        checkpoint="results/policies/{backbone}/{algorithm}/step-{step}",
        questions=expand("results/questions/{dataset}.parquet", dataset=SETS["factual"]),
        judge=JUDGE,
    output:
        expand(
            "results/responses/{{backbone}}/{{algorithm}}/step-{{step}}/{{prompt_format}}/{dataset}.parquet",
            dataset=SETS["factual"],
        ),
    log:
        "logs/responses/{backbone}-{algorithm}-{step}-{prompt_format}-factual.log",
    benchmark:
        "results/benchmarks/factual_responses/{backbone}-{algorithm}-{step}-{prompt_format}-factual.tsv"
    params:
        settings=canonical(STUDY.generation),
        verifier=canonical(STUDY.verifier),
        judge=canonical(STUDY.judge),
        plan=response_plan("factual"),
        prompts=STUDY.prompts,
        texts=response_texts("factual"),
        judge_texts=JUDGE_TEXTS,
        domain="factual",
        folder=subpath(output[0], parent=True),
        code=computing("cocal.commands.responses", *ENGINE_CODE),
