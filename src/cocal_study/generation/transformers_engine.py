"""The transformers engine, which decodes with a Hugging Face model and one seed for each response."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel, TopPLogitsWarper

from cocal.engines.engine import Completion
from cocal.models.loading import Policy, load_policy
from cocal.models.text import Tokens, batches_of_rows, batches_of_tokens
from cocal.runtime.graphs import recorded
from cocal.runtime.progress import through
from cocal_study.config.engine import TransformersSettings
from cocal_study.generation.decoding import Fixed, Growing, logits_of
from cocal_study.generation.engines import Sampling

_SCORING_TOKENS = 16384


class SeededSampler:
    """Draws the next tokens of a batch, position by position; finished rows can be removed.

    Every row has its own stream of uniform numbers, one per position, and each token is found by inverting the
    cumulative distribution in float64. The sampling of transformers draws a whole batch from one global noise stream
    and has no presence penalty.
    """

    def __init__(self, sampling: Sampling, seeds: Sequence[int], device: torch.device):
        noise = np.stack([np.random.default_rng(seed).random(sampling.max_tokens) for seed in seeds])
        self._noise = torch.from_numpy(noise).to(device)
        self._sampling = sampling
        self._top_p = TopPLogitsWarper(sampling.top_p) if sampling.top_p < 1 else None
        self._drawn = torch.empty((len(seeds), 0), dtype=torch.long, device=device)

    def draw(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Token ids, int64 (rows,), drawn from raw logits (rows, vocabulary), their raw log-probabilities, float32
        (rows,), and the largest ones, float32 (rows, best_logprobs)."""
        raw = logits.float()
        position = self._drawn.shape[1]
        logits = raw
        if self._sampling.presence_penalty and position:
            seen = torch.zeros_like(raw, dtype=torch.bool).scatter_(1, self._drawn, True)
            logits = raw - self._sampling.presence_penalty * seen
        logits = logits / self._sampling.temperature
        kept = None
        if 0 < self._sampling.top_k < raw.shape[1]:
            kept = logits.topk(self._sampling.top_k, sorted=False).indices.sort(dim=1).values
            logits = logits.gather(1, kept)
        if self._top_p:
            logits = self._top_p(None, logits)
        cumulative = logits.double().softmax(dim=1).cumsum(dim=1)
        threshold = self._noise[:, position, None] * cumulative[:, -1:]
        token = torch.searchsorted(cumulative, threshold, right=True).clamp(max=cumulative.shape[1] - 1)
        if kept is not None:
            token = kept.gather(1, token)
        self._drawn = torch.cat([self._drawn, token], dim=1)
        total = raw.logsumexp(dim=1)
        best = raw.topk(self._sampling.best_logprobs).values - total[:, None]
        return token[:, 0], raw.gather(1, token)[:, 0] - total, best

    def keep(self, rows: torch.Tensor) -> None:
        """Remove all rows but these."""
        self._noise, self._drawn = self._noise[rows], self._drawn[rows]


@contextmanager
def open_transformers(
    settings: TransformersSettings, checkpoint: Path, policy: Policy | None = None
) -> Iterator["TransformersEngine"]:
    """Open a checkpoint in this process; it is loaded unless `policy` is given."""
    yield TransformersEngine.of(policy or load_policy(checkpoint), settings.batch_size)


