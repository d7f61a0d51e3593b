"""The contract that every engine keeps: what is drawn, one seed a response, EOS in the ids, raw log-probabilities.

The transformers engine samples exactly, whatever the batch, with an attention of its own.
"""

import json
import random

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoModelForCausalLM, DynamicCache

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.models import attention
from cocal.models.text import chat_ids
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.engine import TransformersSettings, VllmSettings
from cocal_study.config.evaluation import GenerationSettings
from cocal_study.generation.engines import Sampling, open_engine
from cocal_study.generation.responses import Sampler, p_true, sample_responses
from cocal_study.generation.sampling import judge_set
from cocal_study.planning.plan import SetPlan
from cocal_study.questions.prompts import Prompts
from cocal_study.store.contracts import QUESTIONS, SAMPLED
from micro import own_copy
from rounding import GPU, INVARIANT, REPEATS, ROUNDING

SAMPLING = Sampling(temperature=0.9, top_k=20, top_p=0.9, presence_penalty=1.5, max_tokens=12, samples=2)
PROMPTS = [[1, 30, 40, 50], [1, 31], [1, 32, 33, 34, 35, 36]]
SEEDS = [100, 200, 300]
ENGINES = {
    "transformers": TransformersSettings(batch_size=4),
    "vllm": VllmSettings(kind="vllm", batch_invariant=INVARIANT, eager=True, memory_share=0.2),
}


