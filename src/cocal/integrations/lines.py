"""Responses as JSON lines in the words of any project: its fields are found by their usual names, or by a mapping.

| meaning | names, the first one that a file has | |
|---|---|---|
| `messages` | `messages` | chat that was answered: a list of `role` and `content` |
| `prompt` | `prompt`, `question`, `problem` | message of a user, or a chat; a text with chat markers stays as it is |
| `input` | `input` | the same; in verl's lines the whole prompt, whose chat markers may have been left out |
| `prompt_ids` | `prompt_ids`, `prompt_token_ids`, `prompt_tokens` | token ids of the prompt |
| `response` | `response`, `output`, `completion` | text (or messages) of the response |
| `response_ids` | `response_ids`, `..._token_ids`, `..._tokens`, or so with `completion` | token ids of it |
| `correct` | `correct`, `is_correct`, `acc` | whether it is correct |
| `reward` | `reward`, `score` | the verifier's reward, where `correct` is missing |
| `step` | `step`, `rollout_step` | rollout step |
| `group` | `group`, `group_id`, `group_index`, `prompt_idx` | equal for the responses to one question of the step |
| `question_id` | `question_id` | id of the question |
| `truncated` | `truncated`, `is_truncated` | whether the response was cut at the length limit |
| `finish_reason` | `finish_reason` | the same: `length`, or anything else |

verl's lines (`trainer.rollout_data_dir`) have `input`, `output`, `gts`, `score`, `step` and what the reward function
adds, such as `acc`; their texts are without special tokens, and their rows may be shuffled within a step.
open-instruct's lines (`--save_traces`) have exact ids as `prompt_tokens` and `response_tokens`, and number the prompts
of a step as `prompt_idx`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocal.errors import ConfigError, ContractError
from cocal.integrations.sample import Sample, number, token_ids

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
            raise ConfigError(f"--field {strange[0]}={mapping[strange[0]]}: no such meaning; there are {_list(FIELDS)}")
        unread = () if "label" in needs else NEEDED["label"]
        read = {meaning: known for meaning, known in FIELDS.items() if meaning not in unread}
        names = {meaning: (mapping[meaning],) if meaning in mapping else known for meaning, known in read.items()}
        taken = {
            meaning: name for meaning, known in names.items() if (name := next((n for n in known if n in entry), None))
        }
        absent = [f"--field {meaning}={name}" for meaning, name in mapping.items() if meaning not in taken]
        if absent:
            raise ContractError(f"{where}: there is no such field for {absent[0]}; its fields are {_list(entry)}")
        for what in needs:
            meanings = NEEDED[what]
            if not any(meaning in taken for meaning in meanings):
                raise ContractError(
                    f"{where}: no field is a {what} ({_list(FIELDS[meaning][0] for meaning in meanings)}); its fields "
                    f"are {_list(entry)}: name one by --field {meanings[0]}=FIELD"
                )
        unknown = tuple(name for name in entry if name not in taken.values())
        return cls(taken, unknown, verl={"input", "output", "score"} <= {*entry})

    def __str__(self) -> str:
        """The fields in words."""
        same = [meaning for meaning, name in self.taken.items() if meaning == name]
        other = [f"{name} as {meaning}" for meaning, name in self.taken.items() if meaning != name]
        left = f"; not read: {_list(self.unknown)}" if self.unknown else ""
        return f"{_list([*other, *same])}{left}"

    def sample(self, entry: Mapping[str, Any], where: str) -> Sample:
        """The response of a line.

        Raises:
            ContractError: if a field has the wrong form, or prompt or response is missing or empty.
        """
        given = {meaning: entry.get(name) for meaning, name in self.taken.items()}
        for meaning in ("prompt_ids", "response_ids"):
            if given.get(meaning) is not None:
                given[meaning] = token_ids(given[meaning], self.taken[meaning], where)
        prompt, chat = self._prompt(given, where)
        response = None if given.get("response_ids") is not None else self._text(given.get("response"), where)
        return Sample(
            where,
            group=given.get("group"),
            prompt=prompt,
            messages=chat,
            raw=self.verl,
            question_id=None if given.get("question_id") is None else str(given["question_id"]),
            prompt_ids=given.get("prompt_ids"),
            response_ids=given.get("response_ids"),
            text=response,
            truncated=self._truncated(given, where),
            reward=self.label(entry, where),
            step=self._step(given.get("step"), where),
        )

    def question(self, entry: Mapping[str, Any]) -> str | None:
        """What tells the questions of lines apart: the id, or the prompt in any form; None without them."""
        for meaning in ("question_id", *NEEDED["prompt"]):
            found = entry.get(self.taken.get(meaning, ""))
            if found is not None:
                return found if isinstance(found, str) else json.dumps(found)
        return None

    def text(self, entry: Mapping[str, Any], where: str) -> str | None:
        """The text of a line's response; None where it has none, such as token ids alone.

        Raises:
            ContractError: if the response is no text and no chat.
        """
        found = entry.get(self.taken.get("response", ""))
        return None if found is None else self._text(found, where)

    def _prompt(self, given: Mapping[str, Any], where: str) -> tuple[str | None, tuple[Mapping[str, str], ...] | None]:
        """The prompt as a text, as a chat, or neither where there are ids."""
        found = next((given[m] for m in ("messages", "input", "prompt") if given.get(m) is not None), None)
        if isinstance(found, (list, tuple)) and found:
            return None, tuple(_message(message, where) for message in found)
        if found is None and given.get("prompt_ids") is not None:
            return None, None
        if not isinstance(found, str) or not found.strip():
            names = _list(name for meaning, name in self.taken.items() if meaning in NEEDED["prompt"])
            raise ContractError(
                f"{where}: the prompt ({names}) is missing, empty or no text; correct or delete the row"
            )
        return found, None

    def _text(self, found: Any, where: str) -> str:
        if isinstance(found, (list, tuple)) and found:  # a completion of a chat: the assistant's messages
            found = "\n".join(_message(message, where)["content"] for message in found)
        if not isinstance(found, str) or not found:
            names = _list(name for meaning, name in self.taken.items() if meaning in NEEDED["response"])
            raise ContractError(
                f"{where}: the response ({names}) is missing, empty or no text; correct or delete the row"
            )
        return found

    def _truncated(self, given: Mapping[str, Any], where: str) -> bool | None:
        if given.get("truncated") is not None:
            if given["truncated"] not in (True, False):
                raise ContractError(f"{where}: field {self.taken['truncated']!r} is neither true nor false")
            return bool(given["truncated"])
        reason = given.get("finish_reason")
        return None if reason is None else reason == "length"

    def label(self, entry: Mapping[str, Any], where: str) -> float | None:
        """The label of a line: 1 or 0 of a verdict, or a reward; None without one.

        Raises:
            ContractError: if it has the wrong form.
        """
        given = {meaning: entry.get(name) for meaning, name in self.taken.items() if meaning in NEEDED["label"]}
        if given.get("correct") is not None:
            found = number(given["correct"], self.taken["correct"], where)
            if found not in (0.0, 1.0):
                raise ContractError(
                    f"{where}: field {self.taken['correct']!r} is {given['correct']!r}, neither true nor false; is it "
                    f"a reward (--field reward={self.taken['correct']})?"
                )
            return found
        return number(given.get("reward"), self.taken.get("reward", "reward"), where)

    def _step(self, found: Any, where: str) -> int | None:
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, (int, float)) or found != int(found) or found < 0:
            raise ContractError(f"{where}: field {self.taken['step']!r} is {found!r}, not the number of a rollout step")
        return int(found)


def entries(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The lines of a file, one at a time: file and line for error messages, the text, and what it holds.

    Empty lines are passed over.

    Raises:
        ContractError: if the file is missing or holds no line, or a line is not a JSON object.
    """
    some = False
    try:
        with path.open(encoding="utf-8") as lines:
            for place, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                some, where = True, f"{path}: line {place}"
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError as error:
                    raise ContractError(f"{where}: not JSON ({error}); correct or delete the line") from None
                if not isinstance(entry, dict):
                    raise ContractError(f'{where}: not a JSON object with fields, such as {{"prompt": ...}}')
                yield where, line.strip(), entry
    except UnicodeDecodeError as error:
        raise ContractError(f"{path}: not a text file in UTF-8 ({error})") from None
    except (FileNotFoundError, IsADirectoryError):
        raise ContractError(f"{path}: there is no such file of JSON lines") from None
    if not some:
        raise ContractError(f"{path}: the file is empty; give a file with a response in every line")


def extended(text: str, added: Mapping[str, Any]) -> str:
    """The text of a line (`entries`) with further fields, and its own as they are."""
    return f"{text[:-1].rstrip()}, {json.dumps(added, ensure_ascii=False)[1:]}\n"


def _message(message: Any, where: str) -> Mapping[str, str]:
    if not isinstance(message, Mapping) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
        raise ContractError(f"{where}: a message of the chat has no text in 'role' or 'content'")
    return {"role": message["role"], "content": message["content"]}


def _list(names: Any) -> str:
    return ", ".join(names)
