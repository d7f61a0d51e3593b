"""verl's lines (`trainer.rollout_data_dir`): texts without special tokens, which may be shuffled within a step."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count, groupby
from pathlib import Path
from typing import Any

from cocal.rollouts import lines
from cocal.rollouts.format import Format, Reading
from cocal.rollouts.sample import Sample


def read(path: Path, reading: Reading, notes: Counter) -> Iterator[Sample]:
    """The responses of a file; outputs of one session, of which the last alone was scored, are left out."""
    return lines.samples(_rows(path), reading, notes)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    numbers = count()
    for _, rows in groupby(lines.rows(path), lambda row: _session(row[1]) or next(numbers)):
        session = list(rows)
        why = "its session has several outputs" if len(session) > 1 else None
        yield from ((where, entry, why) for where, entry in session)


def _session(entry: Mapping[str, Any]) -> str | None:
    """The session of an output of V1, which is named PROMPT_SESSION_OUTPUT; None in V0."""
    found = re.fullmatch(r"(.+_\d+)_\d+", str(entry.get("uid")))
    return found and found[1]


FORMAT = Format(
    name="verl's JSON lines",
    version="0.10.0.dev at 1dda039, V0 and V1",
    files="`1.jsonl`, ... (`trainer.rollout_data_dir`)",
    about="texts without special tokens: the chat's markers are put back, and the ids are made anew and may differ "
    "from those that were sampled; `--max-response-length` says which responses were cut; "
    "[exact ids](#exact-ids-from-verl)",
    example=(
        "1.jsonl",
        {"input": "user\n2 + 3?\nassistant\n", "output": "It is 5.", "gts": "5", "score": 1.0, "step": 1},
    ),
    recognises=lambda path, fields: path.suffix == ".jsonl" and {"input", "output", "score", "step"} <= {*fields},
    read=read,
    raw=True,
)
