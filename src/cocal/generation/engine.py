"""The generation interface: what every engine takes and gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from cocal.checkpoints.text import Tokens

if TYPE_CHECKING:
    from cocal.config.evaluation import GenerationSettings, PostCalSettings


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn (table of hyperparameters, evaluation).

    Attributes:
        temperature: divides the logits.
        top_k: keep the k most likely tokens (0: all), then
        top_p: the smallest set of them that holds this probability.
        presence_penalty: subtracted once from the logit of every token that the response already holds,
            before the temperature; prompt tokens do not count.
        max_tokens: longest response.
        samples: responses a prompt.
    """

    temperature: float
    top_k: int
    top_p: float
    presence_penalty: float
    max_tokens: int
    samples: int = 1

    @classmethod
    def of(cls, settings: "GenerationSettings | PostCalSettings", max_tokens: int, samples: int = 1) -> "Sampling":
        """As the settings say."""
        return cls(
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
            presence_penalty=settings.presence_penalty,
            max_tokens=max_tokens,
            samples=samples,
        )


@dataclass(frozen=True)
class Completion:
    """One response.

    Attributes:
        token_ids: generated ids; ends with the end-of-sequence token if it stopped.
        logprobs: float32 (length,), log-probabilities under the raw logits, whatever the sampling.
        finish_reason: "stop" at the end-of-sequence token, "length" at max_tokens.
    """

    token_ids: list[int]
    logprobs: np.ndarray
    finish_reason: Literal["stop", "length"]


class Engine(Protocol):
    """A loaded checkpoint that generates. One engine serves one checkpoint."""

    @property
    def label(self) -> str:
        """Name and version of what decodes: with another one, responses may differ."""
        ...

    def generate(self, prompts: Sequence[Tokens], sampling: Sampling, seeds: Sequence[int]) -> list[list[Completion]]:
        """`sampling.samples` responses to each prompt.

        Response j to prompt i is drawn from the noise stream of seed `seeds[i] + j` alone: it depends neither
        on the other prompts nor on the batch. Space the seeds by at least `samples`.
        """
        ...

    def next_token_logprobs(self, prompts: Sequence[Tokens], tokens: Sequence[int]) -> np.ndarray:
        """Raw log-probabilities, float64 (prompts, tokens), of `tokens` right after each prompt."""
        ...
