"""verl's lines (`trainer.rollout_data_dir`): texts without special tokens, which may be shuffled within a step."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cocal.rollouts import lines
from cocal.rollouts.format import Format, Reading
from cocal.rollouts.sample import Sample
from cocal.store.rows import entries


def read(path: Path, reading: Reading, notes: Counter) -> Iterator[Sample]:
    """The responses of a file. Sessions with several outputs, of which only the last was scored, are left out."""
    rows = [*entries(path)]
    named = [re.fullmatch(r"(.+_\d+)_\d+", str(entry.get("uid"))) for _, _, entry in rows]  # PROMPT_SESSION_OUTPUT
    counts = Counter(name and name[1] for name in named)
    why = ["its session has several outputs" if name and counts[name[1]] > 1 else None for name in named]
    return lines.samples(((row[0], row[2], one) for row, one in zip(rows, why, strict=True)), reading, notes)


FORMAT = Format("verl's JSON lines", lambda path, fields: path.suffix == ".jsonl" and {*fields} >= lines.VERL, read)
