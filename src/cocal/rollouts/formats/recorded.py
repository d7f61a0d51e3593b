"""Tables that a study, or the recording of a training with TRL, has written in the contract RESPONSES."""

from collections import Counter
from pathlib import Path

from cocal.rollouts.format import Format, Reading
from cocal.rollouts.formats import trl
from cocal.rollouts.sample import Sample


def read(path: Path, reading: Reading, notes: Counter) -> list[Sample]:
    """The samples of a table."""
    reading.label("rollout tables of CoCal")
    return trl.read(path, "reward")


FORMAT = Format(
    name="rollout tables of CoCal",
    version="this one",
    files="`step-00001.parquet`, ...",
    about="exact ids; of a study, and of [the recording](own-policy.md#while-you-train)",
    example=("step-00001.parquet", {"prompt_ids": [5, 6], "response_ids": [7, 2], "correct": True, "step": 1}),
    recognises=lambda path, fields: path.suffix == ".parquet" and "response_ids" in fields,
    read=read,
    steps=trl.FORMAT.steps,
)
