"""P(True): the policy's own judgement of its fixed response (appendix B.1)."""

from collections.abc import Sequence

import numpy as np

from cocal.config.methods import Method
from cocal.errors import ContractError
from cocal.estimators.responses import Estimator, Inputs, Responses

COLUMNS = ("p_true", "p_true_mass")


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """P(True) as it was measured with the responses.

    Raises:
        ContractError: if an evaluated response was not asked about.
    """
    confidence = responses.evaluated["p_true"].to_numpy(dtype=np.float64)
    missing = np.isnan(confidence)
    if missing.any():
        raise ContractError(
            f"{responses.path}: column 'p_true' is null for {missing.sum()} evaluated response(s), first "
            f"response_id {responses.evaluated['response_id'][missing].iloc[0]}; sample the responses with p_true"
        )
    return {Estimator(method.name): confidence for method in methods}
