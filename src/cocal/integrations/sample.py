"""The validated model of a response that a dump of any format holds, and the kinds of values that rows have."""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, PlainValidator, ValidationInfo, field_validator
from pydantic.dataclasses import dataclass

from cocal.store.rows import shown

LONGEST = 2**20
"""Tokens of a prompt or of a response."""
LONGEST_TEXT = 2**22
"""Characters of a text."""
LABELS = {
    **dict.fromkeys(("true", "correct", "right", "yes", "1", "1.0"), 1.0),
    **dict.fromkeys(("false", "incorrect", "wrong", "no", "0", "0.0"), 0.0),
}
"""Words that are read as labels, whatever their capitals."""
_WORDS = f"the words for it are {', '.join(LABELS)}"


def _token_ids(values: Any) -> np.ndarray:
    try:
        ids = np.asarray(values) if isinstance(values, (list, tuple, np.ndarray)) else None
    except (ValueError, OverflowError):  # lists of several lengths, or a number that no integer type holds
        ids = None
    if ids is None or ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ValueError("is not a list of token ids")
    if not ids.size:
        raise ValueError("is empty")
    if ids.size > LONGEST:
        raise ValueError(f"has {ids.size:,} token ids; at most {LONGEST:,} are read")
    if ids.min() < 0 or ids.max() >= 2**31:
        place = int(np.flatnonzero((ids < 0) | (ids >= 2**31))[0])
        raise ValueError(f"is {ids[place]} at token {place}, which is no token id")
    return ids.astype(np.int64, copy=False)


def _log_probabilities(values: Any) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # it becomes infinite, which is refused
            found = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        found = np.empty((0, 0))
    if found.ndim != 1:
        raise ValueError("is not a list of numbers")
    bad = np.flatnonzero(~np.isfinite(found) | (found > 1e-3))
    if bad.size:
        raise ValueError(f"is {found[bad[0]]} at token {bad[0]}, not a log-probability")
    return np.minimum(found, np.float32(0))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    if len(value) > LONGEST_TEXT:
        raise ValueError(f"has {len(value):,} characters; at most {LONGEST_TEXT:,} are read")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a character (a lone surrogate)") from None
    return value


def _chat(value: Any) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, (list, tuple, np.ndarray)) or not len(value):
        raise ValueError("is neither a text nor a list of messages")
    return tuple(_message(place, message) for place, message in enumerate(value))


def _message(place: int, message: Any) -> Mapping[str, str]:
    try:
        return {key: _text(message[key]) for key in ("role", "content")}
    except (TypeError, KeyError, IndexError, ValueError):
        raise ValueError(f"has a message without a text as 'role' and 'content' (message {place})") from None


def _said(value: Any) -> str | tuple[Mapping[str, str], ...]:
    return _text(value) if isinstance(value, str) else _chat(value)


def _number(value: Any) -> float:
    if isinstance(value, (Real, np.bool_)):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if math.isfinite(found):
            return found
    raise ValueError(f"is not a finite number: {shown(value)}")


def _label(value: Any) -> float:
    word = value.strip().lower() if isinstance(value, str) else None
    if word in LABELS:
        return LABELS[word]
    if isinstance(value, (Real, np.bool_)) and value in (0, 1):
        return float(value)
    raise ValueError(
        f"is {shown(value)}, neither true nor false ({_WORDS}); if it is a reward, say so by --field reward=NAME"
    )


def _reward(value: Any) -> float:
    if isinstance(value, str):
        word = value.strip().lower()
        try:
            return LABELS[word] if word in LABELS else _number(float(word))
        except ValueError:
            raise ValueError(f"is {shown(value)}, neither a finite number nor a label ({_WORDS})") from None
    return _number(value)


def _flag(value: Any) -> bool:
    word = value.strip().lower() if isinstance(value, str) else None
    if word in ("true", "false"):
        return word == "true"
    if isinstance(value, (Real, np.bool_)) and value in (0, 1):
        return bool(value)
    raise ValueError(f"is {shown(value)}, neither true nor false")


def _step(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < 2**31 or value != int(value):
        raise ValueError(f"is {shown(value)}, not the number of a rollout step")
    return int(value)


def _name(value: Any) -> int | str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"is {shown(value)}, neither a number nor a text")
    return int(value) if float(value).is_integer() else str(value)


