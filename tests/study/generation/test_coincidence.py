"""Nothing that is drawn for one response is drawn for another: noise, penalties, places in a batch."""

import numpy as np
import pandas as pd
import pytest

from cocal.engines.engine import Completion
from cocal_study.config.evaluation import GenerationSettings
from cocal_study.generation.responses import Sampler, sample_responses
from cocal_study.planning.plan import SetPlan
from cocal_study.questions.prompts import Prompts


class Noted:
    """An engine that ends every response at once and notes the seed of each."""

    def __init__(self):
        self.noise = []

    def generate(self, prompts, sampling, seeds):
        self.noise += [seed + j for seed in seeds for j in range(sampling.samples)]
        end = Completion([2], np.zeros(1, dtype=np.float32), "stop")
        return [[end] * sampling.samples for _ in prompts]


@pytest.mark.parametrize(("samples", "sampled"), [(2, 7), (1, 10), (5, 5)])
def test_neighbouring_questions_share_no_noise(micro_policy, samples, sampled):
    """More responses are sampled than are evaluated, and each has a stream of its own."""
    count = 9
    columns = {"domain": "mathematics", "dataset": "d", "answer": "1"}
    questions = pd.DataFrame({"question": [f"{k}?" for k in range(count)], "question_id": list("abcdefghi")})
    engine = Noted()
    plan = SetPlan(samples=samples, sampled=sampled, max_response_length=9, pool=True)
    settings, sampler = GenerationSettings(), Sampler(engine, micro_policy.tokenizer, Prompts("tiny"))
    found, _ = sample_responses(
        questions.assign(**columns), "answer", plan, sampler, settings, identity="a/grpo/4", step=4
    )
    assert len(found) == len(engine.noise) == count * sampled
    assert len({*engine.noise}) == len(engine.noise)
