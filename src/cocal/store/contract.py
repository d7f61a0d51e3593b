"""What a contract of a table is, and how a table that breaks it is refused.

A contract is a pandera schema for the values plus the Arrow types on disk. `Contract.check` turns a broken
table into one `ContractError` that names the file, the column and the first bad rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from pandera.errors import SchemaErrors
from pandera.pandas import Column, DataFrameSchema

from cocal.errors import ContractError

_SHOWN = 5


@dataclass(frozen=True)
class Rule:
    """A check across columns: `holds` gets the table and returns one boolean a row."""

    text: str
    needs: tuple[str, ...]
    holds: Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True)
class Contract:
    """A table's name, columns and checks.

    Attributes:
        name: shown in errors.
        types: Arrow type of every column, in order.
        checks: pandera column of every scalar column; list columns are checked by rules alone.
        unique: columns that together identify a row.
        rules: checks across columns.
    """

    name: str
    types: dict[str, pa.DataType]
    checks: dict[str, Column]
    unique: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self.types)

    def arrow_schema(self) -> pa.Schema:
        """Schema on disk."""
        return pa.schema(list(self.types.items()))

    def check(self, frame: pd.DataFrame, source: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """`frame` with the contract's columns in order, checked; integers that may be null as float64 with NaN.

        Args:
            frame: table to check; further columns are dropped.
            source: file name for errors.
            columns: check only these; all by default.

        Raises:
            ContractError: if a column is missing, a value breaks a check, or there are no rows.
        """
        wanted = list(columns) if columns is not None else list(self.columns)
        for name in wanted:
            if name not in frame.columns:
                raise ContractError(f"{source}: column {name!r} is missing; contract: {self.name}")
        if frame.empty:
            raise ContractError(f"{source}: the table has no rows; contract: {self.name}")
        frame = frame[wanted].reset_index(drop=True)
        scalar = {name: self.checks[name] for name in wanted if name in self.checks}
        try:
            frame = DataFrameSchema(scalar).validate(frame, lazy=True)
        except SchemaErrors as error:
            raise ContractError(_explain(error.failure_cases, source, self.name)) from None
        for rule in self.rules:
            if set(rule.needs) <= set(wanted):
                self._refuse(source, rule.text, ~np.asarray(rule.holds(frame), dtype=bool))
        if self.unique and set(self.unique) <= set(wanted):
            repeated = frame.duplicated(list(self.unique)).to_numpy()
            self._refuse(source, f"({', '.join(self.unique)}) must be unique", repeated)
        return frame

    def _refuse(self, source: str, text: str, bad: np.ndarray) -> None:
        if bad.any():
            rows = ", ".join(map(str, np.flatnonzero(bad)[:_SHOWN]))
            raise ContractError(f"{source}: {text}, broken in {bad.sum()} row(s), first {rows}; contract: {self.name}")


def _explain(cases: pd.DataFrame, source: str, contract: str) -> str:
    """One line per column and check of pandera's failure cases."""
    lines = []
    for (column, check), group in cases.groupby(["column", "check"], dropna=False, sort=False):
        rows = ", ".join(str(int(i)) for i in group["index"].dropna()[:_SHOWN])
        values = ", ".join(repr(v) for v in group["failure_case"][:_SHOWN])
        where = f" at row(s) {rows}" if rows else ""
        lines.append(f"column {column!r} fails {check}{where}: {values}")
    return f"{source}: " + "; ".join(lines) + f"; contract: {contract}"
