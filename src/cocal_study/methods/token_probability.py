"""TokenProb: the mean token-level generation probability of the response (appendix B.1)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.method import Baseline, Method
from cocal_study.methods.base.responses import Estimator, Inputs, Responses

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
BASELINES = (
    Baseline(name=METHOD.name, position=10, method=METHOD.name, score=f"{__name__}:score", columns=METHOD.columns),
    Baseline(
        name="least-token-probability",
        label="Least token probability",
        position=20,
        method=METHOD.name,
        score=f"{__name__}:least_score",
        columns=("logprobs",),
    ),
    Baseline(
        name="length",
        label="Length (shorter is surer)",
        position=30,
        method=METHOD.name,
        score=f"{__name__}:length_score",
        columns=("length",),
        ranks_only=True,
    ),
)


def score(table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Compute exp(mean_logprob), float64 (n,) in [0, 1].

    The mean is that of the raw log-probabilities of all response tokens, with the generated end-of-sequence token.
    """
    return np.exp(table["mean_logprob"].to_numpy(dtype=np.float64))


def least_score(table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Compute the probability of the least likely token of each response, float64 (n,) in [0, 1]."""
    return np.exp(np.array([values.min() for values in table["logprobs"]], dtype=np.float64))


def length_score(table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Compute 1 / length, float64 (n,) in (0, 1], which ranks responses by their length and means nothing else.

    The length counts the tokens of a response, with the generated end-of-sequence token.
    """
    return 1 / table["length"].to_numpy(dtype="float64")


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Compute the `score` of the evaluated responses."""
    confidence = score(responses.evaluated, inputs.settings)
    return {Estimator(method.name): confidence for method in methods}
