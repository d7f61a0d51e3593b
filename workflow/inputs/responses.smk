# What the rules of responses and of their hidden states ask for.
# Of the rules that sample or ask the judge.
ENGINES = [STUDY.generation.engine]
JUDGE_TEXTS = ""
if STUDY.judge.kind == "llm":
    ENGINES.append(STUDY.judge.engine)
    JUDGE_TEXTS = (
        f"prompts:{JudgePrompts(STUDY.judge.prompts and Path(STUDY.judge.prompts)).digest}"
    )
# The file that says that a judge of the hub is here.
JUDGE = ["results/judge.json"] if STUDY.judge.kind == "llm" and not STUDY.judge.local else []
# What opens them, by name, and what they run in processes of their own.
ENGINE_CODE = [name for engine in ENGINES for name in (engine.opens, *engine.kept_apart)]
GENERATION_ENVIRONMENT = (
    f"../../envs/{'vllm' if any(engine.kind == 'vllm' for engine in ENGINES) else 'cocal'}.yaml"
)


def response_texts(domain):
    """A function of the wildcards: the digest of the prompt texts that a job's responses and P(True) depend on."""

    def texts(wildcards):
        cell = cell_of(wildcards)
        planned = plan.response_plan(STUDY, *cell, wildcards.prompt_format, SETS[domain])
        return prompt_texts(*planned.formats(wildcards.prompt_format), domain=domain)

    return texts


def response_plan(domain):
    """A function of the wildcards: the sets of a domain, how many responses, how long."""

    def planned(wildcards):
        cell = cell_of(wildcards)
        return canonical(plan.response_plan(STUDY, *cell, wildcards.prompt_format, SETS[domain]))

    return planned


def feature_settings(wildcards):
    return canonical(
        plan.feature_settings(STUDY, wildcards.algorithm, int(wildcards.step), "mathematics")
    )


def pooled_flags(wildcards):
    """The prompt's state is pooled too where pre-generation is evaluated; RLCR's task response ends early."""
    if wildcards.prompt_format == "rlcr":
        return "--task-response"
    experiences = plan.experiences_of(plan.methods_of(STUDY, *cell_of(wildcards)))
    return "--prompt" if wildcards.prompt_format == "answer" and "prompts" in experiences else ""
