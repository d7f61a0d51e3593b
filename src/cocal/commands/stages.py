"""`cocal stages`: list the commands of the workflow's stages."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no flags."""


def run(options: argparse.Namespace) -> None:
    """Print their names and summaries."""
    from cocal.commands.catalogue import STAGES, listing

    print(listing(STAGES))