KINDS = ["transformers", pytest.param("vllm", marks=pytest.mark.vllm)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_end_of_the_generation_settings_ends_a_response(kind, micro_checkpoint, micro_policy, tmp_path):
    """As training does: Qwen3's settings list a second one. This test is the first, because a process has one engine of
    vLLM at a time."""
    tokenizer = micro_policy.tokenizer
    with open_engine(ENGINES[kind], micro_checkpoint) as opened:
        (before, *_), *_ = opened.generate(PROMPTS, SAMPLING, SEEDS)
    end = next(token for token in before.token_ids if token != before.token_ids[0])
    folder = own_copy(micro_checkpoint, tmp_path / "two-ends")
    settings = json.loads((folder / "generation_config.json").read_text())
    settings["eos_token_id"] = [tokenizer.eos_token_id, end]
    (folder / "generation_config.json").write_text(json.dumps(settings))
    with open_engine(ENGINES[kind], folder) as opened:
        groups = opened.generate(PROMPTS, SAMPLING, SEEDS)
    for completion in (one for group in groups for one in group):
        assert not {tokenizer.eos_token_id, end} & {*completion.token_ids[:-1]}
        stopped = completion.token_ids[-1] in (tokenizer.eos_token_id, end)
        assert completion.finish_reason == ("stop" if stopped else "length")
    assert groups[0][0].token_ids == before.token_ids[: before.token_ids.index(end) + 1]


@pytest.fixture(scope="module", params=KINDS)
def engine(request, micro_checkpoint, micro_policy):
    with open_engine(ENGINES[request.param], micro_checkpoint, micro_policy) as opened:
        assert opened.label.split()[0] == request.param
        yield opened


@torch.no_grad()
def _logits(model, ids) -> torch.Tensor:
    """Logits after each of the tokens, float64 (length, vocabulary), on the processor."""
    return model(torch.tensor([ids], device=model.device)).logits[0].double().cpu()


def _probabilities(raw, drawn, sampling):
    """The distribution of the token after the logits `raw` and the response so far, spelt out in float64."""
    logits = raw.copy()
    logits[list(set(drawn))] -= sampling.presence_penalty
    logits /= sampling.temperature
    order = np.argsort(-logits, kind="stable")[: sampling.top_k or None]
    p = np.exp(logits[order] - logits[order[0]])
    keep = np.searchsorted(np.cumsum(p / p.sum()), sampling.top_p) + 1
    found = np.zeros(len(logits))
    found[order[:keep]] = p[:keep] / p[:keep].sum()
    return found


@pytest.mark.parametrize(
    "sampling",
    [SAMPLING, Sampling(1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=12, samples=2, best_logprobs=3)],
    ids=["evaluation", "rollouts"],
)
def test_responses_keep_the_definition(engine, micro_policy, sampling):
    """Truncation and penalty leave every token that was drawn; log-probabilities are raw, also the largest ones that
    are asked for; EOS ends a response."""
    model, tokenizer = micro_policy
    for prompt, group in zip(PROMPTS, engine.generate(PROMPTS, sampling, SEEDS), strict=True):
        assert len(group) == sampling.samples
        for completion in group:
            ids = completion.token_ids
            logits = _logits(model, prompt + ids)[len(prompt) - 1 : -1]
            for position, token in enumerate(ids):
                nearly = logits[position].numpy() + ROUNDING * GPU * np.eye(len(logits[0]))[token]
                assert _probabilities(nearly, ids[:position], sampling)[token] > 0
            every = logits.log_softmax(dim=1)
            raw = every[np.arange(len(ids)), ids]
            np.testing.assert_allclose(completion.logprobs, raw, atol=ROUNDING)
            if sampling.best_logprobs:
                np.testing.assert_allclose(completion.best, np.sort(every)[:, :-4:-1], atol=ROUNDING)
            else:
                assert completion.best is None
            assert completion.logprobs.dtype == np.float32
            assert tokenizer.eos_token_id not in ids[:-1]
            stopped = ids[-1] == tokenizer.eos_token_id
            assert completion.finish_reason == ("stop" if stopped else "length")
            assert stopped or len(ids) == sampling.max_tokens


def test_tokens_are_as_frequent_as_defined(engine, micro_policy):
    sampling = Sampling(1.5, top_k=6, top_p=0.95, presence_penalty=1.5, max_tokens=1, samples=1000)
    (group,) = engine.generate([PROMPTS[0]], sampling, [5000])
    expected = _probabilities(_logits(micro_policy.model, PROMPTS[0])[-1].numpy(), [], sampling)
    assert (expected > 0.02).sum() > 2
    found = np.bincount([completion.token_ids[0] for completion in group], minlength=len(expected)) / len(group)
    errors = 4 * np.sqrt(expected * (1 - expected) / len(group)) + (0.02 if GPU else 1e-9)
    np.testing.assert_array_less(np.abs(found - expected), errors)


@pytest.mark.slow
def test_presence_penalty_counts_the_response_and_spares_the_prompt(engine, micro_policy):
    """Greedy decoding spelt out, on a prompt where penalising its tokens too, or none, gives another response."""
    model, tokenizer = micro_policy

    def greedy(prompt, penalty, counted):
        ids = []
        while len(ids) < 8 and tokenizer.eos_token_id not in ids:
            logits = _logits(model, prompt + ids)[-1]
            logits[counted + ids] -= penalty
            ids.append(int(logits.argmax()))
        return ids

    draw = random.Random(1)
    for prompt in ([1, *draw.sample(range(3, 380), 6)] for _ in range(200)):
        expected = greedy(prompt, 2.0, [])
        if expected not in (greedy(prompt, 2.0, prompt), greedy(prompt, 0.0, [])):
            break
    else:
        pytest.fail("no prompt tells the rules apart")
    sampling = Sampling(1.0, top_k=1, top_p=1.0, presence_penalty=2.0, max_tokens=8)
    assert engine.generate([prompt], sampling, [0])[0][0].token_ids == expected


@pytest.mark.parametrize("start", [100, 2**48])
def test_a_response_depends_on_its_own_seed_alone(engine, start):
    seeds = [start + 100 * k for k in range(3)]
    together = engine.generate(PROMPTS, SAMPLING, seeds)
    alone = [engine.generate([p], SAMPLING, [s])[0] for p, s in zip(PROMPTS, seeds, strict=True)]
    reverse = engine.generate(PROMPTS[::-1], SAMPLING, seeds[::-1])[::-1]
    for other in (alone, reverse):
        assert [[c.token_ids for c in g] for g in other] == [[c.token_ids for c in g] for g in together]
    moved = engine.generate(PROMPTS, SAMPLING, [s + 1 for s in seeds])
    # sample 0 of seed s + 1 is sample 1 of seed s
    assert [g[0].token_ids for g in moved] == [g[1].token_ids for g in together]
    assert [g[0].token_ids for g in together] != [g[1].token_ids for g in together]


def test_next_token_logprobs(engine, micro_policy):
    found = engine.next_token_logprobs(PROMPTS, [5, 9])
    assert found.shape == (3, 2)
    assert found.dtype == np.float64
    for prompt, row in zip(PROMPTS, found, strict=True):
        expected = _logits(micro_policy.model, prompt)[-1].log_softmax(dim=0)
        np.testing.assert_allclose(row, expected[[5, 9]], atol=ROUNDING if GPU else 1e-5)


@pytest.fixture(scope="module")
def responses(engine, micro_policy, micro_questions):
    questions = read_frame(micro_questions / "micro-eval.parquet", QUESTIONS)
    with Verifier(VerifierSettings()) as verifier:
        frames = {}
        for prompt_format, length in (("answer", 6), ("verbal", 30)):  # a box of one digit fits into six tokens
            sampled = sample_responses(
                questions,
                prompt_format,
                SetPlan(samples=2, sampled=3, max_response_length=length, p_true=prompt_format == "answer"),
                Sampler(engine, micro_policy.tokenizer, Prompts("tiny")),
                GenerationSettings(best_logprobs=4 if prompt_format == "verbal" else 0),
                identity=f"test/{prompt_format}",
                step=5,
            )
            SAMPLED.check(sampled, "test")
            frames[prompt_format] = judge_set(
                sampled, questions, verifier, pool=prompt_format == "answer", source="test"
            )
        return questions, frames


def test_response_tables_keep_the_contract(responses):
    questions, frames = responses
    for sampled in frames.values():
        frame = RESPONSES.check(sampled, "test")
        assert frame["sample"].tolist() == [0, 1, 2] * len(questions)
        assert frame["question_id"].tolist() == questions["question_id"].repeat(3).tolist()
    assert "best_logprobs" not in frames["answer"], "a study that does not ask keeps none"
    kept = RESPONSES.check(frames["verbal"], "test")
    assert (kept["best_logprobs"].map(len) == 4 * kept["length"]).all()
    for best, entropy in zip(kept["best_logprobs"], kept["best_entropy"], strict=True):
        shares = np.exp(best.reshape(-1, 4).astype(float))
        rest = 1 - shares.sum(axis=1)
        assert (rest > 0.01).any(), "four tokens are not all"
        of_rest = -rest * np.log(rest.clip(1e-12))
        np.testing.assert_allclose(entropy, of_rest - (shares * np.log(shares)).sum(axis=1), atol=1e-4)


def test_p_true_asks_about_the_evaluated_responses_alone(responses, engine, micro_policy):
    questions, frames = responses
    frame = frames["answer"]
    assert frame["p_true"].notna().tolist() == (frame["sample"] < 2).tolist()
    assert frames["verbal"]["p_true"].isna().all()
    tokenizer = micro_policy[1]
    texts = questions.set_index("question_id")["question"]
    asked = frame[frame["sample"] < 2]
    prompts = Prompts("tiny")
    messages = [prompts.message("p_true", texts[row.question_id], response=row.text) for row in asked.itertuples()]
    true, false = (tokenizer(w)["input_ids"][0] for w in ("True", "False"))
    logprobs = engine.next_token_logprobs(chat_ids(tokenizer, messages), [true, false])
    expected = p_true(logprobs[:, 0], logprobs[:, 1])
    rounding = 1e-4 if REPEATS else ROUNDING
    np.testing.assert_allclose(asked["p_true"], expected.ratio, rtol=rounding)
    np.testing.assert_allclose(asked["p_true_mass"], expected.mass, rtol=rounding)


def test_heads_that_share_keys_decode_together_in_bfloat16():
    """Each head attends to its own keys, under the mask of its row, as PyTorch's attention in float32 has it."""
    draw = torch.Generator().manual_seed(3)
    query, key, value = (
        torch.randn(2, heads, length, 16, generator=draw) for heads, length in ((6, 1), (2, 7), (2, 7))
    )
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    mask[1, ..., :4] = False
    whole = [part.repeat_interleave(3, dim=1) for part in (key, value)]
    wanted = scaled_dot_product_attention(query, *whole, attn_mask=mask).transpose(1, 2)
    halves = [part.to(torch.bfloat16) for part in (query, key, value)]
    found, _ = attention.grouped_attention(None, *halves, mask)
    torch.testing.assert_close(found.float(), wanted, rtol=0.03, atol=0.03)


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
