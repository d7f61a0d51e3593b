"""CoCal on DCPO: the companion of GRPO's same step scores the whole responses of DCPO's policy (appendix D)."""

from cocal_study.config.method import Method

METHOD = Method(
    name="cocal-on-dcpo",
    label="CoCal on DCPO",
    position=130,
    prompt_format="dcpo",
    policy="dcpo",
    estimate="cocal_study.methods.base.companion_scores:estimate",
    experience="rollouts",
    target="binary",
    colour="#3035c4",
    marker="^",
    hollow=True,
)
