"""Verbal and Base + Verbal: a policy states its confidence together with its answer (section 5).

The confidence is parsed from the policy's own responses in the confidence-reporting format (appendix B.1): those of the
policy that GRPO trained, or of the pre-RL model.
"""

from cocal_study.config.method import Method

_HOW = {"prompt_format": "verbal", "estimate": "cocal_study.methods.base.stated:estimate", "columns": ("confidence",)}
METHOD = (
    Method(
        name="base-verbal",
        label="Base + Verbal",
        position=0,
        group=0,
        policy="base",
        colour="#d8d8d8",
        marker="<",
        **_HOW,
    ),
    Method(name="verbal", label="Verbal", position=10, group=1, policy="grpo", colour="#494949", marker=">", **_HOW),
)
