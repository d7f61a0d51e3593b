"""Tables that a study, or the recording of a training with TRL, has written in the contract RESPONSES."""

from cocal.rollouts.format import Format
from cocal.rollouts.formats import trl

FORMAT = Format(
    name="rollout tables of CoCal",
    version="this one",
    files="`step-00001.parquet`, ...",
    about="exact ids; written by CoCal alone, in a study or [the recording](while-you-train.md): write your own as "
    "[JSON lines](lines.md)",
    example=("step-00001.parquet", {"prompt_ids": [5, 6], "response_ids": [7, 2], "correct": True, "step": 1}),
    recognises=lambda path, fields: path.suffix == ".parquet" and {"response_ids", "sample"} <= {*fields},
    read=lambda path, reading, _: trl.read(path, reading.label("rollout tables of CoCal") or "reward"),
    steps=trl.FORMAT.steps,
)
