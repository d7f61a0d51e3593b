"""CoCal (group): a companion that learnt the group target from GRPO's rollouts in chronological order (section 4).

It scores the hidden states of the evaluated responses (equation 6).
"""

from cocal.config.method import Method, Rival

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
    rivals=(
        Rival(name="linear-group", position=80, reader="linear"),
        Rival(name="one-layer-group", position=100, reader="one-layer"),
        Rival(name="cocal-group", position=120, reader="rollouts"),
    ),
    colour="#4ec4e1",
    marker="h",
)
