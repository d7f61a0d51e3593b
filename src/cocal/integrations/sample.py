"""The validated model of a response that a dump of any format holds, and the kinds of values that rows have."""

import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationInfo, field_validator

from cocal.errors import ContractError
from cocal.integrations.chats import SHOWN_CHAT, decoded
from cocal.integrations.unfit import LISTS, no_response, other_words
from cocal.store.rows import reading, shown

LONGEST = 2**20
"""Tokens of a prompt or of a response."""
LONGEST_TEXT = 2**22
"""Characters of a text."""
LABELS = {
    **dict.fromkeys(("true", "correct", "right", "yes", "1", "1.0"), 1.0),
    **dict.fromkeys(("false", "incorrect", "wrong", "no", "0", "0.0"), 0.0),
}
"""Words that are read as labels, whatever their capitals."""
COMPLETE = ("stop", "stop_sequence", "stop_token", "eos", "eos_token", "end_turn", "completed", "finished")
"""Finish reasons of a response that the policy ended itself."""
CUT = ("length", "max_length", "max_tokens", "max_new_tokens", "max_output_tokens", "model_length", "truncated")
"""Finish reasons of a response that was cut at the length limit."""
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_KEYS = ("role", "content", *_THOUGHTS, "tool_calls", "tool_call_id", "name")
"""What chat templates read of a message."""
_WORDS = f"the words for it are {', '.join(LABELS)}"


def _array(values: Any, problem: str) -> np.ndarray:
    """A list as an array (n,); lists of several lengths and numbers that no integer type holds are refused."""
    try:
        found = np.asarray(values if isinstance(values, LISTS) else None)
    except (ValueError, OverflowError):
        raise ValueError(problem) from None
    if found.ndim != 1:
        raise ValueError(problem)
    return found


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


def _mask(values: Any) -> np.ndarray:
    found = _array(values, "is no mask of 0 and 1")
    if not np.isin(found, (0, 1)).all():
        raise ValueError("is no mask of 0 and 1")
    return found.astype(bool)


def _said(value: Any) -> str | tuple[Mapping[str, str], ...]:
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, LISTS) or not len(value):
        raise ValueError("is neither a text nor a list of messages")
    return tuple(_message(place, message) for place, message in enumerate(value))


def _asked(value: Any) -> str | tuple[Mapping[str, str], ...]:
    if isinstance(value, str) and SHOWN_CHAT.fullmatch(value):
        raise ValueError("is a chat as Python shows it; give its messages, or their JSON (json.dumps)")
    return _said(value)


def _message(place: int, message: Any) -> Mapping[str, Any]:
    try:
        found = {key: message[key] for key in _KEYS if message.get(key) is not None}
        content = found.get("content", "" if "tool_calls" in found else None)
        if isinstance(content, (list, tuple)):  # of parts, of which a template of texts takes those that are texts
            content = "".join(part["text"] for part in content)
        return found | {"role": _text(found.get("role")), "content": _text(content)}
    except (AttributeError, TypeError, KeyError, IndexError, ValueError):
        raise ValueError(f"has a message without a text as 'role' and 'content' (message {place})") from None


def _reply(value: Any) -> str:
    said = _said(value)
    thoughts = [key for message in said if isinstance(message, dict) for key in _THOUGHTS if key in message]
    if thoughts:
        raise ValueError(
            f"has {thoughts[0]}, which its text lacks; give the text that the policy wrote, with its thoughts, or ids"
        )
    return _joined(said)


def _tools(value: Any) -> list[Any] | None:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
    listed = isinstance(found, LISTS) and all(isinstance(tool, Mapping) for tool in found)
    return [*found] or None if listed else None


def _joined(said: str | tuple[Mapping[str, str], ...]) -> str:
    return said if isinstance(said, str) else "\n".join(message["content"] for message in said)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _number(value: Any) -> float:
    if isinstance(value, (Real, np.bool_)):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if math.isfinite(found):
            return found
    raise ValueError(f"is not a finite number: {shown(value)}")


def _truth(value: Any, words: Mapping[str, float]) -> float | None:
    found = words.get(value.strip().lower()) if isinstance(value, str) else value
    return float(found) if isinstance(found, (Real, np.bool_)) and found in (0, 1) else None


def verdict_of(value: Any) -> bool | None:
    """What a field says of correctness, as a truth, a word or a reward of 1, 0 or -1; None if it is something else."""
    found = _truth(value, LABELS)
    return None if found is None and not (_is_number(value) and value == -1) else found == 1


def _label(value: Any) -> float:
    if (found := _truth(value, LABELS)) is None:
        raise ValueError(
            f"is {shown(value)}, neither true nor false ({_WORDS}); if it is a reward, say so by --field reward=NAME"
        )
    return found


