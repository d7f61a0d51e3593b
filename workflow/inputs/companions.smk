# What the rules of companions ask for.
def companion_steps(experience):
    """A function of the wildcards: the prefixes and budgets that a backbone's companions are fitted on."""

    def steps(wildcards):
        return [str(p) for p in plan.companion_prefixes(STUDY, wildcards.backbone, experience)]

    return steps


def ablation_flags(wildcards):
    return ["--states", *plan.ablation_states(STUDY, wildcards.backbone)]
