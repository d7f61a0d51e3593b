"""Responses to one question set: sampled, asked P(True), as a table that a judge has not seen."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
from transformers import PreTrainedTokenizerBase

from cocal.answers.extraction import extract_answer
from cocal.config.evaluation import GenerationSettings
from cocal.errors import ConfigError
from cocal.generation.engine import Completion, Engine, Sampling
from cocal.generation.rows import plain_texts, sampled_rows, stated_confidences
from cocal.prompts import Prompts
from cocal.study.plan import SetPlan

if TYPE_CHECKING:
    from cocal.generation.p_true import PTrue


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


@dataclass(frozen=True)
class Drawn:
    """Responses as they come from the engine.

    Attributes:
        prompt_ids: of each question.
        groups: the responses to each question.
    """

    prompt_ids: list[list[int]]
    groups: list[list[Completion]]


def draw(
    questions: pd.DataFrame,
    prompt_format: str,
    sampling: Sampling,
    seeds: Sequence[int],
    *,
    engine: Engine,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
) -> Drawn:
    """Sample `sampling.samples` responses to each question.

    Args:
        questions: table in the contract of cocal.store.contracts.QUESTIONS.
        prompt_format: prompt format.
        sampling: how.
        seeds: one a question, of `sampling_seeds`.
        engine: of the checkpoint.
        tokenizer: of the checkpoint.
        prompts: prompt set.
    """
    asked = zip(questions["question"], questions["domain"], strict=True)
    messages = [prompts.message(prompt_format, question, domain=domain) for question, domain in asked]
    prompt_ids = chat_ids(tokenizer, messages)
    return Drawn(prompt_ids, engine.generate(prompt_ids, sampling, seeds))


def sampled(
    drawn: Drawn,
    questions: pd.DataFrame,
    prompt_format: str,
    *,
    tokenizer: PreTrainedTokenizerBase,
    step: int,
    first: int = 0,
) -> pd.DataFrame:
    """Responses in the contract of cocal.store.contracts.SAMPLED, all to a question consecutive.

    Args:
        drawn: of `draw`.
        questions: as for `draw`.
        prompt_format: as for `draw`.
        tokenizer: of the checkpoint.
        step: rollout step, or the checkpoint's.
        first: id of the first response.
    """
    size = len(drawn.groups[0])
    completions = [completion for group in drawn.groups for completion in group]
    texts = plain_texts(tokenizer, [completion.token_ids for completion in completions])
    return sampled_rows(
        completions,
        dataset=questions["dataset"].iloc[0],
        question_ids=questions["question_id"].repeat(size),
        prompt_ids=[ids for ids in drawn.prompt_ids for _ in range(size)],
        texts=texts,
        answers=[extract_answer(text) for text in texts],
        confidence=stated_confidences(texts, prompt_format),
        group_size=size,
        step=step,
        first=first,
    )


def sample_responses(
    questions: pd.DataFrame,
    prompt_format: str,
    plan: SetPlan,
    *,
    engine: Engine,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    settings: GenerationSettings,
    identity: str,
    step: int,
) -> pd.DataFrame:
    """Evaluation responses in the contract of cocal.store.contracts.SAMPLED, all samples of a question consecutive.

    Args:
        questions: one set (cocal.store.contracts.QUESTIONS).
        prompt_format: prompt format.
        plan: how many responses, how long.
        engine: of the checkpoint.
        tokenizer: of the checkpoint.
        prompts: prompt set.
        settings: sampling parameters and seed.
        identity: names checkpoint, format and set; chooses the noise.
        step: of the checkpoint.
    """
    sampling = Sampling.of(settings, plan.max_response_length, plan.sampled)
    seeds = sampling_seeds(identity, settings.seed, len(questions), plan.sampled)
    drawn = draw(questions, prompt_format, sampling, seeds, engine=engine, tokenizer=tokenizer, prompts=prompts)
    frame = sampled(drawn, questions, prompt_format, tokenizer=tokenizer, step=step)
    if plan.p_true:
        asked = frame["sample"] < plan.samples
        texts = frame["text"][asked]
        repeated = questions["question"].repeat(plan.samples)
        found = _p_true(repeated, texts, engine, tokenizer, prompts)
        frame.loc[asked, "p_true"], frame.loc[asked, "p_true_mass"] = found.ratio, found.mass
    return frame


def _p_true(
    questions: pd.Series, texts: pd.Series, engine: Engine, tokenizer: PreTrainedTokenizerBase, prompts: Prompts
) -> "PTrue":
    """P(True) by the next token after the judging prompt (appendix B.1)."""
    from cocal.generation.p_true import p_true

    true, false = (tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("True", "False"))
    if true == false:
        raise ConfigError("P(True): the tokenizer begins True and False with the same token")
    messages = [prompts.message("p_true", q, t) for q, t in zip(questions, texts, strict=True)]
    logprobs = engine.next_token_logprobs(chat_ids(tokenizer, messages), [true, false])
    return p_true(logprobs[:, 0], logprobs[:, 1])
