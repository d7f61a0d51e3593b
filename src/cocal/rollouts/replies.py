"""Checks of texts against the replies that the template writes: most must have the beginning and end of their thoughts
and the special tokens, and must be the texts of the ids beside them."""

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.models.text import comparable, misread
from cocal.rollouts.exclusions import LISTS
from cocal.rollouts.sample import Encoded, Sample
from cocal.rollouts.values import texts_in
from cocal.store.rows import shown

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MARKERS = "markers"
"""Word for `--ignore` with which texts are read as they are, whatever the template writes in replies."""
_ASKED, _THOUGHT, _REPLIED = "Userwords", "Thoughtwords", "Replywords"
_OPENING = re.compile(r"<\|channel\|>(?!final)|<\|\w+\|?>|<[\w:]+>|\[[A-Z_]+\]|◁\w+▷")
_CLOSING = re.compile(r"</[\w:]+>|<\w+\|>|\[/[A-Z_]+\]|◁/\w+▷")
_MARKER = re.compile(
    r"<[|｜][A-Za-z][\w▁ ]*[|｜]>|<(?:start|end)_of_turn>|\[/?(?:INST|SYSTEM_PROMPT)\]|<</?SYS>>|\[gMASK\]"
    r"|\A<s>|</s>\Z"
)
"""The form of chat markers in the templates of any model."""
_ROLES = re.compile(r"\s*(?:system|user|assistant|tool)\b", re.IGNORECASE)
_THINKS = re.compile("think|thought|reason", re.IGNORECASE)
_THOUGHTS = (
    *({name: _THOUGHT, "content": _REPLIED} for name in ("reasoning_content", "reasoning", "thinking")),
    {"content": [{"type": "thinking", "thinking": _THOUGHT}, {"type": "text", "text": _REPLIED}]},
)
"""Replies with a thought, as templates take them."""
_ASKS = re.compile(r"\bassistant:\s*(?:[^\n]*\s*<think>\s*)?$|### ?(?:response|assistant|answer):\s*$", re.IGNORECASE)
"""The end of a prompt that somebody has made of a chat by hand."""
_LAST, _NEAR = 24, 30
"""Tokens at the end of a prompt, and characters after a marker there, within which the marker opens the response."""
_ESCAPED = re.compile(r"\\n(?![a-z])|\\u[0-9a-f]{4}|&(?:lt|gt|amp|quot|#\d+);")
"""Escape sequences of texts that were written as JSON or HTML once too often; LaTeX's commands have small letters."""
_LEAKED = re.compile(r"[ĠĊ]|▁(?![\w▁]*[|｜]>)")
"""What stands for white space in the names of tokens, but for those of markers."""
_SHOWN = re.compile(r"""\s*(\[(['"])|b(['"]))(?:\\.|(?!\2|\3).)*(?:\2\]|\3)\s*""", re.DOTALL)
"""A text in a list, or the bytes of one, as Python shows it."""
_PROMPT = re.compile(r"(?:\w*_)?prompts?(?:_(?:text|str|string|template|messages))?")
_SOLVED = re.compile(r"solution|answer|reference|truth|rationale|explanation|gold|target|label")
"""Names of texts that a policy may have read, and of those that it has not."""
_WORDS, _LONG = 3, 8
"""Words of a text that a policy may have read, and characters of a response that tell it."""
_ROWS, _ROWS_OF_FILE = 512, 8
"""Rows of a block that are looked at, and those of each file in it whose ids are compared with their texts."""


def _closes(marker: str) -> str | None:
    """The marker that closes what a marker opens; None if none does."""
    if marker == "<|channel|>":
        return marker  # of the channel that comes next
    if marker.endswith("|>"):
        close = re.sub("START|BEGIN", "END", re.sub("start|begin", "end", marker))
        return None if close == marker else close
    return f"<{marker[2:-1]}|>" if marker.startswith("<|") else f"{marker[0]}/{marker[1:]}"


def _closings(text: str) -> set[str]:
    """Markers that may end thoughts in a text, by their form or because the text opens the thought."""
    openings = [opening for opening in _OPENING.findall(text) if opening != "<|channel|>"]
    return {*_CLOSING.findall(text), *map(_closes, openings)} - {None}


