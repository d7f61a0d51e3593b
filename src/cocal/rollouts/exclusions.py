"""Rows of a dump that hold no single response of the policy to a prompt, so that no companion learns from them."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

LISTS = list, tuple, np.ndarray
"""Types that hold messages or ids."""
MEDIA = "it has images or other media"
"""Reason to leave a row out, since companions learn from texts alone."""
_FORMS = "", "s", "_url", "_urls", "_path", "_paths"
_MEDIA = "image", "video", "audio"
MEDIA_FIELDS = *(medium + form for medium in _MEDIA for form in _FORMS), "multi_modal_data", "multi_modal_inputs"
_TURNS = re.compile(
    r"<tool_response>|<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>|<\|(?:user|observation)\|>"
    r"|\[TOOL_RESULTS\]|<｜(?:User|tool▁outputs▁begin)｜>|<\|start\|>(?:user|functions)"
)
"""Markers that templates write before the words of a tool or of a user."""
_CALLS = re.compile(
    r"<(?:\w+:)?tool_calls?>\s*(?:[{[<]|\w+\s*\n)|<[|｜](?:tool[▁_]calls?[▁\w]*|python_tag|call)[|｜]>|\[TOOL_CALLS\]"
    r"|\bto=functions\.\w"
)
"""How policies begin or end the call of a tool."""
_ROLE = re.compile(r"(?:user|tool|ipython|observation)\n")
_LINE = re.compile(r"^(?:user|tool|ipython|observation)\n", re.MULTILINE)
"""The same markers where special tokens were left out: behind other words, and as a line of their own."""
EVALUATION = re.compile(
    r"(?:^|[._ -]|(?-i:(?<=[a-z])(?=[A-Z])))(?:eval(?:uat(?:ion|e|ing))?s?|val(?:id(?:at(?:e|ions?))?)?|"
    r"test(?:s|ing)?|dev|benchmarks?|h[eo]ld[_-]?out)(?:[_-]?set)?\d*(?:$|[._ -]|(?-i:[A-Z]))",
    re.IGNORECASE,
)
"""A word in the name of a file, a folder or a split that is no part of a training."""
_SPLIT = re.compile(r"(?:\w+_)?(?:split|subset|mode|phase|partition)|stage|fold|set")
_FLAG = re.compile(
    r"(?:(?:is|do|for|in)_)?(?!valid$)([a-z]+(?:_?out)?)(?:_(?:mode|set|split|only|run|phase|step|sample))?"
)
"""Fields that may say that a row belongs to an evaluation, by a word or by being true (`is_train`: by being false)."""
_TRAINING = re.compile("train(?:ing)?", re.IGNORECASE)
"""The value of such a field in rows of the training."""


def several_versions(entry: Mapping[str, Any]) -> str | None:
    """A doubt if a row names several versions of the weights, in a list (slime) or as first and last one (AReaL)."""
    named = entry.get("weight_versions", [entry.get("head_version"), entry.get("tail_version")])
    versions = {str(version) for version in (named if isinstance(named, LISTS) else ()) if version is not None}
    return "the response was written by several versions of the policy's weights" if len(versions) > 1 else None


def splits(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of the fields by which some rows say that they are of the training."""
    return {n for entry in entries for n, v in entry.items() if isinstance(v, str) and _TRAINING.fullmatch(v)}


def evaluated(entry: Mapping[str, Any], ignored: Collection[str], told_by: Collection[str] = ()) -> str | None:
    """Why a row does not belong to the training: its `split` or a similar field, or one that marks training rows
    elsewhere (`told_by`, from `splits`), says that it is of an evaluation. None if it may belong."""
    for name, value in entry.items():
        told = isinstance(value, str) and _SPLIT.fullmatch(name) and EVALUATION.search(value)
        told = told or (name in told_by and EVALUATION.fullmatch(str(value)))
        flag, said = _FLAG.fullmatch(name), str(value).lower()
        if flag and _TRAINING.fullmatch(flag[1]) and name.startswith("is"):
            told = said in ("false", "0", "0.0")
        elif flag and EVALUATION.fullmatch(flag[1]):
            told = said in (("true", "1", "1.0") if name.startswith("is") or name == "validate" else ("true",))
        if told and name not in ignored:
            return f"its {name} is {value!r} (--ignore {name}, if it was trained on)"
    return None


def has_media(said: Any) -> bool:
    """True if a chat has a message with parts that are no texts."""
    messages = said if isinstance(said, LISTS) else ()
    contents = (message.get("content") for message in messages if isinstance(message, Mapping))
    parts = (part for content in contents if isinstance(content, (list, tuple)) for part in content)
    kinds = (str(part.get("type", "text")) for part in parts if isinstance(part, Mapping))
    return any(not re.search("text|think|reason", kind) for kind in kinds)


def media_beside(entry: Mapping[str, Any]) -> bool:
    """True if a row holds media in a field of its own."""
    for value in (entry.get(name) for name in MEDIA_FIELDS):
        parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, LISTS) else [value]
        if any(map(_is_something, parts)):
            return True
    return False


def _is_something(value: Any) -> bool:
    if hasattr(value, "__len__"):
        return len(value) > 0
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


def no_response(prompt: Any = None, response: Any = None, response_ids: Any = None, **_: Any) -> str | None:
    """Why there is no single text as the response to a prompt; None if there may be one."""
    if has_media(prompt) or has_media(response):
        return MEDIA
    messages = response if isinstance(response, LISTS) else []
    if len(messages) > 1 and isinstance(messages[0], (str, Mapping)):
        return "it has several messages or responses; give a line for each response (docs/formats.md)"
    if len(messages) == 1 and isinstance(messages[0], Mapping):
        if messages[0].get("tool_calls"):
            return "its response calls a tool"
        response = messages[0].get("content") or ""
    given = [said for said in (response, response_ids) if isinstance(said, (str, *LISTS))]
    return "its response is empty" if given and not any(map(len, given)) else None


def other_words(text: str, raw: bool) -> str | None:
    """Why a text is more than one answer of the policy, or None; after a `raw` prompt it has no special tokens."""
    if _CALLS.search(text):
        return "its response calls a tool"
    role, reply = (_ROLE, "assistant\n") if raw else (_LINE, "\nassistant\n")
    begun = role.search(text)
    turns = _TURNS.search(text, 1) or (begun and reply in text[begun.end() - 1 :])
    return "its response has several turns, such as the words of a tool" if turns else None
