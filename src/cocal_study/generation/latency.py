"""Inference times of a policy and its companions on this machine's device (appendices E.2 and F.4)."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cocal.companion.companions import Companions
from cocal.errors import ConfigError
from cocal.features.forward import score
from cocal.models.loading import Policy
from cocal.models.text import Tokens
from cocal.runtime.progress import Progress
from cocal.store import read_document, write_document
from cocal_study.config.evaluation import GenerationSettings, TimingSettings
from cocal_study.generation.engines import Engine, Sampling
from cocal_study.generation.responses import sampling_seeds
from cocal_study.planning.costs import Latency, TimeToConfidence, device_name

if TYPE_CHECKING:
    from cocal_study.generation.transformers_engine import TransformersEngine


class PromptSet(NamedTuple):
    """Token ids of each prompt of an evaluation set, and the length limit of responses in tokens."""

    prompts: Sequence[Tokens]
    max_response_length: int


class SingleMember:
    """One member of stacked companions, which scores one response at a time with little overhead per call.

    Each layer is three operations on plain tensors. At the embedded widths a plain PyTorch module takes about 1.8 times
    as long for a prediction, mostly for the calls of its submodules.
    """

    def __init__(self, companions: Companions, member: int, device: torch.device):
        def own(layer: Any) -> list[Tensor]:
            return [weights[member].detach().to(device, copy=True) for weights in (layer.weight, layer.bias)]

        model = companions.model
        self._layers = [(own(linear), own(norm)) for linear, norm in zip(model.linears, model.norms, strict=True)]
        self._output = own(model.output)
        self.device = device

    @torch.inference_mode()
    def predict(self, features: Tensor) -> float:
        """Predict a confidence in [0, 1] from features float32 (1, inputs) on any device."""
        hidden = features.to(self.device)
        for linear, (scale, shift) in self._layers:
            hidden = functional.linear(hidden, *linear)
            hidden = functional.gelu(functional.layer_norm(hidden, scale.shape, scale, shift))
        return torch.sigmoid(functional.linear(hidden, *self._output)).item()


class SingleCompanion(SingleMember):
    """A policy with one companion, the first of those given (all are equally fast), which scores one sequence at a time
    on the policy's device."""

    def __init__(self, companions: Companions, policy: Policy):
        super().__init__(companions, 0, policy.model.device)
        self._policy, self._spec = policy, companions.spec

    def confidence(self, prompt: Tokens, response: Tokens = ()) -> float:
        """Compute a confidence in [0, 1] with one forward pass over prompt and response and one prediction."""
        model, pad, spec = self._policy.model, self._policy.pad, self._spec
        batches, layers = [np.array([0])], (spec.layer,)
        scored = score(model, [prompt], [response], batches, layers=layers, pad=pad, poolings=spec.poolings)
        return self.predict(torch.from_numpy(scored.features).reshape(1, -1))

    def example(self) -> Tensor:
        """Return random features of the right shape, float32 (1, inputs), on the device."""
        return torch.randn((1, self._spec.inputs), generator=torch.Generator().manual_seed(0)).to(self.device)


