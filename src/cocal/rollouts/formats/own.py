"""JSON lines in the words of any project."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cocal.rollouts import lines
from cocal.rollouts.format import Format, Reading
from cocal.rollouts.sample import Sample


def read(path: Path, reading: Reading, notes: Counter) -> Iterator[Sample]:
    """The responses of a file."""
    return lines.samples(((where, entry, None) for where, entry in lines.rows(path)), reading, notes)


FORMAT = Format(
    name="JSON lines",
    version="",
    files="`*.jsonl`",
    about="your own, or those of prime-rl of April 2026 (`train_rollouts.jsonl`); see [A companion for your own "
    "policy](own-policy.md#rollouts)",
    example=("rollouts.jsonl", {"prompt": "What is 2 + 3?", "response": "It is 5.", "correct": True, "step": 1}),
    recognises=lambda path, fields: path.suffix == ".jsonl",
    read=read,
    last=True,
)
