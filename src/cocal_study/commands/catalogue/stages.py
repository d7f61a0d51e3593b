"""Stages of the workflow, from question sets to policies, their responses, confidences, metrics and exhibits."""

import argparse
from functools import partial
from pathlib import Path

from cocal.commands import flags
from cocal.commands.flags import Command, flag, output, required
from cocal.commands.outputs import Kind
from cocal_study.exhibits import MODULES as EXHIBITS
from cocal_study.stages import MODULES


def _add_fields(command: str, parser: argparse.ArgumentParser) -> None:
    from cocal_study.stages.base import flags_of, stage_of  # loads pydantic

    parser.description = stage_of(command).__doc__
    for option in flags_of(command):
        option.add_to(parser)


def _writes(options: argparse.Namespace) -> list[Path]:
    from cocal_study.stages.base import job_of

    return job_of(options).writes()


_EXHIBIT = (
    flag("exhibit NAME", f"one of: {', '.join(EXHIBITS)}", choices=EXHIBITS),
    flag(
        "--input",
        "the input files of one kind, such as metrics FILE.nc; may be repeated",
        action="append",
        nargs="+",
        default=[],
        metavar=("KIND", "FILE"),
    ),
    flag("--layout", "settings of what is shown: JSON text, or a YAML or JSON file; a diagram has none"),
    output(
        "--output",
        "FILE.tex for a table, FILE.pdf for a figure; its other forms are written beside it",
        Kind(beside=(".html", ".png", ".csv")),
        required=True,
    ),
    flags.OVERWRITE,
)
_DOCUMENT = (
    required("--tables FILE.tex", "tables, in order", nargs="+", type=Path),
    output("--output FILE.tex", "document to write", required=True),
    flags.OVERWRITE,
)
_LANDING = (
    flag("--layout JSON", "titles and captions: JSON text, or a YAML or JSON file", required=True),
    flag("--verdict FILE.csv", "tables/verdict of the study, if it has the table", type=Path),
    flag("--figures FILE.png", "the figures of the layout, in its order", nargs="*", type=Path, default=[]),
    output("--output FILE.html", "page to write; beside it the verdict as text", Kind(beside=(".txt",)), required=True),
    flags.OVERWRITE,
)

STAGES = {
    **{name: Command("", partial(_add_fields, name), writes=_writes) for names in MODULES.values() for name in names},
    "exhibit": Command("make a table or figure of the paper", _EXHIBIT),
    "document": Command("write one LaTeX document of all tables", _DOCUMENT),
    "landing": Command("write the page on which the report opens, and the verdict on the paper", _LANDING),
}
"""The stages, which the rules of the workflow call; `cocal stages` lists them."""
