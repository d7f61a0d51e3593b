"""Contracts of tables, and the check that refuses a table that breaks its contract.

A contract is a pandera schema for the values plus the Arrow types on disk. If a table breaks it, `Contract.check`
raises one `ContractError` that names the file, the column and the first bad rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from pandera.errors import SchemaErrors
from pandera.pandas import Column, DataFrameSchema

from cocal.errors import ContractError

_SHOWN_ROWS = 5


@dataclass(frozen=True)
class Rule:
    """A check across columns: `holds` takes a table with the columns `needs` and returns one boolean for each row."""

    text: str
    needs: tuple[str, ...]
    holds: Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True)
class Contract:
    """A table's name, columns and checks.

    Attributes:
        name: Name of the table in errors.
        types: Arrow type of every column, in order.
        checks: Pandera column of every scalar column; list columns are checked by rules alone.
        unique: Columns that together identify a row.
        rules: Checks across columns.
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
        """The Arrow schema of the table on disk."""
        return pa.schema(list(self.types.items()))

    def check(self, frame: pd.DataFrame, source: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Check `frame` and return it with the contract's columns in order.

        Integers that may be null become float64, with NaN for null.

        Args:
            frame: Table to check; further columns are dropped.
            source: File name for errors.
            columns: Columns to check and keep; by default all of them.

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
            rows = ", ".join(map(str, np.flatnonzero(bad)[:_SHOWN_ROWS]))
            raise ContractError(f"{source}: {text}, broken in {bad.sum()} row(s), first {rows}; contract: {self.name}")


def _explain(cases: pd.DataFrame, source: str, contract: str) -> str:
    """Pandera's failure cases as one message, with a part for each column and check."""
    lines = []
    for (column, check), group in cases.groupby(["column", "check"], dropna=False, sort=False):
        rows = ", ".join(str(int(i)) for i in group["index"].dropna()[:_SHOWN_ROWS])
        values = ", ".join(repr(v) for v in group["failure_case"][:_SHOWN_ROWS])
        where = f" at row(s) {rows}" if rows else ""
        lines.append(f"column {column!r} fails {check}{where}: {values}")
    return f"{source}: " + "; ".join(lines) + f"; contract: {contract}"
