"""CoCal (binary): a companion that learnt binary correctness from GRPO's rollouts in chronological order (section 4).

It scores the hidden states of the evaluated responses (equation 6).
"""

from cocal.config.method import Method

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
    colour="#3035c4",
    marker="o",
)
