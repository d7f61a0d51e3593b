"""Brevity: the shorter a response, the higher its confidence."""

from cocal_study.config.method import Method
from cocal_study.methods.base.responses import Estimator

METHOD = Method(
    name="brevity",
    label="Brevity",
    position=35,  # its row, between those of 30 and 40
    group=1,  # block of the main table: 0 before training, 1 needs none, 2 baselines that train, 3 CoCal
    prompt_format="answer",  # the responses that it judges: "answer", or with a confidence "verbal", "rlcr", "dcpo"
    policy="grpo",  # who gave them: "base", "grpo", "rlcr", "dcpo"
    estimate=f"{__name__}:estimate",
    columns=(),  # what else it reads of responses, such as "logprobs"
    colour="#7a7a7a",
    marker="*",
)


def estimate(methods, responses, inputs):
    """1 / (1 + tokens / 100) of each evaluated response, float64 (n,)."""
    confidence = 1 / (1 + responses.evaluated["length"].to_numpy() / 100)
    return {Estimator(method.name): confidence for method in methods}
