"""PostCal: a companion that learnt from the final policy's fresh responses (appendix B.2), for either target.

It scores the hidden states of the evaluated responses (equation 6), as CoCal's companions do.
"""

from cocal.companion.settings import Target
from cocal_study.config.method import Baseline, Method


def _method(target: Target, position: int, colour: str, marker: str) -> Method:
    return Method(
        name=f"postcal-{target}",
        label=f"PostCal ({target})",
        position=position,
        group=2,
        prompt_format="answer",
        policy="grpo",
        estimate="cocal_study.methods.base.companion_scores:estimate",
        experience="resampled",
        target=target,
        colour=colour,
        marker=marker,
    )


BINARY, GROUP = _method("binary", 80, "#126f2c", "D"), _method("group", 70, "#96bf7a", "d")
METHOD = (BINARY, GROUP)
BASELINES = tuple(
    Baseline(name=method.name, position=method.position + 70, method=method.name, reader="resampled")
    for method in METHOD
)
