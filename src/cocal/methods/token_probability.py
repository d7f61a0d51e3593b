"""TokenProb: the mean token-level generation probability of the response (appendix B.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cocal.config.method import Method

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import ArrayLike

    from cocal.methods.responses import Estimator, Inputs, Responses

METHOD = Method(
    name="token-probability",
    label="TokenProb",
    position=30,
    group=1,
    prompt_format="answer",
    policy="grpo",
    estimate=f"{__name__}:estimate",
    columns=("mean_logprob",),
    colour="#74297c",
    marker="P",
)


def token_probability(mean_logprob: ArrayLike) -> np.ndarray:
    """Compute exp(mean_logprob), float64 (n,) in [0, 1].

    Args:
        mean_logprob: (n,), mean raw log-probability of all response tokens, with the generated end-of-sequence token.
    """
    import numpy as np

    return np.exp(np.asarray(mean_logprob, dtype=np.float64))


def least_token_probability(logprobs: Sequence[np.ndarray]) -> np.ndarray:
    """Compute the probability of the least likely token of each response, float64 (n,) in [0, 1].

    Args:
        logprobs: For each of n responses the raw log-probabilities of its tokens, float32 (length,), with that of the
            generated end-of-sequence token.
    """
    import numpy as np

    return np.exp(np.array([values.min() for values in logprobs], dtype=np.float64))


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Compute `token_probability` of the evaluated responses."""
    from cocal.methods.responses import Estimator

    confidence = token_probability(responses.evaluated["mean_logprob"])
    return {Estimator(method.name): confidence for method in methods}
