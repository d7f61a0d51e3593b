"""Inference times of a policy and its companions on the device at hand (appendices E.2 and F.4)."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field, RootModel

from cocal.checkpoints.loading import Policy
from cocal.checkpoints.text import Tokens
from cocal.companion.companions import Companions
from cocal.companion.single import SingleMember
from cocal.config.base import Count, Name
from cocal.config.evaluation import GenerationSettings
from cocal.errors import ConfigError, ContractError
from cocal.features.forward import score
from cocal.generation.engine import Engine, Sampling
from cocal.generation.responses import sampling_seeds
from cocal.runtime.progress import Progress
from cocal.study.costs import Latency, TimeToConfidence, device_name


class ResponseLengths(RootModel[Annotated[dict[Name, Count], Field(min_length=1)]]):
    """Longest response, in tokens, of each evaluation set that is timed."""


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one evaluation set.

    Attributes:
        prompts: token ids of each question's prompt, up to where the response begins.
        max_response_length: in tokens.
    """

    prompts: Sequence[Tokens]
    max_response_length: int


class SingleCompanion:
    """One companion beside its policy, for one sequence at a time.

    Args:
        companions: fitted ones. The first is taken: they differ in their weights alone, so one is as fast as another.
        policy: whose states it reads; the companion moves to its device.
        poolings: states that it has to read (`cocal.features.capture.capture`).
        source: where the companions come from, for errors.

    Raises:
        ContractError: if the companions read other states, or those of a policy of another size.
    """

    def __init__(self, companions: Companions, policy: Policy, poolings: Sequence[str], source: str | Path):
        spec, blocks, hidden = companions.spec, policy.blocks, policy.hidden
        if spec.poolings != tuple(poolings):
            raise ContractError(
                f"{source}: the companions read {spec.pooling} states, here {'+'.join(poolings)} states are needed; "
                "give companions that were fitted on these"
            )
        if spec.inputs != len(poolings) * hidden or not 0 <= spec.layer < blocks:
            raise ContractError(
                f"{source}: the companions read {spec.inputs} numbers of layer {spec.layer}, but the policy has layers "
                f"0 to {blocks - 1} and {len(poolings)} x {hidden} numbers; give companions of this policy"
            )
        self._policy, self._spec = policy, spec
        self._companion = SingleMember(companions, 0, self.device)

    @property
    def device(self) -> torch.device:
        """Of policy and companion."""
        return self._policy.model.device

    def confidence(self, prompt: Tokens, response: Tokens = ()) -> float:
        """In [0, 1]: one forward pass over prompt and response, without logits, and one prediction."""
        (scored,) = score(
            self._policy.model,
            [prompt],
            [response],
            [np.array([0])],
            layers=(self._spec.layer,),
            pad=self._policy.pad,
            poolings=self._spec.poolings,
        )
        return self.predict(torch.from_numpy(scored.features).reshape(1, -1))

    def example(self) -> torch.Tensor:
        """Features of the right form, float32 (1, inputs), on the device."""
        return torch.randn((1, self._spec.inputs), generator=torch.Generator().manual_seed(0)).to(self.device)

    def predict(self, features: torch.Tensor) -> float:
        """Confidence of features float32 (1, inputs)."""
        return self._companion.predict(features)


def measure_latency(
    sets: Mapping[str, PromptSet],
    *,
    pipeline: Engine,
    generator: Engine,
    pre: SingleCompanion,
    post: SingleCompanion,
    settings: GenerationSettings,
    questions: int,
    predictions: int,
    concurrent: int,
    seed: int,
) -> Latency:
    """Time to confidence on every set, generation on the largest one, and prediction.

    Loading, tokenisation, warm-up and everything that judges answers are outside all times; the device is idle when
    a clock starts, and again when it stops.

    Args:
        sets: the mathematical evaluation sets.
        pipeline: of the policy, in transformers; answers one question at a time, with its confidence (F.4).
        generator: of the policy; answers all questions of the largest set at once (E.2).
        pre: companion of the last prompt token's state.
        post: companion of a response's states.
        settings: evaluation sampling, and the pool of self-consistency.
        questions: randomly chosen ones of each set whose time to confidence is measured.
        predictions: of `post`, for the mean time of one.
        concurrent: responses that the generator decodes together; the size of its warm-up.
        seed: of the choice of questions.

    Raises:
        ConfigError: if a set has fewer than `questions`.
    """
    for name, of in sets.items():
        if questions > len(of.prompts):
            raise ConfigError(f"{name} has {len(of.prompts)} questions, not the {questions} to be timed; ask for fewer")
    times, progress = [], Progress("set", len(sets))
    for name, of in sets.items():
        chosen = _choose(of.prompts, questions, seed)
        sampling = Sampling.of(settings, of.max_response_length)
        seeds = sampling_seeds(f"latency/{name}", settings.seed, questions, 1)
        times.append(time_to_confidence(name, chosen, sampling, seeds, engine=pipeline, pre=pre, post=post))
        progress.add(detail=f"{name}: confidence after {times[-1].pre_ms:.2f} ms and {times[-1].post_s:.3f} s")
    name, largest = max(sets.items(), key=lambda item: len(item[1].prompts))
    prompts = largest.prompts

    def generate(samples: int) -> float:
        sampling = Sampling.of(settings, largest.max_response_length, samples)
        seeds = sampling_seeds(f"latency/{name}", settings.seed, len(prompts), samples)
        spent = generation_seconds(
            prompts, sampling, seeds, engine=generator, concurrent=concurrent, device=post.device
        )
        logging.info("%s: %.2f ms a question, %d response(s) each", name, 1000 * spent, samples)
        return spent

    return Latency(
        device=device_name(),
        questions=questions,
        engine=generator.label,
        generation_questions=len(prompts),
        generation_seconds=generate(1),
        pool=settings.pool,
        pool_seconds=generate(settings.pool),
        predictions=predictions,
        prediction_ms=1000 * prediction_seconds(post, predictions),
        time_to_confidence=tuple(times),
    )


