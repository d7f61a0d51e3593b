"""The formats of rollouts that are read, a module each, which is found here by its `FORMAT`."""

from collections.abc import Collection
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from cocal.errors import ContractError
from cocal.rollouts.format import Format
from cocal.store.rows import entries, fetched

ENDINGS = (".pt", ".parquet", ".jsonl")
"""Endings of files that are read."""


@cache
def formats() -> tuple[Format, ...]:
    """All formats in the order in which they are asked."""
    kinds = [import_module(f"{__name__}.{module.name}").FORMAT for module in iter_modules(__path__)]
    return tuple(sorted(kinds, key=lambda kind: kind.last))


def format_of(path: Path) -> Format:
    """The format of a file; a ContractError says that none has recognised it."""
    fields: Collection[str] = ()
    if path.suffix == ".jsonl":
        fields = next(entries(path))[2].keys()
    elif path.suffix == ".parquet":
        from cocal.store.parquet import columns_of  # needs packages that scoring lines does without

        fields = columns_of(path).names
    if kind := next((kind for kind in formats() if kind.recognises(path, fields)), None):
        return kind
    raise ContractError(
        f"{fetched(path)}: no format has this ending and these columns; there are .jsonl, .parquet (TRL's, "
        "and what CoCal wrote), .pt (slime): unpack it, or write a table or a list as JSON lines (pandas: "
        "frame.to_json(path, orient='records', lines=True))"
    )


def raw(fields: Collection[str]) -> bool:
    """Whether prompts are whole texts in JSON lines with these fields."""
    return next(kind for kind in formats() if kind.recognises(Path("1.jsonl"), fields)).raw
