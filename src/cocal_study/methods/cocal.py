"""CoCal: a companion that learnt from GRPO's rollouts in chronological order (section 4), for either target.

It scores the hidden states of the evaluated responses (equation 6).
"""

from cocal.companion.settings import Target
from cocal_study.config.method import Baseline, Method


def _method(target: Target, position: int, colour: str, marker: str) -> Method:
    return Method(
        name=f"cocal-{target}",
        label=f"CoCal ({target})",
        position=position,
        group=3,
        prompt_format="answer",
        policy="grpo",
        estimate="cocal_study.methods.base.companion_scores:estimate",
        experience="rollouts",
        target=target,
        colour=colour,
        marker=marker,
    )


BINARY, GROUP = _method("binary", 100, "#3035c4", "o"), _method("group", 90, "#4ec4e1", "h")
METHOD = (BINARY, GROUP)
BASELINES = tuple(
    baseline
    for method in METHOD
    for baseline in (
        Baseline(
            name=f"one-layer-{method.target}",
            label=f"One-layer MLP ({method.target})",
            position=method.position + 10,
            method=method.name,
            reader="one-layer",
            note="The one-layer MLP has the first of CoCal's hidden layers alone.",
        ),
        Baseline(name=method.name, position=method.position + 30, method=method.name, reader="rollouts"),
    )
)
