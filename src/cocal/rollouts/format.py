"""What a format of rollouts is, and how responses are read."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocal.errors import ConfigError
from cocal.rollouts.sample import Sample
from cocal.settings.base import Count, Model


class Reading(Model):
    """How responses are read: for a fit, which its companion keeps, for confidences, and for decisions among them."""

    fields: dict[str, str] = {}
    """Names of the rollouts' fields by their meaning, as they were given; a file to be scored is read with them too."""
    correct_above: float | None = None
    """A reward above this number meant a correct response; None for rewards of 0 and 1, or -1 and 1."""
    max_response_length: Count | None = None
    """Number of tokens from which on a response counts as cut, unless it says itself whether it was. If None, a text
    counts as complete, and ids as cut if they do not end with an end token."""
    thinking: bool = False
    """True if chats are put into the template in thinking mode, where the template knows it."""
    template: str | None = None
    """Chat template in place of the tokenizer's own (None); if empty, prompts are texts, begun by the tokenizer."""
    raw: bool = False
    """True if texts of prompts are all that the policy saw, and no messages of a user; a companion keeps this of its
    rollouts."""
    template_fields: dict[str, Any] = {}
    """Further values that the chat template was given; those of a sample come before them."""
    ignored: tuple[str, ...] = ()
    """Fields not read and checks not made although they may matter (`cocal fit --ignore`, `cocal.rollouts.replies`)."""

    def label(self, kind: str) -> str | None:
        """The given name of the label, for a format with fields of its own. Other given names are a ConfigError."""
        if wrong := [meaning for meaning in self.fields if meaning not in ("reward", "correct")]:
            raise ConfigError(
                f"--field {wrong[0]}=...: {kind} have fields of their own; only that of the label may be named "
                "(--field reward=NAME)"
            )
        return next(iter(self.fields.values()), None)


@dataclass(frozen=True)
class Format:
    """A format of files, which `cocal.rollouts.formats` lists."""

    name: str
    """What its files are, in words."""
    recognises: Callable[[Path, Collection[str]], bool]
    """Whether a file is of this format, by its path and the names of fields in its first row, if any."""
    read: Callable[[Path, Reading, Counter], Iterable[Sample]]
    """Function that gives the responses of a file and adds sentences about what was read to the counter."""
    steps: Callable[[Path], Mapping[int, Path]] | None = None
    """Files of a folder by their steps, where names tell them in a way of the format; None where the one rule for all
    names holds (`cocal.rollouts.files.step_named`)."""
