"""CoCal on RLCR and on DCPO: the companion of GRPO's same step scores the responses of their policies (appendix D).

On DCPO it scores whole responses, on RLCR only the task response, which ends before the uncertainty reasoning and the
confidence.
"""

from typing import Literal

from cocal_study.config.method import Method


def _method(policy: Literal["rlcr", "dcpo"], position: int, marker: str) -> Method:
    return Method(
        name=f"cocal-on-{policy}",
        label=f"CoCal on {policy.upper()}",
        position=position,
        prompt_format=policy,
        policy=policy,
        estimate="cocal_study.methods.base.companion_scores:estimate",
        experience="rollouts",
        target="binary",
        colour="#3035c4",
        marker=marker,
        hollow=True,
    )


METHOD = (_method("rlcr", 120, "s"), _method("dcpo", 130, "^"))
