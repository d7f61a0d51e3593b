"""Tables of sampled responses to a question set, with P(True) but without verdicts of a judge."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cocal.errors import ConfigError
from cocal.models.text import chat_ids, plain_texts
from cocal.rollouts.recorded import sampled_rows
from cocal_study.config.evaluation import GenerationSettings
from cocal_study.generation.engines import Engine, Sampling
from cocal_study.planning.plan import SetPlan
from cocal_study.questions.prompts import Prompts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PTrue(NamedTuple):
    """P(True) of n responses; both fields are float64 (n,) in [0, 1]."""

    ratio: np.ndarray
    """p_T / (p_T + p_F), the confidence."""
    mass: np.ndarray
    """p_T + p_F. If it is small, the policy prefers neither word and the ratio says little."""


def p_true(log_true: ArrayLike, log_false: ArrayLike) -> PTrue:
    """P(True) from the finite log-probabilities (n,) of the next tokens "True" and "False" (appendix B.1)."""
    log_true = np.asarray(log_true, dtype=np.float64)
    log_mass = np.logaddexp(log_true, np.asarray(log_false, dtype=np.float64))
    return PTrue(np.exp(log_true - log_mass), np.exp(np.minimum(log_mass, 0.0)))  # the sum may round above 1


def sampling_seeds(identity: str, seed: int, prompts: int, samples: int) -> list[int]:
    """One seed for each prompt, `samples` apart, from a start that is a hash of `identity` and `seed`.

    Response j to prompt i uses `seeds[i] + j`, so no two responses of a set share a noise stream.
    """
    start = int.from_bytes(hashlib.blake2b(f"{identity}/{seed}".encode(), digest_size=6).digest(), "big")
    return [start + i * samples for i in range(prompts)]


@dataclass(frozen=True)
class Sampler:
    """Samples responses of a policy to questions."""

    engine: Engine
    tokenizer: "PreTrainedTokenizerBase"
    prompts: Prompts

    def sample(
        self,
        questions: pd.DataFrame,
        prompt_format: str,
        sampling: Sampling,
        seeds: Sequence[int],
        *,
        step: int,
        first: int = 0,
    ) -> pd.DataFrame:
        """Sample `sampling.samples` responses to each question, those to one question consecutive: a table in the
        contract `cocal_study.store.contracts.SAMPLED`.

        Args:
            questions: Question table (`cocal_study.store.contracts.QUESTIONS`).
            seeds: One for each question, from `sampling_seeds`.
            step: Rollout step of the responses, or of the checkpoint.
            first: Number of the first response.
        """
        messages = [
            self.prompts.message(prompt_format, question, domain=domain)
            for question, domain in zip(questions["question"], questions["domain"], strict=True)
        ]
        prompt_ids, size = chat_ids(self.tokenizer, messages), sampling.samples
        completions = [
            completion for group in self.engine.generate(prompt_ids, sampling, seeds) for completion in group
        ]
        return sampled_rows(
            completions,
            plain_texts(self.tokenizer, [completion.token_ids for completion in completions]),
            prompt_format,
            dataset=questions["dataset"].iloc[0],
            question_ids=questions["question_id"].repeat(size),
            prompt_ids=[ids for ids in prompt_ids for _ in range(size)],
            group_size=size,
            step=step,
            first=first,
        )

    def p_true(self, questions: Sequence[str], texts: Sequence[str]) -> PTrue:
        """P(True) of responses from the next token after the judging prompt (appendix B.1). Raises ConfigError if
        the tokenizer begins True and False with the same token."""
        true, false = (self.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("True", "False"))
        if true == false:
            raise ConfigError("P(True): the tokenizer begins True and False with the same token")
        messages = [self.prompts.message("p_true", q, response=t) for q, t in zip(questions, texts, strict=True)]
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
    """Sample the evaluation responses to one question set, and P(True) where it is planned; see `Sampler.sample`. The
    seeds depend on `identity`."""
    sampling = Sampling.of(settings, plan.max_response_length, plan.sampled)
    seeds = sampling_seeds(identity, settings.seed, len(questions), plan.sampled)
    frame = sampler.sample(questions, prompt_format, sampling, seeds, step=step)
    if plan.p_true:
        asked = frame["sample"] < plan.samples
        probability = sampler.p_true(questions["question"].repeat(plan.samples), frame["text"][asked])
        frame.loc[asked, "p_true"], frame.loc[asked, "p_true_mass"] = probability.ratio, probability.mass
    return frame
