"""TRL's rollouts: tables that our trainer recorded (`step-00001.parquet`, contract RESPONSES), or those of TRL's own
`log_completions` (`completions_00001.parquet`), which hold only text.

TRL names the table of a rollout step by the number of updates after that step, so the numbers must be evenly spaced.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cocal.errors import ContractError
from cocal.integrations.sample import Sample, log_probabilities, number, token_ids
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.damage import unreadable
from cocal.store.numbered import numbered


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
    """The samples of a table.

    Args:
        path: Table to read.
        reward_key: Column of the verifier's reward in TRL's own tables; it has the reward function's name.

    Raises:
        ContractError: if the table is invalid; the message names file, row and column.
    """
    try:
        names = pq.read_schema(path).names
    except (pa.ArrowInvalid, OSError) as error:
        raise ContractError(unreadable(path, "Parquet file", error)) from None
    if "response_ids" in names:
        return _recorded(path)
    if missing := {"prompt", "completion"} - {*names}:
        raise ContractError(f"{path}: column {min(missing)!r} is missing; expected TRL's completions")
    return _completions(pd.read_parquet(path), path, reward_key)


def _recorded(path: Path) -> list[Sample]:
    columns = ["question_id", "sample", "prompt_ids", "response_ids", "logprobs", "length", "truncated"]
    frame = read_frame(path, RESPONSES, [*columns, "finish_reason", "correct"])
    groups = (frame["sample"] == 0).cumsum()
    samples = []
    for place, (row, group) in enumerate(zip(frame.itertuples(), groups, strict=True)):
        where = f"{path}: row {place}"
        samples.append(
            Sample(
                where,
                group=group,
                question_id=row.question_id,
                prompt_ids=token_ids(row.prompt_ids, "prompt_ids", where),
                response_ids=token_ids(row.response_ids, "response_ids", where),
                truncated=row.truncated,
                logprobs=log_probabilities(row.logprobs, "logprobs", row.length, where),
                reward=float(row.correct),
            )
        )
    return samples


def _completions(frame: pd.DataFrame, path: Path, reward_key: str) -> list[Sample]:
    """Samples of TRL's own table, in which neighbouring rows of equal prompts are one group."""
    chats = frame["prompt"].map(_chat)
    prompts = frame["prompt"].map(_text)
    groups = (prompts != prompts.shift()).cumsum()
    rewards = frame[reward_key] if reward_key in frame else [None] * len(frame)
    rows = zip(prompts, chats, groups, frame["completion"].map(_text), rewards, strict=True)
    return [
        Sample(
            where,
            group=group,
            prompt=prompt,
            messages=chat,
            raw=chat is None,
            text=text,
            reward=number(reward, reward_key, where),
        )
        for where, (prompt, chat, group, text, reward) in (
            (f"{path}: row {place}", row) for place, row in enumerate(rows)
        )
    ]


def _chat(value: Any) -> tuple[dict[str, str], ...] | None:
    """The messages of a chat; None of a text."""
    if not isinstance(value, (list, np.ndarray)):
        return None
    return tuple({"role": str(message["role"]), "content": str(message["content"])} for message in value)


def _text(value: Any) -> str:
    """The text itself, or that of a chat's messages."""
    if isinstance(value, (list, np.ndarray)):
        return "\n".join(str(message["content"]) for message in value)
    return str(value)
