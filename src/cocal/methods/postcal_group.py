"""PostCal (group): a companion that learnt the group target from the final policy's fresh responses (appendix B.2).

It scores the hidden states of the evaluated responses (equation 6), as CoCal's companions do.
"""

from cocal.config.method import Method, Rival

METHOD = Method(
    name="postcal-group",
    label="PostCal (group)",
    position=70,
    group=2,
    prompt_format="answer",
    policy="grpo",
    estimate="cocal.methods.companion_scores:estimate",
    experience="resampled",
    target="group",
    rivals=(Rival(name="postcal-group", position=140, reader="resampled"),),
    colour="#96bf7a",
    marker="d",
)
