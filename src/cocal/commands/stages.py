"""`cocal stages`: list the commands of the workflow's stages."""

import argparse

from cocal.commands.catalogue import STAGES, listing


def run(options: argparse.Namespace) -> None:
    """Print their names and summaries."""
    print(listing(STAGES))
