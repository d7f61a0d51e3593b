"""Rollouts as JSON lines, one file per step, which ends in the number of the step: `step-00001.jsonl`.

| field | |
|---|---|
| `prompt_ids`, `response_ids` | token ids, the generated end-of-sequence token included |
| `truncated` | whether the response was cut at the length limit |
| `group` | equal for the responses to one question of the step |
| `question_id`, or `question` or `prompt` | id of the question, or its text, or a prompt that holds its text |
| `logprobs` | optional: raw log-probabilities of the response tokens |
| `reward` | optional: 1 for a correct response, 0 for a wrong one |

Further fields are ignored.
"""

import json
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.integrations.sample import Sample, log_probabilities, number, required, token_ids
from cocal.store.numbered import numbered


def files(folder: Path) -> dict[int, Path]:
    """Files by step."""
    return numbered(folder, r"\D*(\d+)\.jsonl", "step-00001.jsonl")


def read(path: Path, reward_key: str) -> list[Sample]:
    """The samples of a file.

    Args:
        path: File to read.
        reward_key: Name of the reward's field.

    Raises:
        ContractError: if a line is invalid; the message names file, line and field.
    """
    samples = []
    with path.open(encoding="utf-8") as lines:
        for place, line in enumerate(lines, start=1):
            where = f"{path}: line {place}"
            try:
                entry = json.loads(line)
            except json.JSONDecodeError as error:
                raise ContractError(f"{where}: not JSON ({error})") from None
            samples.append(_sample(entry, where, reward_key))
    return samples


def _sample(entry: Any, where: str, reward_key: str) -> Sample:
    if not isinstance(entry, dict):
        raise ContractError(f"{where}: not a JSON object")
    prompt_ids, response_ids = (
        token_ids(required(entry, name, where), name, where) for name in ("prompt_ids", "response_ids")
    )
    truncated = required(entry, "truncated", where)
    if not isinstance(truncated, bool):
        raise ContractError(f"{where}: field 'truncated' is neither true nor false")
    question_id = entry.get("question_id")
    prompt = entry.get("question") or entry.get("prompt")
    if question_id is None and prompt is None:
        raise ContractError(f"{where}: field 'question_id' is missing; 'question' or 'prompt' would do too")
    return Sample(
        where,
        group=required(entry, "group", where),
        prompt=prompt,
        question_id=question_id,
        prompt_ids=prompt_ids,
        response_ids=response_ids,
        truncated=truncated,
        logprobs=log_probabilities(entry.get("logprobs"), "logprobs", len(response_ids), where),
        reward=number(entry.get(reward_key), reward_key, where),
    )
