"""P(True): the policy's own judgement of its fixed response (appendix B.1).

It is the probability that the next token is "True", given that it is "True" or "False", and is measured when responses
are sampled (`cocal_study.generation.responses`).
"""

from collections.abc import Sequence

import numpy as np

from cocal.errors import ContractError
from cocal_study.config.method import Method
from cocal_study.methods.base.responses import Estimator, Inputs, Responses

METHOD = Method(
    name="p-true",
    label="P(True)",
    position=40,
    group=1,
    prompt_format="answer",
    policy="grpo",
    estimate=f"{__name__}:estimate",
    columns=("p_true", "p_true_mass"),
    asks_p_true=True,
    colour="#c176ab",
    marker="X",
)


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Return P(True) from the table of responses, float64 (n,). Raises ContractError if P(True) of an evaluated
    response was not measured."""
    confidence = responses.evaluated["p_true"].to_numpy(dtype=np.float64)
    missing = np.isnan(confidence)
    if missing.any():
        raise ContractError(
            f"{responses.path}: column 'p_true' is null for {missing.sum()} evaluated response(s), first "
            f"response_id {responses.evaluated['response_id'][missing].iloc[0]}; sample the responses with p_true"
        )
    return {Estimator(method.name): confidence for method in methods}
