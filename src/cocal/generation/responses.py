"""Responses to one question set: sampled, asked P(True), as a table that a judge has not seen."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from cocal.checkpoints.text import chat_ids, plain_texts
from cocal.config.evaluation import GenerationSettings
from cocal.errors import ConfigError
from cocal.generation.engine import Completion, Engine, Sampling
from cocal.generation.rows import sampled_rows
from cocal.prompts import Prompts
from cocal.study.plan import SetPlan

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from cocal.generation.p_true import PTrue


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


@dataclass(frozen=True)
class Sampler:
    """A policy that answers questions: its engine, and what puts questions into words and tokens.

    Attributes:
        engine: of the checkpoint.
        tokenizer: of the checkpoint.
        prompts: prompt set.
    """

    engine: Engine
    tokenizer: "PreTrainedTokenizerBase"
    prompts: Prompts

    def draw(self, questions: pd.DataFrame, prompt_format: str, sampling: Sampling, seeds: Sequence[int]) -> Drawn:
        """Sample `sampling.samples` responses to each question.

        Args:
            questions: table in the contract of cocal.store.contracts.QUESTIONS.
            prompt_format: prompt format.
            sampling: how.
            seeds: one a question, of `sampling_seeds`.
        """
        asked = zip(questions["question"], questions["domain"], strict=True)
        messages = [self.prompts.message(prompt_format, question, domain=domain) for question, domain in asked]
        prompt_ids = chat_ids(self.tokenizer, messages)
        return Drawn(prompt_ids, self.engine.generate(prompt_ids, sampling, seeds))

    def table(
        self, drawn: Drawn, questions: pd.DataFrame, prompt_format: str, *, step: int, first: int = 0
    ) -> pd.DataFrame:
        """Responses in the contract of cocal.store.contracts.SAMPLED, all to a question consecutive.

        Args:
            drawn: of `draw`.
            questions: as for `draw`.
            prompt_format: as for `draw`.
            step: rollout step, or the checkpoint's.
            first: id of the first response.
        """
        size = len(drawn.groups[0])
        completions = [completion for group in drawn.groups for completion in group]
        return sampled_rows(
            completions,
            plain_texts(self.tokenizer, [completion.token_ids for completion in completions]),
            prompt_format,
            dataset=questions["dataset"].iloc[0],
            question_ids=questions["question_id"].repeat(size),
            prompt_ids=[ids for ids in drawn.prompt_ids for _ in range(size)],
            group_size=size,
            step=step,
            first=first,
        )

    def p_true(self, questions: Sequence[str], texts: Sequence[str]) -> "PTrue":
        """P(True) of responses by the next token after the judging prompt (appendix B.1).

        Args:
            questions: text of each response's question.
            texts: of the responses.

        Raises:
            ConfigError: if the tokenizer begins True and False with the same token.
        """
        from cocal.generation.p_true import p_true

        true, false = (self.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("True", "False"))
        if true == false:
            raise ConfigError("P(True): the tokenizer begins True and False with the same token")
        messages = [self.prompts.message("p_true", q, t) for q, t in zip(questions, texts, strict=True)]
        logprobs = self.engine.next_token_logprobs(chat_ids(self.tokenizer, messages), [true, false])
        return p_true(logprobs[:, 0], logprobs[:, 1])


def sample_responses(
    questions: pd.DataFrame,
    prompt_format: str,
    plan: SetPlan,
    sampler: Sampler,
    settings: GenerationSettings,
    *,
    identity: str,
    step: int,
) -> pd.DataFrame:
    """Evaluation responses in the contract of cocal.store.contracts.SAMPLED, all samples of a question consecutive.

    Args:
        questions: one set (cocal.store.contracts.QUESTIONS).
        prompt_format: prompt format.
        plan: how many responses, how long.
        sampler: answers.
        settings: sampling parameters and seed.
        identity: names checkpoint, format and set; chooses the noise.
        step: of the checkpoint.
    """
    sampling = Sampling.of(settings, plan.max_response_length, plan.sampled)
    seeds = sampling_seeds(identity, settings.seed, len(questions), plan.sampled)
    drawn = sampler.draw(questions, prompt_format, sampling, seeds)
    frame = sampler.table(drawn, questions, prompt_format, step=step)
    if plan.p_true:
        asked = frame["sample"] < plan.samples
        found = sampler.p_true(questions["question"].repeat(plan.samples), frame["text"][asked])
        frame.loc[asked, "p_true"], frame.loc[asked, "p_true_mass"] = found.ratio, found.mass
    return frame