def _flag(value: Any) -> bool:
    if (found := _truth(value, {"true": 1.0, "false": 0.0})) is None:
        raise ValueError(f"is {shown(value)}, neither true nor false")
    return bool(found)


def _reward(value: Any, info: ValidationInfo) -> float:
    if isinstance(value, list):  # of every token
        ids, words = info.data.get("response_ids"), len((info.data.get("response") or "").split())
        tokens = words if ids is None else len(ids)
        if 1 < len(value) < tokens or (ids is not None and any(value[tokens:])):
            raise ValueError(
                f"is a list of {len(value):,} rewards, which are not those of the response's tokens; give the one that "
                "means correct (--field reward=NAME)"
            )
        return sum(map(_number, value))
    if not isinstance(value, str):
        return _number(value)
    word = value.strip().lower()
    try:
        return LABELS[word] if word in LABELS else _number(float(word))
    except ValueError:
        raise ValueError(f"is {shown(value)}, neither a finite number nor a label ({_WORDS})") from None


def _confidence(value: Any) -> float:
    found = _number(value)
    if isinstance(value, bool) or not 0 <= found <= 1:
        raise ValueError(f"is {shown(value)}, not a confidence from 0 to 1")
    return found


def _answer(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"is {shown(value)}, neither a text nor a number")
    return str(value).strip() or None


def _step(value: Any) -> int:
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
    found = value.get("type") if isinstance(value, Mapping) else value  # SGLang: {"type": "stop", "matched": 151645}
    if not isinstance(found, str):
        raise ValueError("is no text, such as stop or length")
    return found.strip().lower() or None


TokenIds = Annotated[np.ndarray, PlainValidator(_token_ids)]
"""At least one id, int64 (n,), from 0 to 2**31 - 1."""
Said = Annotated[str | tuple[Mapping[str, str], ...], PlainValidator(_asked)]
"""A text that can be encoded, or a chat: at least one message, each with `role` and `content`, and with what else chat
templates read (`_KEYS`)."""
Number = Annotated[float, PlainValidator(_number)]
"""A finite number."""
Name = Annotated[int | str, PlainValidator(_name)]
"""A number or a text that tells one thing from others."""


