"""Texts and token ids: chats and their templates, conversion, and batches of texts of similar lengths."""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cocal.errors import ContractError, first_line
from cocal.store import read_document

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Tokens = Sequence[int] | np.ndarray
_OPEN = None, "PreTrainedTokenizerFast", "TokenizersBackend"
"""Tokenizer classes (or None) that only load `tokenizer.json`; for some models transformers chooses another anyway."""
BY_FILE = 'let the file decide by "tokenizer_class": "PreTrainedTokenizerFast" in tokenizer_config.json'
"""Advice if the tokenizer's class is not that of the file."""
_PROBE = "What is 12 + 7? It is 19."
_CODE = f"{_PROBE}\n\n    def f(x):\treturn x**2  # 3.14, isn't it? \u00c9t\u00e9 \u65e5\u672c\n"
"""Texts on which a tokenizer is tried: it must reproduce the first, and give the second the ids of its file."""


def check_tokens(where: str, prompt: np.ndarray, response: np.ndarray, vocabulary: int) -> None:
    """Raise a ContractError that names the place (`where`) if a token id of a prompt or a response, int (n,) and (m,),
    is negative or not below the number of rows of the model's embedding (`vocabulary`)."""
    for name, ids in (("prompt", prompt), ("response", response)):
        outside = np.flatnonzero((ids < 0) | (ids >= vocabulary))
        if outside.size:
            raise ContractError(
                f"{where}: {name} token {outside[0]} is {ids[outside[0]]}, outside the model's vocabulary of "
                f"{vocabulary}; give the model that these responses come from"
            )


def chat_ids(tokenizer: "PreTrainedTokenizerBase", messages: Sequence[str]) -> list[list[int]]:
    """Token ids of single-turn chats in non-thinking mode, up to the beginning of the response."""
    texts = [render(tokenizer, [{"role": "user", "content": message}]) for message in messages]
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def render(
    tokenizer: "PreTrainedTokenizerBase",
    messages: Sequence[Mapping[str, Any]],
    thinking: bool = False,
    template: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> str:
    """The text of a chat up to the beginning of the response, in thinking mode if `thinking` and the template knows it.
    The template also gets the `fields`, such as the tools."""
    given = {"enable_thinking": thinking, **(fields or {}), "add_generation_prompt": True, "tokenize": False}
    return tokenizer.apply_chat_template([dict(message) for message in messages], chat_template=template, **given)


def template_fields(template: str) -> list[str]:
    """Names of the values that a template reads beside messages, tools and special tokens."""
    from jinja2 import Environment, TemplateError, meta

    try:
        names = meta.find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template))
    except TemplateError:  # one with tags of transformers' own
        names = {*re.findall(r"\b\w*(?:think|reason)\w*\b", template)}
    known = {"messages", "tools", "documents", "add_generation_prompt", "raise_exception", "strftime_now"}
    return sorted(name for name in names - known if not name.endswith("_token"))


def turn_end(
    tokenizer: "PreTrainedTokenizerBase", ends: Collection[int] = (), template: str | None = None
) -> int | None:
    """Id of the token that ends a reply: the one that the chat template writes after it, or else the tokenizer's own.

    Some templates end a reply by the beginning of the next turn (GLM), which counts if the model's settings name it
    (`ends`). A `template` takes the place of the tokenizer's own; an empty one means none.
    """
    added = {str(token): number for number, token in tokenizer.added_tokens_decoder.items()}
    talk = [{"role": role, "content": f"{role} words"} for role in ("user", "assistant", "user")]
    for messages in (talk[:2], talk) if template != "" else ():
        try:
            text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False)
        except Exception:  # templates are programs: some refuse a reply, and there may be none
            continue
        behind = text.rpartition("assistant words")[2].lstrip()
        end = added.get(max((token for token in added if token and behind.startswith(token)), key=len, default=""))
        if end is not None and (messages != talk or end in ends):
            return end
    return tokenizer.eos_token_id


@lru_cache(maxsize=64)
def writes(tokenizer: "PreTrainedTokenizerBase", role: str, template: str) -> bool:
    """Whether a template writes the text of this role; some templates write only messages that are given in parts. True
    for roles that it refuses, and for replies and tools, whose text it may shorten."""
    chat = [{"role": speaker, "content": f"{speaker} words"} for speaker in dict.fromkeys((role, "user"))]
    try:
        return role in ("assistant", "tool") or f"{role} words" in render(tokenizer, chat, template=template)
    except Exception:  # templates are programs, and the chat itself tells why
        return True


def misread(tokenizer: "PreTrainedTokenizerBase", text: str) -> str | None:
    """The text that a tokenizer decodes from its own ids of a text, if it is not `comparable` to it; otherwise None."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    decoded = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    return None if comparable(decoded) == comparable(text) else decoded


def of_its_file(tokenizer: "PreTrainedTokenizerBase", folder: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer, or the one in `tokenizer.json` if it differs and the settings leave the class open, without the
    dropout of training. Raises a ContractError if it differs otherwise, or if the tokenizer changes texts."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    file = folder / "tokenizer.json"
    wrong, other = misread(_without_dropout(tokenizer), _PROBE), False
    if file.exists():
        ids = _without_dropout(Tokenizer.from_file(str(file))).encode(_CODE, add_special_tokens=False).ids
        other = ids != tokenizer(_CODE, add_special_tokens=False)["input_ids"]
    settings = folder / "tokenizer_config.json"
    if other and (read_document(settings) if settings.exists() else {}).get("tokenizer_class") in _OPEN:
        return _without_dropout(PreTrainedTokenizerFast.from_pretrained(folder))
    if other or wrong is not None:
        raise ContractError(
            f"{folder}: transformers makes another tokenizer ({type(tokenizer).__name__}) than tokenizer.json holds "
            f"or the policy was trained with: it reads {_PROBE!r} as {wrong or _PROBE!r}; {BY_FILE}, or give that one"
        )
    return tokenizer


def _without_dropout(tokenizer: Any) -> Any:
    """The tokenizer without the dropout of its training, with which each call gives other ids."""
    model: Any = getattr(getattr(tokenizer, "backend_tokenizer", tokenizer), "model", None)
    if getattr(model, "dropout", None):
        model.dropout = None
    return tokenizer


def comparable(text: str) -> str:
    """A text without differences in case, in the amount of white space and in forms of characters."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


def plain_texts(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[Tokens]) -> list[str]:
    """Text of each response without special tokens and with unchanged spaces."""
    return tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def batches_of_rows(lengths: Sequence[int], rows: int) -> list[np.ndarray]:
    """Split indices, sorted by length, into batches of `rows`, whose number is the same for all sharded processes."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + rows] for start in range(0, len(order), rows)]


def batches_of_tokens(lengths: Sequence[int], tokens: int) -> list[np.ndarray]:
    """Split indices, sorted by length, into batches of at most `tokens` tokens with padding, or of one row."""
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or (stop + 1 - start) * lengths[order[stop]] > tokens:
            batches.append(order[start:stop])
            start = stop
    return batches


def read_template(path: Path) -> str:
    """Read a chat template from a file of its own. Raises a ContractError if it is not readable."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ContractError(f"{path}: not a readable chat template ({error}); give a file of Jinja in UTF-8") from None


def template_fault(tokenizer: "PreTrainedTokenizerBase", template: str | None = None) -> str | None:
    """What is wrong with a chat template that cannot write the message of a user, in words; None if it can."""
    try:
        render(tokenizer, [{"role": "user", "content": _PROBE}], template=template)
    except Exception as error:  # templates are programs, which fail in ways of their own
        return first_line(error)
    return None
