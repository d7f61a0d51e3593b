"""The numbers that the paper publishes, read from `config/paper`.

`tables.yaml` lists the paper's tables and `{table}.csv` holds the values of each as printed, `text.yaml` holds the
numbers of the running text, and `inconsistencies.yaml` the places where the paper does not agree with itself.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import pyarrow as pa
from pandera.pandas import Check, Column
from pydantic import Field

from cocal.config.base import Count, Model, Name, Share
from cocal.config.load import read_yaml, validate
from cocal.config.methods import METHODS, built_in
from cocal.errors import ContractError
from cocal.store.contract import Contract, Rule

MACRO = "Macro Average"
"""The paper's title of the columns of a macro average."""
METRICS = {"Acc.": "accuracy", "MeanConf": "mean_confidence", "ECE": "ece", "AUROC": "auroc"}
"""The metrics of the tables of accuracy and confidence quality, by their titles."""

_MARKED = {"best": r"\*\*(.+)\*\*", "second": r"_(.+)_"}
_NUMBER = r"≈?(\d[\d,]*(?:\.\d+)?)×?"


def _value(text: str) -> float:
    found = re.fullmatch(_NUMBER, text)
    return float(found[1].replace(",", "")) if found else float("nan")


def _in_range(frame: pd.DataFrame) -> pd.Series:
    most = frame["metric"].map({"accuracy": 100.0}).fillna(1.0)
    return frame["metric"].eq("") | frame["value"].le(most)


def _unmarked_mean(frame: pd.DataFrame) -> pd.Series:
    return frame["metric"].ne("mean_confidence") | frame["mark"].eq("")


_text = partial(Column, str)

PUBLISHED = Contract(
    name="published tables",
    types={
        "table": pa.string(),
        "row": pa.string(),
        "column": pa.string(),
        "text": pa.string(),
        "mark": pa.string(),
        "value": pa.float64(),
        "backbone": pa.string(),
        "step": pa.int64(),
        "dataset": pa.string(),
        "method": pa.string(),
        "metric": pa.string(),
    },
    checks={
        "table": _text(),
        "row": _text(Check.str_length(min_value=1)),
        "column": _text(Check.str_length(min_value=1)),
        "text": _text(Check.str_matches(r"^[^*_\s](.*[^*_\s])?$")),
        "mark": _text(Check.isin(["", *_MARKED])),
        "value": Column("float64", Check.ge(0), nullable=True),
        "backbone": _text(),
        "step": Column("int64", Check.ge(-1)),
        "dataset": _text(),
        "method": _text(),
        "metric": _text(Check.isin(["", *METRICS.values()])),
    },
    unique=("table", "row", "column"),
    rules=(
        Rule("accuracies are percentages, and other metrics lie in [0, 1]", ("metric", "value"), _in_range),
        Rule("mean confidence has no mark", ("metric", "mark"), _unmarked_mean),
    ),
)
"""One printed value: where it stands, its text without the mark, its mark ("" if none), and the number, NaN if the text
is not a single number. Backbone, step, data set, method and metric are known in the tables of accuracy and confidence
quality, and "" or -1 in the other tables; the data set may be a macro average. Accuracies are in percent."""


class Numbers(Model):
    """What the values of a table of accuracy and confidence quality belong to."""

    backbone: Name
    step: Count
    macro: Name


class PublishedTable(Model):
    """A table of the paper."""

    label: Annotated[str, Field(pattern=r"^tab:\w+$")]
    caption: str
    numbers: Numbers | None = None


class _Tables(Model):
    sets: dict[str, Name]
    tables: dict[str, PublishedTable]


class Place(Model):
    """A cell of a table."""

    table: str
    row: str
    column: str


class TextNumber(Model):
    """A number of the running text."""

    text: str
    """The number as printed."""
    meaning: str
    cell: Place | None = None
    """Cell that holds the same number, perhaps with more decimals."""
    difference: tuple[Place, Place] | None = None
    """Two cells whose difference it is."""


class Sentence(Model):
    """A sentence, or a part of one, that states numbers."""

    section: str
    """Title of its section, subsection or paragraph."""
    sentence: str
    """Its text as the paper's source writes it."""
    numbers: Annotated[tuple[TextNumber, ...], Field(min_length=1)]


class _Text(Model):
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Published:
    """What the paper publishes.

    Attributes:
        tables: The tables by the names of their files.
        cells: All values of all tables, in the contract `PUBLISHED`.
        sentences: Sentences of the running text that state numbers.
    """

    tables: dict[str, PublishedTable]
    cells: pd.DataFrame
    sentences: tuple[Sentence, ...]

    def cell(self, table: str, row: str, column: str) -> tuple[float, str]:
        """The number in a cell of a table, and its place: the table's label, row and column.

        Raises:
            ContractError: if the table has no such cell.
        """
        cells = self.cells
        found = cells.loc[cells["table"].eq(table) & cells["row"].eq(row) & cells["column"].eq(column), "value"]
        if found.empty:
            raise ContractError(f"config/paper/{table}.csv: no value in row {row!r} and column {column!r}")
        return float(found.iloc[0]), f"{self.tables[table].label}, {row}, {column}"

    def numbers(self, part: str) -> list[float]:
        """The numbers of the sentence that holds this text.

        Raises:
            ContractError: if no sentence holds it, or several do.
        """
        found = [one for one in self.sentences if part in one.sentence]
        if len(found) != 1:
            raise ContractError(f"config/paper/text.yaml: {len(found)} sentences hold {part!r}; one is needed")
        return [_value(number.text) for number in found[0].numbers]


