"""`cocal schema`: print the JSON schema of study files."""

import argparse

from cocal.config.study import study_schema


def run(options: argparse.Namespace) -> None:
    """Print the schema to standard output."""
    print(study_schema(), end="")
