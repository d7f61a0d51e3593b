"""PostCal (binary): a companion that learnt binary correctness from the final policy's fresh responses (appendix B.2).

It scores the hidden states of the evaluated responses (equation 6), as CoCal's companions do.
"""

from cocal.config.method import Method, Rival

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
    rivals=(Rival(name="postcal-binary", position=150, reader="resampled"),),
    colour="#126f2c",
    marker="D",
)
