"""Lines of engines that hold a response in another form than fields of its own, turned into lines with such fields.

* NeMo-RL (`train_data_step1.jsonl`): every field is a list of one, and `token_loss_mask` divides the padded ids of
  prompt and response.
* ROLL (`rollout_dump_data.step_1.jsonl`, from `rollout_dump_dir`): a step is one line, and each field a column of it.
* AReaL (`rollout/VERSION/TASK.jsonl`, from `dump_to_file`): texts with their special tokens.
* SkyRL (`dumped_evals/global_step_1_evals`, from `dump_eval_results`): likewise, of evaluations.
* verl, whose V1 writes a row for every output of a session, each with the score of the last one.
* open-instruct, which says of every response whether a tool was called.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cocal.errors import ContractError
from cocal.integrations.sample import MEDIA
from cocal.store.rows import entries, reading

KINDS = {
    "NeMo-RL's JSON lines": {"token_ids", "token_loss_mask", "input_lengths"},
    "ROLL's columns": {"responses", "scores"},
    "AReaL's trajectories": {"task_id", "head_version", "tail_version", "completion"},
    "SkyRL's evaluations": {"input_prompt", "output_response", "score"},
    "open-instruct's JSON lines": {"prompt_tokens", "response_tokens"},
    "verl's JSON lines": {"input", "output", "score"},
}
"""Fields by which the lines of an engine are known."""
SUMMARIES = ("*_metadata.jsonl", "aggregated_results.jsonl")
"""Files about a whole run, beside those of its rollouts: open-instruct's and SkyRL's."""
_FOLDERS = re.compile(r"\d+|global_step_\d+_evals")
"""Folders within a folder of rollouts: AReaL's of a version, SkyRL's of a step."""
_NAMES = {
    "ROLL's columns": {"responses": "response", "scores": "score", "global_step": "step"},
    "AReaL's trajectories": {
        **{"prompt": "input", "completion": "output", "reward": "score"},
        **{"task_id": "group", "tail_version": "step"},
    },
    "SkyRL's evaluations": {"input_prompt": "input", "output_response": "output", "stop_reason": "finish_reason"},
}
"""Our names of their fields; prompts that are whole texts have those of verl."""


class _Logged(BaseModel):
    """NeMo-RL's fields that divide the ids, each a list of one."""

    token_ids: tuple[list]
    token_loss_mask: tuple[list[bool]]
    input_lengths: tuple[int]


def kind_of(entry: Mapping[str, Any]) -> str:
    """The engine that wrote a line, in words."""
    return next((kind for kind, fields in KINDS.items() if fields <= {*entry}), "JSON lines")


def files(folder: Path) -> list[Path]:
    """The files of JSON lines in a folder, or in its folders of versions or steps, without those about the run."""
    folders = (path for path in folder.iterdir() if _FOLDERS.fullmatch(path.name) and path.is_dir())
    found = [*folder.glob("*.jsonl")] or [path for within in folders for path in within.glob("*.jsonl")]
    return [path for path in found if not any(path.match(summary) for summary in SUMMARIES)]


def rows(path: Path) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """The responses of a file: file and row for error messages, fields, and why it is none to learn from, if it is not.

    Raises:
        ContractError: if a line is invalid; the message names file and line.
    """
    held = last = None
    found = (row for where, _, entry in entries(path) for row in _rows(where, entry, path))
    for where, entry in chain(found, [("", {})]):
        session = _session(entry)
        if held is not None:
            before, row, own = held
            several = own is not None and own in (last, session)
            yield before, row, "its session has several outputs" if several else _why(row)
            last = own
        held = where, entry, session


def _rows(where: str, entry: dict[str, Any], path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = kind_of(entry)
    if kind == "NeMo-RL's JSON lines":
        yield where, _divided(where, entry) | _step(path, r"train_data_step(\d+)")
        return
    entry = {_NAMES.get(kind, {}).get(name, name): value for name, value in entry.items()}
    if kind == "ROLL's columns":
        columns = {name: values for name, values in entry.items() if isinstance(values, list)}
        if len({*map(len, columns.values())}) != 1:
            raise ContractError(f"{where}: its columns have several lengths; delete the line, or dump the step again")
        for place, values in enumerate(zip(*columns.values(), strict=True)):
            yield f"{where}: response {place}", _asked(dict(zip(columns, values, strict=True)))
    elif kind == "SkyRL's evaluations":
        if isinstance(entry["score"], list):  # of every token
            entry["score"] = sum(one for one in entry["score"] if isinstance(one, int | float))
        yield where, entry | _step(path, r"global_step_(\d+)_evals")
    else:
        yield where, entry


def _divided(where: str, entry: dict[str, Any]) -> dict[str, Any]:
    with reading(where):
        logged = _Logged.model_validate(entry)
    length = logged.input_lengths[0]
    ids, mask = logged.token_ids[0][:length], logged.token_loss_mask[0][:length]
    begin = mask.index(True) if True in mask else len(mask)
    rewards = entry.get("filtered_rewards", entry.get("rewards"))  # the latter may be of more responses than are here
    reward = rewards[0] if isinstance(rewards, list) and rewards else rewards
    return {"prompt_ids": ids[:begin], "response_ids": ids[begin:], "response_mask": mask[begin:], "reward": reward}


def _step(path: Path, pattern: str) -> dict[str, int]:
    found = re.fullmatch(pattern, path.stem) or re.fullmatch(pattern, path.parent.name)
    return {"step": int(found[1])} if found else {}


def _asked(row: dict[str, Any]) -> dict[str, Any]:
    """ROLL's row with its messages, which may be JSON in a text; without any, its prompt is the whole text."""
    try:
        messages = json.loads(row["messages"]) if isinstance(row.get("messages"), str) else row.get("messages")
    except ValueError:
        messages = None
    return row | ({"messages": messages} if messages else {"input": row.get("prompt"), "output": row["response"]})


def _session(entry: Mapping[str, Any]) -> str | None:
    """The session of verl's V1, whose outputs have the names PROMPT_SESSION_PLACE and lie beside each other."""
    found = re.fullmatch(r"(.+_\d+)_\d+", str(entry.get("uid"))) if {"input", "output", "uid"} <= {*entry} else None
    return found and found[1]


def _why(row: Mapping[str, Any]) -> str | None:
    if row.get("multi_modal") is True:  # of verl's mixin
        return MEDIA
    info = row.get("request_info")
    return "it called a tool" if isinstance(info, Mapping) and info.get("tool_calleds") is True else None