class Sample(BaseModel):
    """One response of a dump. `Sample.read` makes it and names the row of a wrong value; None is what no dump says.

    Attributes:
        where: File and place in it, for error messages.
        file: File within which groups lie, of a dump that names no steps.
        group: Number or name of the group, equal for the responses to one question of the step.
        prompt: Text that holds the question, or a chat, whose messages have `role` and `content`.
        prompt_ids: Prompt tokens, int64 (n,).
        attention_mask: Which ids are no padding, of prompt and response together or of one of them, bool.
        tools: Tools that the chat template tells the policy of, as mappings.
        response: Text of the response; of a chat, the texts of its messages.
        response_ids: Response tokens, int64 (length,), with the end-of-sequence token.
        logprobs: Raw log-probabilities, float32 (length,); what is above 0 by rounding becomes 0.
        mask: Which of the response tokens the policy wrote, bool (length,).
        correct: 1 or 0 by the dump's verifier, also from a word (`LABELS`).
        reward: Reward from the dump's verifier: a finite number, also from a text or a word (`LABELS`).
        finish_reason: How the engine says that the response ended, in small letters.
        truncated: Whether the response was cut at the length limit; by default as the finish reason says.
        raw: Whether `prompt` is the whole text that the policy saw, and not the message of a user.
        left_out: Why this is no response to learn from, such as "its status is 'aborted'"; it may lack all else.
        doubt: What contradicts its label, in words.
        confidence: Confidence of a scored response in [0, 1].
        answer: Final answer, where it stands in a field of its own.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    where: str
    file: str | None = None
    group: Name | None = None
    prompt: Said | None = None
    prompt_ids: TokenIds | None = None
    attention_mask: Annotated[np.ndarray, PlainValidator(_mask)] | None = None
    tools: Annotated[list[Any] | None, PlainValidator(_tools)] | None = None
    question_id: Annotated[str, PlainValidator(lambda value: str(_name(value)))] | None = None
    response: Annotated[str, PlainValidator(_reply)] | None = None
    response_ids: TokenIds | None = None
    logprobs: Annotated[np.ndarray, PlainValidator(_log_probabilities)] | None = None
    mask: Annotated[np.ndarray, PlainValidator(_mask)] | None = None
    correct: Annotated[float, PlainValidator(_label)] | None = None
    reward: Annotated[float, PlainValidator(_reward)] | None = None
    step: Annotated[int, PlainValidator(_step)] | None = None
    finish_reason: Annotated[str | None, PlainValidator(_finish_reason)] | None = None
    truncated: Annotated[bool, PlainValidator(_flag)] | None = Field(default=None, validate_default=True)
    raw: bool = False
    left_out: str | None = Field(default=None, validate_default=True)
    doubt: str | None = None
    confidence: Annotated[float, PlainValidator(_confidence)] | None = None
    answer: Annotated[str | None, PlainValidator(_answer)] | None = None

    @classmethod
    def read(cls, where: str, names: Mapping[str, str] | None = None, **values: Any) -> "Sample":
        """The sample with these values; None and what is missing count alike.

        Args:
            where: File and row.
            names: Names of the fields in the file, by those of the sample where they differ.
            values: The row's values by the names of the sample.

        Raises:
            ContractError: if a value has the wrong form; the message names file, row, field and remedy.
        """
        values |= {name: decoded(values[name]) for name in ("prompt", "response") if name in values}
        if why := values.get("left_out") or no_response(**values):
            return cls(where=where, left_out=why)
        with reading(where, names):
            found = cls(where=where, **values)._without_padding()._as_its_mask_says()
        if found.truncated is not None and found.finish_reason in (COMPLETE if found.truncated else CUT):
            doubt = f"truncated={found.truncated} contradicts finish_reason={found.finish_reason!r}, which is not read"
            return found.model_copy(update={"doubt": doubt})
        return found

    def _without_padding(self) -> "Sample":
        """Without the ids that the attention mask leaves out."""
        mask, ids = self.attention_mask, {"prompt_ids": self.prompt_ids, "response_ids": self.response_ids}
        ids = {name: found for name, found in ids.items() if found is not None}
        if mask is None or not ids:
            return self
        fitting = ([*ids], *([name] for name in ids))
        fitting = [names for names in fitting if sum(len(ids[name]) for name in names) == len(mask)]
        if len(fitting) != 1 and not (fitting and mask.all()):
            counts = " and ".join(f"{len(found):,} {name}" for name, found in ids.items())
            raise ContractError(
                f"{self.where}: attention_mask has {len(mask):,} values, but there are {counts}; give one of "
                "prompt and response together, or delete it"
            )
        names = fitting[0]
        parts = dict(zip(names, np.split(mask, [len(ids[names[0]])]), strict=False))
        new = {name: ids[name][kept] for name, kept in parts.items()}
        if "response_ids" in parts:
            beside = {"logprobs": self.logprobs, "mask": self.mask}
            new |= {name: one[parts["response_ids"]] for name, one in beside.items() if one is not None}
        return self.model_copy(update=new)

    def _as_its_mask_says(self) -> "Sample":
        """Left out if the mask excludes words, which are of others; one id again and again at the end is padding."""
        if self.left_out is not None or self.mask is None or not self.mask.any():
            return self
        words = int(np.flatnonzero(self.mask)[-1]) + 1
        rest = () if self.response_ids is None else self.response_ids[words:]
        if self.mask[:words].all() and (words == len(self.mask) or (len(rest) > 1 and len({*rest}) == 1)):
            return self
        return self.model_copy(update={"left_out": "its mask excludes tokens that the policy did not write"})

    @field_validator("logprobs", "mask")
    @classmethod
    def _one_for_each_token(cls, values: np.ndarray | None, info: ValidationInfo) -> np.ndarray | None:
        ids, prompt = info.data.get("response_ids"), info.data.get("prompt_ids")
        if values is None or ids is None:
            return values
        if info.field_name == "mask" and prompt is not None and len(values) == len(prompt) + len(ids):
            return values[len(prompt) :]  # one of prompt and response
        if len(values) != len(ids):
            raise ValueError(f"has {len(values)} values for {len(ids)} response tokens")
        return values

    @field_validator("truncated")
    @classmethod
    def _as_it_ended(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        reason = info.data.get("finish_reason")
        return reason not in COMPLETE if value is None and reason else value

    @field_validator("left_out")
    @classmethod
    def _if_it_is_no_answer_of_the_policy(cls, value: str | None, info: ValidationInfo) -> str | None:
        reason, text = info.data.get("finish_reason"), info.data.get("response")
        if reason not in (None, *COMPLETE, *CUT):
            return f"it ended by {reason!r}"
        return (other_words(text, info.data["raw"]) if text else None) or value

    @property
    def tells_cut(self) -> bool:
        """True if it says whether it was cut at the length limit: in a field, or by the end token of its ids."""
        return self.truncated is not None or self.response_ids is not None

    @property
    def label(self) -> float | None:
        """1 or 0 of a verdict, or a reward; None without one."""
        return self.reward if self.correct is None else self.correct

    @property
    def asked(self) -> str | None:
        """The prompt as a text, of a chat the texts of its messages; None where the dump has only ids."""
        return None if self.prompt is None else _joined(self.prompt)
