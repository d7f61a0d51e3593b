"""Chat templates are programs of whoever made a tokenizer: each is tried in a process that can be killed."""

import os
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.errors import ContractError, first_line
from cocal.models.text import render

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SECONDS = 10
"""Time in which a template must have put all chats of the trial into its words; usual ones take a few milliseconds."""
MEMORY = 2**30
"""Bytes that it may take for them beyond what the process has, on Linux."""
LONGER = 100_000
"""Characters by which a text may be longer than the messages in it; system prompts of templates have some thousands."""

_QUESTION = "2 + 2 = ?"
_LONG = f"{_QUESTION} " * 2000
_ASKED = (("user", _QUESTION),), (("user", _LONG),)
"""Chats that every template must take."""
_TALKED = (("system", _LONG), ("user", _QUESTION)), ((("user", _LONG), ("assistant", _LONG)) * 8 + (("user", _LONG),))
"""Chats that a template may refuse."""


def read_template(path: Path) -> str:
    """A chat template from a file of its own.

    Raises:
        ContractError: if the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ContractError(f"{path}: not a readable chat template ({error}); give a file of Jinja in UTF-8") from None


def template_fault(tokenizer: "PreTrainedTokenizerBase", template: str | None = None) -> str | None:
    """Find what is wrong with a chat template, in words; None if it did well.

    It is tried with short, long and many messages, in both thinking modes, in a fork of this process that has `SECONDS`
    and `MEMORY`. A template that misbehaves with other messages alone is not found out. Memory has no limit outside
    Linux.

    Args:
        tokenizer: Tokenizer whose special tokens the template may name.
        template: The template; by default the tokenizer's own.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        ended = 1
        try:
            _limit()
            os.write(writing, (_tried(tokenizer, template) or "").encode(errors="replace")[:2000])
            ended = 0
        finally:
            os._exit(ended)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode(errors="replace")
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended == -signal.SIGALRM:
        return f"it does not end within {SECONDS} seconds"
    return f"it ends its process with status {ended}" if ended else said or None


def _limit() -> None:
    """Let this process end by itself after `SECONDS`, and have `MEMORY` more than now."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    used = Path("/proc/self/statm")
    if used.exists():
        most = int(used.read_text().split()[0]) * resource.getpagesize() + MEMORY
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _tried(tokenizer: "PreTrainedTokenizerBase", template: str | None) -> str | None:
    for thinking in (False, True):
        for chat in (*_ASKED, *_TALKED):
            messages = [{"role": role, "content": content} for role, content in chat]
            given = sum(len(content) for _, content in chat)
            try:
                made = len(render(tokenizer, messages, thinking, template))
            except MemoryError:
                return f"it needs more than {MEMORY >> 20:,} MiB of memory"
            except Exception as error:  # programs fail in ways of their own
                if chat in _ASKED and not thinking:
                    return first_line(error)
                continue
            if made > given + LONGER:
                return f"it makes {made:,} characters of messages of {given:,}"
    return None
