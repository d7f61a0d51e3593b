"""Responses as JSON lines in the words of any project: its fields are found by their usual names, or by a mapping.

| meaning | names, the first one that a file has | |
|---|---|---|
| `messages` | `messages` | chat that was answered: a list of `role` and `content` |
| `prompt` | `prompt`, `question`, `problem` | message of a user, or a chat; a text with chat markers stays as it is |
| `input` | `input` | the same; in verl's lines the whole prompt, whose chat markers may have been left out |
| `prompt_ids` | `prompt_ids`, `prompt_token_ids`, `prompt_tokens` | token ids of the prompt |
| `response` | `response`, `output`, `completion` | text (or messages) of the response |
| `response_ids` | `response_ids`, `..._token_ids`, `..._tokens`, or so with `completion` | token ids of it |
| `correct` | `correct`, `is_correct`, `acc` | whether it is correct: a flag, 1 or 0, or a word (`sample.LABELS`) |
| `reward` | `reward`, `score` | the verifier's reward, where `correct` is missing; a number, or such a word |
| `step` | `step`, `rollout_step` | rollout step |
| `group` | `group`, `group_id`, `group_index`, `prompt_idx` | equal for the responses to one question of the step |
| `question_id` | `question_id` | id of the question |
| `truncated` | `truncated`, `is_truncated` | whether the response was cut at the length limit |
| `finish_reason` | `finish_reason` | the same, in the words of engines (`COMPLETE`, `CUT`) |

A response that ended for any other reason, such as `abort` or `content_filter`, is scored as one that was cut, and is
no response to learn from.

verl's lines (`trainer.rollout_data_dir`) have `input`, `output`, `gts`, `score`, `step` and what the reward function
adds, such as `acc`; their texts are without special tokens, and their rows may be shuffled within a step.
open-instruct's lines (`--save_traces`) have exact ids as `prompt_tokens` and `response_tokens`, and number the prompts
of a step as `prompt_idx`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainValidator

from cocal.errors import ConfigError, ContractError
from cocal.integrations.sample import (
    Flag,
    Label,
    LogProbabilities,
    Name,
    Number,
    Reward,
    Said,
    Sample,
    Step,
    TokenIds,
    as_prompt,
    joined,
)
from cocal.store.rows import listed, reading, shown

FIELDS: dict[str, tuple[str, ...]] = {
    "messages": ("messages",),
    "prompt": ("prompt", "question", "problem"),
    "input": ("input",),
    "prompt_ids": ("prompt_ids", "prompt_token_ids", "prompt_tokens"),
    "response": ("response", "output", "completion"),
    "response_ids": (
        *("response_ids", "response_token_ids", "response_tokens"),
        *("completion_ids", "completion_token_ids", "completion_tokens"),
    ),
    "correct": ("correct", "is_correct", "acc"),
    "reward": ("reward", "score"),
    "step": ("step", "rollout_step"),
    "group": ("group", "group_id", "group_index", "prompt_idx"),
    "question_id": ("question_id",),
    "truncated": ("truncated", "is_truncated"),
    "finish_reason": ("finish_reason",),
}
"""Meanings, and the names that a field of this meaning may have."""
NEEDED = {
    "prompt": ("prompt", "messages", "input", "prompt_ids"),
    "response": ("response", "response_ids"),
    "label": ("correct", "reward"),
}
"""What a line may have to have, and the meanings that would do."""
_INSTEAD = (("messages", "input", "prompt"), ("response_ids", "response"), ("correct", "reward"))
"""Meanings of which a line needs one; if it has several, the first one is read."""
COMPLETE = ("stop", "stop_sequence", "stop_token", "eos", "eos_token", "end_turn", "completed", "finished")
"""Finish reasons of a response that the policy ended itself."""
CUT = ("length", "max_length", "max_tokens", "max_new_tokens", "max_output_tokens", "model_length", "truncated")
"""Finish reasons of a response that was cut at the length limit."""


def _finish_reason(value: Any) -> str:
    found = value.get("type") if isinstance(value, Mapping) else value  # SGLang: {"type": "stop", "matched": 151645}
    if not isinstance(found, str):
        raise ValueError("is no text, such as stop or length")
    return found.strip().lower()


class Line(BaseModel):
    """The fields of a line by their meaning; each may be missing. See the table above."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    messages: Said | None = None
    prompt: Said | None = None
    input: Said | None = None
    prompt_ids: TokenIds | None = None
    response: Said | None = None
    response_ids: TokenIds | None = None
    logprobs: LogProbabilities | None = None
    correct: Label | None = None
    reward: Reward | None = None
    step: Step | None = None
    group: Name | None = None
    question_id: Name | None = None
    truncated: Flag | None = None
    finish_reason: Annotated[str, PlainValidator(_finish_reason)] | None = None

    @property
    def label(self) -> float | None:
        """1 or 0 of a verdict, or a reward; None without one."""
        return self.reward if self.correct is None else self.correct


