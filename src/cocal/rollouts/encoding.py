"""Conversion of given prompts and responses to token ids."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cocal.errors import ConfigError, ContractError, first_line
from cocal.models.loading import Policy, Vocabulary
from cocal.models.text import check_tokens, render, template_fault, template_fields, turn_end, writes
from cocal.rollouts.format import Reading
from cocal.rollouts.padding import Padding
from cocal.rollouts.replies import MARKERS, Replies, compare, escaped, foreign, judge, leaked
from cocal.rollouts.sample import Encoded, Origin, Sample
from cocal.rollouts.unread import check_unread

BLOCK, ROWS = 2048, 4096
"""Numbers of responses whose states are computed together, and that are scored together: those of `cocal features` and
`cocal predictions`, so that the same responses get the same confidences, to the last bit."""
_SYSTEM, _USER = "Systemwords", "Userwords"
"""Contents that show where a chat template puts the messages."""
_SENTENCE, _BEFORE = 20, 100
"""Least length, in characters, of a prompt that its response repeats, and largest number of characters before it."""
_FEW = 4
"""Number of tokens beyond which a prompt that its response begins with, or a response that ends it, is noticed."""
_CLOSELY = 512
"""Number of rows of a block whose whole responses are examined."""
_HEADED = 16
"""Number of tokens at the beginning of a response among which the prompt's own end is looked for."""

_REPEATED, _HELD = "the response begins with the whole prompt", "the prompt ends with the whole response"
_WITHIN = "the whole prompt stands again in the response"
_FOREIGN = "the text has the chat marker {}, which this model's tokenizer lacks"
_ONCE_MORE = "as a text has that was written as JSON, HTML, Python's repr or names of tokens once too often"
_HEADER = "the response begins with {!r}, which ends the prompt already"
_RENDERED = "a message has the chat marker {}, and is put into the template once more"
_BARE = "the prompt ends by {!r}, and not as the chat template begins a reply"
_THINKS = "the response thinks, but the prompt is rendered without thinking (it has {}); give {}"
_UNMARKED = "the prompt is a chat without its special tokens, and not one that this template writes (it ends by {!r})"
_UNENDED = "the prompt lets the policy think, and the response never ends its thought ({} is missing)"
_LACKING = "the text lacks the special tokens that the template writes in a reply ({})"
"""Problems of rows; the braces stand for the part of the row that has the problem."""