class TransformersEngine:
    """Generation with a loaded Hugging Face causal language model, a decoder without dropout.

    The `generate` of transformers keeps decoding finished responses until the last one ends and encodes a prompt again
    for each of its responses. This engine does neither.
    """

    def __init__(self, model: PreTrainedModel, *, ends: Collection[int], pad: int, batch_size: int):
        self._model = model
        self._ends = frozenset(ends)
        self._pad = pad
        self._batch_size = batch_size

    @classmethod
    def of(cls, policy: Policy, batch_size: int) -> "TransformersEngine":
        """Build the engine from a policy's model, end tokens and padding token."""
        return cls(policy.model, ends=policy.ends, pad=policy.pad, batch_size=batch_size)

    @property
    def label(self) -> str:
        """See `cocal_study.generation.engines.Engine.label`."""
        return f"transformers {transformers.__version__}"

    def generate(self, prompts: Sequence[Tokens], sampling: Sampling, seeds: Sequence[int]) -> list[list[Completion]]:
        """See `cocal_study.generation.engines.Engine.generate`."""
        jobs = [(i, seed + j) for i, seed in enumerate(seeds) for j in range(sampling.samples)]
        lengths = [len(prompts[i]) for i, _ in jobs]
        done: list[Any] = [None] * len(jobs)
        batches = batches_of_rows(lengths, self._batch_size)
        for batch in through(batches, "response"):
            part = [jobs[k] for k in batch]
            decoded = self._decode([tuple(prompts[i]) for i, _ in part], [seed for _, seed in part], sampling)
            for k, completion in zip(batch, decoded, strict=True):
                done[k] = completion
        n = sampling.samples
        return [done[i * n : (i + 1) * n] for i in range(len(prompts))]

    @torch.inference_mode()
    def _decode(self, prompts: Sequence[tuple[int, ...]], seeds: Sequence[int], sampling: Sampling) -> list[Completion]:
        """Decode one response for each row, all rows together."""
        distinct = list(dict.fromkeys(prompts))
        ids, mask, positions = self._left_padded(distinct)
        cache = DynamicCache(config=self._model.config)
        logits = logits_of(self._model, ids, mask, positions, cache)
        place = {prompt: k for k, prompt in enumerate(distinct)}
        rows = torch.tensor([place[prompt] for prompt in prompts], device=ids.device)
        cache.batch_select_indices(rows)
        logits = logits[rows]
        steps = Fixed if ids.is_cuda and recorded() and Fixed.suits(self._model, cache) else Growing
        decoding = steps(self._model, cache, mask[rows], positions[rows, -1:])
        sampler = SeededSampler(sampling, seeds, ids.device)
        tokens: list[list[int]] = [[] for _ in prompts]
        logprobs: list[list[float]] = [[] for _ in prompts]
        best: list[list[np.ndarray]] = [[] for _ in prompts]
        going = list(range(len(prompts)))
        ends = torch.tensor(sorted(self._ends), device=ids.device)
        while True:
            token, logprob, largest = sampler.draw(logits)
            for row, token_id, value in zip(going, token.tolist(), logprob.tolist(), strict=True):
                tokens[row].append(token_id)
                logprobs[row].append(value)
            for row, values in zip(going, largest.cpu().numpy() if sampling.best_logprobs else (), strict=False):
                best[row].append(values)
            on = (~torch.isin(token, ends)).nonzero()[:, 0]
            if not len(on) or len(tokens[going[0]]) == sampling.max_tokens:
                break
            if len(on) < len(going):
                decoding.keep(on)
                sampler.keep(on)
                token = token[on]
                going = [going[k] for k in on.tolist()]
            logits = decoding.next(token)
        return [
            Completion(
                ids,
                np.array(values, dtype=np.float32),
                "stop" if ids[-1] in self._ends else "length",
                best=np.stack(largest) if largest else None,
            )
            for ids, values, largest in zip(tokens, logprobs, best, strict=True)
        ]

    @torch.inference_mode()
    def next_token_logprobs(self, prompts: Sequence[Tokens], tokens: Sequence[int]) -> np.ndarray:
        """See `cocal_study.generation.engines.Engine.next_token_logprobs`."""
        logprobs = np.empty((len(prompts), len(tokens)))
        for batch in batches_of_tokens([len(p) for p in prompts], _SCORING_TOKENS):
            logits = logits_of(self._model, *self._left_padded([prompts[k] for k in batch]))
            logprobs[batch] = logits.double().log_softmax(dim=1)[:, list(tokens)].cpu().numpy()
        return logprobs

    def _left_padded(self, prompts: Sequence[Tokens]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids, mask and positions of prompts, each (prompts, longest)."""
        left = {"batch_first": True, "padding_side": "left"}
        ids = pad_sequence(
            [torch.as_tensor(prompt, dtype=torch.long) for prompt in prompts], **left, padding_value=self._pad
        )
        mask = pad_sequence([torch.ones(len(prompt), dtype=torch.long) for prompt in prompts], **left)
        ids, mask = ids.to(self._model.device), mask.to(self._model.device)
        return ids, mask, (mask.cumsum(dim=1) - 1).clamp(min=0)
