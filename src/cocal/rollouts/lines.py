"""JSON lines of any project, whose fields are found by usual names (`FIELDS`) or by a mapping."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cocal.errors import ConfigError, ContractError
from cocal.rollouts import exclusions
from cocal.rollouts.format import Reading
from cocal.rollouts.sample import COMPLETE, TRUNCATED, Sample
from cocal.rollouts.unread import ENDED
from cocal.rollouts.values import TALKERS, verdict_of
from cocal.store.rows import entries, listed, with_fields

FIELDS: dict[str, tuple[str, ...]] = {
    "messages": ("messages",),
    "prompt": ("prompt", "question", "problem"),
    "input": ("input",),
    "prompt_ids": ("prompt_ids", "prompt_token_ids", "prompt_tokens"),
    "tools": ("tools",),
    "template_fields": ("chat_template_kwargs",),
    "response": ("response", "output", "completion"),
    "response_ids": (
        *("response_ids", "response_token_ids", "response_tokens"),
        *("completion_ids", "completion_token_ids", "completion_tokens"),
    ),
    "mask": ("response_mask", "loss_mask"),
    "correct": ("correct", "is_correct", "acc"),
    "reward": ("reward", "score"),
    "step": ("step", "rollout_step", "global_step"),
    "group": ("group", "group_id", "group_index", "prompt_idx"),
    "model": ("model", "model_name", "model_id", "model_path", "policy", "policy_name"),
    "question_id": ("question_id",),
    "truncated": ("truncated", "is_truncated"),
    "finish_reason": ("finish_reason", "stop_reason", "stop_type", "done_reason", "finishReason", "stopReason"),
    "stop": ("matched_stop", "stop_sequence", "stop_reason", "stopping_word"),
}
"""Meanings, and the names that a field of this meaning may have; the first one that a file has is read. They are those
of `Sample`, but for `messages`, the chat that was answered, and `input`, which in verl's lines is the whole prompt."""
NEEDED = {
    "prompt": ("prompt", "messages", "input", "prompt_ids"),
    "response": ("response", "response_ids"),
    "label": ("correct", "reward"),
}
"""What a line may need, and the meanings of which one is enough."""
_INSTEAD = (("messages", "input", "prompt"), ("response_ids", "response"), ("correct", "reward"))
"""Meanings of which a line needs one; if it has several, the first one is read."""
_SAME = {"messages": "prompt", "input": "prompt"}
"""Meanings that are one field of a sample."""
VERL = {"input", "output", "score", "step"}
"""Fields of verl's lines, whose prompts are the whole text that the policy read, and not messages of a user."""
_EARLY = 2048
"""Number of rows of a file that are searched for fields which tell rows of the training from others."""


