"""`cocal replicate`: write the study file of a replicate, which has other seeds of the policies."""

import argparse
from pathlib import Path

from cocal.commands.flags import COUNT, add_output, add_overwrite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--study", type=Path, default=Path("config/config.yaml"), help="study file")
    parser.add_argument("--number", type=COUNT, required=True, help="number of the replicate, counted from 1")
    add_output(parser, "--output", required=True, help="study file of the replicate")
    add_overwrite(parser)


def run(options: argparse.Namespace) -> None:
    """Write the study.

    Raises:
        ConfigError: if the study is invalid.
    """
    from cocal.config import load_study
    from cocal.study.replicates import replicate, write_study

    write_study(replicate(load_study(options.study), options.number), options.output)