@dataclass
class Encoder:
    """Turns samples into token ids; nothing but padding is removed from given ids.

    A response ends with a token that the checkpoint's settings, its tokenizer or the chat template names. Texts are
    tokenised. One without such a token counts as truncated if other texts have one; otherwise it gets the token that
    ends a turn in the template, or the tokenizer's own after a prompt of plain text.

    A prompt's text is taken for one of four things: a template's text with its markers (`<|im_start|>` and the like),
    such a text without them (as verl writes it), which is rendered again and compared, the whole text that the policy
    saw, or the message of a user. A missing or broken template is a ContractError; odd rows are logged as warnings.
    """

    policy: Policy | Vocabulary
    """The language model with its tokenizer, or only the parts that need no weights (`Vocabulary`)."""
    reading: Reading = field(default_factory=Reading)
    """How responses are read."""

    def __post_init__(self):
        self._tokenizer = tokenizer = self.policy.tokenizer
        self._untemplated = self.reading.template == ""
        self._written = str(tokenizer.chat_template if self.reading.template is None else self.reading.template)
        self._reads = template_fields(self._written)
        """The chat template, as it is written, and the names of the values that it reads."""
        self.values: dict[str, Any] = {"enable_thinking": self.reading.thinking, **self.reading.template_fields}
        """What the template is given beside messages and tools."""
        self._known: dict[tuple, tuple[np.ndarray, Origin]] = {}
        self._tokens, self._texts_end = {*tokenizer.get_vocab()}, False
        self._told: set[str] = set()  # problems that were warned of
        if self.reading.template is None and tokenizer.chat_template is None:
            raise ContractError(
                f"{tokenizer.name_or_path}: the tokenizer has no chat template, with which the companion was fitted; "
                "give the tokenizer that it was fitted with"
            )
        if self.reading.template and (reason := template_fault(tokenizer, self.reading.template)):
            raise ContractError(
                f"the chat template of --template or of the companion's config.json is broken ({reason}); give another"
            )
        end = turn_end(tokenizer, self.policy.ends, self.reading.template)
        self._ends = self.policy.ends if end is None else self.policy.ends | {end}
        self._end = sorted(self._ends)[:1] if end is None else [end]
        if "strftime_now" in self._written:
            logging.warning(
                "the chat template writes the day, for which today is taken; if responses were sampled on another day, "
                "give exact ids (prompt_ids)"
            )

    def check_wishes(self) -> None:
        """Raise a ConfigError if the template does not read the thinking mode or the values that are given."""
        names = [name for name in self._reads if name != "enable_thinking"]
        instead = f"; it reads {', '.join(names)} (--template-field NAME=VALUE)" if names else ""
        if self.reading.thinking and not (self._replies and self._replies.knows_thinking):
            raise ConfigError(f"--thinking changes nothing in this chat template{instead}; leave it out")
        for name in self.reading.template_fields:
            if not re.search(rf"\b{re.escape(name)}\b", self._written):
                raise ConfigError(f"--template-field {name}: the chat template reads no such value{instead}")

    def encode(self, samples: Sequence[Sample], strict: bool = False) -> list[Encoded]:
        """The ids of every sample. If `strict`, rows are refused if most are odd in the same way (`judge`). Raises a
        ContractError that names file and row if an id is outside the vocabulary, a text has no token or more than the
        model reads, or a chat ends with the assistant's reply or cannot be put into the template."""
        self._known.clear()  # the responses to one prompt lie near each other
        texts = [sample.written for sample in samples if sample.response_ids is None]
        tokenised = iter(self._tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else [])
        responses = []
        for sample in samples:
            ids = np.asarray(next(tokenised) if sample.response_ids is None else sample.response_ids)
            if not len(ids):
                raise ContractError(f"{sample.where}: the response has no token; correct or delete the row")
            responses.append(self._padding.response(ids, sample.truncated, sample.where))
        self._texts_end |= any(
            ids[-1] in self._ends for sample, ids in zip(samples, responses, strict=True) if sample.response_ids is None
        )
        encoded = [self._one(sample, ids) for sample, ids in zip(samples, responses, strict=True)]
        if strict:
            check_unread(self._tokenizer, samples, encoded, {n: self.values.get(n) for n in self._reads})
            compare(self._tokenizer, samples, encoded, self.reading.ignored, self._told)
        odd: dict[str, list[tuple[Sample, str | None]]] = {}
        for place, (sample, row) in enumerate(zip(samples, encoded, strict=True)):
            for problem, what in self._odd(sample, row, place < _CLOSELY).items():
                odd.setdefault(problem, []).append((sample, what))
        for problem, rows in odd.items():
            about = "prompt" if problem in (_REPEATED, _WITHIN, _HELD) else MARKERS
            if about not in self.reading.ignored:
                judge(rows, problem, about, self._told, strict and problem not in (_WITHIN, _BARE))
        return encoded

    def forget(self) -> None:
        """Treat the next rows as the first: they come from a new sender."""
        self._texts_end = False
        self._told.clear()

    def _odd(self, sample: Sample, row: Encoded, closely: bool) -> dict[str, str | None]:
        """The problems that a row may have, each with the part of the row that has it, or None; `closely` includes
        those for which the whole response is examined."""
        said, asked, question = (text or "" for text in (sample.response, sample.asked, sample.question))
        chat, replies = row.origin == "chat", self._replies
        found = {
            _REPEATED: "" if _repeats(sample, row) else None,
            _WITHIN: "" if len(question) >= _SENTENCE and question in said[: len(question) + _BEFORE] else None,
            _HELD: "" if _holds(row) else None,
            _FOREIGN: min(foreign(sample, self._written) - self._tokens, default=None),
            f"the prompt has {{}}, {_ONCE_MORE}": leaked(asked),
        }
        if closely:
            found[f"the response has {{}}, {_ONCE_MORE}"] = escaped(said)
        if not replies:
            return found
        end, begun = replies.ending(row), said or self._tokenizer.decode(row.response[:_HEADED])
        within = self._markers.search(asked) if self._markers and chat else None
        bare = row.origin in ("ids", "template") and not any(text.strip() in end for text in self._headers)
        unopened = replies.unopened(sample, row) if row.origin in ("chat", "restored") else None
        lacks = said and row.origin != "text" and not any(token in said for token in replies.special)
        if closely:
            close = replies.opened(end) or (replies.thinks if chat else None)
            unended = close and not row.truncated and close not in self._tokenizer.decode(row.response)
            found[_UNENDED] = close if unended else None
        return found | {
            _HEADER: next((text for text in self._headers if begun.startswith(text)), None),
            _RENDERED: within and within[0],
            _BARE: end[-30:] if bare and self._headers else None,
            _UNMARKED: replies.plain(sample.prompt, row) if isinstance(sample.prompt, str) else None,
            _THINKS.format("{}", self._mode): unopened,
            _LACKING: " and ".join(replies.special) or None if lacks else None,
        }

    def _one(self, sample: Sample, ids: np.ndarray) -> Encoded:
        prompt, origin = self._prompt(sample)
        given, ended, truncated = sample.response_ids is not None, int(ids[-1]) in self._ends, sample.truncated
        told = sample.tells_truncated or self._texts_end
        if truncated is None:
            limit = self.reading.max_response_length
            truncated = not ended and (told if limit is None else len(ids) >= limit)
        if not (given or truncated or ended):
            plain = origin == "text" and MARKERS not in self.reading.ignored  # no template has begun such a reply
            own = self._tokenizer.eos_token_id if plain else None
            end = self._end if own is None else [own]
            ids = np.append(ids, end if sample.ended_by is None else sample.ended_by).astype(ids.dtype)
        check_tokens(sample.where, prompt, ids, self.policy.vocabulary)
        context, length = self.policy.context, len(prompt) + len(ids)
        if context is not None and length > context:
            raise ContractError(
                f"{sample.where}: prompt and response have {length:,} tokens, and the model reads {context:,} "
                "(max_position_embeddings, --max-model-len of a server); delete the row, or give the settings with "
                "which such answers were sampled"
            )
        prompt, ids = (tokens.astype(np.int32, copy=False) for tokens in (prompt, ids))
        return Encoded(prompt, ids, truncated, origin, exact=given and origin == "ids", told=told)

    def _prompt(self, sample: Sample) -> tuple[np.ndarray, Origin]:
        if sample.prompt_ids is not None:
            return self._padding.prompt(sample.prompt_ids, sample.where), "ids"
        key = (repr(sample.prompt), sample.raw, repr(sample.tools), repr(sample.template_fields))
        if key not in self._known:
            text, origin = self._text(sample)
            ids = np.asarray(self._ids(text, whole=origin in ("text", "template")), dtype=np.int32)
            if not len(ids):
                raise ContractError(f"{sample.where}: the prompt has no token; correct or delete the row")
            if origin == "template":
                ids = self._padding.prompt(ids, sample.where)
            self._known[key] = ids, origin
        return self._known[key]

    def _text(self, sample: Sample) -> tuple[str, Origin]:
        """The whole text of a prompt, and what it comes from."""
        prompt = sample.prompt
        if not isinstance(prompt, str):
            return self._chat(sample, prompt or ()), "chat"
        if self._untemplated:
            return prompt, "text"
        if self._markers and self._markers.search(prompt):
            return prompt, "template"
        for pattern, roles, thinking in self._forms:
            if match := pattern.fullmatch(prompt):
                for messages in self._readings(_messages(roles, match.groups()), thinking):
                    text = self._rendered(messages, thinking)
                    if self._plain(text) == prompt:
                        return text, "restored"
        if sample.raw or self.reading.raw:
            return prompt, "text"
        return self._chat(sample, _messages(["user"], [prompt])), "chat"

    def _chat(self, sample: Sample, messages: Sequence[Mapping[str, Any]]) -> str:
        roles = {message["role"] for message in messages} - {*self.reading.ignored}
        if self._untemplated:
            wrong = "the prompt is a chat, but there is no chat template; give texts, or fit with one (--template FILE)"
        elif messages[-1]["role"] == "assistant":
            wrong = (
                "the chat ends with the assistant's reply; give that as the response, or leave it (--ignore messages)"
            )
        elif left := [role for role in sorted(roles) if not writes(self._tokenizer, role, self._written)]:
            wrong = f"the template leaves out what the {left[0]} says; give prompt_ids, or --ignore {left[0]}"
        else:
            tools = {"tools": sample.tools} if sample.tools else {}
            try:
                return self._rendered(messages, self.reading.thinking, {**(sample.template_fields or {}), **tools})
            except Exception as error:  # templates are programs: some refuse a role, or two messages of one role
                wrong = f"the chat template refuses the chat ({first_line(error)}); correct or delete the row"
        raise ContractError(f"{sample.where}: {wrong}")

    @cached_property
    def _padding(self) -> Padding:
        tokenizer = self._tokenizer
        prompt = "" if self._untemplated else self._asking
        begins = {tokenizer.bos_token_id, *self._ids(prompt, whole=not prompt)[:1]} - {None}
        added = tokenizer.added_tokens_decoder.items()  # a training may have chosen another of them than is named
        pads = {tokenizer.pad_token_id, *(number for number, token in added if "pad" in str(token).lower())} - {None}
        return Padding(pads, self._ends, begins, self._ids("\n"))

    @cached_property
    def _replies(self) -> Replies | None:
        if self._untemplated:
            return None
        return Replies(self._tokenizer, self._written, self._tried, self.reading.thinking)

    @cached_property
    def _mode(self) -> str:
        """What lets the template think, in words."""
        if self._replies and self._replies.knows_thinking:
            return "--thinking"
        names = ", ".join(self._reads)
        return f"--template-field NAME=VALUE (it reads {names})" if names else "exact ids (prompt_ids)"

    @cached_property
    def _asking(self) -> str:
        """A message of a user, as the template writes it."""
        return self._rendered(_messages(["user"], [_USER]), self.reading.thinking)

    @cached_property
    def _begin(self) -> list[int]:
        """The ids with which the tokenizer begins texts."""
        begun, alone = (self._tokenizer(_USER, add_special_tokens=more)["input_ids"] for more in (True, False))
        return next((begun[:k] for k in range(len(begun)) if begun[k : k + len(alone)] == alone), [])

    @cached_property
    def _markers(self) -> re.Pattern | None:
        """The special tokens that open and close the messages of the template, and other tokens that open them."""
        markers = [token for token in self._tokenizer.all_special_tokens if token in self._asking]
        added = (str(token) for token in self._tokenizer.added_tokens_decoder.values())
        markers += [token for token in added if token.strip() and token in self._asking.partition(_USER)[0]]
        return re.compile("|".join(map(re.escape, markers))) if markers else None

    @cached_property
    def _headers(self) -> list[str]:
        """The texts that the template writes between a message and the response, in both modes, and what follows each
        beginning of a line or marker in them, the longest first."""
        texts = [self._rendered(_messages(["user"], [_USER]), mode) for mode in (True, False)]
        ends = [text.rpartition(_USER)[2] for rendered in texts for text in (rendered, self._plain(rendered))]
        starts = re.compile(f"^|{self._markers.pattern}" if self._markers else "^", re.MULTILINE)
        headers = {end[match.start() :] for end in ends for match in starts.finditer(end)}
        return sorted((text for text in headers if re.search(r"\w", text)), key=len, reverse=True)

    def _readings(self, messages: list[dict[str, str]], thinking: bool) -> Iterator[list[dict[str, str]]]:
        """The chats that a text without special tokens may come from. If the last message has what the template writes
        between turns, it is first split into these turns; then the messages are given as they are."""
        talk = _messages(["user", "assistant", "user"], [_USER, _SYSTEM, _USER])
        _, _, rest = self._plain(self._tried(talk, thinking)).partition(_USER)
        asked, _, rest = rest.partition(_SYSTEM)
        replied = rest.partition(_USER)[0]
        if asked.strip() and replied.strip():
            parts = re.split(f"({re.escape(asked)}|{re.escape(replied)})", messages[-1]["content"])
            if len(parts) > 1 and parts[1::2] == [asked, replied] * (len(parts) // 4):
                roles = ["user", "assistant"] * (len(parts) // 4) + ["user"]
                yield [*messages[:-1], *_messages(roles, parts[::2])]
        yield messages

    @cached_property
    def _forms(self) -> list[tuple[re.Pattern, tuple[str, ...], bool]]:
        """Patterns of prompts whose special tokens were left out, with the roles of their messages and the mode."""
        forms = []
        for thinking in (self.reading.thinking, not self.reading.thinking):
            for roles, contents in ((("user",), [_USER]), (("system", "user"), [_SYSTEM, _USER])):
                plain = self._plain(self._tried(_messages(roles, contents), thinking))
                if all(content in plain for content in contents):
                    pattern = re.escape(plain).replace(_SYSTEM, "(.*?)").replace(_USER, "(.*)")
                    forms.append((re.compile(pattern, re.DOTALL), roles, thinking))
        return forms

    def _tried(self, messages: Sequence[Mapping[str, Any]], thinking: bool) -> str:
        """The text of a chat; empty where the template refuses a reply, one in parts, or a system message."""
        try:
            return self._rendered(messages, thinking)
        except Exception:  # templates are programs
            return ""

    def _rendered(self, messages: Sequence[Mapping[str, Any]], thinking: bool, fields: Any = None) -> str:
        fields = {**self.reading.template_fields, **(fields or {})}
        return render(self._tokenizer, messages, thinking, self.reading.template, fields)

    def _ids(self, text: str, whole: bool = False) -> list[int]:
        """The ids of a text. If it is whole, those with which the tokenizer begins texts come first, but not twice."""
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*self._begin, *ids] if whole and not {*self._begin} <= {*ids} else ids

    def _plain(self, text: str) -> str:
        """A text without its special tokens, as `batch_decode` gives it."""
        return self._tokenizer.decode(self._ids(text), skip_special_tokens=True)


def _messages(roles: Sequence[str], contents: Sequence[str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in zip(roles, contents, strict=True)]


def _repeats(sample: Sample, row: Encoded) -> bool:
    """True if a response begins with its prompt, which a policy may do now and then, but not mostly."""
    if sample.response and sample.asked:
        return sample.response.startswith(sample.asked)
    count = len(row.prompt)
    return _FEW < count < len(row.response) and np.array_equal(row.response[:count], row.prompt)


def _holds(row: Encoded) -> bool:
    """True if a prompt ends with its response, with at most an end token and a line's end behind it."""
    said = row.response[: None if row.truncated else -1].tolist()
    end = row.prompt[-len(said) - 2 :].tolist()
    return len(said) > _FEW and any(end[: len(end) - behind][-len(said) :] == said for behind in range(3))
