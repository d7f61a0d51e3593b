"""The vLLM engine, which runs each checkpoint in a new process with its own Python environment."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cocal.config.engine import VllmSettings
from cocal.errors import ConfigError
from cocal.generation.engine import Completion, Sampling
from cocal.generation.vllm_process.client import open_process
from cocal.generation.vllm_process.framing import flat, rows
from cocal.models.loading import Policy, require_complete, stored_end_tokens
from cocal.models.text import Tokens

if TYPE_CHECKING:
    from cocal.generation.vllm_process.client import VllmProcess

_MIN_TEMPERATURE = 0.01
"""vLLM silently raises lower temperatures to this one."""


@contextmanager
def open_vllm(settings: VllmSettings, checkpoint: Path, policy: Policy | None = None) -> Iterator["VllmEngine"]:
    """Load a checkpoint in a new process, which ends with the context; `policy` is not used.

    Raises:
        ContractError: if the checkpoint is not complete.
        ConfigError: if vLLM cannot start with these settings.
        EngineError: if vLLM does not start.
    """
    require_complete(checkpoint)
    with open_process(settings, checkpoint) as process:
        yield VllmEngine(process, stored_end_tokens(checkpoint))


class VllmEngine:
    """Generation with vLLM, in bfloat16 on a GPU and in float32 elsewhere.

    In vLLM a seed chooses the same noise stream for every prompt, so each response is a request with its own seed.
    Repeating the same request gives the same response. Depending on vLLM's kernels, the batch may change the last
    digits of the logits and so, at times, a token (setting `batch_invariant`).

    Args:
        process: The process that has loaded the checkpoint.
        ends: Token ids that end a response.
    """

    def __init__(self, process: "VllmProcess", ends: Iterable[int]):
        self._process = process
        self._ends = sorted(ends)

    @property
    def label(self) -> str:
        """See `cocal.generation.engine.Engine.label`."""
        return f"vllm {self._process.version}"

    def generate(self, prompts: Sequence[Tokens], sampling: Sampling, seeds: Sequence[int]) -> list[list[Completion]]:
        """See `cocal.generation.engine.Engine.generate`.

        Raises:
            ConfigError: if prompt and response exceed the longest sequence, or the temperature is too low.
            EngineError: if vLLM fails.
        """
        if sampling.temperature < _MIN_TEMPERATURE:
            raise ConfigError(f"temperature {sampling.temperature:g} is below vLLM's {_MIN_TEMPERATURE}; use top_k 1")
        header = {"sampling": asdict(sampling), "ends": self._ends}
        _, answer = self._process.ask("generate", header, *flat("i", prompts), array("q", seeds))
        ids, lengths, logprobs, stopped = answer
        completions = [
            Completion(part.tolist(), np.array(values, dtype=np.float32), "stop" if ended else "length")
            for part, values, ended in zip(rows(ids, lengths), rows(logprobs, lengths), stopped, strict=True)
        ]
        n = sampling.samples
        return [completions[i * n : (i + 1) * n] for i in range(len(prompts))]

    def next_token_logprobs(self, prompts: Sequence[Tokens], tokens: Sequence[int]) -> np.ndarray:
        """See `cocal.generation.engine.Engine.next_token_logprobs`.

        Raises:
            EngineError: if vLLM fails.
        """
        _, (found,) = self._process.ask("next_token_logprobs", {}, *flat("i", prompts), array("i", tokens))
        return np.array(found).reshape(len(prompts), len(tokens))
