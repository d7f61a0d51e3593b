"""The numbers that the paper publishes, read from `config/paper`.

`tables.yaml` lists the paper's tables and `{table}.csv` holds the values of each as printed, `text.yaml` holds the
numbers of the running text, and `inconsistencies.yaml` the places where the paper does not agree with itself.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from cocal.errors import ContractError
from cocal_study.config.methods import METHODS, built_in
from cocal_study.config.parse import read_yaml

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


@dataclass(frozen=True)
class Published:
    """The numbers that the paper publishes."""

    labels: dict[str, str]
    """Labels of the paper's tables by the names of their files."""
    cells: pd.DataFrame
    """All values of all tables, table by table and row by row, with the columns of `Printed`."""
    sentences: dict[str, list[str]]
    """The sentences of the running text that state numbers, with these as printed."""

    def cell(self, table: str, row: str, column: str) -> tuple[float, str]:
        """The number in a cell of a table, and its place: the table's label, row and column. Raises ContractError if
        the table has no such cell."""
        cells = self.cells
        values = cells.loc[cells["table"].eq(table) & cells["row"].eq(row) & cells["column"].eq(column), "value"]
        if values.empty:
            raise ContractError(f"config/paper/{table}.csv: no value in row {row!r} and column {column!r}")
        return float(values.iloc[0]), f"{self.labels[table]}, {row}, {column}"

    def metric(self, table: str, method: str, metric: str, dataset: str = MACRO) -> tuple[float, str]:
        """A method's metric on a set by the set's title, and its place as `cell` gives it; accuracies are shares."""
        (title,) = (title for title, name in METRICS.items() if name == metric)
        value, place = self.cell(table, METHODS[method].label, f"{dataset}: {title}")
        return value / (100 if metric == "accuracy" else 1), place

    def numbers(self, part: str) -> list[float]:
        """The numbers of the sentence that holds this text. Raises ContractError if no sentence does, or several do."""
        matches = [numbers for sentence, numbers in self.sentences.items() if part in sentence]
        if len(matches) != 1:
            raise ContractError(f"config/paper/text.yaml: {len(matches)} sentences hold {part!r}; one is needed")
        return [_value(text) for text in matches[0]]


def read_published(folder: Path) -> Published:
    """Read the tables and the running text, in the order of the paper. Raises ConfigError if a YAML file is missing,
    and ContractError if a table is missing; the message names the file."""
    declared, text = read_yaml(folder / "tables.yaml"), read_yaml(folder / "text.yaml")
    tables = declared["tables"]
    cells = [
        cell
        for name, table in tables.items()
        for cell in _cells(folder / f"{name}.csv", table.get("numbers"), declared["sets"])
    ]
    sentences = {entry["sentence"]: [number["text"] for number in entry["numbers"]] for entry in text["sentences"]}
    labels = {name: table["label"] for name, table in tables.items()}
    return Published(labels, pd.DataFrame(cells, columns=Printed._fields), sentences)


def _cells(path: Path, numbers: dict | None, sets: dict[str, str]) -> Iterator[Printed]:
    """The values of a table. If it shows accuracy and confidence quality, `numbers` holds its backbone, step and macro
    average, and `sets` the data sets by their titles."""
    if not path.is_file():
        raise ContractError(f"{path}: no such table, but tables.yaml names it: restore it from the repository")
    methods = {METHODS[name].label: name for name in built_in()}
    with path.open(encoding="utf-8", newline="") as file:
        (_, *columns), *rows = csv.reader(file)
    for row, *texts in rows:
        for column, printed in zip(columns, texts, strict=True):
            matches = ((mark, re.fullmatch(pattern, printed)) for mark, pattern in _MARKED.items())
            ((mark, text),) = ((mark, match[1]) for mark, match in matches if match)
            cell = Printed(path.stem, row, column, text, mark, _value(text))
            if numbers:
                dataset, _, title = column.partition(": ")
                of_set = numbers["macro"] if dataset == MACRO else sets[dataset]
                place = numbers["backbone"], numbers["step"], of_set, methods[row], METRICS[title]
                cell = Printed(*cell[:6], *place)
            yield cell


def _value(text: str) -> float:
    match = re.fullmatch(_NUMBER, text)
    return float(match[1].replace(",", "")) if match else float("nan")
