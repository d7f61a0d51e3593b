"""A rollout read from a dump of any format, and the checks that all formats share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cocal.errors import ContractError


@dataclass(frozen=True)
class Sample:
    """One response of a dump.

    Attributes:
        where: File and place in it, for error messages.
        group: Number or name of the group, equal for the responses to one question of the step; None where the dump
            does not say.
        prompt: Text that holds the question, where the dump does not give its id.
        question_id: Id of the question, or None.
        prompt_ids: Prompt tokens, int64 (n,); None where the dump has only text.
        response_ids: Response tokens, int64 (length,), with the end-of-sequence token; None where the dump has only
            text.
        text: Text of the response, where the dump has no ids.
        truncated: Whether the response was cut at the length limit; None where the dump does not say.
        logprobs: Raw log-probabilities, float32 (length,), or None.
        reward: Reward from the dump's verifier, or None.
        messages: The prompt as a chat, each message with `role` and `content`, where the dump has it so.
        raw: Whether `prompt` is the whole text that the policy saw, and not the message of a user.
        step: Rollout step, where the dump says it for every response.
    """

    where: str
    group: int | str | None
    prompt: str | None = None
    question_id: str | None = None
    prompt_ids: np.ndarray | None = None
    response_ids: np.ndarray | None = None
    text: str | None = None
    truncated: bool | None = None
    logprobs: np.ndarray | None = None
    reward: float | None = None
    messages: tuple[Mapping[str, str], ...] | None = None
    raw: bool = False
    step: int | None = None


def required(entry: Mapping[str, Any], name: str, where: str) -> Any:
    """The value of a field that a sample must have.

    Raises:
        ContractError: if it is missing or None.
    """
    if entry.get(name) is None:
        raise ContractError(f"{where}: field {name!r} is missing")
    return entry[name]


def token_ids(values: Any, name: str, where: str) -> np.ndarray:
    """Token ids, int64 (n,).

    Raises:
        ContractError: if they are not a list of integers, or there are none.
    """
    ids = np.asarray(values) if isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, str) else None
    if ids is None or ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ContractError(f"{where}: field {name!r} is not a list of token ids")
    if not ids.size:
        raise ContractError(f"{where}: field {name!r} is empty")
    return ids.astype(np.int64)


def log_probabilities(values: Any, name: str, length: int, where: str) -> np.ndarray | None:
    """Raw log-probabilities, float32 (length,); None if there are none.

    Raises:
        ContractError: if their number is wrong, or one is not finite or is above 0 by more than rounding.
    """
    if values is None:
        return None
    try:
        found = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise ContractError(f"{where}: field {name!r} is not a list of numbers") from None
    if found.shape != (length,):
        raise ContractError(f"{where}: field {name!r} has {found.size} values for {length} response tokens")
    bad = ~np.isfinite(found) | (found > 1e-3)
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise ContractError(f"{where}: field {name!r} is {found[place]} at token {place}, not a log-probability")
    return np.minimum(found, np.float32(0))


def number(value: Any, name: str, where: str) -> float | None:
    """A finite number, or None.

    Raises:
        ContractError: if the value is anything else.
    """
    if value is None:
        return None
    if isinstance(value, (int, float, np.number)) and np.isfinite(value):
        return float(value)
    raise ContractError(f"{where}: field {name!r} is not a finite number: {value!r}")
