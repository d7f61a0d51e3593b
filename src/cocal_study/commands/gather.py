"""What was measured at the points of regimes."""

import argparse
import logging

import pandas as pd

from cocal.errors import ConfigError
from cocal.metrics.shown import csv_text
from cocal.store import write_text
from cocal.store.files import read_numbers
from cocal_study.config import parse_settings
from cocal_study.evidence.regimes import measured, together
from cocal_study.planning.digests import maker_of
from cocal_study.planning.replicates import Gathered
from cocal_study.provenance.owner import owner_of


def run_gather(options: argparse.Namespace) -> None:
    """Write the measured points of the given replicates, and of those that the output holds already.

    Raises:
        ConfigError: if a folder's name is no number of a replicate.
        ContractError: if a replicate is not finished, or those of the output have other conditions.
    """
    for folder in options.folders:
        if not folder.name.isdecimal():
            raise ConfigError(f"{folder}: the folder of a replicate is called by its number")
    points_file, makers_file = (options.output / name for name in ("points.csv", "gathered.json"))
    makers = {int(folder.name): maker_of(folder / "base/results") for folder in options.folders}
    points = pd.concat([measured(options.regimes, int(one.name), one) for one in options.folders], ignore_index=True)
    if makers_file.exists():
        points = together(points, read_numbers(points_file, dtype={"level": str}))
        makers = parse_settings(Gathered, str(makers_file)).replicates | makers
    write_text(points_file, csv_text(points))
    gathered = Gathered(study=owner_of(options.folders[0] / "base/results"), replicates=dict(sorted(makers.items())))
    write_text(makers_file, gathered.model_dump_json(indent=1) + "\n")
    logging.info(
        "%d replicates of %d points in %s", len(makers), points.groupby(["axis", "level"]).ngroups, points_file
    )
