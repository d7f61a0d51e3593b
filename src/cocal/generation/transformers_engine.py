"""The transformers engine: `generate` of a Hugging Face model under a sampler with one seed a response."""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from cocal.features.forward import batches_of_rows, batches_of_tokens
from cocal.generation.engine import Completion, Sampling, Tokens
from cocal.runtime import progress

_SCORING_TOKENS = 16384


class SeededSampler(LogitsProcessor):
    """Draws the next token itself and leaves `generate` no other choice.

    `generate` draws a whole batch from one global noise stream, has no presence penalty, and gives raw
    log-probabilities only by keeping all logits. Here every row has its own stream of uniform numbers, one a
    position, and the token is found by inverting the cumulative distribution in float64.

    Args:
        sampling: temperature, truncation and penalty.
        seeds: one a row.
        prompt_length: padded length of the prompts.
        device: of the logits.

    Attributes:
        logprobs: float32 (rows, max_tokens), raw log-probability of each drawn token.
    """

    def __init__(self, sampling: Sampling, seeds: Sequence[int], prompt_length: int, device: torch.device):
        noise = np.stack([np.random.default_rng(seed).random(sampling.max_tokens) for seed in seeds])
        self._noise = torch.from_numpy(noise).to(device)
        self._penalty = sampling.presence_penalty
        self._prompt_length = prompt_length
        self._warpers = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
        if sampling.top_k:
            self._warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            self._warpers.append(TopPLogitsWarper(sampling.top_p))
        self.logprobs = torch.zeros((len(seeds), sampling.max_tokens), device=device)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (rows, vocabulary) that allow the drawn token alone."""
        position = input_ids.shape[1] - self._prompt_length
        raw = scores.float()
        logits = raw
        if self._penalty and position:
            generated = input_ids[:, self._prompt_length :]
            seen = torch.zeros_like(raw, dtype=torch.bool).scatter_(1, generated, True)
            logits = raw - self._penalty * seen
        cumulative = self._warpers(input_ids, logits).double().softmax(dim=1).cumsum(dim=1)
        threshold = self._noise[:, position : position + 1] * cumulative[:, -1:]
        token = torch.searchsorted(cumulative, threshold, right=True).clamp(max=raw.shape[1] - 1)
        self.logprobs[:, position] = (raw.gather(1, token) - raw.logsumexp(dim=1, keepdim=True))[:, 0]
        return torch.full_like(scores, -torch.inf).scatter_(1, token, 0.0)


class TransformersEngine:
    """Generation with a loaded Hugging Face causal language model.

    Args:
        model: in evaluation mode.
        end: end-of-sequence token id.
        pad: padding token id.
        batch_size: responses decoded together.
    """

    def __init__(self, model: PreTrainedModel, *, end: int, pad: int, batch_size: int):
        self._model = model
        self._end = end
        self._pad = pad
        self._batch_size = batch_size

    def generate(self, prompts: Sequence[Tokens], sampling: Sampling, seeds: Sequence[int]) -> list[list[Completion]]:
        """See `cocal.generation.engine.Engine.generate`."""
        jobs = [(i, seed + j) for i, seed in enumerate(seeds) for j in range(sampling.samples)]
        lengths = [len(prompts[i]) for i, _ in jobs]
        done: list[Completion | None] = [None] * len(jobs)
        batches = batches_of_rows(lengths, self._batch_size)
        for batch in progress(batches, "responses"):
            part = [jobs[k] for k in batch]
            for k, completion in zip(batch, self._decode(part, prompts, sampling), strict=True):
                done[k] = completion
        n = sampling.samples
        return [done[i * n : (i + 1) * n] for i in range(len(prompts))]

    @torch.inference_mode()
    def _decode(
        self, jobs: Sequence[tuple[int, int]], prompts: Sequence[Tokens], sampling: Sampling
    ) -> list[Completion]:
        ids, mask = self._left_padded([prompts[i] for i, _ in jobs])
        sampler = SeededSampler(sampling, [seed for _, seed in jobs], ids.shape[1], ids.device)
        output = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=GenerationConfig(
                do_sample=False,
                max_new_tokens=sampling.max_tokens,
                eos_token_id=self._end,
                pad_token_id=self._pad,
            ),
            logits_processor=LogitsProcessorList([sampler]),
        )
        generated = output[:, ids.shape[1] :].cpu().numpy()
        logprobs = sampler.logprobs.cpu().numpy()
        completions = []
        for row, values in zip(generated, logprobs, strict=True):
            ends = np.flatnonzero(row == self._end)
            length = ends[0] + 1 if len(ends) else len(row)
            completions.append(
                Completion(row[:length].tolist(), values[:length].copy(), "stop" if len(ends) else "length")
            )
        return completions

    @torch.inference_mode()
    def next_token_logprobs(self, prompts: Sequence[Tokens], tokens: Sequence[int]) -> np.ndarray:
        """See `cocal.generation.engine.Engine.next_token_logprobs`."""
        found = np.empty((len(prompts), len(tokens)))
        for batch in batches_of_tokens([len(p) for p in prompts], _SCORING_TOKENS):
            ids, mask = self._left_padded([prompts[k] for k in batch])
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            output = self._model(input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=1)
            found[batch] = output.logits[:, -1].double().log_softmax(dim=1)[:, list(tokens)].cpu().numpy()
        return found

    def _left_padded(self, prompts: Sequence[Tokens]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(map(len, prompts))
        ids = torch.full((len(prompts), longest), self._pad)
        mask = torch.zeros_like(ids)
        for k, prompt in enumerate(prompts):
            ids[k, longest - len(prompt) :] = torch.as_tensor(prompt)
            mask[k, longest - len(prompt) :] = 1
        return ids.to(self._model.device), mask.to(self._model.device)