@dataclass(frozen=True)
class Fields:
    """Which fields of a file are read with which meaning."""

    taken: Mapping[str, str]
    """Fields of the first line, by their meaning."""
    names: Mapping[str, Sequence[str]]
    """Names that the field of each meaning may have; a line need not have the same fields as the first one."""
    unknown: tuple[str, ...] = ()
    """Names of the fields that are not read."""
    ignored: Collection[str] = ()
    """Names or meanings of fields that the user wants to be ignored."""
    raw: bool = False
    """Whether prompts are whole texts and not messages of a user."""

    @classmethod
    def of(
        cls,
        entry: Mapping[str, Any],
        mapping: Mapping[str, str],
        where: str,
        needs: Iterable[str] = tuple(NEEDED),
        ignored: Collection[str] = (),
        **named: str,
    ) -> "Fields":
        """Find the fields of a file in its first line. Raises a ConfigError if the mapping has an unknown meaning, and
        a ContractError if the file lacks something that it must have.

        Args:
            mapping: Names of fields by their meaning, where a user gave them; they come first.
            needs: Names among `NEEDED` of what every line must have; labels that are not needed are not read.
            ignored: Names or meanings of fields that are not read.
            named: Names in the file of other fields of `Sample`, which are looked for under no other name.
        """
        if strange := [meaning for meaning in mapping if meaning not in FIELDS]:
            raise ConfigError(
                f"--field {strange[0]}={mapping[strange[0]]}: no such meaning; there are {listed(FIELDS)}"
            )
        labels = [meaning for meaning in NEEDED["label"] if meaning in mapping] or NEEDED["label"]
        unread = {*NEEDED["label"]}.difference(labels if "label" in needs else ())
        unread |= {*ignored} - {"prompt", "response", "model"}
        if "finish_reason" in unread and "finish_reason" not in entry:  # then `stop_reason` is its name
            unread.add("stop_reason")
        names = {meaning: (mapping[meaning],) if meaning in mapping else known for meaning, known in FIELDS.items()}
        names = {m: [name for name in known if name not in unread] for m, known in names.items() if m not in unread}
        there = {m: [n for n in known if n in entry and not _counts(entry[n], m)] for m, known in names.items()}
        taken = {meaning: known[0] for meaning, known in there.items() if known}
        if absent := [f"--field {meaning}={name}" for meaning, name in mapping.items() if meaning not in taken]:
            raise ContractError(f"{where}: there is no such field for {absent[0]}; its fields are {listed(entry)}")
        for meanings in (NEEDED[what] for what in needs):
            if not {*meanings} & {*taken}:
                raise ContractError(
                    f"{where}: none of the fields {listed(FIELDS[meaning][0] for meaning in meanings)} is there; its "
                    f"fields are {listed(entry)}: name one ({' or '.join(f'--field {one}=NAME' for one in meanings)}); "
                    "what lies within another, such as the last message of a chat, has to be put beside it first "
                    "(docs/formats.md)"
                )
        taken |= named
        names |= {meaning: (name,) for meaning, name in named.items()}
        unknown = tuple(name for name in entry if name not in taken.values())
        return cls(taken, names, unknown, ignored, entry.keys() >= VERL)

    def __str__(self) -> str:
        """The fields in words."""
        taken = {meaning: name for meaning, name in self.taken.items() if meaning in FIELDS}
        if taken.get("stop") == taken.get("finish_reason"):
            taken.pop("stop", None)
        later = [meaning for several in _INSTEAD for meaning in [m for m in several if m in taken][1:]]
        beside = [taken.pop(meaning) for meaning in later]
        same = [meaning for meaning, name in taken.items() if meaning == name]
        other = [f"{name} as {meaning}" for meaning, name in taken.items() if meaning != name]
        instead = f"; only where these are missing: {listed(beside)}" if beside else ""
        left = f"; not read: {listed(self.unknown)}" if self.unknown else ""
        return f"{listed([*other, *same])}{instead}{left}"

    def part(self, entry: Mapping[str, Any], where: str, *meanings: str) -> Sample:
        """The fields of a line that have these meanings, as a sample that lacks all else; see `Sample.read`."""
        if isinstance(info := entry.get("meta_info"), Mapping):  # SGLang's
            entry = {"finish_reason": info.get("finish_reason"), **entry}
        names = {
            meaning: fields[0]
            for meaning in meanings
            if (fields := [name for name in self.names.get(meaning, ()) if _given(entry.get(name), meaning)])
        }
        stop = entry.get("stop_reason") if names.get("stop") == "stop_reason" else None
        told = isinstance(stop, str) and stop.strip().lower() in (*COMPLETE, *TRUNCATED)
        if told or names.get("stop") == names.get("finish_reason"):  # `stop_reason` is the reason of the end
            names.pop("stop", None)
        if names.get("finish_reason") == "stop_type":  # llama.cpp, which calls truncated what its context cuts
            names.pop("truncated", None)
        text = entry.get(names.get("response", ""))
        for several in _INSTEAD:
            for meaning in [meaning for meaning in several if meaning in names][1:]:
                del names[meaning]
        names = {_SAME.get(meaning, meaning): name for meaning, name in names.items()}
        values = {meaning: entry[name] for meaning, name in names.items()}
        if isinstance(text, str) and "response_ids" in values:
            values["response_beside"] = text
        sample = Sample.read(where, names, raw=self.raw, **values)
        if sample.left_out is None and sample.response is None and isinstance(text, str):  # it stands beside ids
            sample = sample.model_copy(update={"left_out": exclusions.other_words(text, self.raw)})
        read = names.get("correct") or names.get("reward")
        for meaning in NEEDED["label"] if sample.label in (-1, 0, 1) else ():
            for name in self.names.get(meaning, ()):
                truth = verdict_of(entry.get(name))
                if truth not in (None, sample.label == 1):
                    doubt = f"{name!r} contradicts {read!r}, which is read (--field {meaning}={name} reads the other)"
                    return sample.model_copy(update={"doubt": doubt})
        return sample

    def sample(self, entry: Mapping[str, Any], where: str) -> Sample:
        """The response of a line; one that is left out may lack all else. Raises a ContractError if a field has the
        wrong form, or the prompt or the response is missing or empty."""
        if exclusions.media_beside(entry):
            return Sample.read(where, left_out=exclusions.MEDIA)
        if isinstance(kept := entry.get("attention_mask"), list) and not all(kept):
            raise ContractError(f"{where}: attention_mask tells of padding; give ids without it (docs/formats.md)")
        sample = self.part(entry, where, *self.names)
        beside = {"prompt"} if {"messages", "input"} & {*self.taken} else set()
        aside = {name for meaning, name in self.taken.items() if meaning not in beside} | {*self.ignored}
        unread = (one for one in _each(entry, aside) if "stop" not in self.taken or not ENDED.fullmatch(one[1]))
        sample = sample.model_copy(update={"unread": tuple(unread)})
        if sample.left_out is not None and sample.response is None and sample.response_ids is None:
            return sample  # nothing was read
        for what, given in (("prompt", sample.prompt), ("response", sample.response)):
            if not given and getattr(sample, f"{what}_ids") is None:
                names = listed(name for meaning, name in self.taken.items() if meaning in NEEDED[what])
                raise ContractError(
                    f"{where}: the {what} ({names}) is missing, empty or no text; correct or delete the row"
                )
        return sample

    def asked(self, entry: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
        """What identifies the question of a line: the text of its prompt or chat, its token ids, its question id."""
        keys = []
        for meanings in (("messages", "input", "prompt"), ("prompt_ids",), ("question_id",)):
            given = (entry.get(self.taken.get(meaning, "")) for meaning in meanings)
            given = (value for value in given if value not in (None, []))
            texts = (value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in given)
            keys.append(next((text for text in texts if text.strip()), None))
        return tuple(keys)


def samples(
    rows: Iterable[tuple[str, Mapping[str, Any], str | None]], reading: Reading, notes: Counter
) -> Iterator[Sample]:
    """The responses of rows, each with its place for error messages and the reason to leave it out, if there is one.

    Sentences about how fields were read are added to the notes. See `Fields.of` about the mapping and about errors.
    """
    fields, seen, how = None, {}, (tuple(NEEDED), reading.ignored)
    first, rows = with_fields(rows, 1)
    early = [*islice(rows, _EARLY)]
    told_by, rows = exclusions.splits(entry for _, entry, _ in early), chain(early, rows)
    for where, entry, why in rows:
        if fields is None:
            fields = Fields.of(first, reading.fields, where, *how)
        if not entry.keys() <= seen.keys():
            seen |= entry
        useless = why or exclusions.evaluated(entry, {*reading.ignored, *reading.fields.values()}, told_by)
        sample = Sample.read(where, left_out=useless) if useless else fields.sample(entry, where)
        doubt = sample.doubt or exclusions.several_versions(entry)
        yield sample.model_copy(update={"doubt": doubt}) if doubt else sample
    known = {"markers", *TALKERS, *FIELDS, *FIELDS["mask"], *seen, *reading.fields.values()}
    if seen:
        notes.update(f"--ignore {name}: there is no such field or check" for name in {*reading.ignored} - known)
        notes[f"fields: {Fields.of(seen, reading.fields, where, *how)}"] += 1


def _each(entry: Mapping[str, Any], aside: Collection[str]) -> Iterator[tuple[str, str, Any]]:
    """The fields of a line that are not in `aside`, and the members of its mappings that are not in the line as well:
    the name of the field in the line, the member's own name, and its value."""
    for outer, value in entry.items():
        if outer not in aside:
            yield outer, outer, value
            within = value if isinstance(value, Mapping) else {}
            yield from ((outer, str(name), one) for name, one in within.items() if repr(one) != repr(entry.get(name)))


def _given(value: Any, meaning: str) -> bool:
    blank = meaning in NEEDED["prompt"] and isinstance(value, str) and not value.strip()
    return value is not None and not blank and not _counts(value, meaning)


def _counts(value: Any, meaning: str) -> bool:
    """True if a number of tokens stands where their ids should be."""
    return meaning in ("prompt_ids", "response_ids") and isinstance(value, (int, float))


def read(path: Path, reading: Reading, notes: Counter) -> Iterator[Sample]:
    """The responses of a file (`samples`)."""
    return samples(((where, entry, None) for where, _, entry in entries(path)), reading, notes)
