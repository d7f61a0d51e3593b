"""Nothing that is drawn for one response is drawn for another: noise, penalties, places in a batch."""

import numpy as np
import pandas as pd
import pytest

from cocal.engines.engine import Completion, Sampling
from cocal_study.config.evaluation import GenerationSettings
from cocal_study.generation.responses import Sampler, sample_responses
from cocal_study.generation.transformers_engine import TransformersEngine
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


def test_a_penalty_is_that_of_one_s_own_response(micro_policy):
    """Responses of one batch get the tokens that each gets alone."""
    prompts = [[5, 6, 7], [5, 6, 7], [9, 8], [30, 31, 32, 33]]
    sampling = Sampling(1.2, top_k=0, top_p=1.0, presence_penalty=2.0, max_tokens=20, samples=3)
    together, alone = (TransformersEngine.of(micro_policy, size) for size in (12, 1))
    drawn = [engine.generate(prompts, sampling, [40, 90, 140, 190]) for engine in (together, alone)]
    ids = [[one.token_ids for group in groups for one in group] for groups in drawn]
    assert ids[0] == ids[1]
    free = Sampling(1.2, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=20, samples=3)
    other = [one.token_ids for group in together.generate(prompts, free, [40, 90, 140, 190]) for one in group]
    assert other != ids[0]
