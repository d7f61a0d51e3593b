"""Chats that a dump gives as texts."""

import json
import re
from collections.abc import Mapping
from typing import Any

_CHAT = re.compile(r"\s*\[\s*\{")
SHOWN_CHAT = re.compile(r"\s*\[\{'(?:role|content)'.*\}\]\s*", re.DOTALL)
"""Chats that are given as texts: how their JSON begins, and what Python shows."""
_TALKERS = "system", "developer", "user", "assistant", "tool"


def decoded(value: Any) -> Any:
    """A chat that is given as the text of its JSON; anything else as it is."""
    if not (isinstance(value, str) and _CHAT.match(value)):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    spoken = [isinstance(one, Mapping) and one.get("role") in _TALKERS for one in found]
    return found if all(spoken) and all({"content", "tool_calls"} & {*one} for one in found) else value
