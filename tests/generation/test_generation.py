"""Decoding with transformers: exact sampling, padding and shrinking batches, attention."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig, LogitsProcessor, LogitsProcessorList

from cocal.config.evaluation import GenerationSettings
from cocal.generation.engine import Sampling
from cocal.generation.evaluation import Evaluated, sample_sets
from cocal.generation.transformers_engine import SeededSampler, TransformersEngine
from cocal.models import attention
from cocal.models.text import chat_ids
from cocal.questions.prompts import Prompts
from cocal.store import read_frame
from cocal.store.contracts import QUESTIONS, SAMPLED
from cocal.store.run_folder import RunFolder
from cocal.study.plan import ResponsePlan, SetPlan

SAMPLING = Sampling(temperature=0.9, top_k=20, top_p=0.9, presence_penalty=1.5, max_tokens=12, samples=2)
PROMPTS = [[1, 30, 40, 50], [1, 31], [1, 32, 33, 34, 35, 36]]
SEEDS = [100, 200, 300]


@pytest.fixture(scope="module")
def engine(micro_policy):
    return TransformersEngine.of(micro_policy, 4)


@torch.no_grad()
def _reference(model, prompt, sampling, seed, end):
    """Sampling spelt out for one response: a full forward pass a token, NumPy in float64."""
    uniform = np.random.default_rng(seed).random(sampling.max_tokens)
    ids, logprobs = [], []
    for position in range(sampling.max_tokens):
        raw = model(torch.tensor([prompt + ids])).logits[0, -1].double().numpy()
        logits = raw.copy()
        logits[list(set(ids))] -= sampling.presence_penalty
        logits /= sampling.temperature
        order = np.argsort(-logits, kind="stable")[: sampling.top_k]
        p = np.exp(logits[order] - logits[order[0]])
        p /= p.sum()
        keep = order[: np.searchsorted(np.cumsum(p), sampling.top_p) + 1]
        masked = np.zeros(len(logits))
        masked[keep] = np.exp(logits[keep] - logits[order[0]])
        cumulative = np.cumsum(masked)
        token = int(np.searchsorted(cumulative, uniform[position] * cumulative[-1], side="right"))
        ids.append(token)
        logprobs.append(raw[token] - np.logaddexp.reduce(raw))
        if token == end:
            break
    return ids, logprobs


def test_samples_follow_the_definition(engine, micro_policy):
    """Temperature, top-k, top-p, presence penalty over generated tokens only, raw log-probabilities."""
    model, tokenizer = micro_policy
    found = engine.generate(PROMPTS, SAMPLING, SEEDS)
    for prompt, seed, group in zip(PROMPTS, SEEDS, found, strict=True):
        for j, completion in enumerate(group):
            ids, logprobs = _reference(model, prompt, SAMPLING, seed + j, tokenizer.eos_token_id)
            assert completion.token_ids == ids
            np.testing.assert_allclose(completion.logprobs, logprobs, atol=1e-4)
            stopped = ids[-1] == tokenizer.eos_token_id
            assert completion.finish_reason == ("stop" if stopped else "length")


class _Forced(LogitsProcessor):
    """Leaves transformers' `generate` the sampler's token alone."""

    def __init__(self, sampler):
        self._sampler = sampler

    def __call__(self, input_ids, scores):
        token, _ = self._sampler.draw(scores)
        return torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)


@pytest.mark.parametrize("batch_size", [1, 6, 64])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=24),
        Sampling(1.3, top_k=20, top_p=0.95, presence_penalty=1.5, max_tokens=24),
    ],
    ids=["rollouts", "evaluation"],
)
def test_responses_are_those_of_transformers_one_by_one(micro_policy, micro_questions, sampling, batch_size):
    """Prompts of several lengths, one of them twice; rows leave the batch early, late and not at all."""
    model, tokenizer = micro_policy
    questions = read_frame(micro_questions / "micro-train.parquet", QUESTIONS)["question"]
    prompts = chat_ids(tokenizer, [Prompts("tiny").message("answer", question) for question in questions])
    prompts.append(prompts[0])
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    engine = TransformersEngine(model, ends=[end], pad=pad, batch_size=batch_size)
    found = [group[0].token_ids for group in engine.generate(prompts, sampling, range(len(prompts)))]
    settings = GenerationConfig(do_sample=False, max_new_tokens=24, eos_token_id=end, pad_token_id=pad)
    for seed, (prompt, ids) in enumerate(zip(prompts, found, strict=True)):
        forced = LogitsProcessorList([_Forced(SeededSampler(sampling, [seed], model.device))])
        output = model.generate(torch.tensor([prompt]), generation_config=settings, logits_processor=forced)
        assert ids == output[0, len(prompt) :].tolist()
    assert len({len(ids) for ids in found}) > 2
    if sampling.top_k == 0:  # of the others, all may end: that depends on the processor
        assert {ids[-1] == end for ids in found} == {True, False}


@pytest.mark.parametrize("numerics", ["portable", "native"])
def test_attention_without_copies_is_attention(micro_checkpoint, monkeypatch, numerics):
    """Equal logits and gradients with and without padding, prefill and decoding alike."""
    monkeypatch.setattr(attention, "active", lambda: numerics)
    rounding = {"rtol": 1e-4, "atol": 1e-4} if numerics == "portable" else {}  # products sum in another order
    ids = torch.tensor([[0, 0, 5, 6, 7], [8, 9, 10, 11, 12]])
    results = {}
    for kind in ("sdpa", attention.GROUPED):
        model = AutoModelForCausalLM.from_pretrained(micro_checkpoint, attn_implementation=kind)
        for mask in (None, (ids != 0).long()):
            model.zero_grad()
            cache = DynamicCache(config=model.config)
            first = model(ids, attention_mask=mask, past_key_values=cache).logits
            longer = None if mask is None else torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
            second = model(ids[:, :1], attention_mask=longer, past_key_values=cache).logits
            (first[:, -1].mean() + second.logsumexp(dim=2).mean()).backward()
            gradients = [parameter.grad.clone() for parameter in model.parameters()]
            results.setdefault(kind, []).extend([first[:, -1].detach(), second.detach(), *gradients])
    for one, other in zip(results["sdpa"], results[attention.GROUPED], strict=True):
        torch.testing.assert_close(one, other, **rounding)


@pytest.mark.parametrize(
    ("length", "numerics", "by_products"),
    [(3, "portable", True), (3, "native", False), (1, "portable", False), (5, "portable", False)],
)
def test_the_scores_of_short_sequences_alone_are_written_to_memory(monkeypatch, length, numerics, by_products):
    monkeypatch.setattr(attention, "active", lambda: numerics)
    monkeypatch.setattr(attention, "_SHORT", 4 * 4)
    query, key = torch.ones(1, 2, length, 8), torch.ones(1, 1, length, 8)
    written = []
    monkeypatch.setattr(attention, "_by_products", lambda query, *_: written.append(True) or query)
    output, _ = attention.grouped_attention(None, query, key, key, None)
    assert output.shape == (1, length, 2, 8)
    assert bool(written) == by_products


def test_two_sets_of_the_same_questions_get_different_responses(micro_checkpoint, micro_questions, tmp_path):
    questions = read_frame(micro_questions / "micro-eval.parquet", QUESTIONS)
    sets = {name: questions.assign(dataset=name) for name in ("one", "other")}
    plan = ResponsePlan(sets={name: SetPlan(samples=2, sampled=2, max_response_length=24) for name in sets})
    wanted = Evaluated("micro", "base", 0, "answer", plan, sets)
    run = RunFolder(tmp_path / "run", "digest")
    sample_sets(wanted, micro_checkpoint, GenerationSettings(), Prompts("tiny"), run)
    one, other = (read_frame(run.path / f"sampled/{name}.parquet", SAMPLED) for name in sets)
    assert one["prompt_ids"].map(list).tolist() == other["prompt_ids"].map(list).tolist()
    assert (one["text"] != other["text"]).any()
