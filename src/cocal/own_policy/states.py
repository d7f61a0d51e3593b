"""From prompts and responses that somebody gives to token ids, to hidden states, and to confidences."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from cocal.companion.companions import Companions
from cocal.companion.settings import CompanionSettings, Target
from cocal.errors import ConfigError, ContractError
from cocal.features.extract import pooled_states
from cocal.features.store import Layout, decoded, encoded
from cocal.integrations.sample import Sample
from cocal.models.loading import Policy, Vocabulary
from cocal.models.text import check_tokens, render, template_fault
from cocal.own_policy.saved import About

Origin = Literal["ids", "chat", "template", "restored", "text"]
ORIGINS: dict[Origin, str] = {
    "ids": "exact token ids",
    "chat": "chats, put into the template",
    "template": "texts with chat markers, tokenised as they are",
    "restored": "texts without chat markers, which were put back",
    "text": "texts without a chat, tokenised as they are",
}
"""The sources of the ids of prompts, in words."""

BLOCK = 2048
"""Number of responses whose states are computed together, as `cocal features` does."""
ROWS = 4096
"""Number of responses that are scored together, as `cocal predictions` does; a multiple of `BLOCK`. With the same
numbers the same responses get the same confidences, to the last bit."""
_SYSTEM, _USER = "Systemwords", "Userwords"
"""Contents that show where a chat template puts the messages."""
_MARKER = re.compile(r"<\|[A-Za-z][\w ]*\|>|<(?:start|end)_of_turn>")
"""The form of chat markers in the templates of any model."""
_SENTENCE, _BEFORE, _FEW = 20, 100, 4
"""A prompt of so many characters that stands again in a response, after so many others at most, is told, and so is one
of more than so few tokens with which a response begins."""


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


@dataclass
class Encoder:
    """Turns samples into token ids; given ids are never changed.

    A text is tokenised anew, so its ids may differ from those that were sampled. A prompt's text is taken for one of
    four things: a template's text with its markers (`<|im_start|>` and the like), such a text without them (as verl and
    older versions of TRL write it), which is rendered again and compared, the whole text that the policy saw, or the
    message of a user.

    Rows that look as if they were not meant so, such as a response that begins with its prompt or a text with the chat
    markers of another model, are warned of, the first of each `encode` by its name.

    Attributes:
        policy: The language model, with its tokenizer, or what of it needs no weights.
        template: Chat template in place of the tokenizer's own; if empty, there is none, and prompts are plain text,
            which begins as the tokenizer begins texts.
        thinking: Whether chats are rendered in thinking mode, where the template knows it.
        max_response_length: Number of tokens from which on a response that does not say so counts as cut; if None,
            a text counts as complete, and ids as cut if they do not end with an end token.

    Raises:
        ContractError: if there is no chat template, or the one that is given is broken.
    """

    policy: Policy | Vocabulary
    template: str | None = None
    thinking: bool = False
    max_response_length: int | None = None

    def __post_init__(self):
        self._tokenizer = tokenizer = self.policy.tokenizer
        self._known: dict[tuple, tuple[np.ndarray, Origin]] = {}
        self._tokens = {*tokenizer.get_vocab()}
        self._ends, self._vocabulary = self.policy.ends, self.policy.vocabulary
        if self.template is None and tokenizer.chat_template is None:
            raise ContractError(
                f"{tokenizer.name_or_path}: the tokenizer has no chat template, with which the companion was fitted; "
                "give the tokenizer that it was fitted with"
            )
        if self.template and (reason := template_fault(tokenizer, self.template)):
            raise ContractError(
                f"the chat template of --template or of the companion's config.json is broken ({reason}); give another"
            )
        if not 0.95 * self._vocabulary <= len(tokenizer) <= self._vocabulary:
            logging.warning(
                "%s: the tokenizer has %s tokens, but the model's embedding has %s rows: is it the model's own?",
                *(tokenizer.name_or_path, f"{len(tokenizer):,}", f"{self._vocabulary:,}"),
            )

    def encode(self, samples: Sequence[Sample]) -> list[Encoded]:
        """The ids of every sample.

        Raises:
            ContractError: if an id is outside the vocabulary, a text has no token, or a chat ends with the assistant's
                reply or cannot be put into the template; the message names file and row.
        """
        self._known.clear()  # the responses to one prompt lie near each other
        texts = [sample.response for sample in samples if sample.response_ids is None]
        tokenised = iter(self._tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else [])
        found = [
            self._one(sample, next(tokenised) if sample.response_ids is None else sample.response_ids)
            for sample in samples
        ]
        self._warn(samples, found)
        return found

    def _warn(self, samples: Sequence[Sample], found: Sequence[Encoded]) -> None:
        """Name the first row of each kind that was hardly meant so."""
        repeated = [sample.where for sample, one in zip(samples, found, strict=True) if _repeats(sample, one)]
        strange = [(sample.where, mark) for sample in samples if (mark := self._strange(sample))]
        if repeated:
            logging.warning(
                "%s: the whole prompt stands again in the response, as in %s of %s rows here; give responses alone",
                *(repeated[0], f"{len(repeated):,}", f"{len(samples):,}"),
            )
        if strange:
            logging.warning(
                "%s: the text has the chat marker %s, which this model's tokenizer does not know, and %s of %s rows "
                "have such; do these texts come from this model?",
                *(*strange[0], f"{len(strange):,}", f"{len(samples):,}"),
            )

    def _strange(self, sample: Sample) -> str | None:
        """A marker in a text that is neither a token nor written by the template."""
        marks = {mark for text in (sample.asked, sample.response) for mark in _MARKER.findall(text or "")}
        written = str(self.template or self._tokenizer.chat_template)
        return min((mark for mark in marks if mark not in self._tokens and mark not in written), default=None)

    def _one(self, sample: Sample, response: Sequence[int]) -> Encoded:
        prompt, origin = self._prompt(sample)
        ids = np.asarray(response)
        if not len(ids):
            raise ContractError(f"{sample.where}: the response has no token; correct or delete the row")
        given, ended, truncated = sample.response_ids is not None, int(ids[-1]) in self._ends, sample.truncated
        if truncated is None:
            limit = self.max_response_length is not None and len(ids) >= self.max_response_length
            truncated = not ended and (limit or given)
        if not (given or truncated or ended):
            ids = np.append(ids, self._end)
        check_tokens(sample.where, prompt, ids, self._vocabulary)
        prompt, ids = (found.astype(np.int32, copy=False) for found in (prompt, ids))
        return Encoded(prompt, ids, truncated, origin, exact=given and origin == "ids")

    def _prompt(self, sample: Sample) -> tuple[np.ndarray, Origin]:
        if sample.prompt_ids is not None:
            return sample.prompt_ids, "ids"
        key = (repr(sample.prompt), sample.raw)
        if key not in self._known:
            text, origin = self._text(sample)
            ids = np.asarray(self._ids(text, whole=self.template == ""), dtype=np.int32)
            if not len(ids):
                raise ContractError(f"{sample.where}: the prompt has no token; correct or delete the row")
            self._known[key] = ids, origin
        return self._known[key]

    def _text(self, sample: Sample) -> tuple[str, Origin]:
        """The whole text of a prompt, and what it comes from."""
        prompt = sample.prompt
        if not isinstance(prompt, str):
            return self._chat(sample), "chat"
        if self.template == "":
            return prompt, "text"
        if self._markers and self._markers.search(prompt):
            return prompt, "template"
        for pattern, roles, thinking in self._forms:
            if match := pattern.fullmatch(prompt):
                text = self._rendered(_messages(roles, match.groups()), thinking)
                if self._plain(text) == prompt:
                    return text, "restored"
        if sample.raw:
            return prompt, "text"
        return self._rendered(_messages(["user"], [prompt]), self.thinking), "chat"

    def _chat(self, sample: Sample) -> str:
        if self.template == "":
            raise ContractError(
                f"{sample.where}: the prompt is a chat, but there is no chat template; give prompts that are texts, or "
                "a template when the companion is fitted (--template FILE)"
            )
        if sample.prompt[-1]["role"] == "assistant":
            raise ContractError(
                f"{sample.where}: the chat ends with the assistant's reply; give the messages before it as the prompt, "
                "and the reply as the response"
            )
        try:
            return self._rendered(sample.prompt, self.thinking)
        except Exception as error:  # templates are programs: some refuse a role, or two messages of one role
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ContractError(
                f"{sample.where}: the chat template refuses the chat ({reason}); correct or delete the row"
            ) from None

    @cached_property
    def _end(self) -> list[int]:
        """The token that ends a text, if there is any."""
        eos = self._tokenizer.eos_token_id
        return sorted(self._ends)[:1] if eos is None else [eos]

    @cached_property
    def _markers(self) -> re.Pattern | None:
        """The special tokens that open and close the messages of the template."""
        text = self._rendered(_messages(["user"], [_USER]), self.thinking)
        found = [token for token in self._tokenizer.all_special_tokens if token in text]
        return re.compile("|".join(map(re.escape, found))) if found else None

    @cached_property
    def _forms(self) -> list[tuple[re.Pattern, tuple[str, ...], bool]]:
        """Patterns of prompts whose special tokens were left out, with the roles of their messages and the mode."""
        forms = []
        for thinking in (self.thinking, not self.thinking):
            for roles, contents in ((("user",), [_USER]), (("system", "user"), [_SYSTEM, _USER])):
                try:
                    plain = self._plain(self._rendered(_messages(roles, contents), thinking))
                except Exception:  # templates are programs: some refuse a system message
                    continue
                if all(content in plain for content in contents):
                    pattern = re.escape(plain).replace(_SYSTEM, "(.*?)").replace(_USER, "(.*)")
                    forms.append((re.compile(pattern, re.DOTALL), roles, thinking))
        return forms

    def _rendered(self, messages: Sequence[Mapping[str, str]], thinking: bool) -> str:
        return render(self._tokenizer, messages, thinking, self.template)

    def _ids(self, text: str, whole: bool = False) -> list[int]:
        """The ids of a text; of a whole one, which no template has begun, as the tokenizer begins texts."""
        return self._tokenizer(text, add_special_tokens=whole)["input_ids"]

    def _plain(self, text: str) -> str:
        """A text without its special tokens, as `batch_decode` gives it."""
        return self._tokenizer.decode(self._ids(text), skip_special_tokens=True)


def _messages(roles: Sequence[str], contents: Sequence[str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in zip(roles, contents, strict=True)]


def _repeats(sample: Sample, found: Encoded) -> bool:
    """True if a response has its whole prompt near the beginning, which the policy would hardly have written."""
    asked = sample.prompt if isinstance(sample.prompt, str | None) else sample.prompt[-1]["content"]
    if sample.response and asked and len(asked) >= _SENTENCE and asked in sample.response[: len(asked) + _BEFORE]:
        return True
    prompt = found.prompt
    return _FEW < len(prompt) < len(found.response) and np.array_equal(found.response[: len(prompt)], prompt)


def states_of(policy: Policy, about: About, rows: Sequence[Encoded], batch_tokens: int) -> np.ndarray:
    """Pooled states of responses, float32 (n, inputs), from teacher-forced passes over `BLOCK` of them at a time."""
    spec, found = about.spec, [np.empty((0, about.spec.inputs), dtype=np.float32)]
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        layout = Layout(len(block), (spec.layer,), spec.poolings, policy.hidden, len(block), about.states)
        prompts, responses = [row.prompt for row in block], [row.response for row in block]
        found.append(pooled_states(policy, layout, prompts, responses, batch_tokens).reshape(len(block), -1))
    return np.concatenate(found)


def confidences(
    companions: Companions, about: About, states: np.ndarray, target: Target | None = None, seed: int | None = None
) -> np.ndarray:
    """Confidences of responses, float64 (n,): the mean over the seeds of one target, or those of one seed.

    Raises:
        ConfigError: if there is no such target or seed.
        ContractError: if the states have another width.
    """
    targets, seeds = about.spec.settings.targets, about.spec.settings.seeds
    target = target or default_target(about.spec.settings)
    if target not in targets:
        raise ConfigError(f"the companion has no target {target!r}; it was fitted for {', '.join(targets)}")
    if seed is not None and seed not in seeds:
        raise ConfigError(f"the companion has no seed {seed}; it has {', '.join(map(str, seeds))}")
    chosen = [k for k, member in enumerate(companions.members) if member[0] == target and seed in (None, member[1])]
    states = np.ascontiguousarray(states, dtype=np.float32)
    rounded = decoded(encoded(states, about.states), about.states)
    parts = [companions.predict(rounded[k : k + ROWS])[chosen] for k in range(0, len(rounded), ROWS)]
    return np.concatenate([np.empty((len(chosen), 0)), *parts], axis=1).mean(axis=0)


def default_target(settings: CompanionSettings) -> Target:
    """The target that is scored where none is named: binary, if it was fitted."""
    return "binary" if "binary" in settings.targets else settings.targets[0]
