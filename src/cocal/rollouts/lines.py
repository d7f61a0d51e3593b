"""JSON lines in the words of any project, whose fields are found by usual names (`FIELDS`) or a mapping."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cocal.errors import ConfigError, ContractError
from cocal.models.text import comparable
from cocal.rollouts import exclusions
from cocal.rollouts.format import Reading
from cocal.rollouts.formats import raw
from cocal.rollouts.sample import COMPLETE, CUT, Sample
from cocal.rollouts.values import TALKERS, texts_in, verdict_of
from cocal.store.rows import entries, listed, with_fields

FIELDS: dict[str, tuple[str, ...]] = {
    "messages": ("messages",),
    "prompt": ("prompt", "question", "problem"),
    "input": ("input",),
    "prompt_ids": ("prompt_ids", "prompt_token_ids", "prompt_tokens"),
    "attention_mask": ("attention_mask",),
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
_PARTS = {
    "asked": re.compile(
        r"(?:\w*_)?(?:sys(?:tem)?|developer|instruct(?:ions?)?|context|history|conversation|few_?shots?|examples?|"
        r"demo(?:nstration)?s?|documents?|passages?|functions|prefix|suffix|prefill|preamble|persona|question|problem|query)"
        r"(?:_(?:prompts?|messages?|msg|text|instructions?|examples?))*|reasoning_effort|enable_thinking|prompt|prompt_text|"
        r"options|choices|contexts|conversations|dialog(?:ue)?s?|tool_(?:def(?:inition)?|schema)s|"
        r"(?:full|final|complete)_prompt|(?:apply_)?chat_template(?:_kwargs)?",
        re.IGNORECASE,
    ),
    "response": re.compile(
        r"(?:\w*_)?(?:reasoning|think(?:ing)?|thoughts?|cot|rationale)"
        r"(?:_(?:content|text|process|traces?|steps|details|blocks?|trajectory))?|completion|generation|"
        r"(?:raw|full|complete|unparsed)_(?:response|output|completion|generation)",
        re.IGNORECASE,
    ),
    "stop": re.compile(r"until|stop(?!_?(?:reason|type|ped))\w*", re.IGNORECASE),
}
"""Names of fields that may hold a part of the prompt, of the response, or of its end, without which these are read."""
_SETTINGS = "sampling_params", "generation_config", "generation_kwargs", "extra_body", "options"
"""Fields of settings, within which others of these names stand."""
_WITHIN = re.compile(
    "sys|developer|instruct|prompt|prefix|suffix|prefill|preamble|persona|tool|function|chat|stop|until"
)
"""What the names have in common that stand for such parts within any mapping, and not for parts of a task."""
_EARLY = 2048
"""Rows of a file among which one is looked for that says of a field that it tells rows of the training from others."""
_SENT = re.compile("(?:full|final|complete)_prompt|prompt_text")
"""Names of the text that a policy read in place of a chat."""
_SPECIAL = re.compile(r"(?:(?:<[|｜][^<>]*[|｜]>|</s>|<eos>|<end_of_turn>|<turn\|>)\s*)+$")
"""End tokens, with which a text may end or not."""


@dataclass(frozen=True)
class Fields:
    """Which fields of a file are taken for what."""

    taken: Mapping[str, str]
    """Fields of the first line, by their meaning."""
    names: Mapping[str, Sequence[str]]
    """Names that the field of a meaning may have; a line need not have the fields of the first one."""
    unknown: tuple[str, ...] = ()
    """Names of the fields that are not read."""
    ignored: Collection[str] = ()
    """Names of those of them that somebody has left out."""
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
        for what in needs:
            meanings = NEEDED[what]
            if not {*meanings} & {*taken}:
                chat = entry.get("messages")
                last = chat[-1] if isinstance(chat, list) and chat else None
                answered = what == "response" and isinstance(last, dict) and last.get("role") == "assistant"
                hint = ", or move the assistant's last message into one" if answered else ""
                lists = {name: value[0] for name, value in entry.items() if isinstance(value, list) and value}
                if ids := [name for name, one in lists.items() if isinstance(one, int) and name not in taken.values()]:
                    hint += f", or {listed(ids)} as ids (--field prompt_ids=NAME, --field response_ids=NAME)"
                parts = {name: lists.get(name, value) for name, value in entry.items() if "confidence_" not in name}
                if nested := [
                    n for n, one in parts.items() if isinstance(one, Mapping) or (n in lists and n not in ids)
                ]:
                    hint += f"; what lies within {listed(nested)} has to be put beside it first (docs/formats.md)"
                raise ContractError(
                    f"{where}: no field is a {what} ({listed(FIELDS[meaning][0] for meaning in meanings)}); its fields "
                    f"are {listed(entry)}: name one by --field {meanings[0]}=FIELD{hint}"
                )
        taken |= named
        names |= {meaning: (name,) for meaning, name in named.items()}
        unknown = tuple(name for name in entry if name not in taken.values())
        return cls(taken, names, unknown, ignored, raw(entry.keys()))

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
        told = isinstance(stop, str) and stop.strip().lower() in (*COMPLETE, *CUT)
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
        """The response of a line, which may be one that is left out, and lack all else. A ContractError says that a
        field has the wrong form, or that prompt or response is missing or empty."""
        if exclusions.media_beside(entry):
            return Sample.read(where, left_out=exclusions.MEDIA)
        sample = self.part(entry, where, *self.names)
        self._check_whole(entry, sample)
        aside = {*self.taken.values(), *self.ignored}
        unread = {name: (outer, value) for outer, name, value in _each(entry) if outer not in aside}
        sample = sample.model_copy(update={"unread": unread})
        if sample.left_out is not None and sample.response is None and sample.response_ids is None:
            return sample  # nothing was read
        for what, given in (("prompt", sample.prompt), ("response", sample.response)):
            if not given and getattr(sample, f"{what}_ids") is None:
                names = listed(name for meaning, name in self.taken.items() if meaning in NEEDED[what])
                raise ContractError(
                    f"{where}: the {what} ({names}) is missing, empty or no text; correct or delete the row"
                )
        return sample

    def _check_whole(self, entry: Mapping[str, Any], sample: Sample) -> None:
        """Refuse a line with a field that may be a part of prompt or response, and is neither read nor in its text."""
        stop = self.taken.get("stop", sample.stop)  # where the engine tells which of several it was
        given: dict[str, Any] = {"asked": sample.prompt_ids, "response": sample.response_ids}
        given["stop"] = sample.response_ids if stop is None else stop
        aside = self.taken.get("prompt") if {"messages", "input"} & {*self.taken} else None
        for outer, name, value in _each(entry) if sample.left_out is None else ():
            part = _part_of(name)
            read = outer in self.taken.values() and name != aside
            if part is None or given[part] is not None or outer in self.ignored or read:
                continue
            if outer != name and outer not in _SETTINGS and not _WITHIN.search(name.lower()):
                continue
            if (part == "response" and isinstance(value, Mapping)) or (part == "stop" and sample.truncated):
                continue  # what an API has answered as a whole, and strings that have not come
            texts = texts_in(None if part == "stop" and value is True else value)
            whole = comparable(getattr(sample, part) or "")
            if part != "asked":  # which a reply may end with, and its text lack
                texts = [_SPECIAL.sub("", text) for text in texts]
            if outer != name and texts == texts_in(entry.get(name)):
                continue  # it stands in the line, too
            said, lacking = " ".join(texts), [text for text in texts if comparable(text) not in whole]
            chat = None if isinstance(sample.prompt, str) else sample.question  # its text may be beside it, as rendered
            sent = name == aside or _SENT.fullmatch(name)
            rendered = sent and chat and comparable(chat) in comparable(said)
            if lacking and not rendered:
                where, what = "put it there (messages, chat_template_kwargs)", "be a part of prompt or response"
                if part == "stop":
                    where, what = "say which string did (matched_stop), or give exact ids", "have ended the response"
                raise ContractError(
                    f"{sample.where}: the field {name!r} ({said[:40]!r}) may {what}, and is not read; {where}, or give "
                    f"--ignore {outer} if it is none"
                )

    def asked(self, entry: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
        """What tells the question of a line: the text of its prompt or its chat, its token ids, and its question id."""
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

    Sentences about what was read for what are added to the notes. See `Fields.of` about the mapping and about errors.
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
        if exclusions.several_versions(entry) and not sample.doubt:
            sample = sample.model_copy(update={"doubt": exclusions.SEVERAL_VERSIONS})
        yield sample
    known = {"markers", *TALKERS, *FIELDS, *FIELDS["mask"], *seen, *reading.fields.values()}
    if seen:
        notes.update(f"--ignore {name}: there is no such field or check" for name in {*reading.ignored} - known)
        notes[f"fields: {Fields.of(seen, reading.fields, where, *how)}"] += 1


@cache
def _part_of(name: str) -> str | None:
    """What a field of this name may be a part of; None if of nothing."""
    name = re.sub("(?<=[a-z])(?=[A-Z])", "_", name)
    return next((part for part, names in _PARTS.items() if names.fullmatch(name)), None)


def _each(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The fields of a line and of its mappings: name of the field in the line, the field's own name, and its value."""
    for outer, value in entry.items():
        within = value if isinstance(value, Mapping) else {}
        if not within or outer not in _SETTINGS:
            yield outer, outer, value
        yield from ((outer, str(name), one) for name, one in within.items())


def _given(value: Any, meaning: str) -> bool:
    blank = meaning in NEEDED["prompt"] and isinstance(value, str) and not value.strip()
    return value is not None and not blank and not _counts(value, meaning)


def _counts(value: Any, meaning: str) -> bool:
    """True if a number of tokens stands where their ids should be."""
    return meaning in ("prompt_ids", "response_ids") and isinstance(value, (int, float))


def read(
    path: Path, reading: Reading, notes: Counter, useless: Callable[[Mapping[str, Any]], str | None] = lambda _: None
) -> Iterator[Sample]:
    """The responses of a file (`samples`); `useless` tells of a line why it is left out."""
    return samples(((where, entry, useless(entry)) for where, _, entry in entries(path)), reading, notes)
