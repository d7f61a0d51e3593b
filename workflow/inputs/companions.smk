# What the rules of companions ask for.
# Folder of the companions of each kind of experience.
EXPERIENCES = {"rollouts": "grpo", "resampled": "postcal", "prompts": "prompts"}


def companion_folder(backbone, experience):
    return f"results/companions/{backbone}/{EXPERIENCES[experience]}"


def companion_steps(experience):
    """A function of the wildcards: the prefixes and budgets that a backbone's companions are fitted on."""

    def steps(wildcards):
        return [str(p) for p in plan.companion_prefixes(STUDY, wildcards.backbone, experience)]

    return steps


def ablation_flags(wildcards):
    return ["--states", *plan.ablation_states(STUDY, wildcards.backbone)]
