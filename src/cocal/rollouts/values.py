"""The kinds of values that rows of dumps have, each checked and put into one form."""

import json
import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
from pydantic import PlainValidator

from cocal.rollouts.exclusions import LISTS
from cocal.store.rows import shown

LABELS = {
    **dict.fromkeys(("true", "correct", "right", "yes", "1", "1.0"), 1.0),
    **dict.fromkeys(("false", "incorrect", "wrong", "no", "0", "0.0"), 0.0),
}
"""Words that are read as labels, whatever their capitals."""
_CHAT = re.compile(r"\s*\[\s*\{")
_SHOWN_CHAT = re.compile(r"\s*\[\{'(?:role|content)'.*\}\]\s*", re.DOTALL)
"""Chats that are given as texts: how their JSON begins, and the form of Python's repr."""
_STEP = re.compile(r"(?:(?:global_)?step[_-]?)?([0-9]+)", re.IGNORECASE)
"""A step as a text, also as folders of checkpoints are named."""
TALKERS = "system", "developer", "user", "assistant", "tool"
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_KEYS = ("role", "content", *_THOUGHTS, "tool_calls", "tool_call_id", "name")
"""The fields of a message that chat templates read."""
_WORDS = f"the words for it are {', '.join(LABELS)}"
_NO_CHAT = (
    "is neither a text nor a list of messages that have a text as 'role' and 'content' (docs/formats.md has converters)"
)


def _array(values: Any, kinds: str, what: str) -> np.ndarray:
    """Convert a list to an array (n,) of numbers of these NumPy kinds."""
    try:
        array = np.asarray(values if isinstance(values, LISTS) else None)
    except (ValueError, OverflowError):  # lists of several lengths, and numbers that no integer type holds
        array = np.asarray(None)
    if array.ndim != 1 or (array.size and array.dtype.kind not in kinds):
        raise ValueError(f"is not a list of {what}")
    return array


def _token_ids(values: Any) -> np.ndarray:
    ids = _array(values, "iu", "token ids")
    if not ids.size:
        raise ValueError("is empty")
    outside = np.flatnonzero((ids < 0) | (ids >= 2**31))
    if outside.size:
        raise ValueError(f"is {ids[outside[0]]} at token {outside[0]}, which is no token id")
    return ids.astype(np.int64, copy=False)


def log_probabilities(values: Any) -> np.ndarray:
    with np.errstate(over="ignore"):  # it becomes infinite, which is refused
        logprobs = _array(values, "iuf", "numbers").astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(logprobs) | (logprobs > 1e-3))
    if bad.size:
        raise ValueError(f"is {logprobs[bad[0]]} at token {bad[0]}, not a log-probability")
    return np.minimum(logprobs, np.float32(0))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a character (a lone surrogate)") from None
    return value


def mask(values: Any) -> np.ndarray:
    mask = _array(values, "biuf", "0 and 1")
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("is no mask of 0 and 1")
    return mask.astype(bool)


def _said(value: Any) -> str | tuple[Mapping[str, Any], ...]:
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, LISTS) or not len(value):
        raise ValueError(_NO_CHAT)
    if all(isinstance(message, Integral) for message in value):
        raise ValueError("is a list of token ids; name it so (--field prompt_ids=NAME, --field response_ids=NAME)")
    return tuple(map(_message, value))


def asked(value: Any) -> str | tuple[Mapping[str, str], ...]:
    if isinstance(value, str) and _SHOWN_CHAT.fullmatch(value):
        raise ValueError("is a chat as Python shows it; give its messages, or their JSON (json.dumps)")
    return _said(value)


def _message(message: Any) -> Mapping[str, Any]:
    try:
        fields = {key: message[key] for key in _KEYS if message.get(key) is not None}
        content = fields.get("content", "" if "tool_calls" in fields else None)
        if isinstance(content, (list, tuple)):  # of parts, of which a template of texts takes those that are texts
            content = "".join(part["text"] for part in content)
        return fields | {"role": _text(fields.get("role")), "content": _text(content)}
    except (AttributeError, TypeError, KeyError, IndexError, ValueError):
        raise ValueError(_NO_CHAT) from None


def reply(value: Any) -> str:
    said = _said(value)
    thoughts = [key for message in said if isinstance(message, dict) for key in _THOUGHTS if key in message]
    if thoughts:
        raise ValueError(
            f"has {thoughts[0]}, which its text lacks; give the text that the policy wrote, with its thoughts, or ids"
        )
    return joined(said)


