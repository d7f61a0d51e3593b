"""Fields of a row that are not read, but may be a part of the prompt, of the response or of its end."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.models.text import comparable
from cocal.rollouts.exclusions import LISTS
from cocal.rollouts.sample import Encoded, Sample
from cocal.rollouts.values import texts_in
from cocal.store.rows import shown

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ASKED = re.compile(
    r"(?:\w*_)?(?:sys(?:tem)?|developer|instruct(?:ions?)?|contexts?|history|conversations?|few_?shots?|examples?|"
    r"demo(?:nstration)?s?|documents?|passages?|functions|prefix|suffix|prefill|preamble|persona|question|problem|query)"
    r"(?:_(?:prompts?|messages?|msg|text|instructions?|examples?))*|prompt|options|choices|dialog(?:ue)?s?|"
    r"tool_(?:def(?:inition)?|schema)s|(?:apply_)?chat_template(?:_kwargs)?",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"(?:\w*_)?(?:reasoning|think(?:ing)?|thoughts?|cot|rationale)"
    r"(?:_(?:content|text|process|traces?|steps|details|blocks?|trajectory))?|completion|generation|"
    r"(?:raw|full|complete|unparsed)_(?:response|output|completion|generation)",
    re.IGNORECASE,
)
ENDED = re.compile(r"until|stop(?!_?(?:reason|type|ped))\w*", re.IGNORECASE)
"""Names of fields that may hold a part of the prompt, of the response, or the strings that end one."""
_SETTINGS = "sampling_params", "generation_config", "generation_kwargs", "extra_body", "options"
"""Fields of settings, within which fields of these names may stand."""
_WITHIN = re.compile(
    "sys|developer|instruct|prompt|prefix|suffix|prefill|preamble|persona|tool|function|chat|stop|until"
)
"""Parts of the names that such fields have within any mapping, unlike fields of a task."""
_PROMPT = re.compile(r"(?:\w*_)?prompts?(?:_(?:text|str|string|template|messages))?")
_SOLVED = re.compile(r"solution|answer|reference|truth|rationale|explanation|gold|target|label")
"""Names of texts that a policy may have read, and of those that it has not."""
_WORDS, _LONG = 3, 8
"""Least number of words of a text that a policy may have read, and of characters of a response that identify it."""
_SPECIAL = re.compile(r"(?:(?:<[|｜][^<>]*[|｜]>|</s>|<eos>|<end_of_turn>|<turn\|>)\s*)+$")
"""End tokens, with which a text may end or not."""


def check_unread(
    tokenizer: "PreTrainedTokenizerBase",
    samples: Sequence[Sample],
    encoded: Sequence[Encoded],
    values: Mapping[str, Any],
) -> None:
    """Refuse a row with a field that is not read, but may be a part of what the policy read or wrote: by its name or
    its words, which these lack, or because the template reads it and was given another of the `values`."""
    for sample, row in zip(samples, encoded, strict=True):
        given = {**values, **(sample.template_fields or {})}
        for outer, name, value in sample.unread:
            told = row.origin != "ids" and name in values and (value or None) != (given[name] or None)
            if told or _lacks(tokenizer, outer, name, value, sample, row):
                raise ContractError(
                    f"{sample.where}: the field {name!r} ({shown(value)}) may be a part of what the policy read or "
                    "wrote, or have ended it, and is not read; put it there (messages, chat_template_kwargs, "
                    f"matched_stop), give exact ids, or give --ignore {outer} if it is none"
                )


def _lacks(
    tokenizer: "PreTrainedTokenizerBase", outer: str, name: str, value: Any, sample: Sample, row: Encoded
) -> bool:
    """Whether a field has words that belong, by its name or their form, to a prompt or response that lacks them."""
    words, texts = re.sub("(?<=[a-z])(?=[A-Z])", "_", name), texts_in(value)
    whole = isinstance(value, Mapping)  # settings, or what an API has answered
    told = outer in (name, *_SETTINGS) and not (whole and name in _SETTINGS)
    told = told or (outer != name and _WITHIN.search(name.lower()))
    if told and (ended := ENDED.fullmatch(words) or _SAID.fullmatch(words)):
        stops = ended.re is ENDED
        if sample.response_ids is not None or (
            (sample.truncated or sample.stop is not None or value is True) if stops else whole
        ):
            return False
        said = "" if stops else comparable(sample.response or "")
        return any(comparable(_SPECIAL.sub("", text)) not in said for text in texts)
    if row.origin == "ids":
        return False
    if not (told and _ASKED.fullmatch(words)):
        texts = _asking(name, value, sample)
    read = [tokenizer.decode(row.prompt, skip_special_tokens=skipped) for skipped in (False, True)] if texts else []
    read = [*map(comparable, (*read, sample.asked or "", sample.response or ""))]
    return any(all(comparable(text) not in part for part in read) for text in texts)


def _asking(name: str, value: Any, sample: Sample) -> list[str]:
    """The texts of a field that has messages, is called a prompt or holds the question; otherwise none. Those that also
    hold the response were not read by the policy."""
    asked, said = comparable(sample.question or ""), comparable(sample.response or "")
    chat = isinstance(value, LISTS) and all(isinstance(one, Mapping) and {"role", "content"} <= {*one} for one in value)
    asking = [one for one in value if one["role"] != "assistant"] if chat else value
    texts = [*map(comparable, texts_in(asking))] if chat or isinstance(value, (str, *LISTS)) else []
    if len(said) >= _LONG and any(said in text != said for text in texts):
        return []
    called = _PROMPT.fullmatch(name.lower()) and max((len(text.split()) for text in texts), default=0) >= _WORDS
    holds = len(asked.split()) >= _WORDS and any(asked in text for text in texts) and not _SOLVED.search(name.lower())
    return texts if chat or called or holds else []
