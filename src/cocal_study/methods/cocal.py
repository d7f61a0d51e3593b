"""CoCal: a companion that learnt from GRPO's rollouts in chronological order (section 4).

It scores the hidden states of the evaluated responses (equation 6): those of GRPO's policy, for either target; those of
the policies of RLCR and DCPO, by the companion of GRPO's same step (appendix D), of RLCR only the task response, which
ends before the uncertainty reasoning and the confidence; and the state of the last prompt token alone, by a companion
that learnt the group accuracy of the rollouts' questions (appendix F.4), so that all responses to a question have the
same confidence.
"""

from typing import Any

from cocal_study.config.method import Method, Rival


def with_companion(name: str, label: str, position: int, **fields: Any) -> Method:
    """A method whose companion scores hidden states of responses, by default of GRPO's policy, and learnt from GRPO's
    rollouts by default."""
    usual = {"prompt_format": "answer", "policy": "grpo", "experience": "rollouts"}
    usual["estimate"] = "cocal_study.methods.companion_scores:estimate"
    return Method(name=name, label=label, position=position, **usual | fields)


def _on(policy: str, position: int, marker: str) -> Method:
    of_policy = {"prompt_format": policy, "policy": policy, "target": "binary"}
    look = {"colour": "#3035c4", "marker": marker, "hollow": True}
    return with_companion(f"cocal-on-{policy}", f"CoCal on {policy.upper()}", position, **of_policy, **look)


BINARY = with_companion("cocal-binary", "CoCal (binary)", 100, group=3, target="binary", colour="#3035c4", marker="o")
GROUP = with_companion("cocal-group", "CoCal (group)", 90, group=3, target="group", colour="#4ec4e1", marker="h")
METHOD = (
    BINARY,
    GROUP,
    with_companion(
        "cocal-pre-generation",
        "CoCal (pre-generation)",
        110,
        experience="prompts",
        target="question",
        colour="#459f82",
        marker="p",
    ),
    _on("rlcr", 120, "s"),
    _on("dcpo", 130, "^"),
)
RIVALS = tuple(
    rival
    for one in (BINARY, GROUP)
    for rival in (
        Rival(
            name=f"one-layer-{one.target}",
            label=f"One-layer MLP ({one.target})",
            position=one.position + 10,
            method=one.name,
            reader="one-layer",
            note="The one-layer MLP has the first of CoCal's hidden layers alone.",
        ),
        Rival(name=one.name, position=one.position + 30, method=one.name, reader="rollouts"),
    )
)
