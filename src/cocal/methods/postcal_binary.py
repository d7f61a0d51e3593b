"""PostCal (binary): a companion that learnt binary correctness from the final policy's fresh responses (appendix B.2).

It scores the hidden states of the evaluated responses (equation 6), as CoCal's companions do.
"""

from cocal.config.method import Method

METHOD = Method(
    name="postcal-binary",
    label="PostCal (binary)",
    position=80,
    group=2,
    prompt_format="answer",
    policy="grpo",
    estimate="cocal.methods.companion_scores:estimate",
    experience="resampled",
    target="binary",
    colour="#126f2c",
    marker="D",
)