def measure_latency(
    sets: Mapping[str, PromptSet],
    *,
    pipeline: "TransformersEngine",
    generator: Engine,
    pre: SingleCompanion,
    post: SingleCompanion,
    settings: GenerationSettings,
    timing: TimingSettings,
    kept: Path | None = None,
) -> Latency:
    """Measure the time to confidence on every set, generation on the largest set, and prediction.

    No time includes loading, tokenisation, warm-up or judging. The device is idle when a measurement starts and when it
    ends. Raises ConfigError if a set has too few questions, and ContractError if `kept` is broken.

    Args:
        sets: The mathematical evaluation sets.
        pipeline: Transformers engine of the policy, which answers one question at a time (F.4).
        generator: Engine of the policy that answers all questions of the largest set at once (E.2).
        pre, post: Companions that read the state of the last prompt token, and those of a response.
        settings: Sampling parameters of the evaluation, and the pool of self-consistency.
        timing: What is timed how often. The generator warms up on as many responses as it decodes together.
        kept: JSON file of the times to confidence that an earlier attempt has measured on this device, which are not
            measured again; it gets those of each set as soon as they are known.
    """
    for name, prompt_set in sets.items():
        if timing.samples > len(prompt_set.prompts):
            many = f"has only {len(prompt_set.prompts)} questions, not {timing.samples}"
            raise ConfigError(f"{name} {many}; time fewer questions")

    def time_to_confidence(name: str, prompt_set: PromptSet) -> TimeToConfidence:
        """Mean times from a prompt to its confidence, one prompt after another, in transformers (F.4).

        The pre-generation route encodes the prompt and predicts. The post-generation route decodes a response with a
        cache, computes its states and predicts. The states come from one teacher-forced pass over prompt and response,
        as in evaluation, so that the confidence is the same: decoding never runs the policy on the last token, whose
        state the companion reads. The paper does not say how it obtains this state; the pass is short compared with
        decoding. For warm-up, every prompt is encoded once and the first one is answered once.
        """
        rows = np.random.default_rng(timing.seed).choice(len(prompt_set.prompts), timing.samples, replace=False)
        prompts = [prompt_set.prompts[row] for row in sorted(rows)]
        sampling = Sampling.of(settings, prompt_set.max_response_length)
        seeds = sampling_seeds(f"latency/{name}", settings.seed, timing.samples, 1)

        def respond(prompt: Tokens, seed: int) -> float:
            ((completion,),) = pipeline.generate([prompt], sampling, [seed])
            return post.confidence(prompt, completion.token_ids)

        for prompt in prompts:
            pre.confidence(prompt)
        respond(prompts[0], seeds[0])
        before = [_seconds(partial(pre.confidence, prompt), pre.device) for prompt in prompts]
        after = [_seconds(partial(respond, *asked), post.device) for asked in zip(prompts, seeds, strict=True)]
        return TimeToConfidence(dataset=name, pre_ms=1000 * float(np.mean(before)), post_s=float(np.mean(after)))

    known = read_document(kept) if kept and kept.exists() else {}
    times = [TimeToConfidence(**known[name]) for name in sets if name in known]
    progress = Progress("set", len(sets), done=len(times))
    for name, prompt_set in list(sets.items())[len(times) :]:
        times.append(time_to_confidence(name, prompt_set))
        if kept:
            write_document(kept, {time.dataset: time.model_dump() for time in times}, {})
        progress.add(detail=f"{name}: confidence after {times[-1].pre_ms:.2f} ms and {times[-1].post_s:.3f} s")
    name, largest = max(sets.items(), key=lambda item: len(item[1].prompts))
    asked = len(largest.prompts)
    pooled = min(timing.pool_questions or asked, asked)

    def generate(samples: int, count: int) -> float:
        """Seconds per prompt when `count` of the set are submitted at once, after one batch of warm-up."""
        prompts = [largest.prompts[row * asked // count] for row in range(count)]
        sampling = Sampling.of(settings, largest.max_response_length, samples)
        seeds = sampling_seeds(f"latency/{name}", settings.seed, len(prompts), samples)
        batch = -(-timing.concurrent // samples)
        generator.generate(prompts[:batch], sampling, seeds[:batch])
        spent = _seconds(lambda: generator.generate(prompts, sampling, seeds), post.device) / len(prompts)
        logging.info("%s: %.2f ms per question with %d response(s) each", name, 1000 * spent, samples)
        return spent

    features, generation_seconds = post.example(), generate(1, asked)
    pool_seconds = generate(settings.pool, pooled)

    def predict() -> None:
        for _ in range(timing.predictions):
            post.predict(features)

    predict()  # as a warm-up
    return Latency(
        device=device_name(),
        questions=timing.samples,
        engine=generator.label,
        generation_dataset=name,
        generation_questions=asked,
        generation_seconds=generation_seconds,
        pool=settings.pool,
        pool_questions=pooled,
        pool_seconds=pool_seconds,
        predictions=timing.predictions,
        prediction_ms=1000 * (_seconds(predict, post.device) / timing.predictions),
        time_to_confidence=tuple(times),
    )


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Wall-clock time of `work`, including all that it starts on the device."""
    idle = torch.cuda.synchronize if device.type == "cuda" else lambda _device: None
    idle(device)
    started = time.perf_counter()
    work()
    idle(device)
    return time.perf_counter() - started
