"""The kinds of values that rows of dumps have, each checked and put into one form."""

import json
import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
from pydantic import PlainValidator, ValidationInfo

from cocal.rollouts.exclusions import LISTS
from cocal.store.rows import listed, shown

LONGEST = 2**20
"""Tokens of a prompt or of a response."""
LONGEST_TEXT = 2**22
"""Characters of a text."""
LABELS = {
    **dict.fromkeys(("true", "correct", "right", "yes", "1", "1.0"), 1.0),
    **dict.fromkeys(("false", "incorrect", "wrong", "no", "0", "0.0"), 0.0),
}
"""Words that are read as labels, whatever their capitals."""
_CHAT = re.compile(r"\s*\[\s*\{")
_SHOWN_CHAT = re.compile(r"\s*\[\{'(?:role|content)'.*\}\]\s*", re.DOTALL)
"""Chats that are given as texts: how their JSON begins, and what Python shows."""
_STEP = re.compile(r"(?:(?:global_)?step[_-]?)?([0-9]+)", re.IGNORECASE)
"""A step as a text, also as folders of checkpoints are named."""
TALKERS = "system", "developer", "user", "assistant", "tool"
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_KEYS = ("role", "content", *_THOUGHTS, "tool_calls", "tool_call_id", "name")
"""What chat templates read of a message."""
_WORDS = f"the words for it are {', '.join(LABELS)}"


def _array(values: Any, problem: str) -> np.ndarray:
    """A list as an array (n,); lists of several lengths and numbers that no integer type holds are refused."""
    try:
        array = np.asarray(values if isinstance(values, LISTS) else None)
    except (ValueError, OverflowError):
        raise ValueError(problem) from None
    if array.ndim != 1:
        raise ValueError(problem)
    return array


def _token_ids(values: Any) -> np.ndarray:
    ids = _array(values, "is not a list of token ids")
    if ids.size and ids.dtype.kind not in "iu":
        raise ValueError("is not a list of token ids")
    if not ids.size:
        raise ValueError("is empty")
    if ids.size > LONGEST:
        raise ValueError(f"has {ids.size:,} token ids; at most {LONGEST:,} are read")
    outside = np.flatnonzero((ids < 0) | (ids >= 2**31))
    if outside.size:
        raise ValueError(f"is {ids[outside[0]]} at token {outside[0]}, which is no token id")
    return ids.astype(np.int64, copy=False)


def _log_probabilities(values: Any) -> np.ndarray:
    logprobs = _array(values, "is not a list of numbers")
    if logprobs.dtype.kind not in "iuf":
        raise ValueError("is not a list of numbers")
    with np.errstate(over="ignore"):  # it becomes infinite, which is refused
        logprobs = logprobs.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(logprobs) | (logprobs > 1e-3))
    if bad.size:
        raise ValueError(f"is {logprobs[bad[0]]} at token {bad[0]}, not a log-probability")
    return np.minimum(logprobs, np.float32(0))


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


def _mask(values: Any) -> np.ndarray:
    mask = _array(values, "is no mask of 0 and 1")
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("is no mask of 0 and 1")
    return mask.astype(bool)


def _said(value: Any) -> str | tuple[Mapping[str, str], ...]:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        raise ValueError(f"has fields of its own ({listed(value)}), which have to be put beside it (docs/formats.md)")
    if not isinstance(value, LISTS) or not len(value):
        raise ValueError("is neither a text nor a list of messages")
    if all(isinstance(message, str) for message in value):
        raise ValueError("is a list of texts, and not of messages; give a line for each, or messages (docs/formats.md)")
    if all(isinstance(message, Integral) for message in value):
        raise ValueError("is a list of token ids; name it so (--field prompt_ids=NAME, --field response_ids=NAME)")
    return tuple(_message(place, message) for place, message in enumerate(value))


def _asked(value: Any) -> str | tuple[Mapping[str, str], ...]:
    if isinstance(value, str) and _SHOWN_CHAT.fullmatch(value):
        raise ValueError("is a chat as Python shows it; give its messages, or their JSON (json.dumps)")
    return _said(value)


def _message(place: int, message: Any) -> Mapping[str, Any]:
    try:
        fields = {key: message[key] for key in _KEYS if message.get(key) is not None}
        content = fields.get("content", "" if "tool_calls" in fields else None)
        if isinstance(content, (list, tuple)):  # of parts, of which a template of texts takes those that are texts
            content = "".join(part["text"] for part in content)
        return fields | {"role": _text(fields.get("role")), "content": _text(content)}
    except (AttributeError, TypeError, KeyError, IndexError, ValueError):
        lacks = (
            f"has a message without a text as 'role' and 'content' (message {place}; docs/formats.md has converters)"
        )
        raise ValueError(lacks) from None


def _reply(value: Any) -> str:
    said = _said(value)
    thoughts = [key for message in said if isinstance(message, dict) for key in _THOUGHTS if key in message]
    if thoughts:
        raise ValueError(
            f"has {thoughts[0]}, which its text lacks; give the text that the policy wrote, with its thoughts, or ids"
        )
    return joined(said)