TokenIds = Annotated[np.ndarray, PlainValidator(_token_ids)]
"""At least one id, int64 (n,), from 0 to 2**31 - 1."""
LogProbabilities = Annotated[np.ndarray, PlainValidator(_log_probabilities)]
"""Raw log-probabilities, float32 (n,); what is above 0 by rounding becomes 0."""
Text = Annotated[str, PlainValidator(_text)]
"""A text that can be encoded."""
Chat = Annotated[tuple[Mapping[str, str], ...], PlainValidator(_chat)]
"""At least one message, each with `role` and `content`."""
Said = Annotated[str | tuple[Mapping[str, str], ...], PlainValidator(_said)]
"""A text or a chat."""
Number = Annotated[float, PlainValidator(_number)]
"""A finite number."""
Label = Annotated[float, PlainValidator(_label)]
"""1 for true and 0 for false, also in words (`LABELS`)."""
Reward = Annotated[float, PlainValidator(_reward)]
"""A finite number, also as a text, or a label in words (`LABELS`)."""
Flag = Annotated[bool, PlainValidator(_flag)]
"""true or false, also as 1 or 0 or as these words."""
Step = Annotated[int, PlainValidator(_step)]
"""The number of a rollout step."""
Name = Annotated[int | str, PlainValidator(_name)]
"""A number or a text that tells one thing from others."""


@dataclass(frozen=True, config=ConfigDict(arbitrary_types_allowed=True))
class Sample:
    """One response of a dump. Readers make it within `cocal.store.rows.reading`, which names the row of a wrong value.

    Attributes:
        where: File and place in it, for error messages.
        group: Number or name of the group, equal for the responses to one question of the step; None where the dump
            does not say.
        prompt: Text that holds the question, where the dump gives it as a text.
        messages: The prompt as a chat, each message with `role` and `content`, where the dump has it so.
        question_id: Id of the question, or None.
        prompt_ids: Prompt tokens, int64 (n,); None where the dump has only text.
        response_ids: Response tokens, int64 (length,), with the end-of-sequence token; None where the dump has only
            text.
        text: Text of the response, where the dump has no ids.
        truncated: Whether the response was cut at the length limit; None where the dump does not say.
        logprobs: Raw log-probabilities, float32 (length,), or None.
        reward: Reward from the dump's verifier, or None.
        raw: Whether `prompt` is the whole text that the policy saw, and not the message of a user.
        step: Rollout step, where the dump says it for every response.
        left_out: Why this is no response to learn from, such as "its status is 'aborted'"; None if it is one. Such a
            sample may lack all else.
    """

    where: str
    group: Name | None
    _: KW_ONLY
    prompt: Text | None = None
    messages: Chat | None = None
    question_id: str | None = None
    prompt_ids: TokenIds | None = None
    response_ids: TokenIds | None = None
    text: Text | None = None
    truncated: bool | None = None
    logprobs: LogProbabilities | None = None
    reward: Number | None = None
    raw: bool = False
    step: Step | None = None
    left_out: str | None = None

    @field_validator("logprobs")
    @classmethod
    def _one_for_each_token(cls, values: np.ndarray | None, info: ValidationInfo) -> np.ndarray | None:
        ids = info.data.get("response_ids")
        if values is not None and ids is not None and len(values) != len(ids):
            raise ValueError(f"has {len(values)} values for {len(ids)} response tokens")
        return values

    @property
    def asked(self) -> str | None:
        """The prompt as a text, of a chat the texts of its messages; None where the dump has only ids."""
        if self.messages is not None:
            return joined(self.messages)
        return self.prompt


def joined(said: str | tuple[Mapping[str, str], ...]) -> str:
    """The text itself, or those of a chat's messages."""
    return said if isinstance(said, str) else "\n".join(message["content"] for message in said)


def as_prompt(said: str | tuple[Mapping[str, str], ...] | None) -> dict[str, Any]:
    """What was said to the policy, as the field of `Sample` that it belongs to."""
    return {"prompt" if said is None or isinstance(said, str) else "messages": said}
