"""TRL's rollouts: tables that our trainer recorded (`step-00001.parquet`, contract RESPONSES), or those of TRL's own
`log_completions` (`completions_00001.parquet`), which hold only text.

TRL names a table by the number of updates after which it logged it. It holds the completions of the latest generation,
be it of rollouts or of an evaluation.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from cocal.errors import ContractError
from cocal.rollouts.exclusions import MEDIA, MEDIA_FIELDS, media_beside
from cocal.rollouts.format import Format, Reading
from cocal.rollouts.sample import Sample
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.damage import is_file
from cocal.store.parquet import batches, columns_of
from cocal.store.rows import listed, numbered

_NO_REWARDS = {"step", "prompt", "completion", "advantage", "mode"}
"""Columns of TRL's completions that are no rewards."""


def files(folder: Path) -> dict[int, Path]:
    """Tables by rollout step. TRL numbers its own by updates, which become steps where they are evenly spaced."""
    tables = numbered(folder, r"(?:completions_|step-)(\d+)\.parquet", "step-00001.parquet")
    numbers = [number for number in tables if number > 0]  # table 0 is of an evaluation before the training
    if not numbers or numbers != [numbers[0] * place for place in range(1, len(numbers) + 1)]:
        return tables
    return {number // numbers[0]: path for number, path in tables.items()}


def read(path: Path, reward_key: str = "") -> list[Sample]:
    """The samples of a table; `reward_key` is the reward of TRL's own. A ContractError names file, row and column."""
    names = columns_of(path).names
    if "response_ids" in names:
        return _recorded(path)
    if missing := {"prompt", "completion"} - {*names}:
        raise ContractError(
            f"{path}: column {min(missing)!r} is missing; expected TRL's completions; a table of your own "
            "is read as JSON lines, or as a DataFrame by cocal.Companion.fit"
        )
    columns = [name for name in ("prompt", "completion", reward_key, *MEDIA_FIELDS) if name in names]
    samples, group, before, useless = [], 0, None, _useless(path)  # neighbouring rows of equal prompts are one group
    for place, row in enumerate(_rows(path, columns)):
        reward, asked, said = row.get(reward_key), row["prompt"], row["completion"]
        why = useless or (None if asked and said else "its prompt or completion has no text")
        why = why or (MEDIA if media_beside(row) else None)
        if why is None and asked != before:
            group, before = group + 1, asked
        reward = None if isinstance(reward, float) and math.isnan(reward) else reward
        fields = {"reward": reward_key, "response": "completion"}
        values = {"group": group, "prompt": asked, "raw": isinstance(asked, str), "response": said, "reward": reward}
        samples.append(Sample.read(f"{path}: row {place}", fields, left_out=why, **values))
    return samples


def _reward_of(path: Path) -> str:
    """The only column of TRL's own table that can be a reward. Raises a ContractError if there are several or none."""
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)
    columns = (column for column in columns_of(path) if column.name not in _NO_REWARDS)
    names = [column.name for column in columns if any(kind(column.type) for kind in kinds)]
    if len(names) != 1:
        raise ContractError(
            f"{path}: which column is the verifier's reward ({listed(names) or 'none'})? Name it by --field reward=NAME"
        )
    return names[0]


def _recorded(path: Path) -> list[Sample]:
    kept = ["question_id", "prompt_ids", "response_ids", "truncated", "logprobs", "finish_reason", "correct"]
    frame = read_frame(path, RESPONSES, ["step", "sample", "length", "text", *kept])
    frame["group"], frame["response_beside"] = (frame["sample"] == 0).cumsum(), frame["text"]
    rows = frame[[*kept, "group", "response_beside"]].to_dict("records")
    return [Sample.read(f"{path}: row {place}", **row) for place, row in enumerate(rows)]


def _useless(path: Path) -> str | None:
    """Why TRL's table has nothing to learn from, judged by its neighbours and the last checkpoint; None if it has. A
    table from before the training is of an evaluation, and so are tables that have no other prompts."""
    earlier = sorted(table for table in path.parent.glob("completions_*.parquet") if table.name < path.name)
    first, number = path.with_name("completions_00000.parquet"), re.fullmatch(r"completions_(\d+)", path.stem)
    if (number and int(number[1]) in _evaluated(path.parent.parent)) or (
        is_file(first) and {*map(repr, _rows(path, ["prompt"]))} <= {*map(repr, _rows(first, ["prompt"]))}
    ):
        return "TRL wrote their table after an evaluation"
    names = [[name for name in columns_of(table).names if name != "step"] for table in (path, *earlier[-1:])]
    if earlier and names[0] == names[1] and repr([*_rows(path, names[0])]) == repr([*_rows(earlier[-1], names[0])]):
        return "TRL logged them twice"
    return None


def _evaluated(run: Path) -> set[int]:
    """Numbers of updates after which the last checkpoint says that TRL evaluated."""
    try:
        last = max(run.glob("checkpoint-*/trainer_state.json"), key=lambda path: int(path.parent.name[11:]))
        logged = json.loads(last.read_bytes())["log_history"]
        return {entry["step"] for entry in logged if "eval_runtime" in entry}
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or it is of another program
        return set()


def _rows(path: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    return (row for batch in batches(path, columns) for row in batch.to_pylist())


def _of_table(path: Path, reading: Reading, notes: Counter) -> list[Sample]:
    reward = reading.label("TRL's completions")
    if reward is None:
        reward = _reward_of(path)
        notes[f"fields: {reward} as reward"] += 1
    tables = [int(file.stem[12:]) for file in path.parent.glob("completions_*.parquet") if file.stem[12:].isdecimal()]
    updates, count = max(tables, default=0), sum(number > 0 for number in tables)  # 0 is before the training
    if updates > count:
        notes[
            f"TRL wrote {count:,} table{'s' * (count != 1)} in {updates:,} updates: responses that it sampled in "
            "between are lost, unless updates share them (logging_steps=1 writes all)"
        ] += 1
    if samples := read(path, reward):
        return samples
    raise ContractError(f"{path}: the file is empty; delete it, or dump the step again")


FORMAT = Format(
    name="TRL's completions",
    recognises=lambda path, fields: (
        path.suffix == ".parquet"
        and {"prompt", "completion"} <= {*fields}
        and (path.name.startswith("completions_") or {"step", "advantage"} <= {*fields})
    ),
    read=_of_table,
    steps=files,
)
RECORDED = Format(
    name="rollout tables of CoCal",
    recognises=lambda path, fields: path.suffix == ".parquet" and {"response_ids", "sample"} <= {*fields},
    read=lambda path, reading, _: read(path, reading.label("rollout tables of CoCal") or "reward"),
    steps=files,
)
"""Tables that a study, or the recording of a training with TRL, has written in the contract RESPONSES."""
