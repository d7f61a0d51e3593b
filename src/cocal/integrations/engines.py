"""Lines of engines that are no response with named fields: columns (ROLL), padded ids (NeMo-RL), outputs of sessions
(verl's V1)."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cocal.errors import ContractError
from cocal.store.rows import entries, reading

KINDS = {
    "NeMo-RL's JSON lines": {"token_ids", "token_loss_mask", "input_lengths"},
    "ROLL's columns": {"responses", "scores"},
    "AReaL's trajectories": {"task_id", "tail_version", "completion"},
    "SkyRL's evaluations": {"input_prompt", "output_response"},
    "open-instruct's JSON lines": {"prompt_tokens", "response_tokens"},
    "verl's JSON lines": {"input", "output", "score"},
}
"""Fields by which the lines of an engine are known."""
_ABOUT = re.compile(r".*_metadata|aggregated_results")
"""Names of files about a run, which open-instruct and SkyRL put beside its rollouts."""
_FOLDERS = re.compile(r"\d+|global_step_\d+_evals")
"""Folders within a folder of rollouts: AReaL's of a version, SkyRL's of a step."""


class _Logged(BaseModel):
    """NeMo-RL's fields that divide the ids; all of its fields are lists of one."""

    token_ids: tuple[list]
    token_loss_mask: tuple[list[bool]]
    input_lengths: tuple[int]


def kind_of(entry: Mapping[str, Any]) -> str:
    """The engine that wrote a line, in words."""
    return next((kind for kind, fields in KINDS.items() if fields <= {*entry}), "JSON lines")


def files(folder: Path) -> list[Path]:
    """The files of JSON lines in a folder, or in its folders of versions or steps."""
    within = (path for path in folder.glob("*/*.jsonl") if _FOLDERS.fullmatch(path.parent.name))
    return [path for path in [*folder.glob("*.jsonl")] or within if not _ABOUT.fullmatch(path.stem)]


def rows(path: Path) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """The responses of a file: file and row for error messages, fields, and why it is none to learn from, if it is not.

    Raises:
        ContractError: if a line is invalid; the message names file and line.
    """
    before = held = None
    found = (row for where, _, entry in entries(path) for row in _rows(where, entry))
    for where, entry in chain(found, [("", {})]):
        session = re.fullmatch(r"(.+_\d+)_\d+", str(entry.get("uid")))  # V1's name: PROMPT_SESSION_OUTPUT
        session = session[1] if session and "output" in entry else None
        if held is not None:
            several = held[2] is not None and held[2] in (before, session)
            info = held[1].get("request_info")  # open-instruct's
            called = isinstance(info, dict) and info.get("tool_calleds") is True
            yield *held[:2], "its session has several outputs" if several else "it called a tool" if called else None
            before = held[2]
        held = where, entry, session


def _rows(where: str, entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = kind_of(entry)
    if kind == "NeMo-RL's JSON lines":
        yield where, _divided(where, entry)
    elif kind == "ROLL's columns":
        columns = {name: values for name, values in entry.items() if isinstance(values, list)}
        try:
            for place, values in enumerate(zip(*columns.values(), strict=True)):
                row = dict(zip(columns, values, strict=True))
                if isinstance(row.get("messages"), str):
                    row["messages"] = json.loads(row["messages"])
                yield f"{where}: response {place}", row
        except ValueError:
            raise ContractError(
                f"{where}: its columns have several lengths, or its messages are not JSON; dump the step again"
            ) from None
    else:
        yield where, entry


def _divided(where: str, entry: dict[str, Any]) -> dict[str, Any]:
    with reading(where):
        logged = _Logged.model_validate(entry)
    (length,), rewards = logged.input_lengths, entry.get("filtered_rewards", entry.get("rewards"))
    ids, mask = logged.token_ids[0][:length], logged.token_loss_mask[0][:length]
    begin = mask.index(True) if True in mask else len(mask)
    reward = rewards[0] if isinstance(rewards, list) and rewards else rewards
    return {"prompt_ids": ids[:begin], "response_ids": ids[begin:], "response_mask": mask[begin:], "reward": reward}
