"""The numbers that the paper publishes, read from `config/paper`.

`tables.yaml` lists the paper's tables and `{table}.csv` holds the values of each as printed, `text.yaml` holds the
numbers of the running text, and `inconsistencies.yaml` the places where the paper does not agree with itself.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import pandas as pd
from pydantic import Field

from cocal.errors import ContractError
from cocal.settings.base import Count, Model, Name
from cocal_study.config.methods import METHODS, built_in
from cocal_study.config.parse import read_yaml, validate

MACRO = "Macro Average"
"""The paper's title of the columns of a macro average."""
METRICS = {"Acc.": "accuracy", "MeanConf": "mean_confidence", "ECE": "ece", "AUROC": "auroc"}
"""The metrics of the tables of accuracy and confidence quality, by their titles."""

_MARKED = {"best": r"\*\*([^*]+)\*\*", "second": r"_([^_]+)_", "": r"([^*_]+)"}
_NUMBER = r"≈?(\d[\d,]*(?:\.\d+)?)×?"


class Printed(NamedTuple):
    """One printed value: the name of its table's file, the titles of row and column, and the text without its mark."""

    table: str
    row: str
    column: str
    text: str
    mark: str
    """ "best", "second" or ""."""
    value: float
    """The number, in percent for accuracies; NaN if the text is not a single number."""
    backbone: str = ""
    """Backbone in a table of accuracy and confidence quality. In others this and what follows are "", and step -1."""
    step: int = -1
    dataset: str = ""
    method: str = ""
    metric: str = ""


class Numbers(Model):
    """The backbone, step and macro average of a table of accuracy and confidence quality."""

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
    """A number of the running text as printed, and the cell that holds it or the two cells whose difference it is."""

    text: str
    meaning: str
    cell: Place | None = None
    difference: tuple[Place, Place] | None = None


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
    """The numbers that the paper publishes."""

    tables: dict[str, PublishedTable]
    """The tables by the names of their files."""
    cells: pd.DataFrame
    """All values of all tables, table by table and row by row, with the columns of `Printed`."""
    sentences: tuple[Sentence, ...]
    """Sentences of the running text that state numbers."""

    def cell(self, table: str, row: str, column: str) -> tuple[float, str]:
        """The number in a cell of a table, and its place: the table's label, row and column. Raises ContractError if
        the table has no such cell."""
        cells = self.cells
        found = cells.loc[cells["table"].eq(table) & cells["row"].eq(row) & cells["column"].eq(column), "value"]
        if found.empty:
            raise ContractError(f"config/paper/{table}.csv: no value in row {row!r} and column {column!r}")
        return float(found.iloc[0]), f"{self.tables[table].label}, {row}, {column}"

    def metric(self, table: str, method: str, metric: str, dataset: str = MACRO) -> tuple[float, str]:
        """A method's metric on a set by the set's title, and its place as `cell` gives it; accuracies are shares."""
        (title,) = (title for title, name in METRICS.items() if name == metric)
        value, place = self.cell(table, METHODS[method].label, f"{dataset}: {title}")
        return value / (100 if metric == "accuracy" else 1), place

    def numbers(self, part: str) -> list[float]:
        """The numbers of the sentence that holds this text. Raises ContractError if no sentence holds it, or several
        do."""
        found = [one for one in self.sentences if part in one.sentence]
        if len(found) != 1:
            raise ContractError(f"config/paper/text.yaml: {len(found)} sentences hold {part!r}; one is needed")
        return [_value(number.text) for number in found[0].numbers]


def read_published(folder: Path) -> Published:
    """Read the tables and the running text, in the order of the paper. Raises ConfigError if a YAML file is missing or
    wrong, and ContractError if a table is missing; the message names the file."""
    declared = validate(_Tables, read_yaml(folder / "tables.yaml"), str(folder / "tables.yaml"))
    text = validate(_Text, read_yaml(folder / "text.yaml"), str(folder / "text.yaml"))
    cells = [
        cell
        for name, table in declared.tables.items()
        for cell in _cells(folder / f"{name}.csv", name, table.numbers, declared.sets)
    ]
    return Published(declared.tables, pd.DataFrame(cells, columns=Printed._fields), text.sentences)


def _cells(path: Path, table: str, numbers: Numbers | None, sets: dict[str, str]) -> Iterator[Printed]:
    if not path.is_file():
        raise ContractError(f"{path}: no such table, but tables.yaml names it: restore it from the repository")
    methods = {METHODS[name].label: name for name in built_in()}
    with path.open(encoding="utf-8", newline="") as file:
        (_, *columns), *rows = csv.reader(file)
    for row, *texts in rows:
        for column, printed in zip(columns, texts, strict=True):
            matches = ((mark, re.fullmatch(one, printed)) for mark, one in _MARKED.items())
            ((mark, text),) = ((mark, found[1]) for mark, found in matches if found)
            cell = Printed(table, row, column, text, mark, _value(text))
            if numbers:
                dataset, _, title = column.partition(": ")
                of_set = numbers.macro if dataset == MACRO else sets[dataset]
                cell = Printed(*cell[:6], numbers.backbone, numbers.step, of_set, methods[row], METRICS[title])
            yield cell


def _value(text: str) -> float:
    found = re.fullmatch(_NUMBER, text)
    return float(found[1].replace(",", "")) if found else float("nan")
