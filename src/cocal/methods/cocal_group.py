"""CoCal (group): a companion that learnt the group target from GRPO's rollouts in chronological order (section 4).

It scores the hidden states of the evaluated responses (equation 6).
"""

from cocal.config.method import Method

METHOD = Method(
    name="cocal-group",
    label="CoCal (group)",
    position=90,
    group=3,
    prompt_format="answer",
    policy="grpo",
    estimate="cocal.methods.companion_scores:estimate",
    experience="rollouts",
    target="group",
    colour="#4ec4e1",
    marker="h",
)
