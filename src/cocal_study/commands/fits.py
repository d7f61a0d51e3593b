"""Other fits of companions on the states of a finished study."""

import argparse
import logging

import pandas as pd

from cocal.metrics.shown import csv_text
from cocal.store import write_text
from cocal.store.files import read_numbers
from cocal_study.config import load_study
from cocal_study.evidence.fits import COLUMNS, explanations, measured


def run_fits(options: argparse.Namespace) -> None:
    """Write the rows of the study into the output, beside those of other studies that it holds, and print which of the
    three explanations hold.

    Raises:
        ContractError: if a file of the study is missing or damaged.
    """
    study = load_study(options.study)
    rows = measured(study, options.directory, options.seeds)
    every = [rows]
    if options.output.exists():
        before = read_numbers(options.output, COLUMNS)
        every.insert(0, before[before["study"] != study.study])
    write_text(options.output, csv_text(pd.concat(every, ignore_index=True)))
    logging.info("%d fits of the %s study in %s", len(rows), study.study, options.output)
    print(f"{study.study}:", *explanations(rows), sep="\n")