def _decoded(value: Any) -> Any:
    """The content of a text of JSON, None for another text; any other value as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def chat_of(value: Any) -> Any:
    """A chat that is given as the text of its JSON; anything else as it is."""
    chat = _decoded(value) if isinstance(value, str) and _CHAT.match(value) else None
    spoken = [isinstance(message, Mapping) and message.get("role") in TALKERS for message in chat or ()]
    return chat if chat and all(spoken) and all({"content", "tool_calls"} & {*message} for message in chat) else value


def tools(value: Any) -> list[Any] | None:
    tools = _decoded(value)
    named = isinstance(tools, LISTS) and all(isinstance(tool, Mapping) for tool in tools)
    return [*tools] or None if named else None


def joined(said: str | tuple[Mapping[str, str], ...]) -> str:
    """A text, or the texts of messages in lines of their own."""
    return said if isinstance(said, str) else "\n".join(message["content"] for message in said)


def texts_in(value: Any) -> list[str]:
    """The texts in a field, in order; none in a number or an unset value."""
    if isinstance(value, Mapping):
        value = value["content"] if "content" in value else [*value.values()]
    if isinstance(value, LISTS):
        return [text for one in value for text in texts_in(one)]
    return [str(value)] if value and (value is True or not isinstance(value, (int, float))) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _number(value: Any) -> float:
    if isinstance(value, (Real, np.bool_)):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ValueError(f"is not a finite number: {shown(value)}")


def _truth(value: Any, words: Mapping[str, float]) -> float | None:
    truth = words.get(value.strip().lower()) if isinstance(value, str) else value
    return float(truth) if isinstance(truth, (Real, np.bool_)) and truth in (0, 1) else None


def verdict_of(value: Any) -> bool | None:
    """What a field says of being right, as a boolean, a word or a reward of 1, 0 or -1; None for anything else."""
    truth = _truth(value, LABELS)
    return None if truth is None and not (_is_number(value) and value == -1) else truth == 1


def label(value: Any) -> float:
    if (label := _truth(value, LABELS)) is None:
        raise ValueError(
            f"is {shown(value)}, neither true nor false ({_WORDS}); if it is a reward, say so by --field reward=NAME"
        )
    return label


def flag(value: Any) -> bool:
    if (truth := _truth(value, {"true": 1.0, "false": 0.0})) is None:
        raise ValueError(f"is {shown(value)}, neither true nor false")
    return bool(truth)


def reward(value: Any) -> float:
    if isinstance(value, (list, Mapping)):
        raise ValueError(
            "has values of its own; put the one that means correct beside it, and name it (--field reward=NAME; "
            "docs/formats.md has converters)"
        )
    if not isinstance(value, str):
        return _number(value)
    try:
        label = _truth(value, LABELS)
        return _number(float(value)) if label is None else label
    except ValueError:
        raise ValueError(f"is {shown(value)}, neither a finite number nor a label ({_WORDS})") from None


def confidence(value: Any) -> float:
    confidence = _number(value)
    if isinstance(value, bool) or not 0 <= confidence <= 1:
        raise ValueError(f"is {shown(value)}, not a confidence from 0 to 1")
    return confidence


def answer(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"is {shown(value)}, neither a text nor a number")
    return str(value).strip() or None


def step(value: Any) -> int:
    named = _STEP.fullmatch(value) if isinstance(value, str) else None
    value = int(named[1]) if named else value
    if not _is_number(value) or not 0 <= value < 2**31 or value != int(value):
        raise ValueError(f"is {shown(value)}, not the number of a rollout step")
    return int(value)


def name(value: Any) -> int | str:
    if isinstance(value, str):
        return _text(value)
    if not _is_number(value) or not (isinstance(value, Integral) or math.isfinite(value)):
        raise ValueError(f"is {shown(value)}, neither a number nor a text")
    return int(value) if value == int(value) else str(value)


def finish_reason(value: Any) -> str | None:
    reason = value.get("type") if isinstance(value, Mapping) else value  # SGLang: {"type": "stop", "matched": 151645}
    if not isinstance(reason, str):
        raise ValueError("is no text, such as stop or length")
    return re.sub(r"^finish_?reason[._]", "", reason.strip().lower()) or None  # as enumerations are shown


def stop(value: Any) -> int | str | None:
    """A matched string, or the id of a matched token; None where an engine says neither."""
    if isinstance(value, list) and len(value) > 1:
        raise ValueError("has several strings, and not the one that ended the response")
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) and value != "" else None


def mapping(value: Any) -> Mapping[str, Any] | None:
    mapping = _decoded(value)
    if not isinstance(mapping, Mapping):
        raise ValueError(f"is {shown(value)}, and no values by name")
    return mapping


def model(value: Any) -> str:
    return str(value if isinstance(value, Mapping) else name(value))


TokenIds = Annotated[np.ndarray, PlainValidator(_token_ids)]
"""At least one id, int64 (n,), from 0 to 2**31 - 1."""
Name = Annotated[int | str, PlainValidator(name)]
"""A number or a text that tells one thing from others."""
