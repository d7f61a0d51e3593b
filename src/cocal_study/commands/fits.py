"""Further companions of a finished study: other fits on its states, and fits on prefixes of its responses."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from cocal.metrics.shown import csv_text
from cocal.store import write_text
from cocal_study.config.study import load_study
from cocal_study.store.numbers import read_numbers


def run_fits(options: argparse.Namespace) -> None:
    """Write the rows of the study into the output, beside those of other studies and replicates that it holds, and
    print which explanations hold."""
    from cocal_study.evidence.fits import COLUMNS, explanations, measured

    rows = measured(load_study(options.study), options.directory, options.seeds, options.number or 0)
    _write(rows, options.output, COLUMNS, ["study", "replicate"])
    print(f"{rows['study'].iloc[0]}:", *explanations(rows), sep="\n")


def run_prefixes(options: argparse.Namespace) -> None:
    """Write the rows of the study into the output, beside those of other studies that it holds."""
    from cocal_study.evidence.prefixes import COLUMNS, measured

    _write(measured(load_study(options.study), options.directory, options.every), options.output, COLUMNS, ["study"])


def _write(rows: pd.DataFrame, output: Path, columns: Sequence[str], keys: list[str]) -> None:
    every = [rows]
    if output.exists():
        before = read_numbers(output, columns)
        every.insert(0, before[(before[keys] != rows[keys].iloc[0]).any(axis=1)])
    write_text(output, csv_text(pd.concat(every, ignore_index=True)))
    logging.info("%d rows of the %s study in %s", len(rows), rows["study"].iloc[0], output)
