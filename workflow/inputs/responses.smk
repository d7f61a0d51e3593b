# Inputs and parameters of the rules of responses and of their hidden states.
# The engines that sample, or that ask the judge.
ENGINES = [STUDY.generation.engine]
JUDGE_TEXTS = ""
if STUDY.judge.kind == "llm":
    ENGINES.append(STUDY.judge.engine)
    JUDGE_TEXTS = (
        f"prompts:{JudgePrompts(STUDY.judge.prompts and Path(STUDY.judge.prompts)).digest}"
    )
# The file that is written when a judge from the hub has been downloaded.
JUDGE = ["results/judge.json"] if STUDY.judge.kind == "llm" and not STUDY.judge.local else []
# Names of the code that opens the engines.
ENGINE_CODE = [engine.opens for engine in ENGINES]
IN_VLLM = any(engine.kind == "vllm" for engine in ENGINES)
GENERATION_ENVIRONMENT = "../../envs/gpu.yaml" if IN_VLLM else "../../envs/cocal.yaml"


def response_texts(domain):
    """A function from the wildcards to the digest of the prompt texts that responses and P(True) depend on."""

    def texts(wildcards):
        cell = cell_of(wildcards)
        planned = plan.response_plan(STUDY, *cell, wildcards.prompt_format, SETS[domain])
        return prompt_texts(*planned.formats(wildcards.prompt_format), domain=domain)

    return texts


def response_plan(domain):
    """A function from the wildcards to a domain's sets, with the number and length of their responses."""

    def planned(wildcards):
        cell = cell_of(wildcards)
        return canonical(plan.response_plan(STUDY, *cell, wildcards.prompt_format, SETS[domain]))

    return planned


def feature_settings(wildcards):
    return canonical(
        plan.feature_settings(STUDY, wildcards.algorithm, int(wildcards.step), "mathematics")
    )


def pooled_flags(wildcards):
    """Flags that add the prompt's state where pre-generation is evaluated, or end RLCR's response before its reason."""
    if wildcards.prompt_format == "rlcr":
        return "--task-response"
    experiences = plan.experiences_of(plan.methods_of(STUDY, *cell_of(wildcards)))
    return "--prompt" if wildcards.prompt_format == "answer" and "prompts" in experiences else ""
