"""verl's lines (`trainer.rollout_data_dir`): texts without special tokens, which may be shuffled within a step."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count, groupby
from pathlib import Path

from cocal.rollouts import lines
from cocal.rollouts.format import Format, Reading
from cocal.rollouts.sample import Sample
from cocal.store.rows import entries


def read(path: Path, reading: Reading, notes: Counter) -> Iterator[Sample]:
    """The responses of a file. Sessions with several outputs, of which only the last was scored, are left out."""
    numbers = count()

    def session(row: tuple) -> str | int:
        """The session of an output, which V1 names PROMPT_SESSION_OUTPUT; in V0, a number for each output."""
        match = re.fullmatch(r"(.+_\d+)_\d+", str(row[2].get("uid")))
        return match[1] if match else next(numbers)

    sessions = (list(rows) for _, rows in groupby(entries(path), session))
    several = "its session has several outputs"
    rows = ((where, entry, several if len(s) > 1 else None) for s in sessions for where, _, entry in s)
    return lines.samples(rows, reading, notes)


FORMAT = Format(
    name="verl's JSON lines",
    version="main at 1dda039 (0.10.0.dev), both of its trainers",
    files="`1.jsonl`, ... (`trainer.rollout_data_dir`)",
    about="texts without special tokens: the chat's markers are put back, and the ids are made anew and may differ "
    "from those that were sampled; `--max-response-length` says which responses were cut; the label is "
    "`acc` where lines have it, and `score` otherwise; "
    "[exact ids](#exact-ids-from-verl)",
    example=(
        "1.jsonl",
        {"input": "user\n2 + 3?\nassistant\n", "output": "It is 5.", "gts": "5", "score": 1.0, "step": 1},
    ),
    recognises=lambda path, fields: path.suffix == ".jsonl" and {"input", "output", "score", "step"} <= {*fields},
    read=read,
    raw=True,
)
