"""The formats of rollouts that are read."""

from collections.abc import Collection
from pathlib import Path

from cocal.errors import ContractError
from cocal.rollouts import lines
from cocal.rollouts.format import Format
from cocal.rollouts.formats import slime, trl, verl
from cocal.store.damage import fetched
from cocal.store.parquet import columns_of
from cocal.store.rows import entries

ENDINGS = (".pt", ".parquet", ".jsonl")
"""Endings of files that are read."""
FORMATS = (
    *(slime.FORMAT, trl.RECORDED, trl.FORMAT, verl.FORMAT),
    Format("JSON lines", lambda path, fields: path.suffix == ".jsonl", lines.read),
)
"""All formats in the order in which they are tried."""


def format_of(path: Path) -> Format:
    """The format of a file. Raises a ContractError if no format recognises it."""
    fields: Collection[str] = ()
    if path.suffix == ".jsonl":
        fields = next(entries(path))[2].keys()
    elif path.suffix == ".parquet":
        fields = columns_of(path).names
    if kind := next((kind for kind in FORMATS if kind.recognises(path, fields)), None):
        return kind
    raise ContractError(
        f"{fetched(path)}: no format has this ending and these columns; there are .jsonl, .parquet (TRL's, "
        "and what CoCal wrote), .pt (slime): unpack it, or write a table or a list as JSON lines (pandas: "
        "frame.to_json(path, orient='records', lines=True))"
    )
