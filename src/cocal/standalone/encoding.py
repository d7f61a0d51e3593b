"""Token ids of prompts and responses that somebody gives as ids, chats or texts."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from cocal.errors import ContractError
from cocal.integrations.sample import Sample

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Origin = Literal["ids", "chat", "template", "restored", "text"]
ORIGINS: dict[Origin, str] = {
    "ids": "exact token ids",
    "chat": "chats, put into the tokenizer's template",
    "template": "texts with chat markers, tokenised as they are",
    "restored": "texts without chat markers, which were put back",
    "text": "texts without a chat, tokenised as they are",
}
"""What the ids of prompts come from, in words."""

_SYSTEM, _USER = "Systemwords", "Userwords"
"""Contents that show where a chat template puts the messages."""


class Encoded(NamedTuple):
    """A response as the policy reads it.

    Attributes:
        prompt: int32 (n,), prompt tokens.
        response: int32 (length,), response tokens, with the end token unless the response was cut.
        truncated: Whether the response was cut at the length limit.
        origin: What the prompt's ids come from.
        exact: Whether both prompt and response were given as ids.
    """

    prompt: np.ndarray
    response: np.ndarray
    truncated: bool
    origin: Origin
    exact: bool


class Encoder:
    """Turns samples into token ids; given ids are never changed.

    A text is tokenised anew, so its ids may differ from those that were sampled. A prompt's text is taken for one of
    four things: a template's text with its markers (`<|im_start|>` and the like), such a text without them (as verl and
    older versions of TRL write it), which is rendered again and compared, the whole text that the policy saw, or the
    message of a user.

    Args:
        tokenizer: Tokenizer of the policy, with a chat template.
        vocabulary: Number of rows of the policy's embedding.
        ends: Token ids that end a response.
        thinking: Whether chats are rendered in thinking mode, where the template knows it.
        max_response_length: Number of tokens from which on a response that does not say so counts as cut; if None,
            a text counts as complete, and ids as cut if they do not end with an end token.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        vocabulary: int,
        ends: frozenset[int],
        *,
        thinking: bool = False,
        max_response_length: int | None = None,
    ):
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._ends = ends
        self._thinking = thinking
        self.max_response_length = max_response_length
        self._known: dict[tuple, tuple[np.ndarray, Origin]] = {}

    def encode(self, samples: Sequence[Sample]) -> list[Encoded]:
        """The ids of every sample.

        Raises:
            ContractError: if an id is outside the vocabulary, or a text has no token; the message names file and row.
        """
        self._known.clear()  # the responses to one prompt lie near each other
        texts = [sample.text for sample in samples if sample.response_ids is None]
        tokenised = iter(self._tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else [])
        return [
            self._one(sample, next(tokenised) if sample.response_ids is None else sample.response_ids)
            for sample in samples
        ]

    def _one(self, sample: Sample, response: Sequence[int]) -> Encoded:
        prompt, origin = self._prompt(sample)
        ids = np.asarray(response, dtype=np.int32)
        if not len(ids):
            raise ContractError(f"{sample.where}: the response has no token; correct or delete the row")
        ended, truncated = int(ids[-1]) in self._ends, sample.truncated
        if truncated is None:
            limit = self.max_response_length is not None and len(ids) >= self.max_response_length
            truncated = not ended and (limit or sample.response_ids is not None)
        if sample.response_ids is None and not truncated and not ended:
            ids = np.append(ids, np.int32(self._tokenizer.eos_token_id))
        for name, found in (("prompt", prompt), ("response", ids)):
            outside = np.flatnonzero((found < 0) | (found >= self._vocabulary))
            if len(outside):
                raise ContractError(
                    f"{sample.where}: {name} token {outside[0]} is {found[outside[0]]}, outside the model's vocabulary "
                    f"of {self._vocabulary}; give the model that these responses come from"
                )
        return Encoded(prompt, ids, bool(truncated), origin, origin == "ids" and sample.response_ids is not None)

    def _prompt(self, sample: Sample) -> tuple[np.ndarray, Origin]:
        if sample.prompt_ids is not None:
            return np.asarray(sample.prompt_ids, dtype=np.int32), "ids"
        chat = sample.messages and tuple((message["role"], message["content"]) for message in sample.messages)
        key = (chat or sample.prompt, sample.raw)
        if key not in self._known:
            text, origin = self._text(sample)
            ids = np.asarray(self._ids(text), dtype=np.int32)
            if not len(ids):
                raise ContractError(f"{sample.where}: the prompt has no token; correct or delete the row")
            self._known[key] = ids, origin
        return self._known[key]

    def _text(self, sample: Sample) -> tuple[str, Origin]:
        """The whole text of a prompt, and what it comes from."""
        if sample.messages is not None:
            return self._rendered(sample.messages, self._thinking), "chat"
        prompt = sample.prompt
        if self._markers and self._markers.search(prompt):
            return prompt, "template"
        for pattern, roles, thinking in self._forms:
            if match := pattern.fullmatch(prompt):
                chat = [{"role": role, "content": text} for role, text in zip(roles, match.groups(), strict=True)]
                text = self._rendered(chat, thinking)
                if self._plain(text) == prompt:
                    return text, "restored"
        if sample.raw:
            return prompt, "text"
        return self._rendered([{"role": "user", "content": prompt}], self._thinking), "chat"

    @cached_property
    def _markers(self) -> re.Pattern | None:
        """The special tokens that open and close the messages of the template."""
        text = self._rendered([{"role": "user", "content": _USER}], self._thinking)
        found = [token for token in self._tokenizer.all_special_tokens if token in text]
        return re.compile("|".join(map(re.escape, found))) if found else None

    @cached_property
    def _forms(self) -> list[tuple[re.Pattern, tuple[str, ...], bool]]:
        """What prompts look like whose special tokens were left out, with the roles of their messages."""
        forms = []
        for thinking in (self._thinking, not self._thinking):
            for roles in (("user",), ("system", "user")):
                contents = [_SYSTEM, _USER][-len(roles) :]
                chat = [{"role": role, "content": text} for role, text in zip(roles, contents, strict=True)]
                try:
                    plain = self._plain(self._rendered(chat, thinking))
                except Exception:  # templates are programs: some refuse a system message
                    continue
                pattern = re.escape(plain)
                for content in contents:
                    pattern = pattern.replace(content, "(.*?)" if content == _SYSTEM else "(.*)")
                if all(content in plain for content in contents):
                    forms.append((re.compile(pattern, re.DOTALL), roles, thinking))
        return forms

    def _rendered(self, messages: Sequence[Mapping[str, str]], thinking: bool) -> str:
        return self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            add_generation_prompt=True,
            enable_thinking=thinking,
            tokenize=False,
        )

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]

    def _plain(self, text: str) -> str:
        """A text without its special tokens, as `batch_decode` gives it."""
        return self._tokenizer.decode(self._ids(text), skip_special_tokens=True)
