"""A response: the validated model of what a dump of any format holds, and its token ids."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationInfo, field_validator

from cocal.rollouts import values
from cocal.rollouts.exclusions import no_response, other_words
from cocal.store.rows import reading

COMPLETE = (
    *("stop", "stop_sequence", "stop_token", "word", "eos", "eos_token", "end_turn"),
    *("complete", "completed", "finished"),
)
"""Finish reasons of a response that the policy ended itself."""
TRUNCATED = (
    *("length", "max_length", "max_tokens", "max_new_tokens", "max_output_tokens", "model_length"),
    *("limit", "truncated"),
)
"""Finish reasons of a response that was cut at the length limit."""
MASKED = "its mask leaves out tokens, such as the words of a tool (--ignore mask, if the policy wrote them all)"
"""Reason to leave a response out, not all of whose tokens count."""

Origin = Literal["ids", "chat", "template", "restored", "text"]
ORIGINS: dict[Origin, str] = {
    "ids": "exact token ids",
    "chat": "chats, put into the template",
    "template": "texts with chat markers, tokenised as whole texts",
    "restored": "texts without chat markers, which were put back",
    "text": "texts without a chat, tokenised as whole texts",
}
"""The sources of the ids of prompts, in words."""


class Sample(BaseModel):
    """One response of a dump. `Sample.read` makes it and names the row of a wrong value; None is what no dump states.

    Attributes:
        where: File and place in it, for error messages.
        file: File that the groups belong to, if the dump names no steps.
        group: Number or name of the group, equal for the responses to one question of the step.
        prompt: Text that holds the question, or a chat, whose messages have `role` and `content`.
        prompt_ids: Prompt tokens, int64 (n,).
        tools: Tools that the chat template describes to the policy, as mappings.
        template_fields: Further values that the chat template was given.
        response_beside: Text beside the response's ids, which are read in its place.
        response: Text of the response; for a chat, the texts of its messages.
        response_ids: Response tokens, int64 (length,), with the end-of-sequence token.
        logprobs: Raw log-probabilities, float32 (length,); what is above 0 by rounding becomes 0.
        mask: Which of the response tokens the policy wrote, bool (length,).
        correct: 1 or 0 by the dump's verifier, also from a word (`LABELS`).
        reward: Reward from the dump's verifier: a finite number, also from a text or a word (`LABELS`).
        finish_reason: How the engine says that the response ended, in small letters.
        stop: String or token by which the engine ended it, other than the model's own end.
        truncated: Whether the response was cut at the length limit; by default as the finish reason says.
        raw: Whether `prompt` is the whole text that the policy saw, and not the message of a user.
        model: Name of the policy that wrote it.
        left_out: Why this response is not learnt from, such as "its status is 'aborted'"; all else may then be missing.
        doubt: What contradicts its label, in words.
        confidence: Confidence of a scored response in [0, 1].
        answer: Final answer, where it stands in a field of its own.
        unread: Further values of the row: the name of its field, that of the member within the field, and the value.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    where: str
    file: str | None = None
    group: values.Name | None = None
    prompt: Annotated[str | tuple[Mapping[str, str], ...], PlainValidator(values.asked)] | None = None
    prompt_ids: values.TokenIds | None = None
    tools: Annotated[list[Any] | None, PlainValidator(values.tools)] | None = None
    template_fields: Annotated[Mapping[str, Any] | None, PlainValidator(values.mapping)] = None
    response_beside: str | None = None
    question_id: Annotated[str, PlainValidator(lambda value: str(values.name(value)))] | None = None
    response: Annotated[str, PlainValidator(values.reply)] | None = None
    response_ids: values.TokenIds | None = None
    logprobs: Annotated[np.ndarray, PlainValidator(values.log_probabilities)] | None = None
    mask: Annotated[np.ndarray, PlainValidator(values.mask)] | None = None
    correct: Annotated[float, PlainValidator(values.label)] | None = None
    reward: Annotated[float, PlainValidator(values.reward)] | None = None
    step: Annotated[int, PlainValidator(values.step)] | None = None
    finish_reason: Annotated[str | None, PlainValidator(values.finish_reason)] | None = None
    stop: Annotated[int | str | None, PlainValidator(values.stop)] = None
    truncated: Annotated[bool, PlainValidator(values.flag)] | None = Field(default=None, validate_default=True)
    raw: bool = False
    model: Annotated[str, PlainValidator(values.model)] | None = None
    left_out: str | None = Field(default=None, validate_default=True)
    doubt: str | None = None
    confidence: Annotated[float, PlainValidator(values.confidence)] | None = None
    answer: Annotated[str | None, PlainValidator(values.answer)] | None = None
    unread: tuple[tuple[str, str, Any], ...] = ()

    @classmethod
    def read(cls, where: str, names: Mapping[str, str] | None = None, **given: Any) -> "Sample":
        """The sample with these values; None counts as missing.

        Raises a ContractError that names file and row (`where`), field and remedy if a value has the wrong form;
        `names` has the names of fields in the file by those of the sample, where they differ.
        """
        given |= {name: values.chat_of(given[name]) for name in ("prompt", "response") if name in given}
        if isinstance(reason := given.get("finish_reason"), Mapping):  # SGLang's
            given["stop"] = reason.get("matched")
        if why := given.get("left_out") or no_response(**given):
            return cls(where=where, left_out=why)
        with reading(where, names):
            sample = cls(where=where, **given)
        if sample.truncated is not None and sample.finish_reason in (COMPLETE if sample.truncated else TRUNCATED):
            doubt = f"truncated={sample.truncated} contradicts finish_reason={sample.finish_reason!r}, and is read"
            return sample.model_copy(update={"doubt": doubt})
        return sample

    @field_validator("logprobs", "mask")
    @classmethod
    def _one_for_each_token(cls, each: np.ndarray | None, info: ValidationInfo) -> np.ndarray | None:
        ids, prompt = info.data.get("response_ids"), info.data.get("prompt_ids")
        if each is None or ids is None:
            return each
        if info.field_name == "mask" and prompt is not None and len(each) == len(prompt) + len(ids):
            return each[len(prompt) :]  # one of prompt and response
        if len(each) != len(ids):
            raise ValueError(f"has {len(each)} values for {len(ids)} response tokens")
        return each

    @field_validator("truncated")
    @classmethod
    def _as_it_ended(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        reason = info.data.get("finish_reason")
        return reason not in COMPLETE if value is None and reason else value

    @field_validator("left_out")
    @classmethod
    def _if_it_is_no_answer_of_the_policy(cls, value: str | None, info: ValidationInfo) -> str | None:
        reason, text, mask, ids = map(info.data.get, ("finish_reason", "response", "mask", "response_ids"))
        if reason not in (None, *COMPLETE, *TRUNCATED):
            return f"it ended by {reason!r}"
        value = (other_words(text, info.data["raw"]) if text else None) or value
        if value is None and mask is not None and mask.any():
            words = int(np.flatnonzero(mask)[-1]) + 1
            rest = () if ids is None else ids[words:]
            padding = len(rest) > 1 and len({*rest}) == 1  # an id that is repeated at the end
            return None if mask[:words].all() and (words == len(mask) or padding) else MASKED
        return value

    @property
    def tells_truncated(self) -> bool:
        """True if the sample says whether it was truncated: in a field, or by the end token of its ids."""
        return self.truncated is not None or self.response_ids is not None

    @property
    def written(self) -> str:
        """The text with the string by which the engine ended it, which the policy wrote and engines leave out."""
        text, stop = self.response or "", self.stop
        return text if self.truncated or not isinstance(stop, str) or text.endswith(stop) else text + stop

    @property
    def ended_by(self) -> list[int] | None:
        """Ids to append to an untruncated text that an engine ended: none after a string, or the token. None if the
        policy ended it by its own end token."""
        if isinstance(self.stop, str) or self.finish_reason == "stop_sequence":
            return []
        return None if self.stop is None else [self.stop]

    @property
    def label(self) -> float | None:
        """The verdict as 1 or 0, or the reward; None without either."""
        return self.reward if self.correct is None else self.correct

    @property
    def asked(self) -> str | None:
        """The prompt as a text, for a chat the texts of its messages; None if the dump has only ids."""
        return None if self.prompt is None else values.joined(self.prompt)

    @property
    def question(self) -> str | None:
        """The prompt as a text, for a chat its last message."""
        return self.prompt if isinstance(self.prompt, str | None) else self.prompt[-1]["content"]


def doubtful(doubts: Counter[str], read: int) -> list[str]:
    """Sentences about contradictions within rows (`Sample.doubt`); `read` is the number of all rows."""
    return [f"in {count:,} of {read:,} rows {doubt}" for doubt, count in doubts.items()]


class Encoded(NamedTuple):
    """A response as the policy reads it.

    Attributes:
        prompt: int32 (n,), prompt tokens.
        response: int32 (length,), response tokens, with the end token unless the response was cut.
        truncated: Whether the response was cut at the length limit.
        origin: What the prompt's ids come from.
        exact: Whether both prompt and response were given as ids.
        told: Whether the dump says if the response was cut: in a field, or by the end tokens of ids or texts.
    """

    prompt: np.ndarray
    response: np.ndarray
    truncated: bool
    origin: Origin
    exact: bool
    told: bool = True
