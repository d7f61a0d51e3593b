# Parameters of the rules of companions.
def companion_steps(experience):
    """A function from the wildcards to the prefixes and budgets that a backbone's companions are fitted on."""

    def steps(wildcards):
        return [str(p) for p in plan.companion_prefixes(STUDY, wildcards.backbone, experience)]

    return steps


def ablation_flags(wildcards):
    return ["--states", *plan.ablation_states(STUDY, wildcards.backbone)]
