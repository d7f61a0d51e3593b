"""`cocal replicate`: write the study file of a replicate, which has other seeds of the policies."""

import argparse

from cocal.config import load_study
from cocal.study.replicates import replicate, write_study


def run(options: argparse.Namespace) -> None:
    """Write the study.

    Raises:
        ConfigError: if the study is invalid.
    """
    write_study(replicate(load_study(options.study), options.number), options.output)
