"""Functions that slime calls for rewards and advantages of GRPO, RLCR and DCPO (`cocal_study.policy.objectives`).

slime finds them by dotted path: `reward` by `--custom-rm-path` with `--reward-key acc`, `normalised` by
`--custom-reward-post-process-path`, `advantages` by `--custom-advantage-function-path` (only for DCPO). Their settings
lie in the file that the environment variable COCAL_SLIME names.

GRPO and RLCR have one advantage per response, which slime's own estimator spreads over the tokens. DCPO has one per
token: `normalised` stores them as a teacher's log-probabilities, since these are the only vector with a float per token
that reaches the trainer (sliced for context parallelism), and `advantages` reads them there.
"""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from cocal.answers.equivalence import Verifier
from cocal.answers.extraction import extract_answer
from cocal.answers.settings import VerifierSettings
from cocal.rewards import confidence_start, stated_confidences
from cocal.settings.base import Algorithm, Model
from cocal_study.config.parse import parse_settings
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.objectives import PROMPT_FORMATS, step_advantages, step_rewards

ENVIRONMENT = "COCAL_SLIME"


class HookSettings(Model):
    policy: PolicySettings
    algorithm: Algorithm
    verifier: VerifierSettings


async def reward(args: Any, sample: Any, **_: Any) -> dict[str, float]:
    """Correctness (`acc`), stated confidence (`conf`, NaN if it is not valid) and the index of the response's first
    confidence token (`conf_start`)."""
    from cocal.models.text import plain_texts

    tokenizer, algorithm = _tokenizer(args.hf_checkpoint), _settings().algorithm
    ids = list(sample.tokens[-sample.response_length :]) if sample.response_length else []
    (text,) = plain_texts(tokenizer, [ids])
    metadata = sample.metadata or {}
    golds = list(metadata.get("golds") or [sample.label])
    loop = asyncio.get_running_loop()
    correct = await loop.run_in_executor(_verifying(), _verifier().correct, [golds], [extract_answer(text)])
    start = 0
    if algorithm == "dcpo":
        start = confidence_start(ids, lambda part: plain_texts(tokenizer, [part])[0])
    (confidence,) = stated_confidences([text], PROMPT_FORMATS[algorithm])
    return {"acc": float(correct.values[0]), "conf": float(confidence), "conf_start": float(start)}


def normalised(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Correctness of each sample of a step, and the advantage that slime's estimator takes.

    Cut responses are marked to be removed from the loss where the settings say so; slime has dumped the samples before.
    Raises ValueError if a group is incomplete.
    """
    settings = _settings()
    size = settings.policy.responses_per_question
    order = np.argsort([sample.group_index for sample in samples], kind="stable")
    ordered = [samples[place] for place in order]
    groups, counts = np.unique([sample.group_index for sample in samples], return_counts=True)
    if (counts != size).any():
        broken = np.flatnonzero(counts != size)[0]
        raise ValueError(f"group {groups[broken]} has {counts[broken]} responses, not {size}")
    correct = np.array([sample.reward["acc"] for sample in ordered]) > 0.5
    confidence = np.array([sample.reward["conf"] for sample in ordered])
    starts = [int(sample.reward["conf_start"]) for sample in ordered]
    rewards = step_rewards(settings.policy, settings.algorithm, correct, confidence)
    longest = max(sample.response_length for sample in ordered)
    found = step_advantages(settings.policy, settings.algorithm, rewards, starts, longest)
    if found.ndim == 2:
        for sample, row in zip(ordered, found, strict=True):
            sample.teacher_log_probs = row[: sample.response_length].tolist()
        found = found[:, 0]  # unused: `advantages` overrides it
    if settings.policy.mask_truncated:
        for sample in samples:
            sample.remove_sample = sample.status.value == "truncated"
    back = np.empty(len(order))
    back[order] = found
    return [float(sample.reward["acc"]) for sample in samples], back.tolist()


def advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """Set `advantages` and `returns`, float32 (tokens,) each, to the vectors that `normalised` made."""
    import torch

    device = rollout_data["log_probs"][0].device
    found = [torch.as_tensor(row, dtype=torch.float32, device=device) for row in rollout_data["teacher_log_probs"]]
    rollout_data["advantages"], rollout_data["returns"] = found, [row.clone() for row in found]


@lru_cache(maxsize=1)
def _settings() -> HookSettings:
    return parse_settings(HookSettings, os.environ[ENVIRONMENT], ENVIRONMENT)


@lru_cache(maxsize=1)
def _tokenizer(path: str):
    from cocal.models.loading import load_tokenizer

    return load_tokenizer(path)


@lru_cache(maxsize=1)
def _verifier() -> Verifier:
    """The verifier, whose worker processes can be killed and end with the rollout process."""
    return Verifier(_settings().verifier)


@lru_cache(maxsize=1)
def _verifying() -> ThreadPoolExecutor:
    """A single thread, since the verifier serves one caller at a time; generation continues meanwhile."""
    return ThreadPoolExecutor(max_workers=1)