def foreign(sample: Sample, template: str) -> set[str]:
    """Chat markers that the policy did not choose: those of the prompt, and those of the response that stand before a
    role, or that end it and close nothing that the template or it has opened."""
    text = (sample.response or "").rstrip()
    closes = {*map(_closes, _OPENING.findall(template + text))}
    found = [(mark[0], text[mark.end() :]) for mark in _MARKER.finditer(text)]
    ends = {mark for mark, rest in found if _ROLES.match(rest) or not (rest or mark in closes)}
    return {*_MARKER.findall(sample.asked or ""), *ends}


class Replies:
    """How a template begins a reply.

    Args:
        tokenizer, template: The template as it is written, and its tokenizer.
        render, thinking: Renders a chat up to the beginning of a reply in a mode; the mode of the prompts.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", template: str, render: Callable[[Any, bool], str], thinking: bool
    ):
        self._tokenizer, self._template, self._render = tokenizer, template, render
        asked = [{"role": "user", "content": _ASKED}]
        own, other = (render(asked, mode) for mode in (thinking, not thinking))
        before, tails = own.partition(_ASKED)[0], [text.rpartition(_ASKED)[2] for text in (own, other)]
        self.knows_thinking, self._before, self._tail = own != other, before, tails[0]
        self._head, _, behind = self._behind({"content": _REPLIED}).partition(_REPLIED)
        self._turns = {
            mark for mark in _OPENING.findall(before) if before.count(mark) > before.count(_closes(mark) or mark)
        }
        self._turns |= {mark for mark in _OPENING.findall(self._head) if (_closes(mark) or mark) not in self._head}
        self._turns |= {
            mark for mark in _OPENING.findall(tails[0]) if behind.lstrip().startswith(_closes(mark) or "\0")
        }
        ended = [close for close in _closings(tails[1]) if close in tails[1] and close not in tails[0]]
        self.thinks = min(ended, default=None) if thinking else None
        """The marker that ends the thought with which a reply in thinking mode begins; None in the other mode."""
        told = {close for close in _closings(template) if _THINKS.search(close)}  # another switch may let it think
        closing = told.union(*map(_closings, tails), filter(None, map(self.opened, tails)))
        self.closing = sorted(closing - {*map(_closes, self._turns)})
        """What may end a thought."""

    def opened(self, end: str) -> str | None:
        """The marker that closes the thought or channel that the end of a prompt opens; None if it opens none."""
        for match in _OPENING.finditer(end):
            known = match[0] in self._template or _THINKS.search(match[0])
            close = _closes(match[0]) if known and match[0] not in self._turns else None
            if close and close not in end[match.end() :] and len(end) - match.end() <= _NEAR:
                return close
        return None

    def ending(self, row: Encoded) -> str:
        """The end of a prompt."""
        return self._tokenizer.decode(row.prompt[-_LAST:])

    def unopened(self, sample: Sample, row: Encoded) -> str | None:
        """The marker that closes a thought that neither response nor prompt opened, or that the prompt has closed."""
        text, end = sample.response or "", self.ending(row)
        for close in () if self.opened(end) else self.closing:
            opened = any(_closes(mark) == close for mark in _OPENING.findall(text.partition(close)[0]))
            name = re.search(rf"\w+(?=\s*{re.escape(close)}\s*$)", end)  # a channel's, with which a text begins
            if (close in text and (close in end or not opened)) or (name and text.startswith(f"{name[0]}\n")):
                return close
        return None

    @cached_property
    def bare(self) -> str:
        """The first line of a prompt's end without its special tokens; empty if the end has none or nothing else."""
        ids = self._tokenizer(self._tail, add_special_tokens=False)["input_ids"]
        left = self._tokenizer.decode(ids, skip_special_tokens=True).strip()
        return "" if left == self._tail.strip() else left.partition("\n")[0]

    @cached_property
    def special(self) -> list[str]:
        """Special tokens that the template writes between the prompt and a reply, or around a thought before it."""
        tokens = {str(token) for token in self._tokenizer.added_tokens_decoder.values() if token.special}
        heads = [self._head]
        if not any(close in self._tail for close in self.closing):  # otherwise the prompt has ended the thought
            heads += [self._behind(reply).partition(_REPLIED)[0] for reply in _THOUGHTS]
        marks = {token for head in heads for token in tokens if head.count(token) > self._tail.count(token)}
        return sorted(token for token in marks if token not in self._before)  # those begin any turn

    def _behind(self, reply: Mapping[str, Any]) -> str:
        """What the template writes of a reply after the user's words; empty if it refuses the reply."""
        try:
            text = self._render([{"role": "user", "content": _ASKED}, {"role": "assistant", **reply}], False)
        except Exception:  # templates are programs: some refuse a reply, or one in parts
            return ""
        return text.partition(_ASKED)[2] if _REPLIED in text else ""


