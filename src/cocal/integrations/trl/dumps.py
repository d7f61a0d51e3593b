"""TRL's rollouts: tables that our trainer recorded (`step-00001.parquet`, contract RESPONSES), or those of TRL's own
`log_completions` (`completions_00001.parquet`), which hold only text.

TRL names the table of a rollout step by the number of updates after that step, so the numbers must be evenly spaced.
"""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from cocal.errors import ContractError
from cocal.integrations.sample import Sample
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.parquet import batches, columns_of
from cocal.store.rows import listed, numbered

_NO_REWARDS = {"step", "prompt", "completion", "advantage", "mode"}
"""Columns of TRL's completions that are no rewards."""


def files(folder: Path) -> dict[int, Path]:
    """Tables by rollout step.

    Raises:
        ContractError: if the numbers of TRL's tables are not evenly spaced, since one is missing.
    """
    found = numbered(folder, r"(?:completions_|step-)(\d+)\.parquet", "step-00001.parquet")
    numbers = list(found)
    spacing = numbers[0]
    if found[spacing].name.startswith("step-"):
        return found
    expected = [spacing * (place + 1) for place in range(len(numbers))]
    wrong = [name for name, wanted in zip(numbers, expected, strict=True) if name != wanted]
    if wrong:
        raise ContractError(f"{found[wrong[0]]}: not {spacing} updates after the table before; one is missing")
    return {number // spacing: path for number, path in found.items()}


def read(path: Path, reward_key: str) -> list[Sample]:
    """The samples of a table. In TRL's own tables, the verifier's reward is a column with its function's name.

    Raises:
        ContractError: if the table is invalid; the message names file, row and column.
    """
    names = columns_of(path).names
    if "response_ids" in names:
        return _recorded(path)
    if missing := {"prompt", "completion"} - {*names}:
        raise ContractError(f"{path}: column {min(missing)!r} is missing; expected TRL's completions")
    return _completions(path, reward_key, [name for name in ("prompt", "completion", reward_key) if name in names])


def reward_of(path: Path) -> str | None:
    """The only column of TRL's own table that can be a reward; None in a table that our trainer recorded.

    Raises:
        ContractError: if there are several, or none.
    """
    schema = columns_of(path)
    if "response_ids" in schema.names:
        return None
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)
    found = [one.name for one in schema if any(kind(one.type) for kind in kinds) and one.name not in _NO_REWARDS]
    if len(found) != 1:
        raise ContractError(
            f"{path}: which column is the verifier's reward ({listed(found) or 'none'})? Name it by --field reward=NAME"
        )
    return found[0]


def _recorded(path: Path) -> list[Sample]:
    columns = ["question_id", "sample", "prompt_ids", "response_ids", "logprobs", "length", "truncated"]
    frame = read_frame(path, RESPONSES, ["step", *columns, "finish_reason", "correct"])
    named = re.fullmatch(r"step-(\d+)", path.stem)
    if named and not (frame["step"] == int(named[1])).all():
        held = frame["step"].min()
        raise ContractError(f"{path}: holds rollouts of step {held}, which its name denies; give each file its step")
    frame["group"] = (frame["sample"] == 0).cumsum()
    kept = ["group", "question_id", "prompt_ids", "response_ids", "truncated", "logprobs", "finish_reason", "correct"]
    rows = frame[kept].to_dict("records")
    return [Sample.read(f"{path}: row {place}", **row) for place, row in enumerate(rows)]


def _completions(path: Path, reward_key: str, columns: list[str]) -> list[Sample]:
    """Samples of TRL's own table, in which neighbouring rows of equal prompts are one group. A row without a text as
    prompt or completion, such as the call of a tool, says that it is left out."""
    samples, group, before = [], 0, None
    rows = (row for batch in batches(path, columns) for row in batch.to_pylist())
    for place, row in enumerate(rows):
        where = f"{path}: row {place}"
        if not (_has_text(row["prompt"]) and _has_text(row["completion"])):
            samples.append(Sample.read(where, left_out="its prompt or completion has no text"))
            continue
        if row["prompt"] != before:
            group, before = group + 1, row["prompt"]
        samples.append(
            Sample.read(
                where,
                {"reward": reward_key, "response": "completion"},
                group=group,
                prompt=row["prompt"],
                raw=isinstance(row["prompt"], str),
                response=row["completion"],
                reward=row.get(reward_key),
            )
        )
    return samples


def _has_text(said: Any) -> bool:
    if isinstance(said, list):
        return bool(said) and all(not isinstance(message, dict) or message.get("content") for message in said)
    return said is not None and said != ""
