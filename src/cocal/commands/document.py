"""`cocal document`: write one LaTeX document of all tables."""

import argparse
import logging

from cocal.exhibits.typesetting.latex import document
from cocal.store import write_text


def run(options: argparse.Namespace) -> None:
    """Write the document."""
    write_text(options.output, document(options.tables, options.output))
    logging.getLogger(__name__).info("wrote %s", options.output)
