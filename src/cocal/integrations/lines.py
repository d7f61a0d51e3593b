"""Responses as JSON lines in the words of any project, whose fields are found by usual names (`FIELDS`) or a mapping.

verl's lines (`trainer.rollout_data_dir`) have texts without special tokens, and may be shuffled within a step.
open-instruct's lines (`--save_traces`) have exact ids, and number the prompts of a step as `prompt_idx`. The lines of
some engines are no response with named fields: columns (ROLL), padded ids (NeMo-RL), outputs of sessions (verl's V1).
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cocal.errors import ConfigError, ContractError
from cocal.integrations.sample import Sample, verdict_of
from cocal.integrations.unfit import MEDIA, media_beside, other_words
from cocal.store.rows import entries, listed, reading

FIELDS: dict[str, tuple[str, ...]] = {
    "messages": ("messages",),
    "prompt": ("prompt", "question", "problem"),
    "input": ("input", "input_prompt"),
    "prompt_ids": ("prompt_ids", "prompt_token_ids", "prompt_tokens"),
    "attention_mask": ("attention_mask",),
    "tools": ("tools",),
    "response": ("response", "output", "completion", "output_response", "responses"),
    "response_ids": (
        *("response_ids", "response_token_ids", "response_tokens"),
        *("completion_ids", "completion_token_ids", "completion_tokens"),
    ),
    "mask": ("response_mask", "loss_mask"),
    "correct": ("correct", "is_correct", "acc"),
    "reward": ("reward", "score", "scores"),
    "step": ("step", "rollout_step", "global_step", "tail_version"),
    "group": ("group", "group_id", "group_index", "prompt_idx", "task_id"),
    "question_id": ("question_id",),
    "truncated": ("truncated", "is_truncated"),
    "finish_reason": ("finish_reason", "stop_reason"),
}
"""Meanings, and the names that a field of this meaning may have; the first one that a file has is read. They are those
of `Sample`, but for `messages`, the chat that was answered, and `input`, which in verl's lines is the whole prompt."""
NEEDED = {
    "prompt": ("prompt", "messages", "input", "prompt_ids"),
    "response": ("response", "response_ids"),
    "label": ("correct", "reward"),
}
"""The things that a line may need, and the meanings any of which would do."""
_INSTEAD = (("messages", "input", "prompt"), ("response_ids", "response"), ("correct", "reward"))
"""Meanings of which a line needs one; if it has several, the first one is read."""
_WHOLE = ("AReaL's trajectories", "ROLL's columns", "SkyRL's evaluations", "verl's JSON lines")
"""Engines whose prompts are whole texts, where they are texts."""
_SAME = {"messages": "prompt", "input": "prompt"}
"""Meanings that are one field of a sample."""
KINDS = {
    "NeMo-RL's JSON lines": {"token_ids", "token_loss_mask", "input_lengths"},
    "ROLL's columns": {"responses", "scores"},
    "AReaL's trajectories": {"task_id", "tail_version", "completion"},
    "SkyRL's evaluations": {"input_prompt", "output_response"},
    "open-instruct's JSON lines": {"prompt_tokens", "response_tokens"},
    "verl's JSON lines": {"input", "output", "score"},
}
"""Fields by which the lines of an engine are known."""
_ABOUT = re.compile(r".*_metadata|aggregated_results")
"""Names of files about a run, which open-instruct and SkyRL put beside its rollouts."""
_FOLDERS = re.compile(r"\d+|global_step_\d+_evals")
"""Folders within a folder of rollouts: AReaL's of a version, SkyRL's of a step."""