def time_to_confidence(
    dataset: str,
    prompts: Sequence[Tokens],
    sampling: Sampling,
    seeds: Sequence[int],
    *,
    engine: Engine,
    pre: SingleCompanion,
    post: SingleCompanion,
) -> TimeToConfidence:
    """Mean times from a prompt to its confidence, one prompt after another, both routes in transformers (F.4).

    The pre-generation route encodes the prompt and predicts. The post-generation route decodes a response with a
    cache, processes its states and predicts. Processing is one teacher-forced pass over prompt and response, as in
    evaluation, so that both give the same confidence: decoding never runs the policy on the token it ends with, whose
    state the companion reads. The paper does not say how it processes the final state; next to decoding, the pass is
    short.

    Before the clock, every prompt is encoded once and the first is answered once.

    Args:
        dataset: name of the set.
        prompts: token ids of each prompt.
        sampling: of one response.
        seeds: one a prompt.
        engine: of the policy.
        pre: companion of the last prompt token's state.
        post: companion of a response's states.
    """

    def respond(prompt: Tokens, seed: int) -> float:
        ((completion,),) = engine.generate([prompt], sampling, [seed])
        return post.confidence(prompt, completion.token_ids)

    for prompt in prompts:
        pre.confidence(prompt)
    respond(prompts[0], seeds[0])
    pre_seconds = [_seconds(lambda p=p: pre.confidence(p), pre.device) for p in prompts]
    post_seconds = [
        _seconds(lambda p=p, seed=seed: respond(p, seed), post.device) for p, seed in zip(prompts, seeds, strict=True)
    ]
    return TimeToConfidence(
        dataset=dataset, pre_ms=1000 * float(np.mean(pre_seconds)), post_s=float(np.mean(post_seconds))
    )


def generation_seconds(
    prompts: Sequence[Tokens],
    sampling: Sampling,
    seeds: Sequence[int],
    *,
    engine: Engine,
    concurrent: int,
    device: torch.device,
) -> float:
    """Wall-clock time a prompt when all are submitted at once (E.2); one full batch is the warm-up.

    Args:
        prompts: token ids of each prompt.
        sampling: of `sampling.samples` responses to each.
        seeds: one a prompt.
        engine: of the policy.
        concurrent: responses that it decodes together.
        device: that it decodes on.
    """
    batch = -(-concurrent // sampling.samples)
    engine.generate(prompts[:batch], sampling, seeds[:batch])
    return _seconds(lambda: engine.generate(prompts, sampling, seeds), device) / len(prompts)


def prediction_seconds(companion: SingleCompanion, predictions: int) -> float:
    """Mean time of a prediction for one response (E.2), from features on the device to a number; warmed up."""
    features = companion.example()

    def predict() -> None:
        for _ in range(predictions):
            companion.predict(features)

    predict()
    return _seconds(predict, companion.device) / predictions


def _choose(prompts: Sequence[Tokens], count: int, seed: int) -> list[Tokens]:
    """`count` random prompts in their order."""
    rows = np.random.default_rng(seed).choice(len(prompts), count, replace=False)
    return [prompts[row] for row in sorted(rows)]


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Wall-clock time of `work`, all that it starts on the device included."""
    _synchronise(device)
    started = time.perf_counter()
    work()
    _synchronise(device)
    return time.perf_counter() - started


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
