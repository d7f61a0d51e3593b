"""The vLLM engine: generation in a process and an environment of its own, one fresh process a checkpoint."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cocal.checkpoints.loading import Policy, require_complete, stored_end_tokens
from cocal.checkpoints.text import Tokens
from cocal.config.engine import VllmSettings
from cocal.errors import ConfigError
from cocal.generation.engine import Completion, Sampling
from cocal.generation.vllm_process.client import open_process
from cocal.generation.vllm_process.framing import flat, rows

if TYPE_CHECKING:
    from cocal.generation.vllm_process.client import VllmProcess

_COLDEST = 0.01
"""vLLM takes a lower temperature for this one, without an error."""


@contextmanager
def open_vllm(settings: VllmSettings, checkpoint: Path, policy: Policy | None = None) -> Iterator["VllmEngine"]:
    """A checkpoint in a fresh process, which is gone when the context ends. It loads the checkpoint itself.

    Raises:
        ContractError: if the checkpoint is not complete.
        ConfigError: if vLLM cannot start with these settings.
        EngineError: if it does not start.
    """
    require_complete(checkpoint)
    with open_process(settings, checkpoint) as process:
        yield VllmEngine(process, stored_end_tokens(checkpoint))


class VllmEngine:
    """Generation with vLLM. bfloat16 on a GPU, float32 elsewhere.

    A seed is a noise stream in vLLM whatever the prompt, so each response is a request with its own seed.
    A response is the same whenever the same request is repeated; whether its last digits, and with them at times a
    token, depend on the batch, is up to vLLM's kernels (`batch_invariant` of the settings).

    Args:
        process: with the checkpoint loaded.
        ends: token ids that end a response.
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
            ConfigError: if prompt and response do not fit into the longest sequence, or the temperature is too low.
            EngineError: if vLLM fails.
        """
        if sampling.temperature < _COLDEST:
            raise ConfigError(f"temperature {sampling.temperature:g} is below vLLM's {_COLDEST}; top_k 1 is greedy")
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
