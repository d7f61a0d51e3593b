"""Deep Think with Confidence (Fu et al., arXiv:2508.15260): how sure a policy is where it is least sure."""

import numpy as np

from cocal_study.config.method import Method
from cocal_study.methods.base.responses import Estimator

WINDOW = 2048
"""Tokens of a group, as in the paper; a shorter response is one group."""

METHOD = Method(
    name="deepconf",
    label="DeepConf (lowest group)",
    position=36,  # its row, between those of 30 and 40
    group=1,
    prompt_format="answer",
    policy="grpo",
    estimate=f"{__name__}:estimate",
    columns=("best_logprobs",),  # kept where a study sets `generation: {best_logprobs: 20}`; others go without DeepConf
    colour="#3b7d7d",
    marker="h",
)


def lowest_group(best, length):
    """The least mean of the confidences of WINDOW tokens in a row.

    The confidence of a token is the mean of its k largest log-probabilities, with the other sign: the surer the policy
    is of one token, the less probable are the others.

    Args:
        best: float32 (length * k,), the k log-probabilities of each token, one token after the other.
    """
    tokens = -best.reshape(length, -1).mean(axis=1, dtype="float64")
    size = min(WINDOW, length)
    sums = np.concatenate([[0], tokens.cumsum()])
    return ((sums[size:] - sums[:-size]) / size).min()


def estimate(methods, responses, inputs):
    """c / (1 + c) of the lowest group confidence c of each response, float64 (n,), which ranks as c does."""
    table = responses.evaluated
    lowest = [lowest_group(best, length) for best, length in zip(table["best_logprobs"], table["length"], strict=True)]
    confidence = np.array(lowest) / (1 + np.array(lowest))
    return {Estimator(method.name): confidence for method in methods}