def check(
    tokenizer: "PreTrainedTokenizerBase",
    replies: Replies | None,
    samples: Sequence[Sample],
    encoded: Sequence[Encoded],
    ignored: Collection[str],
) -> None:
    """Refuse responses if most are not what the policy wrote, or answer prompts that it has not read. Raises a
    ContractError that names the first row of the kind; if there are fewer, a warning does.

    Args:
        replies: How the template begins a reply; None without a template.
        ignored: `MARKERS` to leave out what the template tells; `response` or `prompt` not to compare ids with texts.
    """
    looked = [*zip(samples, encoded, strict=True)][:_ROWS]
    texts = [(sample, sample.response[:_ROWS]) for sample, _ in looked if sample.response][:_ROWS_OF_FILE]
    read = [(sample, misread(tokenizer, text)) for sample, text in texts]
    judge(read, "the tokenizer reads the response as {!r}", "give the tokenizer that the policy was trained with")
    for what in sorted({"prompt", "response"} - {*ignored}):
        files: dict[str, list] = {}
        for sample, row in zip(samples, encoded, strict=True):
            asked = sample.question if row.origin == "ids" else None
            beside = sample.response_beside if what == "response" else asked
            compared = files.setdefault(sample.where.rpartition(": ")[0], [])
            if beside:
                compared.append((sample, getattr(row, what), beside))
        advice = f"give the model whose tokenizer made them, or leave the text aside (--ignore {what})"
        for rows in files.values():
            spread = rows[:: len(rows) // _ROWS_OF_FILE + 1]
            compared = [(sample, _other(tokenizer, ids, text)) for sample, ids, text in spread]
            judge(compared, f"the ids of the {what} are not those of its text, but of {{!r}}", advice)
    if MARKERS in ignored:
        return
    otherwise = "has {}, as a text has that was written as JSON, HTML, Python's repr or names of tokens once too often"
    advice = f"give the text as the policy wrote or read it, or say that this is it (--ignore {MARKERS})"
    judge([(sample, _escaped(sample.response or "")) for sample, _ in looked], f"the response {otherwise}", advice)
    judge([(sample, _leaked(sample.asked or "")) for sample, _ in looked], f"the prompt {otherwise}", advice)
    if replies is None:
        return
    bare, ended, lacking, special = [], [], [], replies.special
    for sample, row in looked:
        end = sample.prompt.rstrip() if isinstance(sample.prompt, str) and row.origin in ("text", "chat") else ""
        told = replies.bare and (end.endswith(replies.bare) or (row.origin == "chat" and _ASKS.search(end)))
        bare.append((sample, end[-40:] if told else None))
        if not row.truncated:
            close = replies.opened(replies.ending(row)) or (replies.thinks if row.origin == "chat" else None)
            ended.append((sample, close if close and close not in tokenizer.decode(row.response) else None))
        if special and sample.response:
            lacks = row.origin != "text" and not any(token in sample.response for token in special)
            lacking.append((sample, " and ".join(special) if lacks else None))
    judge(
        bare,
        "the prompt is a chat without its special tokens, and not one that this template writes (it ends by {!r})",
        "give chats (messages) or exact ids (prompt_ids), what else the template was given (--template-field), or an "
        f"empty --template if the policy read texts alone; or --ignore {MARKERS} if it read this text in its template",
    )
    judge(
        ended,
        "the prompt lets the policy think, and the response never ends its thought ({} is missing)",
        "give whole responses with their thoughts, or exact ids; or say which were cut (--max-response-length), what "
        f"else the template was given (--template-field), or that the policy writes no more (--ignore {MARKERS})",
    )
    judge(
        lacking,
        "the text lacks the special tokens that the template writes in a reply ({})",
        f"give exact ids (response_ids), or texts with them; or say that the policy writes none (--ignore {MARKERS})",
    )


def check_unread(
    tokenizer: "PreTrainedTokenizerBase",
    samples: Sequence[Sample],
    encoded: Sequence[Encoded],
    values: Mapping[str, Any],
) -> None:
    """Refuse a row with a field that is not read, but whose name the template reads, with another of the `values` that
    it was given, or that has messages or a prompt whose words the policy's prompt lacks."""
    for sample, row in zip(samples, encoded, strict=True):
        if row.origin == "ids" or not sample.unread:
            continue
        given, asked = {**values, **(sample.template_fields or {})}, comparable(sample.question or "")
        for name, (outer, value) in sample.unread.items():
            told = name in values and (value or None) != (given[name] or None)
            texts = () if told else _asking(name, value, asked)
            if told or (texts and _not_in(tokenizer, texts, sample, row)):
                raise ContractError(
                    f"{sample.where}: the field {name!r} ({shown(value)}) may be a part of the prompt, and is not "
                    f"read; put it there (messages, chat_template_kwargs), or give --ignore {outer} if it is none"
                )


def _asking(name: str, value: Any, asked: str) -> list[str]:
    """The words of a field, if it has messages, is called a prompt or holds the question; otherwise none."""
    chat = isinstance(value, LISTS) and all(isinstance(one, Mapping) and {"role", "content"} <= {*one} for one in value)
    asking = [one for one in value if one["role"] != "assistant"] if chat else value
    texts = [*map(comparable, texts_in(asking))] if chat or isinstance(value, (str, *LISTS)) else []
    called = _PROMPT.fullmatch(name.lower()) and max((len(text.split()) for text in texts), default=0) >= _WORDS
    holds = len(asked.split()) >= _WORDS and any(asked in text for text in texts) and not _SOLVED.search(name.lower())
    return texts if chat or called or holds else []


def _not_in(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], sample: Sample, row: Encoded) -> bool:
    """Whether the prompt lacks one of these texts. Texts that hold the response, too, were read by somebody else."""
    said = comparable(sample.response or "")
    if len(said) >= _LONG and any(said in text != said for text in texts):
        return False
    read = [tokenizer.decode(row.prompt, skip_special_tokens=skipped) for skipped in (False, True)]
    whole = [said, *map(comparable, (*read, sample.asked or ""))]
    return any(all(text not in part for part in whole) for text in texts)


