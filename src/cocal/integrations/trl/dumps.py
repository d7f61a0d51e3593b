"""TRL's rollouts: tables that our trainer recorded (`step-00001.parquet`, contract RESPONSES), or those of TRL's own
`log_completions` (`completions_00001.parquet`), which hold only text.

TRL names the table of a rollout step by the number of updates after that step, so the numbers must be evenly spaced.
"""

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cocal.errors import ContractError
from cocal.integrations.sample import Reward, Said, Sample, as_prompt, joined
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.parquet import batches, columns_of
from cocal.store.rows import numbered, reading


class _Completion(BaseModel):
    """What is read of a row of TRL's own tables."""

    prompt: Said
    completion: Said
    reward: Reward | None = None


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
    names = columns_of(path).names
    if "response_ids" in names:
        return _recorded(path)
    if missing := {"prompt", "completion"} - {*names}:
        raise ContractError(f"{path}: column {min(missing)!r} is missing; expected TRL's completions")
    return _completions(path, reward_key, [name for name in ("prompt", "completion", reward_key) if name in names])


def _recorded(path: Path) -> list[Sample]:
    columns = ["question_id", "sample", "prompt_ids", "response_ids", "logprobs", "length", "truncated"]
    frame = read_frame(path, RESPONSES, ["step", *columns, "finish_reason", "correct"])
    named = re.fullmatch(r"step-(\d+)", path.stem)
    if named and not (frame["step"] == int(named[1])).all():
        held = sorted(frame["step"].unique())
        raise ContractError(f"{path}: holds rollouts of step {held[0]}, which its name denies; give each file its step")
    groups = (frame["sample"] == 0).cumsum().tolist()
    samples = []
    for place, (row, group) in enumerate(zip(frame.itertuples(), groups, strict=True)):
        where = f"{path}: row {place}"
        with reading(where):
            sample = Sample(
                where,
                group,
                question_id=row.question_id,
                prompt_ids=row.prompt_ids,
                response_ids=row.response_ids,
                truncated=row.truncated,
                logprobs=row.logprobs,
                reward=row.correct,
            )
        samples.append(sample)
    return samples


def _completions(path: Path, reward_key: str, columns: list[str]) -> list[Sample]:
    """Samples of TRL's own table, in which neighbouring rows of equal prompts are one group. A row without a text as
    prompt or completion, such as the call of a tool, says that it is left out."""
    samples, group, before = [], 0, None
    rows = (row for batch in batches(path, columns) for row in batch.to_pylist())
    for place, row in enumerate(rows):
        where = f"{path}: row {place}"
        if not (_has_text(row["prompt"]) and _has_text(row["completion"])):
            samples.append(Sample(where, None, left_out="its prompt or completion has no text"))
            continue
        with reading(where, {"reward": reward_key}):
            found = _Completion(**{**row, "reward": row.get(reward_key)})
            if found.prompt != before:
                group, before = group + 1, found.prompt
            sample = Sample(
                where,
                group,
                **as_prompt(found.prompt),
                raw=isinstance(found.prompt, str),
                text=joined(found.completion),
                reward=found.reward,
            )
        samples.append(sample)
    return samples


def _has_text(said: Any) -> bool:
    """Whether a text, or every message of a chat, says something."""
    if isinstance(said, list):
        return bool(said) and all(not isinstance(message, dict) or message.get("content") for message in said)
    return said is not None and said != ""
