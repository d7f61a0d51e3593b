"""Base + Verbal: the pre-RL model states its confidence together with its answer (section 5).

The confidence is parsed from the base model's own responses in the confidence-reporting format.
"""

from cocal_study.config.method import Method

METHOD = Method(
    name="base-verbal",
    label="Base + Verbal",
    position=0,
    group=0,
    prompt_format="verbal",
    policy="base",
    estimate="cocal_study.methods.base.stated:estimate",
    columns=("confidence",),
    colour="#d8d8d8",
    marker="<",
)
