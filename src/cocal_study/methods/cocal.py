"""CoCal: a companion that learnt from GRPO's rollouts in chronological order (section 4), for either target.

It scores the hidden states of the evaluated responses (equation 6).
"""

from cocal_study.config.method import Method, Rival


def _method(target: str, position: int, colour: str, marker: str) -> Method:
    return Method(
        name=f"cocal-{target}",
        label=f"CoCal ({target})",
        position=position,
        group=3,
        prompt_format="answer",
        policy="grpo",
        estimate="cocal_study.methods.companion_scores:estimate",
        experience="rollouts",
        target=target,
        rivals=(
            Rival(name=f"linear-{target}", position=position - 10, reader="linear"),
            Rival(name=f"one-layer-{target}", position=position + 10, reader="one-layer"),
            Rival(name=f"cocal-{target}", position=position + 30, reader="rollouts"),
        ),
        colour=colour,
        marker=marker,
    )


BINARY, GROUP = _method("binary", 100, "#3035c4", "o"), _method("group", 90, "#4ec4e1", "h")
METHOD = (BINARY, GROUP)
