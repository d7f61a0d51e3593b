"""Verbal, Base + Verbal, RLCR and DCPO: policies that state their confidence in their responses.

Verbal is the policy that GRPO trained and Base + Verbal the pre-RL model, both in the confidence-reporting format
(section 5, appendix B.1). RLCR learnt task and confidence from one combined reward, and states its confidence after its
uncertainty reasoning; DCPO learnt confidence through an advantage of the confidence tokens, and states it after the
answer (appendix B.2). Each has responses of its own policy in its own format. A response without a valid confidence
counts in accuracy and is left out of the confidence metrics (appendix A.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cocal_study.config.method import Method, Policy, PromptFormat, Rival

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd

    from cocal_study.config.evaluation import EstimatorSettings
    from cocal_study.methods.responses import Estimator, Inputs, Responses


def _method(
    name: str, label: str, position: int, group: int, policy: Policy, how: PromptFormat, colour: str, marker: str
) -> Method:
    return Method(
        name=name,
        label=label,
        position=position,
        group=group,
        prompt_format=how,
        policy=policy,
        estimate=f"{__name__}:estimate",
        columns=("confidence",),
        colour=colour,
        marker=marker,
    )


RLCR = _method("rlcr", "RLCR", 50, 2, "rlcr", "rlcr", "#de7733", "s")
METHOD = (
    _method("base-verbal", "Base + Verbal", 0, 0, "base", "verbal", "#d8d8d8", "<"),
    _method("verbal", "Verbal", 10, 1, "grpo", "verbal", "#494949", ">"),
    RLCR,
    _method("dcpo", "DCPO", 60, 2, "dcpo", "dcpo", "#a10a0a", "^"),
)
RIVALS = tuple(
    Rival(name=name, position=position, method=name, score=f"{__name__}:score")
    for name, position in (("rlcr", 60), ("dcpo", 70))
)


def score(table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Return the confidences that were parsed from the responses, float64 (n,), NaN without a valid one."""
    return table["confidence"].to_numpy(dtype="float64")


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Return the `score` of the evaluated responses."""
    from cocal_study.methods.responses import Estimator

    stated = score(responses.evaluated, inputs.settings)
    return {Estimator(method.name): stated for method in methods}
