"""Sampled responses to one question set, with P(True) but without verdicts of a judge."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.evaluation import GenerationSettings
from cocal.errors import ConfigError
from cocal.generation.engine import Completion, Engine, Sampling
from cocal.generation.p_true import PTrue, p_true
from cocal.generation.rows import sampled_rows
from cocal.models.text import chat_ids, plain_texts
from cocal.questions.prompts import Prompts
from cocal.study.plan import SetPlan

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def sampling_seeds(identity: str, seed: int, prompts: int, samples: int) -> list[int]:
    """Return one seed for each prompt, `samples` apart, from a start that is a hash of `identity` and `seed`.

    Response j to prompt i uses `seeds[i] + j`, so no two responses of a set share a noise stream. Other checkpoints,
    formats and sets have other starts.
    """
    start = int.from_bytes(hashlib.blake2b(f"{identity}/{seed}".encode(), digest_size=6).digest(), "big")
    return [start + i * samples for i in range(prompts)]


@dataclass(frozen=True)
class Drawn:
    """Responses from the engine.

    Attributes:
        prompt_ids: Token ids of each question's prompt.
        groups: The responses to each question.
    """

    prompt_ids: list[list[int]]
    groups: list[list[Completion]]


@dataclass(frozen=True)
class Sampler:
    """Samples responses of a policy to questions.

    Attributes:
        engine: Engine with the policy's checkpoint.
        tokenizer: The checkpoint's tokenizer.
        prompts: Prompt set.
    """

    engine: Engine
    tokenizer: "PreTrainedTokenizerBase"
    prompts: Prompts

    def draw(self, questions: pd.DataFrame, prompt_format: str, sampling: Sampling, seeds: Sequence[int]) -> Drawn:
        """Sample `sampling.samples` responses to each question.

        Args:
            questions: Question table (`cocal.store.contracts.QUESTIONS`).
            prompt_format: Prompt format.
            sampling: Sampling parameters.
            seeds: One seed for each question, from `sampling_seeds`.
        """
        messages = [
            self.prompts.message(prompt_format, question, domain=domain)
            for question, domain in zip(questions["question"], questions["domain"], strict=True)
        ]
        prompt_ids = chat_ids(self.tokenizer, messages)
        return Drawn(prompt_ids, self.engine.generate(prompt_ids, sampling, seeds))

    def table(
        self, drawn: Drawn, questions: pd.DataFrame, prompt_format: str, *, step: int, first: int = 0
    ) -> pd.DataFrame:
        """Return the responses as a table (`cocal.store.contracts.SAMPLED`), those to one question consecutive.

        Args:
            drawn: Responses from `draw`.
            questions: Question table that was given to `draw`.
            prompt_format: Prompt format that was given to `draw`.
            step: Rollout step of the responses, or of the checkpoint.
            first: Id of the first response.
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

    def p_true(self, questions: Sequence[str], texts: Sequence[str]) -> PTrue:
        """Compute P(True) of responses from the next token after the judging prompt (appendix B.1).

        Args:
            questions: Text of each response's question.
            texts: Texts of the responses.

        Raises:
            ConfigError: if the tokenizer begins True and False with the same token.
        """
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
    """Sample evaluation responses (`cocal.store.contracts.SAMPLED`), those to one question consecutive.

    Args:
        questions: One question set (`cocal.store.contracts.QUESTIONS`).
        prompt_format: Prompt format.
        plan: Number and longest length of the responses.
        sampler: Policy that answers the questions.
        settings: Sampling parameters and seed.
        identity: Text that names checkpoint, format and set; the seeds depend on it.
        step: Rollout step of the checkpoint.
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