def _decoded(value: Any) -> Any:
    """What the text of JSON holds; None of another text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def chat_of(value: Any) -> Any:
    """A chat that is given as the text of its JSON; anything else as it is."""
    chat = _decoded(value) if isinstance(value, str) and _CHAT.match(value) else None
    spoken = [isinstance(message, Mapping) and message.get("role") in TALKERS for message in chat or ()]
    return chat if chat and all(spoken) and all({"content", "tool_calls"} & {*message} for message in chat) else value


def _tools(value: Any) -> list[Any] | None:
    tools = _decoded(value)
    listed = isinstance(tools, LISTS) and all(isinstance(tool, Mapping) for tool in tools)
    return [*tools] or None if listed else None


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
    """What a field says of correctness, as a truth, a word or a reward of 1, 0 or -1; None if it is something else."""
    truth = _truth(value, LABELS)
    return None if truth is None and not (_is_number(value) and value == -1) else truth == 1


def _label(value: Any) -> float:
    if (label := _truth(value, LABELS)) is None:
        raise ValueError(
            f"is {shown(value)}, neither true nor false ({_WORDS}); if it is a reward, say so by --field reward=NAME"
        )
    return label


def _flag(value: Any) -> bool:
    if (truth := _truth(value, {"true": 1.0, "false": 0.0})) is None:
        raise ValueError(f"is {shown(value)}, neither true nor false")
    return bool(truth)


def _reward(value: Any, info: ValidationInfo) -> float:
    if isinstance(value, list):  # of every token
        ids, words = info.data.get("response_ids"), len((info.data.get("response") or "").split())
        tokens = words if ids is None else len(ids)
        if 1 < len(value) < tokens or (ids is not None and any(value[tokens:])):
            raise ValueError(
                f"is a list of {len(value):,} rewards, which are not those of the response's tokens; give the one that "
                "means correct (--field reward=NAME; docs/formats.md has converters)"
            )
        return sum(map(_number, value))
    if isinstance(value, Mapping):
        raise ValueError(
            f"has values of its own ({listed(value)}); put the one that means correct beside it, and name it (--field "
            "reward=NAME)"
        )
    if not isinstance(value, str):
        return _number(value)
    word = value.strip().lower()
    try:
        return LABELS[word] if word in LABELS else _number(float(word))
    except ValueError:
        raise ValueError(f"is {shown(value)}, neither a finite number nor a label ({_WORDS})") from None


def _confidence(value: Any) -> float:
    confidence = _number(value)
    if isinstance(value, bool) or not 0 <= confidence <= 1:
        raise ValueError(f"is {shown(value)}, not a confidence from 0 to 1")
    return confidence


def _answer(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"is {shown(value)}, neither a text nor a number")
    return str(value).strip() or None


def _step(value: Any) -> int:
    named = _STEP.fullmatch(value) if isinstance(value, str) else None
    value = int(named[1]) if named else value
    if not _is_number(value) or not 0 <= value < 2**31 or value != int(value):
        raise ValueError(f"is {shown(value)}, not the number of a rollout step")
    return int(value)


def _name(value: Any) -> int | str:
    if isinstance(value, str):
        return _text(value)
    if not _is_number(value) or not (isinstance(value, Integral) or math.isfinite(value)):
        raise ValueError(f"is {shown(value)}, neither a number nor a text")
    return int(value) if value == int(value) else str(value)


def _finish_reason(value: Any) -> str | None:
    reason = value.get("type") if isinstance(value, Mapping) else value  # SGLang: {"type": "stop", "matched": 151645}
    if not isinstance(reason, str):
        raise ValueError("is no text, such as stop or length")
    return re.sub(r"^finish_?reason[._]", "", reason.strip().lower()) or None  # as enumerations are shown


def _stop(value: Any) -> int | str | None:
    """A matched string, or the id of a matched token; None where an engine says neither."""
    if isinstance(value, list) and len(value) > 1:
        raise ValueError("has several strings, and not the one that ended the response")
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) and value != "" else None


def _mapping(value: Any) -> Mapping[str, Any] | None:
    mapping = _decoded(value)
    if not isinstance(mapping, Mapping):
        raise ValueError(f"is {shown(value)}, and no values by name")
    return mapping


TokenIds = Annotated[np.ndarray, PlainValidator(_token_ids)]
"""At least one id, int64 (n,), from 0 to 2**31 - 1."""
Said = Annotated[str | tuple[Mapping[str, str], ...], PlainValidator(_asked)]
"""A text that can be encoded, or a chat: at least one message with what chat templates read (`_KEYS`)."""
Name = Annotated[int | str, PlainValidator(_name)]
"""A number or a text that tells one thing from others."""
Mask = Annotated[np.ndarray, PlainValidator(_mask)]
"""0 or 1 of every token, bool (n,)."""
LogProbabilities = Annotated[np.ndarray, PlainValidator(_log_probabilities)]
"""Of every token, float32 (n,), at most 0."""
Tools = Annotated[list[Any] | None, PlainValidator(_tools)]
Fields = Annotated[Mapping[str, Any] | None, PlainValidator(_mapping)]
"""Values by their names, also as the text of their JSON."""
Reply = Annotated[str, PlainValidator(_reply)]
"""A text, or the texts of messages."""
Label = Annotated[float, PlainValidator(_label)]
Flag = Annotated[bool, PlainValidator(_flag)]
Reward = Annotated[float, PlainValidator(_reward)]
Step = Annotated[int, PlainValidator(_step)]
FinishReason = Annotated[str | None, PlainValidator(_finish_reason)]
Stop = Annotated[int | str | None, PlainValidator(_stop)]
Confidence = Annotated[float, PlainValidator(_confidence)]
Answer = Annotated[str | None, PlainValidator(_answer)]
Model = Annotated[str, PlainValidator(lambda value: str(value if isinstance(value, Mapping) else _name(value)))]
QuestionId = Annotated[str, PlainValidator(lambda value: str(_name(value)))]