def _escaped(text: str) -> str | None:
    """An escape sequence in a text that lacks the character for which it stands, or how Python shows a text or the
    names of tokens; None if there is none."""
    if match := _SHOWN.fullmatch(text):
        return match[1]
    match = _ESCAPED.search(text)
    return match[0] if match and ("<" if match[0].startswith("&") else "\n") not in text else _leaked(text)


def _leaked(text: str) -> str | None:
    match = None if " " in text else _LEAKED.search(text)
    return match and match[0]


def judge(rows: Sequence[tuple[Sample, str | None]], problem: str, remedy: str, refuse: bool = True) -> None:
    """Refuse rows of which more than half have a problem, or warn of it; each comes with what it names, or None."""
    wrong = [(sample, what) for sample, what in rows if what is not None]
    if not wrong:
        return
    sample, what = wrong[0]
    among = f"{len(wrong):,} of {len(rows):,} rows{'' if refuse else ' here'}"
    said = f"{sample.where}: {problem.format(what[:60])}, as in {among}; {remedy}"
    if refuse and 2 * len(wrong) > len(rows):
        raise ContractError(said)
    logging.warning("%s", said)


def _other(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int], text: str) -> str | None:
    """The text of the ids if it differs from the text beside them, neither being a part of the other; else None."""
    whole = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    for said in (whole, tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)):
        ours, theirs = ("".join(comparable(words).split()) for words in (said, text))
        if ours in theirs or theirs in ours:
            return None
    return whole
