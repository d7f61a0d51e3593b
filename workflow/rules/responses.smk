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
            results.benchmark_file("judge_checkpoint", "judge")
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
                results.benchmark_file(f"{begin}responses", LOG)
            conda:
                GENERATION_ENVIRONMENT
            resources:
                gpus=SAMPLING_GPUS,
            params:
                **params(f"{begin}responses"),
                judgements=results.JUDGEMENTS,
                questions=results.QUESTIONS,
                folder=subpath(output[0], parent=True),
                kept=flagged("--output-kept", "kept"),
                run_folder=results.run_folder(
                    "responses",
                    "{backbone}",
                    f"{{algorithm}}-{{step}}-{{prompt_format}}-{domain}",
                ),
            shell:
                "cocal responses {params.settings:q} --judgements {params.judgements} --questions {params.questions}"
                " --checkpoint {input.checkpoint} --output {params.folder} {params.kept} --run-folder {params.run_folder}"
                " 2>&1 | tee {log}"

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
                results.benchmark_file(f"{begin}features", LOG)
            conda:
                "../../envs/cocal.yaml"
            resources:
                gpus=1,
            params:
                **params(f"{begin}features"),
                folder=subpath(output[0], parent=True),
            shell:
                "cocal features {params.settings:q} --checkpoint {input.checkpoint} --output {params.folder} 2>&1 | tee {log}"


# The states of the rollouts' prompts, and of rollouts whose training kept none, are read afterwards: by the policies that
# sampled them where these were kept, otherwise by the checkpoint of the stage that followed (appendix F.4).
for name, command in {"prompt_features": "prompts", "replay": "replay"}.items():
    if name in PLAN.rules:
        read = "prompts" if name == "prompt_features" else "rollouts"

        rule:
            name:
                name
            input:
                unpack(inputs(name)),
            output:
                **outputs(name),
            log:
                f"logs/features/{{backbone}}-{read}.log",
            benchmark:
                results.benchmark_file(name, f"{{backbone}}-{read}")
            wildcard_constraints:
                **limits(name),
            conda:
                "../../envs/cocal.yaml"
            resources:
                gpus=1,
            params:
                **params(name),
                command=command,
                run_folder=(
                    ["--run-folder", results.run_folder("replay", "{backbone}")]
                    if name == "replay"
                    else []
                ),
            shell:
                "cocal {params.command} {params.settings:q} --rollouts {input.rollouts} {params.run_folder}"
                " --output {output} 2>&1 | tee {log}"
