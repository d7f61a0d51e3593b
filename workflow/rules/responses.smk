# Evaluation responses of a checkpoint and their hidden states, with a job for each prompt format and domain. Factual
# questions are out of domain for every companion and every policy.
if "judge_checkpoint" in PLAN.rules:

    # A judge from the hub is downloaded where Snakemake runs, since compute nodes often have no network.
    rule judge_checkpoint:
        output:
            **outputs("judge_checkpoint"),
        log:
            "logs/judge.log",
        benchmark:
            "results/benchmarks/judge.tsv"
        localrule: True
        conda:
            "../../envs/cocal.yaml"
        params:
            **params("judge_checkpoint"),
        shell:
            "cocal hub {params.settings:q} --output {output} > {log} 2>&1"


for begin, domain in DOMAINS.items():
    if f"{begin}responses" in PLAN.rules:
        LOG = "{backbone}-{algorithm}-{step}-{prompt_format}" + "-factual" * (domain == "factual")

        # The job samples the responses, verifies them and asks P(True).
        rule:
            name:
                f"{begin}responses"
            input:
                unpack(inputs(f"{begin}responses")),
            output:
                **outputs(f"{begin}responses"),
            log:
                f"logs/responses/{LOG}.log",
            benchmark:
                f"results/benchmarks/{begin}responses/{LOG}.tsv"
            conda:
                GENERATION_ENVIRONMENT
            resources:
                gpus=SAMPLING_GPUS,
            params:
                **params(f"{begin}responses"),
                judgements=results.JUDGEMENTS,
                questions=results.QUESTIONS,
                folder=subpath(output[0], parent=True),
                run_folder=results.run_folder(
                    "responses",
                    "{backbone}",
                    f"{{algorithm}}-{{step}}-{{prompt_format}}-{domain}",
                ),
            shell:
                "cocal responses {params.settings:q} --judgements {params.judgements} --questions {params.questions}"
                " --checkpoint {input.checkpoint} --output {params.folder} --run-folder {params.run_folder} 2>&1 | tee {log}"

        rule:
            name:
                f"{begin}features"
            input:
                unpack(inputs(f"{begin}features")),
            output:
                **outputs(f"{begin}features"),
            log:
                f"logs/features/{LOG}.log",
            benchmark:
                f"results/benchmarks/{begin}features/{LOG}.tsv"
            conda:
                "../../envs/cocal.yaml"
            resources:
                gpus=1,
            params:
                **params(f"{begin}features"),
                folder=subpath(output[0], parent=True),
            shell:
                "cocal features {params.settings:q} --checkpoint {input.checkpoint} --output {params.folder} 2>&1 | tee {log}"


# The prompts of the rollouts are read by the checkpoint of the stage that followed (appendix F.4).
rule prompt_features:
    input:
        unpack(inputs("prompt_features")),
    output:
        **outputs("prompt_features"),
    log:
        "logs/features/{backbone}-prompts.log",
    benchmark:
        "results/benchmarks/prompt_features/{backbone}-prompts.tsv"
    conda:
        "../../envs/cocal.yaml"
    resources:
        gpus=1,
    params:
        **params("prompt_features"),
    shell:
        "cocal prompts {params.settings:q} --rollouts {input.rollouts} --output {output} 2>&1 | tee {log}"


# Rollouts whose training kept no features are read again: by the policies that sampled them where these were kept,
# otherwise by the checkpoint of the stage that followed.
if "replay" in PLAN.rules:

    rule replay:
        input:
            unpack(inputs("replay")),
        output:
            **outputs("replay"),
        log:
            "logs/features/{backbone}-rollouts.log",
        benchmark:
            "results/benchmarks/replay/{backbone}-rollouts.tsv"
        wildcard_constraints:
            **limits("replay"),
        conda:
            "../../envs/cocal.yaml"
        resources:
            gpus=1,
        params:
            **params("replay"),
            run_folder=results.run_folder("replay", "{backbone}"),
        shell:
            "cocal replay {params.settings:q} --rollouts {input.rollouts} --run-folder {params.run_folder}"
            " --output {output} 2>&1 | tee {log}"
