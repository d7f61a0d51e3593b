"""CoCal (binary): a companion that learnt binary correctness from GRPO's rollouts in chronological order (section 4).

It scores the hidden states of the evaluated responses (equation 6).
"""

from cocal.config.method import Method, Rival

METHOD = Method(
    name="cocal-binary",
    label="CoCal (binary)",
    position=100,
    group=3,
    prompt_format="answer",
    policy="grpo",
    estimate="cocal.methods.companion_scores:estimate",
    experience="rollouts",
    target="binary",
    rivals=(
        Rival(name="linear-binary", position=90, reader="linear"),
        Rival(name="one-layer-binary", position=110, reader="one-layer"),
        Rival(name="cocal-binary", position=130, reader="rollouts"),
    ),
    colour="#3035c4",
    marker="o",
)
