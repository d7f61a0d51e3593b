"""verl's lines (`trainer.rollout_data_dir`): texts without special tokens, which may be shuffled within a step."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from cocal.rollouts import lines
from cocal.rollouts.format import Format, Reading
from cocal.rollouts.sample import Sample
from cocal.store.rows import entries


def read(path: Path, reading: Reading, notes: Counter) -> Iterator[Sample]:
    """The responses of a file. Sessions with several outputs, of which only the last was scored, are left out."""

    def session(row: tuple) -> str:
        """The session of an output, which verl's V1 names PROMPT_SESSION_OUTPUT; in V0 each output is a session."""
        match = re.fullmatch(r"(.+_\d+)_\d+", str(row[2].get("uid")))
        return match[1] if match else row[0]

    sessions = (list(rows) for _, rows in groupby(entries(path), session))
    several = "its session has several outputs"
    rows = ((where, entry, several if len(s) > 1 else None) for s in sessions for where, _, entry in s)
    return lines.samples(rows, reading, notes)


FORMAT = Format("verl's JSON lines", lambda path, fields: path.suffix == ".jsonl" and {*fields} >= lines.VERL, read)