@dataclass(frozen=True)
class Fields:
    """Which fields of a file are taken for what.

    Attributes:
        taken: Name of the field by its meaning.
        unknown: Names of the fields that are not read.
        verl: Whether these are verl's lines, whose prompts are whole texts and not messages of a user.
    """

    taken: Mapping[str, str]
    unknown: tuple[str, ...]
    verl: bool = False

    @classmethod
    def of(
        cls, entry: Mapping[str, Any], mapping: Mapping[str, str], where: str, needs: Sequence[str] = tuple(NEEDED)
    ) -> "Fields":
        """Find the fields of a file in its first line.

        Args:
            entry: The line.
            mapping: Names of fields by their meaning, where a user gave them; they come first.
            where: File and line, for error messages.
            needs: Names among `NEEDED` of what every line must have; labels that are not needed are not read.

        Raises:
            ConfigError: if the mapping has an unknown meaning.
            ContractError: if the file lacks something that it must have.
        """
        if strange := [meaning for meaning in mapping if meaning not in FIELDS]:
            raise ConfigError(
                f"--field {strange[0]}={mapping[strange[0]]}: no such meaning; there are {listed(FIELDS)}"
            )
        unread = () if "label" in needs else NEEDED["label"]
        read = {meaning: known for meaning, known in FIELDS.items() if meaning not in unread}
        names = {meaning: (mapping[meaning],) if meaning in mapping else known for meaning, known in read.items()}
        taken = {
            meaning: name for meaning, known in names.items() if (name := next((n for n in known if n in entry), None))
        }
        absent = [f"--field {meaning}={name}" for meaning, name in mapping.items() if meaning not in taken]
        if absent:
            raise ContractError(f"{where}: there is no such field for {absent[0]}; its fields are {listed(entry)}")
        for what in needs:
            meanings = NEEDED[what]
            if not any(meaning in taken for meaning in meanings):
                raise ContractError(
                    f"{where}: no field is a {what} ({listed(FIELDS[meaning][0] for meaning in meanings)}); its fields "
                    f"are {listed(entry)}: name one by --field {meanings[0]}=FIELD"
                )
        unknown = tuple(name for name in entry if name not in taken.values())
        return cls(taken, unknown, verl={"input", "output", "score"} <= {*entry})

    def __str__(self) -> str:
        """The fields in words."""
        same = [meaning for meaning, name in self.taken.items() if meaning == name]
        other = [f"{name} as {meaning}" for meaning, name in self.taken.items() if meaning != name]
        left = f"; not read: {listed(self.unknown)}" if self.unknown else ""
        return f"{listed([*other, *same])}{left}"

    def line(self, entry: Mapping[str, Any], where: str, meanings: Sequence[str] = tuple(Line.model_fields)) -> Line:
        """The fields of a line that have these meanings.

        Raises:
            ContractError: if one has the wrong form; the message names file, row, field and remedy.
        """
        given = {meaning: entry.get(name) for meaning, name in self.taken.items() if meaning in meanings}
        for several in _INSTEAD:
            for meaning in [one for one in several if given.get(one) is not None][1:]:
                del given[meaning]
        with reading(where, self.taken):
            return Line.model_validate(given)

    def sample(self, entry: Mapping[str, Any], where: str) -> Sample:
        """The response of a line.

        Raises:
            ContractError: if a field has the wrong form, or prompt or response is missing or empty.
        """
        line = self.line(entry, where)
        said = line.messages or line.input or line.prompt
        if isinstance(said, str) and not said.strip():
            said = None
        if said is None and line.prompt_ids is None:
            raise self._missing("prompt", where)
        if not line.response and line.response_ids is None:
            raise self._missing("response", where)
        reason = line.finish_reason or None
        cut = None if reason is None else reason not in COMPLETE
        with reading(where, self.taken):
            return Sample(
                where,
                line.group,
                **as_prompt(said),
                raw=self.verl,
                question_id=None if line.question_id is None else str(line.question_id),
                prompt_ids=line.prompt_ids,
                response_ids=line.response_ids,
                text=joined(line.response) if line.response_ids is None else None,
                truncated=cut if line.truncated is None else line.truncated,
                logprobs=line.logprobs,
                reward=line.label,
                step=line.step,
                left_out=None if reason in (None, *COMPLETE, *CUT) else f"it ended by {reason!r}",
            )

    def label(self, entry: Mapping[str, Any], where: str) -> float | None:
        """The label of a line: 1 or 0 of a verdict, or a reward; None without one.

        Raises:
            ContractError: if it has the wrong form.
        """
        return self.line(entry, where, NEEDED["label"]).label

    def text(self, entry: Mapping[str, Any], where: str) -> str | None:
        """The text of a line's response; None where it has none, such as token ids alone.

        Raises:
            ContractError: if the response is no text and no chat.
        """
        found = self.line(entry, where, ("response",)).response
        return None if found is None else joined(found)

    def question(self, entry: Mapping[str, Any]) -> str | None:
        """What tells the questions of lines apart: the id, or the prompt in any form; None without them."""
        for meaning in ("question_id", *NEEDED["prompt"]):
            found = entry.get(self.taken.get(meaning, ""))
            if found is not None:
                return found if isinstance(found, str) else json.dumps(found)
        return None

    def _missing(self, what: str, where: str) -> ContractError:
        names = listed(name for meaning, name in self.taken.items() if meaning in NEEDED[what])
        return ContractError(f"{where}: the {what} ({names}) is missing, empty or no text; correct or delete the row")


class _Scored(BaseModel):
    confidence: Number | None


def confidence(entry: Mapping[str, Any], name: str, where: str) -> float:
    """The confidence of a line; NaN for null, which says that there is no valid one.

    Raises:
        ContractError: if the field is missing or holds something else than a number from 0 to 1.
    """
    if name not in entry:
        raise ContractError(f"{where}: there is no field {name!r}; add it by `cocal score`, or name another (--name)")
    with reading(where, {"confidence": name}):
        found = _Scored(confidence=entry[name]).confidence
    if isinstance(entry[name], bool) or (found is not None and not 0 <= found <= 1):
        raise ContractError(f"{where}: field {name!r} is {shown(entry[name])}, not a confidence from 0 to 1")
    return np.nan if found is None else found
