"""Prompts and responses as they are given to `Companion.score`: alone or listed, as texts, chats, ids or tensors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from cocal.errors import ContractError
from cocal.integrations.sample import Sample

Prompt = str | Sequence[Mapping[str, str]] | Sequence[int] | np.ndarray | Tensor
"""A prompt: the message of a user, a chat (messages with role and content), or exact token ids."""
Response = str | Sequence[int] | np.ndarray | Tensor
"""A response: its text, or its exact token ids with the end token."""


def samples_of(prompts: Sequence[Prompt] | Prompt, responses: Sequence[Response] | Response) -> list[Sample]:
    """The pairs as they would stand in a file. One that is not in a list is a list of one; a single prompt is that of
    all responses.

    Raises:
        ContractError: if there is another number of prompts, or one of them is empty.
    """
    prompts, responses = _listed(prompts), _listed(responses)
    if len(prompts) == 1:
        prompts = prompts * len(responses)
    if len(prompts) != len(responses):
        raise ContractError(f"{len(prompts)} prompts but {len(responses)} responses; give one prompt for each")
    return [_sample(f"response {k}", *pair) for k, pair in enumerate(zip(prompts, responses, strict=True))]


def _listed(given: Any) -> list:
    """What is given as a list: a text, a chat or the ids of one text are its only entry; the rows of a table of ids,
    such as `generate` returns, are its entries."""
    if hasattr(given, "tolist"):  # of NumPy, pandas, or PyTorch on any device
        given = given.tolist()
    alone = isinstance(given, str) or (len(given) and isinstance(given[0], Mapping | int | np.integer))
    return [given] if alone else list(given)


def _sample(where: str, prompt: Any, response: Any) -> Sample:
    values, names = {}, {}
    for what, given in (("prompt", prompt), ("response", response)):
        one = given.tolist() if hasattr(given, "tolist") else given
        one = one[0] if isinstance(one, list) and len(one) == 1 and isinstance(one[0], list) else one  # a batch of one
        if isinstance(one, str) and not (one.strip() or (one and what == "response")):
            raise ContractError(f"{where}: the {what} is empty")
        chat = isinstance(one, Sequence) and one and isinstance(one[0], Mapping)
        field = what if isinstance(one, str) or chat else f"{what}_ids"
        values[field], names[field] = one, what
    return Sample.read(where, names, **values)
