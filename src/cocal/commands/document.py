"""`cocal document`: write one LaTeX document of all tables."""

import argparse
from pathlib import Path

from cocal.commands.flags import add_output, add_overwrite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--tables", nargs="+", required=True, type=Path, metavar="FILE.tex", help="tables, in order")
    add_output(parser, "--output", required=True, metavar="FILE.tex", help="document to write")
    add_overwrite(parser)


def run(options: argparse.Namespace) -> None:
    """Write the document."""
    import logging

    from cocal.exhibits.typesetting.document import document
    from cocal.store import write_text

    write_text(options.output, document(options.tables, options.output))
    logging.getLogger(__name__).info("wrote %s", options.output)
