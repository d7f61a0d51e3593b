"""RLCR: a policy that learnt task and confidence from one combined reward states its confidence (appendix B.2).

The confidence follows the uncertainty reasoning in the responses of RLCR's own policy.
"""

from cocal_study.config.method import Baseline, Method

METHOD = Method(
    name="rlcr",
    label="RLCR",
    position=50,
    group=2,
    prompt_format="rlcr",
    policy="rlcr",
    estimate="cocal_study.methods.base.stated:estimate",
    columns=("confidence",),
    colour="#de7733",
    marker="s",
)
BASELINES = (
    Baseline(
        name="rlcr",
        position=60,
        method="rlcr",
        score="cocal_study.methods.base.stated:score",
        columns=METHOD.columns,
    ),
)
