"""Evaluation responses of one question set: sampled, verified, asked P(True), as a table."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from cocal.config.protocol import Generation
from cocal.errors import ConfigError
from cocal.generation.engine import Engine, Sampling
from cocal.plan import SetPlan
from cocal.prompts import Prompts
from cocal.verify.answers import extract_answer
from cocal.verify.confidence import parse_confidence
from cocal.verify.equivalence import Verifier


def chat_ids(tokenizer: PreTrainedTokenizerBase, messages: Sequence[str]) -> list[list[int]]:
    """Token ids of single-turn chats in non-thinking mode, up to where the response begins."""
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": message}],
            add_generation_prompt=True,
            enable_thinking=False,
            tokenize=False,
        )
        for message in messages
    ]
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def sampling_seeds(identity: str, seed: int, prompts: int, samples: int) -> list[int]:
    """One seed a prompt, spaced by the number of samples, from a start that `identity` and `seed` choose.

    Response j to prompt i uses seed i + j, so no two responses of a set share a noise stream; different
    checkpoints, formats and sets start elsewhere.
    """
    start = int.from_bytes(hashlib.blake2b(f"{identity}/{seed}".encode(), digest_size=6).digest(), "big")
    return [start + i * samples for i in range(prompts)]


def sample_responses(
    questions: pd.DataFrame,
    protocol: str,
    plan: SetPlan,
    *,
    engine: Engine,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    settings: Generation,
    verifier: Verifier,
    identity: str,
    step: int,
) -> pd.DataFrame:
    """Responses in the contract of cocal.schemas.RESPONSES, all samples of a question consecutive.

    Args:
        questions: one set (cocal.schemas.QUESTIONS).
        protocol: prompt format.
        plan: how many responses, how long.
        engine: of the checkpoint.
        tokenizer: of the checkpoint.
        prompts: prompt set.
        settings: sampling parameters and seed.
        verifier: decides correctness.
        identity: names checkpoint, format and set; chooses the noise.
        step: of the checkpoint.
    """
    sampling = Sampling(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        presence_penalty=settings.presence_penalty,
        max_tokens=plan.max_response_length,
        samples=plan.sampled,
    )
    messages = [prompts.message(protocol, question) for question in questions["question"]]
    prompt_ids = chat_ids(tokenizer, messages)
    seeds = sampling_seeds(identity, settings.seed, len(messages), plan.sampled)
    groups = engine.generate(prompt_ids, sampling, seeds)
    completions = [completion for group in groups for completion in group]
    text = tokenizer.batch_decode([c.token_ids for c in completions], skip_special_tokens=True)
    answers = [extract_answer(t) for t in text]
    rows = questions.loc[questions.index.repeat(plan.sampled)].reset_index(drop=True)
    golds = [[answer, *aliases] for answer, aliases in zip(rows["answer"], rows["aliases"], strict=True)]
    correct = verifier.correct(golds, answers, kind=questions["domain"].iloc[0])
    verbal = protocol != "answer"
    frame = pd.DataFrame(
        {
            "dataset": rows["dataset"],
            "question_id": rows["question_id"],
            "response_id": np.arange(len(rows)),
            "step": step,
            "sample": np.arange(len(rows)) % plan.sampled,
            "prompt_ids": [ids for ids in prompt_ids for _ in range(plan.sampled)],
            "response_ids": [c.token_ids for c in completions],
            "logprobs": [c.logprobs for c in completions],
            "text": text,
            "length": [len(c.token_ids) for c in completions],
            "finish_reason": [c.finish_reason for c in completions],
            "truncated": [c.finish_reason == "length" for c in completions],
            "mean_logprob": [float(np.mean(c.logprobs, dtype=np.float64)) for c in completions],
            "answer": pd.array(answers, dtype="str"),
            "correct": correct,
            "group_accuracy": correct.reshape(-1, plan.sampled).mean(axis=1).repeat(plan.sampled),
            "reward_task": np.nan,
            "reward_calibration": np.nan,
            "confidence": np.array([parse_confidence(t) if verbal else None for t in text], dtype=np.float64),
            "p_true": np.nan,
        }
    )
    if plan.p_true:
        asked = np.flatnonzero(frame["sample"] < plan.samples)
        frame.loc[asked, "p_true"] = _p_true(rows["question"][asked], frame["text"][asked], engine, tokenizer, prompts)
    return frame


def _p_true(
    questions: pd.Series, texts: pd.Series, engine: Engine, tokenizer: PreTrainedTokenizerBase, prompts: Prompts
) -> np.ndarray:
    """p_T / (p_T + p_F) of the next token after the judging prompt (appendix B.1), float64."""
    from cocal.estimators.p_true import p_true

    true, false = (tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("True", "False"))
    if true == false:
        raise ConfigError("P(True): the tokenizer begins True and False with the same token")
    messages = [prompts.message("p_true", q, t) for q, t in zip(questions, texts, strict=True)]
    logprobs = engine.next_token_logprobs(chat_ids(tokenizer, messages), [true, false])
    return p_true(logprobs[:, 0], logprobs[:, 1])
