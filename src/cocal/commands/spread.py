"""`cocal spread`: gather the numbers of replicates of a study."""

import argparse
import logging

from cocal.errors import ConfigError, ContractError
from cocal.exhibits.base.exhibit import MATHEMATICS
from cocal.exhibits.drawing.curves import draw_replicates
from cocal.exhibits.drawing.style import paper_style, save_figure
from cocal.metrics.shown import csv_text
from cocal.store.atomic import write_text
from cocal.store.owner import owner_of
from cocal.study.digests import maker_of
from cocal.study.replicates import Gathered, spread

_MAIN = "tables/main.csv"
"""The table whose numbers are drawn."""


def run(options: argparse.Namespace) -> None:
    """Write mean, standard deviation and range of every number of every table and figure, and draw the main table's.

    Raises:
        ConfigError: if there are fewer than two replicates.
        ContractError: if a replicate is not finished, or is of another study than the first.
    """
    if len(options.results) < 2:
        raise ConfigError("a spread needs the results of two replicates at least")
    studies = {folder: owner_of(folder) for folder in options.results}
    first = options.results[0]
    for folder, study in studies.items():
        if study != studies[first]:
            raise ContractError(f"{folder}: holds study {study}, but {first} holds study {studies[first]}")
    # before anything is written: the gathered numbers may be tracked, and would count as changes since the commit
    gathered = Gathered(study=studies[first], replicates=len(studies), made_by=maker_of(first))
    found = spread(options.results)
    for name, numbers in found.items():
        write_text(options.output / name, csv_text(numbers))
    if _MAIN in found:
        figure = options.output / "figures/replications.pdf"
        with paper_style():
            save_figure(draw_replicates(found[_MAIN], MATHEMATICS), figure, {"study": studies[first]})
    write_text(options.output / "gathered.json", gathered.model_dump_json(indent=1) + "\n")
    logging.info("%d tables and figures of %d replicates gathered in %s", len(found), len(studies), options.output)
