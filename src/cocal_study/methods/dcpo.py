"""DCPO: a policy that learnt its confidence through an advantage of the confidence tokens states it (appendix B.2).

The confidence follows the answer in the responses of DCPO's own policy.
"""

from cocal_study.config.method import Baseline, Method

METHOD = Method(
    name="dcpo",
    label="DCPO",
    position=60,
    group=2,
    prompt_format="dcpo",
    policy="dcpo",
    estimate="cocal_study.methods.base.stated:estimate",
    columns=("confidence",),
    colour="#a10a0a",
    marker="^",
)
BASELINES = (
    Baseline(
        name="dcpo",
        position=70,
        method="dcpo",
        score="cocal_study.methods.base.stated:score",
        columns=METHOD.columns,
    ),
)