def read_published(folder: Path) -> Published:
    """Read the tables and the running text.

    Raises:
        ConfigError: if a YAML file is missing or wrong.
        ContractError: if a table is missing or breaks the contract.
    """
    return Published(published_tables(folder), published_cells(folder), published_text(folder))


class Inconsistency(Model):
    """A place where the paper does not agree with itself, or where its numbers need an explanation that it lacks."""

    kind: Literal["macro", "mark", "statement", "rounding", "ece-below-gap"]
    """A macro average that does not follow from its sets, a mark that does not follow from its column, a sentence that
    the tables contradict, numbers that are rounded in two ways, or an ECE below the difference between mean confidence
    and accuracy, which no binning allows if all confidences are valid."""
    comment: str
    sentences: tuple[str, ...] = ()
    """The sentences concerned, as the source writes them."""
    cells: tuple[Place, ...] = ()
    """The cells concerned."""
    valid_share: Share | None = None
    """For an ECE below the gap: the largest share of responses with a valid confidence that the cells allow."""


class _Inconsistencies(Model):
    inconsistencies: tuple[Inconsistency, ...]


def published_tables(folder: Path) -> dict[str, PublishedTable]:
    """The paper's tables by the names of their files, in the order of the paper.

    Raises:
        ConfigError: if `tables.yaml` is missing or wrong.
    """
    return _declared(folder).tables


def published_cells(folder: Path) -> pd.DataFrame:
    """All values of all tables in the contract `PUBLISHED`, table by table and row by row.

    Raises:
        ConfigError: if `tables.yaml` is missing or wrong.
        ContractError: if a table is missing or breaks the contract; the message names the file.
    """
    declared = _declared(folder)
    tables = []
    for name, table in declared.tables.items():
        path = folder / f"{name}.csv"
        cells = pd.DataFrame(_cells(path, name, table.numbers, declared.sets), columns=list(PUBLISHED.columns))
        tables.append(PUBLISHED.check(cells, str(path)))
    return pd.concat(tables, ignore_index=True)


def published_text(folder: Path) -> tuple[Sentence, ...]:
    """The numbers of the running text, in the order of the paper.

    Raises:
        ConfigError: if `text.yaml` is missing or wrong.
    """
    path = folder / "text.yaml"
    return validate(_Text, read_yaml(path), str(path)).sentences


def inconsistencies(folder: Path) -> tuple[Inconsistency, ...]:
    """The places where the paper does not agree with itself.

    Raises:
        ConfigError: if `inconsistencies.yaml` is missing or wrong.
    """
    path = folder / "inconsistencies.yaml"
    return validate(_Inconsistencies, read_yaml(path), str(path)).inconsistencies


def _declared(folder: Path) -> _Tables:
    path = folder / "tables.yaml"
    return validate(_Tables, read_yaml(path), str(path))


def _cells(path: Path, table: str, numbers: Numbers | None, sets: dict[str, str]) -> Iterator[tuple]:
    """The cells of one file as rows of `PUBLISHED`."""
    if not path.is_file():
        raise ContractError(
            f"{path}: no such table; tables.yaml beside it names it: restore the file from the repository"
        )
    methods = {METHODS[name].label: name for name in built_in()}
    with path.open(encoding="utf-8", newline="") as file:
        (_, *columns), *rows = csv.reader(file)
    for line, (row, *texts) in enumerate(rows, 2):
        if len(texts) != len(columns):
            raise ContractError(
                f"{path}: line {line} has {len(texts)} values in {len(columns)} columns; add what is missing"
            )
        for column, printed in zip(columns, texts, strict=True):
            text, mark = _unmarked(printed)
            place = ("", -1, "", "", "")
            if numbers:
                dataset, _, metric = column.partition(": ")
                of_set = numbers.macro if dataset == MACRO else sets.get(dataset)
                if of_set is None or metric not in METRICS or row not in methods:
                    raise ContractError(
                        f"{path}: line {line}: {row!r} in column {column!r} is no known value; correct it"
                    )
                place = (numbers.backbone, numbers.step, of_set, methods[row], METRICS[metric])
            yield table, row, column, text, mark, _value(text), *place


def _unmarked(printed: str) -> tuple[str, str]:
    """A value without its mark, and the mark."""
    for mark, pattern in _MARKED.items():
        if found := re.fullmatch(pattern, printed):
            return found[1], mark
    return printed, ""
