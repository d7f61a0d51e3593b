"""CoCal on RLCR: the companion of GRPO's same step scores the responses of RLCR's policy (appendix D).

It scores only the task response, which ends before the uncertainty reasoning and the confidence.
"""

from cocal_study.config.method import Method

METHOD = Method(
    name="cocal-on-rlcr",
    label="CoCal on RLCR",
    position=120,
    prompt_format="rlcr",
    policy="rlcr",
    estimate="cocal_study.methods.base.companion_scores:estimate",
    experience="rollouts",
    target="binary",
    colour="#3035c4",
    marker="s",
    hollow=True,
)
