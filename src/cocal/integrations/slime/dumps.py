"""slime's dumps (`--save-debug-rollout-data`): `{rollout_id}.pt`, a dict of plain data."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.integrations.sample import Sample, log_probabilities, number, required, token_ids
from cocal.store.numbered import numbered

_TRUNCATED = {"completed": False, "truncated": True}


def files(folder: Path) -> dict[int, Path]:
    """Dumps by rollout step: rollout id 0 is step 1. Dumps of evaluations (`eval_*.pt`) are left out."""
    return {number + 1: path for number, path in numbered(folder, r"(\d+)\.pt", "0.pt").items()}


def read(path: Path, reward_key: str) -> list[Sample]:
    """The samples of a dump.

    Args:
        path: Dump to read.
        reward_key: Key of correctness, where the reward is a dict.

    Raises:
        ContractError: if a sample is invalid; the message names file, sample and field.
    """
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        first = str(error).strip().splitlines()[0]
        raise ContractError(
            f"{path}: not a readable dump of plain data ({first}); objects of other kinds are never loaded"
        ) from None
    samples = content.get("samples") if isinstance(content, dict) else None
    if not isinstance(samples, list) or not samples:
        raise ContractError(f"{path}: field 'samples' is missing or empty; expected a dump of slime's rollouts")
    if content.get("rollout_id") not in (None, int(path.stem)):
        raise ContractError(f"{path}: holds rollout_id {content['rollout_id']}; the name must be the id")
    return [_sample(entry, f"{path}: sample {place}", reward_key) for place, entry in enumerate(samples)]


def _sample(entry: Any, where: str, reward_key: str) -> Sample:
    if not isinstance(entry, Mapping):
        raise ContractError(f"{where}: not a mapping of fields")
    tokens = token_ids(required(entry, "tokens", where), "tokens", where)
    length = required(entry, "response_length", where)
    if not isinstance(length, int) or not 0 < length < len(tokens):
        raise ContractError(
            f"{where}: response_length is {length!r} of {len(tokens)} tokens; neither prompt nor response may be empty"
        )
    status = required(entry, "status", where)
    if status not in _TRUNCATED:
        raise ContractError(f"{where}: status is {status!r}, not one of {', '.join(_TRUNCATED)}; it never finished")
    mask = entry.get("loss_mask")
    if mask is not None and (len(mask) != length or len({*mask}) > 1):
        raise ContractError(f"{where}: loss_mask excludes parts of the response, which the policy did not write")
    reward = entry.get("reward")
    if isinstance(reward, Mapping):
        reward = required(reward, reward_key, f"{where}: reward")
    metadata = entry.get("metadata") or {}
    return Sample(
        where,
        group=required(entry, "group_index", where),
        prompt=_text(required(entry, "prompt", where)),
        question_id=metadata.get("question_id"),
        prompt_ids=tokens[:-length],
        response_ids=tokens[-length:],
        truncated=_TRUNCATED[status],
        logprobs=log_probabilities(entry.get("rollout_log_probs"), "rollout_log_probs", length, where),
        reward=number(reward, "reward", where),
    )


def _text(prompt: str | list[dict[str, str]]) -> str:
    """The prompt itself, or the text of a chat's messages."""
    return prompt if isinstance(prompt, str) else "\n".join(str(message.get("content", "")) for message in prompt)
