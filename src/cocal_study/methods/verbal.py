"""Verbal: the policy that GRPO trained states its confidence together with its answer (section 5).

The confidence is parsed from the policy's own responses in the confidence-reporting format (appendix B.1).
"""

from cocal_study.config.method import Method

METHOD = Method(
    name="verbal",
    label="Verbal",
    position=10,
    group=1,
    prompt_format="verbal",
    policy="grpo",
    estimate="cocal_study.methods.base.stated:estimate",
    columns=("confidence",),
    colour="#494949",
    marker=">",
)
