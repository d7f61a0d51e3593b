"""The body of `/v1/confidence`: responses that exist, as texts, chats or token ids."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt, model_validator

from cocal.errors import ContractError
from cocal.rollouts.encoding import ROWS
from cocal.rollouts.sample import Sample


class Row(BaseModel):
    """One response: `prompt` (the message of a user), `messages` (a chat) or `prompt_ids`, and `response` or
    `response_ids`; and `truncated`, if the text was cut at the length limit."""

    model_config = ConfigDict(extra="forbid")

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    prompt_ids: list[StrictInt] | None = None
    response: str | None = None
    response_ids: list[StrictInt] | None = None
    truncated: bool | None = None

    def sample(self, where: str) -> Sample:
        """The response as it would stand in a file of `cocal score`, where the chat is the prompt. Raises a
        ContractError unless there is exactly one prompt and one response, or if a value has the wrong form."""
        for words in (("prompt", "messages", "prompt_ids"), ("response", "response_ids")):
            if sum(getattr(self, word) not in (None, "", []) for word in words) != 1:
                raise ContractError(f"{where}: give exactly one of {', '.join(words)}, which is not empty")
        given = self.model_dump(include={*Row.model_fields}, exclude_none=True)
        if (chat := given.pop("messages", None)) is not None:
            given["prompt"] = [{**message, "content": _text(message.get("content"))} for message in chat]
        return Sample.read(where, {"prompt": "messages"} if chat else {}, **given)


def _text(content: Any) -> Any:
    """The content of a message, whose parts are joined as vLLM joins them; None if one of them is no text."""
    if not isinstance(content, list):
        return content
    parts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content]
    texts = [text for text in parts if isinstance(text, str)]
    return "\n".join(texts) if texts and len(texts) == len(parts) else None


class ConfidenceBody(Row):
    """One response, or several in `rows`."""

    rows: list[Row] | None = None
    model: str | None = None
    """The name of the served model, which may be left out."""
    confidence_members: bool = False
    """Whether the confidences of all members are wanted, too."""

    @model_validator(mode="after")
    def _of_one_kind(self) -> "ConfidenceBody":
        if self.rows is not None and any(getattr(self, name) is not None for name in Row.model_fields):
            raise ValueError("give one response, or several in rows, and not both")
        if self.rows is not None and not 1 <= len(self.rows) <= ROWS:
            raise ValueError(f"rows has {len(self.rows):,} responses; give 1 to {ROWS:,}")
        return self

    def samples(self) -> list[Sample]:
        """All responses; see `Row.sample` about errors."""
        if self.rows is None:
            return [self.sample("body")]
        return [row.sample(f"rows[{place}]") for place, row in enumerate(self.rows)]


def other_mode(body: Any, values: Mapping[str, Any], defaults: dict[str, Any] | None) -> bool:
    """Whether this request renders its chat otherwise than the companion's rollouts were rendered.

    Args:
        values: What the template was given for the rollouts: their mode of thinking and further values.
        defaults: vLLM's usual settings of the template.
    """
    given = body.build_chat_params(None, "auto").with_defaults(defaults).chat_template_kwargs
    fitted = {**values, "add_generation_prompt": True}
    last = (getattr(body, "messages", None) or [{}])[-1]
    return (
        _told(given) != _told(fitted)
        or getattr(body, "chat_template", None) is not None
        or last.get("role") == "assistant"
    )


def _told(values: Mapping[str, Any]) -> dict[str, tuple[type, Any]]:
    """The values as a template sees them: False and None count as missing; 0 and "" do not."""
    return {name: (type(value), value) for name, value in values.items() if value is not None and value is not False}


def telling(body: Any) -> list[str]:
    """Fields of the request that would reveal a withheld answer: log-probabilities of the prompt, or of tokens that
    were not drawn."""
    others = "top_logprobs" if hasattr(body, "top_logprobs") else "logprobs"
    asked = {name: getattr(body, name, None) for name in ("echo", "logprob_token_ids", others)}
    return ["prompt_logprobs"] * (body.prompt_logprobs is not None) + [name for name, value in asked.items() if value]


def steered(body: Any) -> bool:
    """Whether a body restricts which tokens may be drawn, so that a client could force an end with a high score."""
    form = getattr(body, "response_format", None) or getattr(getattr(body, "text", None), "format", None)
    names = ("logit_bias", "allowed_token_ids", "bad_words", "structured_outputs")
    called = getattr(body, "tool_choice", None) not in (None, "auto", "none")
    return called or any(getattr(body, name, None) for name in names) or (form is not None and form.type != "text")
