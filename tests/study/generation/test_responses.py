"""Rules of sampling that need no policy: noise that no two responses share, prompts, rows of completions."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from cocal.engines.engine import Completion
from cocal.models.text import chat_ids, plain_texts
from cocal.rewards import stated_confidences
from cocal.rollouts.recorded import sampled_rows
from cocal_study.backbones.pretraining import CHAT_TEMPLATE, train_tokenizer
from cocal_study.config.evaluation import GenerationSettings
from cocal_study.generation.engines import Sampling
from cocal_study.generation.responses import Sampler, sample_responses, sampling_seeds
from cocal_study.generation.sampling import Evaluated
from cocal_study.planning.plan import ResponsePlan, SetPlan
from cocal_study.questions.prompts import Prompts


def test_every_set_format_and_checkpoint_has_its_own_noise():
    cells = list(product(("a", "b"), ("base", "grpo"), (0, 60), ("answer", "verbal"), ("amc23", "amc24")))
    names = [Evaluated(*cell[:4], ResponsePlan(sets={}), {}).identity(cell[4]) for cell in cells]
    starts = {sampling_seeds(name, seed, 1, 10)[0] for name in names for seed in (42, 43)}
    assert len(starts) == 2 * len(cells)
    streams = {seed + j for seed in sampling_seeds(names[0], 42, 100, 10) for j in range(10)}
    assert len(streams) == 1000
    assert max(streams) < 2**63


class Silent:
    """An engine that ends every response at once and notes the seed of each."""

    def __init__(self):
        self.noise = []

    def generate(self, prompts, sampling, seeds):
        self.noise += [seed + j for seed in seeds for j in range(sampling.samples)]
        end = Completion([2], np.zeros(1, dtype=np.float32), "stop")
        return [[end] * sampling.samples for _ in prompts]


@pytest.mark.parametrize(("samples", "sampled"), [(2, 7), (1, 10), (5, 5)])
def test_questions_share_no_noise_and_are_asked_in_the_words_of_their_domain(tokenizer, samples, sampled):
    """More responses are sampled than are evaluated, and each has a stream of its own."""
    count, engine, prompts = 9, Silent(), Prompts("qwen")
    questions = pd.DataFrame({"question": "Why?", "question_id": list("abcdefghi"), "dataset": "d"})
    questions["domain"] = ["mathematics", "factual", "factual"] * 3
    plan = SetPlan(samples=samples, sampled=sampled, max_response_length=9, pool=True)
    given = Sampler(engine, tokenizer, prompts), GenerationSettings()
    found = sample_responses(questions, "answer", plan, *given, identity="a/grpo/4", step=4)
    assert len(found) == len(engine.noise) == len({*engine.noise}) == count * sampled
    words = [prompts.message("answer", "Why?", domain=domain) for domain in questions["domain"]]
    assert found["prompt_ids"].tolist()[::sampled] == chat_ids(tokenizer, words)
    assert words[0] != words[1]


def test_the_settings_of_sampling_are_all_taken():
    settings = GenerationSettings(temperature=0.3, top_k=7, top_p=0.4, presence_penalty=1.25, best_logprobs=6)
    assert Sampling.of(settings, 99, 5) == Sampling(0.3, 7, 0.4, 1.25, 99, 5, 6)


def test_a_study_that_keeps_no_best_log_probabilities_is_told_nothing_of_them():
    """Its commands and digests stay as they were."""
    assert "best_logprobs" not in GenerationSettings().model_dump_json()
    assert (
        GenerationSettings.model_validate_json(GenerationSettings(best_logprobs=3).model_dump_json()).best_logprobs == 3
    )


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["The sum of 1 and 2 is 3. " * 20, "user assistant think " * 20], 270, 512)


def test_prompts_open_the_response_without_thinking(tokenizer):
    """As Qwen3's template does, which writes an empty thought where thinking is switched off."""
    empty = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    tokenizer.chat_template = CHAT_TEMPLATE + empty
    (ids,) = chat_ids(tokenizer, ["1?"])
    assert tokenizer.decode(ids) == "<|im_start|>user\n1?<|im_end|>\n<|im_start|>assistant\n<think></think>"


def test_plain_texts_have_no_end_token_and_keep_their_spaces(tokenizer):
    ids = [*tokenizer(" 1 , 2 .")["input_ids"], tokenizer.eos_token_id]
    assert plain_texts(tokenizer, [ids]) == [" 1 , 2 ."]


def test_the_answer_format_states_no_confidence():
    text = "\\boxed{1}\nCONFIDENCE: 0.5"
    assert np.isnan(stated_confidences([text], "answer")).all()
    assert stated_confidences([text], "verbal").tolist() == [0.5]


def test_the_entropy_counts_all_but_the_best_tokens_as_one():
    best = np.log([[0.5, 0.25], [0.75, 0.25], [1.0, 1e-30]]).astype(np.float32)
    one = Completion([5, 6, 2], best[:, 0], "stop", best=best)
    labels = {"dataset": "d", "question_ids": ["p"], "prompt_ids": [[1]], "group_size": 1, "step": 3}
    ((kept, entropy),) = sampled_rows([one], ["1"], "answer", **labels)[["best_logprobs", "best_entropy"]].to_numpy()
    assert kept.tolist() == best.ravel().tolist()
    of_quarter = 0.25 * np.log(4)
    np.testing.assert_allclose(
        entropy, [0.5 * np.log(2) + 2 * of_quarter, 0.75 * np.log(4 / 3) + of_quarter, 0], atol=1e-6
    )
