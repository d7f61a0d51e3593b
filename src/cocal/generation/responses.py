"""Tables of sampled responses to a question set, with P(True) but without verdicts of a judge."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cocal.answers.extraction import extract_answer, parse_confidence
from cocal.config.evaluation import GenerationSettings
from cocal.errors import ConfigError
from cocal.generation.engine import Completion, Engine, Sampling
from cocal.models.text import Tokens, chat_ids, plain_texts
from cocal.questions.prompts import Prompts
from cocal.study.plan import SetPlan

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PTrue(NamedTuple):
    """P(True) of n responses; both fields are float64 (n,) in [0, 1].

    Attributes:
        ratio: p_T / (p_T + p_F), the confidence.
        mass: p_T + p_F. If it is small, the policy prefers neither word and the ratio says little.
    """

    ratio: np.ndarray
    mass: np.ndarray


def p_true(log_true: ArrayLike, log_false: ArrayLike) -> PTrue:
    """P(True) from the finite log-probabilities (n,) of the next tokens "True" and "False" (appendix B.1).

    Tiny probabilities do not underflow.
    """
    log_true = np.asarray(log_true, dtype=np.float64)
    log_mass = np.logaddexp(log_true, np.asarray(log_false, dtype=np.float64))
    return PTrue(np.exp(log_true - log_mass), np.exp(np.minimum(log_mass, 0.0)))  # the sum may round above 1


def stated_confidences(texts: Sequence[str], prompt_format: str) -> np.ndarray:
    """Parse verbalised confidences, float64 (n,), NaN if there is no valid one or the format does not ask for one."""
    asked = prompt_format != "answer"
    return np.array([parse_confidence(text) if asked else None for text in texts], dtype=np.float64)


def sampled_rows(
    completions: Sequence[Completion],
    texts: Sequence[str],
    prompt_format: str,
    *,
    dataset: str,
    question_ids: Sequence[str],
    prompt_ids: Sequence[Tokens],
    group_size: int,
    step: int,
    first: int = 0,
) -> pd.DataFrame:
    """Build rows of a response table (`cocal.store.contracts.SAMPLED`) without rewards and P(True).

    Args:
        completions: n responses; the `group_size` responses to a question are consecutive.
        texts: Texts from `cocal.models.text.plain_texts`, from which answers and confidences are parsed.
        prompt_format: Prompt format; "answer" does not ask for a confidence.
        step: Rollout step of the responses, or of the checkpoint.
    """
    count = len(completions)
    return pd.DataFrame(
        {
            "dataset": dataset,
            "question_id": list(question_ids),
            "response_id": np.arange(first, first + count),
            "step": step,
            "sample": np.arange(count) % group_size,
            "prompt_ids": list(prompt_ids),
            "response_ids": [c.token_ids for c in completions],
            "logprobs": [c.logprobs for c in completions],
            "text": list(texts),
            "length": [len(c.token_ids) for c in completions],
            "finish_reason": [c.finish_reason for c in completions],
            "truncated": [c.finish_reason != "stop" for c in completions],
            "mean_logprob": [float(np.mean(c.logprobs, dtype=np.float64)) for c in completions],
            "answer": pd.array([extract_answer(text) for text in texts], dtype="str"),
            "reward_task": np.nan,
            "reward_calibration": np.nan,
            "confidence": stated_confidences(texts, prompt_format),
            "p_true": np.nan,
            "p_true_mass": np.nan,
        }
    )


def sampling_seeds(identity: str, seed: int, prompts: int, samples: int) -> list[int]:
    """Return one seed for each prompt, `samples` apart, from a start that is a hash of `identity` and `seed`.

    Response j to prompt i uses `seeds[i] + j`, so no two responses of a set share a noise stream. Other checkpoints,
    formats and sets have other starts.
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
        read: int = 0,
    ) -> tuple[pd.DataFrame, list[np.ndarray]]:
        """Sample `sampling.samples` responses to each question, those to one question consecutive.

        Args:
            questions: Question table (`cocal.store.contracts.QUESTIONS`).
            seeds: One seed for each question, from `sampling_seeds`.
            step: Rollout step of the responses, or of the checkpoint.
            read: Number of responses to each question whose states are read; see `Engine.generate`.

        Returns:
            A table in the contract `cocal.store.contracts.SAMPLED`, and the states of the responses that were read, in
            their order.
        """
        messages = [
            self.prompts.message(prompt_format, question, domain=domain)
            for question, domain in zip(questions["question"], questions["domain"], strict=True)
        ]
        prompt_ids, size = chat_ids(self.tokenizer, messages), sampling.samples
        kept = {"read": read} if read else {}
        completions = [one for group in self.engine.generate(prompt_ids, sampling, seeds, **kept) for one in group]
        frame = sampled_rows(
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
        return frame, [one.states for one in completions if one.states is not None]

    def p_true(self, questions: Sequence[str], texts: Sequence[str]) -> PTrue:
        """Compute P(True) of responses from the next token after the judging prompt (appendix B.1).

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
    read: bool = False,
) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Sample evaluation responses (`cocal.store.contracts.SAMPLED`), those to one question consecutive.

    Args:
        questions: One question set (`cocal.store.contracts.QUESTIONS`).
        identity: Text that names checkpoint, format and set; the seeds depend on it.
        read: Whether the states of the evaluated responses are read; they come with the table.
    """
    sampling = Sampling.of(settings, plan.max_response_length, plan.sampled)
    seeds = sampling_seeds(identity, settings.seed, len(questions), plan.sampled)
    frame, states = sampler.sample(
        questions, prompt_format, sampling, seeds, step=step, read=plan.samples if read else 0
    )
    if plan.p_true:
        asked = frame["sample"] < plan.samples
        found = sampler.p_true(questions["question"].repeat(plan.samples), frame["text"][asked])
        frame.loc[asked, "p_true"], frame.loc[asked, "p_true_mass"] = found.ratio, found.mass
    return frame, states