@dataclass(frozen=True)
class Fields:
    """Which fields of a file are taken for what.

    Attributes:
        taken: Name of the field by its meaning, of those that the first line has.
        names: Names that the field of a meaning may have; a line need not have the fields of the first one.
        unknown: Names of the fields that are not read.
        raw: Whether prompts are whole texts and not messages of a user.
    """

    taken: Mapping[str, str]
    names: Mapping[str, Sequence[str]]
    unknown: tuple[str, ...] = ()
    raw: bool = False

    @classmethod
    def of(
        cls,
        entry: Mapping[str, Any],
        mapping: Mapping[str, str],
        where: str,
        needs: Iterable[str] = tuple(NEEDED),
        **named: str,
    ) -> "Fields":
        """Find the fields of a file in its first line.

        Args:
            mapping: Names of fields by their meaning, where a user gave them; they come first.
            needs: Names among `NEEDED` of what every line must have; labels that are not needed are not read.
            named: Names of further fields of `Sample`, which have no other.

        Raises:
            ConfigError: if the mapping has an unknown meaning.
            ContractError: if the file lacks something that it must have.
        """
        if strange := [meaning for meaning in mapping if meaning not in FIELDS]:
            raise ConfigError(
                f"--field {strange[0]}={mapping[strange[0]]}: no such meaning; there are {listed(FIELDS)}"
            )
        labels = [meaning for meaning in NEEDED["label"] if meaning in mapping] or NEEDED["label"]
        unread = {*NEEDED["label"]}.difference(labels if "label" in needs else ())
        names = {meaning: (mapping[meaning],) if meaning in mapping else known for meaning, known in FIELDS.items()}
        names = {meaning: known for meaning, known in names.items() if meaning not in unread}
        taken = {m: found[0] for m, known in names.items() if (found := [name for name in known if name in entry])}
        if absent := [f"--field {meaning}={name}" for meaning, name in mapping.items() if meaning not in taken]:
            raise ContractError(f"{where}: there is no such field for {absent[0]}; its fields are {listed(entry)}")
        for what in needs:
            meanings = NEEDED[what]
            if not {*meanings} & {*taken}:
                chat = entry.get("messages")
                last = chat[-1] if isinstance(chat, list) and chat else None
                answered = what == "response" and isinstance(last, dict) and last.get("role") == "assistant"
                hint = ", or move the assistant's last message into one" if answered else ""
                raise ContractError(
                    f"{where}: no field is a {what} ({listed(FIELDS[meaning][0] for meaning in meanings)}); its fields "
                    f"are {listed(entry)}: name one by --field {meanings[0]}=FIELD{hint}"
                )
        taken |= named
        names |= {meaning: (name,) for meaning, name in named.items()}
        unknown = tuple(name for name in entry if name not in taken.values())
        return cls(taken, names, unknown, raw=kind_of(entry) in _WHOLE)

    def __str__(self) -> str:
        """The fields in words."""
        taken = {meaning: name for meaning, name in self.taken.items() if meaning in FIELDS}
        later = [one for several in _INSTEAD for one in [one for one in several if one in taken][1:]]
        beside = [taken.pop(meaning) for meaning in later]
        same = [meaning for meaning, name in taken.items() if meaning == name]
        other = [f"{name} as {meaning}" for meaning, name in taken.items() if meaning != name]
        instead = f"; only where these are missing: {listed(beside)}" if beside else ""
        left = f"; not read: {listed(self.unknown)}" if self.unknown else ""
        return f"{listed([*other, *same])}{instead}{left}"

    def part(self, entry: Mapping[str, Any], where: str, *meanings: str) -> Sample:
        """The fields of a line that have these meanings, as a sample that lacks all else; see `Sample.read`."""
        names = {
            meaning: found[0]
            for meaning in meanings
            if (found := [name for name in self.names.get(meaning, ()) if _given(entry.get(name), meaning)])
        }
        text = entry.get(names.get("response", ""))
        for several in _INSTEAD:
            for meaning in [meaning for meaning in several if meaning in names][1:]:
                del names[meaning]
        names = {_SAME.get(meaning, meaning): name for meaning, name in names.items()}
        values = {meaning: entry[name] for meaning, name in names.items()}
        found = Sample.read(where, names, raw=self.raw, **values)
        if found.left_out is None and found.response is None and isinstance(text, str):  # it stands beside ids
            found = found.model_copy(update={"left_out": other_words(text, self.raw)})
        read = names.get("correct") or names.get("reward")
        for meaning in NEEDED["label"] if found.label in (-1, 0, 1) else ():
            for name in self.names.get(meaning, ()):
                truth = verdict_of(entry.get(name))
                if truth not in (None, found.label == 1):
                    doubt = f"{name!r} contradicts {read!r}, which is read (--field {meaning}={name} reads the other)"
                    return found.model_copy(update={"doubt": doubt})
        return found

    def sample(self, entry: Mapping[str, Any], where: str, learning: bool = False) -> Sample:
        """The response of a line; for learning, it may be one that is left out, and lack all else.

        Raises:
            ContractError: if a field has the wrong form, or prompt or response is missing or empty.
        """
        found = self.part(entry, where, *self.names)
        if found.left_out is not None and found.response is None and found.response_ids is None:  # nothing was read
            if learning:
                return found
            raise ContractError(f"{where}: {found.left_out}; correct or delete the row")
        for what, given in (("prompt", found.prompt), ("response", found.response)):
            if not given and getattr(found, f"{what}_ids") is None:
                names = listed(name for meaning, name in self.taken.items() if meaning in NEEDED[what])
                raise ContractError(
                    f"{where}: the {what} ({names}) is missing, empty or no text; correct or delete the row"
                )
        return found

    def asked(self, entry: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
        """What tells the question of a line: the text of its prompt or its chat, its token ids, and its question id."""
        found = []
        for meanings in (("messages", "input", "prompt"), ("prompt_ids",), ("question_id",)):
            given = (entry.get(self.taken.get(meaning, "")) for meaning in meanings)
            given = (value for value in given if value not in (None, []))
            texts = (value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in given)
            found.append(next((text for text in texts if text.strip()), None))
        return tuple(found)


def samples(
    rows: Iterable[tuple[str, Mapping[str, Any], str | None]], mapping: Mapping[str, str], notes: Counter
) -> Iterator[Sample]:
    """The responses of rows, each with its place for error messages and the reason to leave it out, if there is one.

    Sentences about what was read for what are added to the notes. See `Fields.of` about the mapping and about errors.
    """
    fields, seen = None, {}
    for where, entry, why in rows:
        if fields is None:
            fields = Fields.of(entry, mapping, where)
        if not entry.keys() <= seen.keys():
            seen |= entry
        yield Sample.read(where, left_out=why) if why else fields.sample(entry, where, learning=True)
    if seen:
        notes[f"fields: {Fields.of(seen, mapping, where)}"] += 1


def _given(value: Any, meaning: str) -> bool:
    return value is not None and not (meaning in NEEDED["prompt"] and isinstance(value, str) and not value.strip())


class _Logged(BaseModel):
    """NeMo-RL's fields that divide the ids; all of its fields are lists of one."""

    token_ids: tuple[list]
    token_loss_mask: tuple[list[bool]]
    input_lengths: tuple[int]


def kind_of(entry: Mapping[str, Any]) -> str:
    """The engine that wrote a line, in words."""
    return next((kind for kind, fields in KINDS.items() if fields <= {*entry}), "JSON lines")


def files(folder: Path) -> list[Path]:
    """The files of JSON lines in a folder, or in its folders of versions or steps."""
    within = (path for path in folder.glob("*/*.jsonl") if _FOLDERS.fullmatch(path.parent.name))
    return [path for path in [*folder.glob("*.jsonl")] or within if not _ABOUT.fullmatch(path.stem)]


def rows(path: Path) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """The responses of a file: file and row for error messages, fields, and why it is none to learn from, if it is not.
    Of an invalid line, a ContractError names file and line."""
    numbers = count()
    found = (row for where, _, entry in entries(path) for row in _rows(where, entry))
    for _, rows_of in groupby(found, lambda row: _session(row[1]) or next(numbers)):
        session = list(rows_of)
        for where, entry in session:
            info = entry.get("request_info")  # open-instruct's
            called = isinstance(info, dict) and info.get("tool_calleds") is True
            several = "its session has several outputs" if len(session) > 1 else None
            yield where, entry, several or ("it called a tool" if called else MEDIA if media_beside(entry) else None)


def _session(entry: Mapping[str, Any]) -> str | None:
    """The session of an output of verl's V1, which is named PROMPT_SESSION_OUTPUT; None of other engines."""
    found = re.fullmatch(r"(.+_\d+)_\d+", str(entry.get("uid")))
    return found[1] if found and kind_of(entry) == "verl's JSON lines" else None


def _rows(where: str, entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = kind_of(entry)
    if kind == "NeMo-RL's JSON lines":
        yield where, _divided(where, entry)
    elif kind == "ROLL's columns":
        columns = {name: values for name, values in entry.items() if isinstance(values, list)}
        try:
            for place, values in enumerate(zip(*columns.values(), strict=True)):
                yield f"{where}: response {place}", entry | dict(zip(columns, values, strict=True))
        except ValueError:
            raise ContractError(f"{where}: its columns have several lengths; dump the step again") from None
    else:
        yield where, entry


def _divided(where: str, entry: dict[str, Any]) -> dict[str, Any]:
    with reading(where):
        logged = _Logged.model_validate(entry)
    (length,), rewards = logged.input_lengths, entry.get("filtered_rewards", entry.get("rewards"))
    ids, mask = logged.token_ids[0][:length], logged.token_loss_mask[0][:length]
    begin = mask.index(True) if True in mask else len(mask)
    reward = rewards[0] if isinstance(rewards, list) and rewards else rewards
    return {"prompt_ids": ids[:begin], "response_ids": ids[begin:], "response_mask": mask[begin:], "reward": reward}
