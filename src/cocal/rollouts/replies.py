"""Checks of texts against the replies that the template writes: most must have the beginning and end of their thoughts
and the special tokens, and must be the texts of the ids beside them."""

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.models.text import comparable, misread
from cocal.rollouts.sample import Encoded, Sample

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
_THINKS = re.compile("think|thought|reason|channel", re.IGNORECASE)
_THOUGHTS = (
    *({name: _THOUGHT, "content": _REPLIED} for name in ("reasoning_content", "reasoning", "thinking")),
    {"content": [{"type": "thinking", "thinking": _THOUGHT}, {"type": "text", "text": _REPLIED}]},
)
"""Replies with a thought, as templates take them."""
_ASKS = re.compile(r"\bassistant:\s*(?:[^\n]*\s*<think>\s*)?$|### ?(?:response|assistant|answer):\s*$", re.IGNORECASE)
"""The end of a prompt that was made of a chat by hand."""
_LAST, _NEAR = 24, 30
"""Tokens at the end of a prompt, and characters after a marker there, within which the marker opens the response."""
_ESCAPED = re.compile(r"\\n(?![a-z])|\\u[0-9a-f]{4}|&(?:lt|gt|amp|quot|#\d+);")
"""Escape sequences of texts that were written as JSON or HTML once too often; LaTeX's commands have small letters."""
_LEAKED = re.compile(r"[ĠĊ]|▁(?![\w▁]*[|｜]>)")
"""Characters that stand for white space in the names of tokens, except in those of markers."""
_SHOWN = re.compile(r"""\s*(\[(['"])|b(['"]))(?:\\.|(?!\2|\3).)*(?:\2\]|\3)\s*""", re.DOTALL)
"""A text in a list, or as bytes, in the form of Python's repr."""
_FEW, _BEGINNING = 8, 512
"""Number of responses that the tokenizer must reproduce, and of a file's rows whose ids are compared with their texts;
and number of leading characters of these responses."""


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
    role, or that end it and close nothing that the template or the response has opened."""
    text = (sample.response or "").rstrip()
    closes = {*map(_closes, _OPENING.findall(template + text))}
    found = [(mark[0], text[mark.end() :]) for mark in _MARKER.finditer(text)]
    ends = {mark for mark, rest in found if _ROLES.match(rest) or not (rest or mark in closes)}
    return {*_MARKER.findall(sample.asked or ""), *ends}


class Replies:
    """How a template begins a reply.

    Args:
        tokenizer, template: The template as it is written, and its tokenizer.
        render, thinking: Function that renders a chat up to a reply in a mode, empty where the template refuses the
            chat; the mode of the prompts.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", template: str, render: Callable[[Any, bool], str], thinking: bool
    ):
        self._tokenizer, self._render = tokenizer, render
        asked = [{"role": "user", "content": _ASKED}]
        own, other = (render(asked, mode) for mode in (thinking, not thinking))
        tails = [text.rpartition(_ASKED)[2] for text in (own, other)]
        self.knows_thinking, self._before, self._tail = own != other, own.partition(_ASKED)[0], tails[0]
        self._head = self._behind({"content": _REPLIED}).partition(_REPLIED)[0]
        self.closing = sorted(close for close in _closings(template + "".join(tails)) if _THINKS.search(close))
        """Markers that may end a thought, which another switch of the template may begin."""
        ended = (close for close in self.closing if close in tails[1] and close not in tails[0])
        self.thinks = next(ended, None) if thinking else None
        """The marker that ends the thought with which a reply in thinking mode begins; None in the other mode."""

    def opened(self, end: str) -> str | None:
        """The marker that closes the thought or channel that the end of a prompt opens; None if it opens none."""
        for match in _OPENING.finditer(end):
            close = _closes(match[0]) if _THINKS.search(match[0]) else None
            if close and close not in end[match.end() :] and len(end) - match.end() <= _NEAR:
                return close
        return None

    def ending(self, row: Encoded) -> str:
        """The text of a prompt's last tokens."""
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

    def plain(self, prompt: str, row: Encoded) -> str | None:
        """The end of a prompt that is a chat without its special tokens; None for any other prompt."""
        end, chat = prompt.rstrip(), row.origin == "chat"
        asks = self.bare and (end.endswith(self.bare) or (chat and _ASKS.search(end)))
        return end[-40:] if asks and (chat or row.origin == "text") else None

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
        text = self._render([{"role": "user", "content": _ASKED}, {"role": "assistant", **reply}], False)
        return text.partition(_ASKED)[2] if _REPLIED in text else ""


def compare(
    tokenizer: "PreTrainedTokenizerBase",
    samples: Sequence[Sample],
    encoded: Sequence[Encoded],
    ignored: Collection[str],
    told: set[str],
) -> None:
    """Check that the tokenizer reproduces texts, and that ids are those of the texts beside them unless `response` or
    `prompt` is ignored. Raises a ContractError that names the first wrong row of a file if most are wrong. Problems
    that were `told` are not warned of again."""
    texts = [(sample, sample.response[:_BEGINNING]) for sample in samples[:_FEW] if sample.response]
    read = [(sample, misread(tokenizer, text)) for sample, text in texts]
    judge(read, "the tokenizer reads the response as {!r}, and is not the policy's", MARKERS, told)
    for what in sorted({"prompt", "response"} - {*ignored}):
        for _, rows in groupby(zip(samples, encoded, strict=True), lambda pair: pair[0].where.rpartition(": ")[0]):
            beside = [
                (s, r, s.response_beside if what == "response" else s.question if r.origin == "ids" else None)
                for s, r in rows
            ]
            spread = beside[:: len(beside) // _FEW + 1]
            compared = [(s, _other(tokenizer, getattr(r, what), text)) for s, r, text in spread if text]
            judge(compared, f"the ids of the {what} are not those of its text, but of {{!r}}", what, told)


def escaped(text: str) -> str | None:
    """An escape sequence in a text that lacks the character for which it stands, or a sign of Python's repr or of names
    of tokens; None if there is none."""
    if match := _SHOWN.fullmatch(text):
        return match[1]
    match = _ESCAPED.search(text)
    return match[0] if match and ("<" if match[0].startswith("&") else "\n") not in text else leaked(text)


def leaked(text: str) -> str | None:
    match = None if " " in text else _LEAKED.search(text)
    return match and match[0]


def judge(
    rows: Sequence[tuple[Sample, str | None]], problem: str, about: str, told: set[str], refuse: bool = True
) -> None:
    """Refuse rows of which more than half have a problem, or log a warning if it was not `told` before; each row comes
    with the part that has it, or None. `about` is the word by which `--ignore` skips the check."""
    wrong = [(sample, what) for sample, what in rows if what is not None]
    if not wrong:
        return
    sample, what = wrong[0]
    said = (
        f"{sample.where}: {problem.format(what[:60])}, as in {len(wrong):,} of {len(rows):,} rows; give what this "
        "model read and wrote, each alone, with thoughts and markers (best prompt_ids and response_ids), say what its "
        f"template was given (--thinking, --template-field, --template), or that this is right (--ignore {about})"
    )
    if refuse and 2 * len(wrong) > len(rows):
        raise ContractError(said)
    if problem not in told:
        logging.warning("%s", said)
    told.add(problem)


def _other(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int], text: str) -> str | None:
    """The text of the ids if it differs from the text beside them, neither being a part of the other; else None."""
    whole = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    for said in (whole, tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)):
        ours, theirs = ("".join(comparable(words).split()) for words in (said, text))
        if ours in theirs or theirs in ours:
            return None
    return whole
