"""`cocal schema`: print the JSON schema of study files."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no flags."""


def run(options: argparse.Namespace) -> None:
    """Print the schema to standard output."""
    from cocal.config.schema import study_schema

    print(study_schema(), end="")
