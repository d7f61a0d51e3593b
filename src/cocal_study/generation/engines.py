"""The interface of all generation engines, their sampling parameters, and the opening of a configuration's engine."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

import numpy as np

from cocal.engines.engine import Completion
from cocal.models.loading import Policy
from cocal.models.text import Tokens


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of responses (table of hyperparameters, evaluation).

    Attributes:
        top_k: Number of most likely tokens that are kept; 0 keeps all of them.
        top_p: Probability that the smallest kept set among the `top_k` tokens must reach.
        presence_penalty: Amount subtracted once from the logit of every token that the response already holds, before
            the temperature is applied; prompt tokens do not count.
        max_tokens: Longest response, in tokens.
        samples: Number of responses per prompt.
        best_logprobs: Number of largest raw log-probabilities at each token that come with the responses.
    """

    temperature: float
    top_k: int
    top_p: float
    presence_penalty: float
    max_tokens: int
    samples: int = 1
    best_logprobs: int = 0

    @classmethod
    def of(cls, settings: Any, max_tokens: int, samples: int = 1) -> "Sampling":
        """Take the sampling parameters from settings that have fields of their names."""
        kept = {name: getattr(settings, name) for name in ("temperature", "top_k", "top_p", "presence_penalty")}
        best = getattr(settings, "best_logprobs", 0)
        return cls(**kept, max_tokens=max_tokens, samples=samples, best_logprobs=best)


class Engine(Protocol):
    """One loaded checkpoint that generates responses."""

    @property
    def label(self) -> str:
        """Name and version of the decoding library; responses may differ between versions."""
        ...

    def generate(self, prompts: Sequence[Tokens], sampling: Sampling, seeds: Sequence[int]) -> list[list[Completion]]:
        """Sample `sampling.samples` responses to each prompt.

        Response j to prompt i uses only the noise stream of seed `seeds[i] + j`; it depends neither on the other
        prompts nor on the batch. Seeds must be at least `samples` apart.
        """
        ...

    def next_token_logprobs(self, prompts: Sequence[Tokens], tokens: Sequence[int]) -> np.ndarray:
        """Return the raw log-probabilities, float64 (prompts, tokens), of each of `tokens` right after each prompt."""
        ...


def open_engine(settings: Any, checkpoint: Path, policy: Policy | None = None) -> AbstractContextManager[Engine]:
    """Open an engine with a checkpoint; its memory is freed when the context ends.

    Args:
        settings: Settings of the engine, whose `opens` names the function that opens it, as MODULE:NAME.
        policy: The checkpoint, if it is loaded already; only an engine in this process uses it.

    Raises:
        ContractError: if the checkpoint is not complete.
        ConfigError: if the engine cannot start with these settings.
        EngineError: if the engine's process does not start.
    """
    return resolve_name(settings.opens)(settings, checkpoint, policy)
