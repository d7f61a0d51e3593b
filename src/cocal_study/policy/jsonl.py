"""Rollouts as JSON lines, one file per step, which ends in the number of the step: `step-00001.jsonl`.

| field | |
|---|---|
| `prompt_ids`, `response_ids` | token ids, the generated end-of-sequence token included |
| `truncated` | whether the response was cut at the length limit |
| `group` | equal for the responses to one question of the step |
| `question_id`, or `question` or `prompt` | id of the question, or its text, or a prompt that holds its text |
| `logprobs` | optional: raw log-probabilities of the response tokens |

Further fields are ignored.
"""

from pathlib import Path

from cocal.errors import ContractError
from cocal.rollouts.lines import Fields
from cocal.rollouts.sample import Sample
from cocal.store.rows import entries, numbered

_NEEDED = ("prompt_ids", "response_ids", "truncated", "group")
_FIELDS = {name: name for name in (*_NEEDED, "question_id", "logprobs", "prompt")} | {"input": "question"}


def files(folder: Path) -> dict[int, Path]:
    return numbered(folder, r"\D*(\d+)\.jsonl", "step-00001.jsonl")


def read(path: Path) -> list[Sample]:
    """The samples of a file. Raises ContractError if a line is invalid; the message names file, line and field."""
    fields = Fields(_FIELDS, {meaning: (name,) for meaning, name in _FIELDS.items()})
    samples = []
    for where, _, entry in entries(path):
        if missing := [name for name in _NEEDED if entry.get(name) is None]:
            raise ContractError(f"{where}: field {missing[0]!r} is missing")
        samples.append(fields.sample(entry, where))
    return samples
