"""Tables and figures, the document of all tables, and the page with the verdict."""

import argparse
import logging
from pathlib import Path
from typing import Any, cast

from cocal.errors import ConfigError, ContractError
from cocal.store import write_text
from cocal.store.damage import unreadable
from cocal_study.config.parse import parse_settings
from cocal_study.exhibits.base.inputs import origin_of, read_inputs
from cocal_study.exhibits.base.output import write_figure, write_table
from cocal_study.exhibits.base.registry import module_of
from cocal_study.exhibits.typesetting.landing import WITHOUT, Landing, landing_page
from cocal_study.exhibits.typesetting.latex import document
from cocal_study.exhibits.typesetting.verdict import READ, lines
from cocal_study.store.numbers import check_beside, read_numbers


def run_exhibit(options: argparse.Namespace) -> None:
    """Read the inputs, prepare the numbers, and write the exhibit in all its forms."""
    module = module_of(options.exhibit)
    write, ending = (write_table, ".tex") if hasattr(module, "grid") else (write_figure, ".pdf")
    if options.output.suffix != ending:
        raise ConfigError(f"--output: {options.output} must end in {ending}; the other files are written beside it")
    expected = getattr(module, "Layout", None)
    if expected is None and options.layout:
        raise ConfigError(f"--layout: {options.exhibit} is a diagram and shows no numbers; leave it out")
    if expected is not None and not options.layout:
        told = "`snakemake --printshellcmds` prints those of the workflow"
        raise ConfigError(f"--layout: {options.exhibit} needs one; {told}")
    layout = parse_settings(expected, options.layout, "--layout") if expected else None
    files: dict[str, list[Path]] = {}
    for kind, *paths in options.input:
        files.setdefault(kind, []).extend(map(Path, paths))
    inputs = read_inputs(module, files)
    origin = origin_of(layout, files, options.output) if layout else {}
    try:
        write(module, cast(Any, layout), inputs, options.output, origin)  # only a diagram has none
    except ContractError as error:
        read = [" ".join(words) for words in options.input]
        raise ContractError(f"{error} (read: {'; '.join(read)})") from None


def run_document(options: argparse.Namespace) -> None:
    """Write one LaTeX document of all tables."""
    write_text(options.output, document(options.tables, options.output))
    logging.info("wrote %s", options.output)


def run_landing(options: argparse.Namespace) -> None:
    """Write the page on which the report opens and, beside it, the verdict as text."""
    layout = parse_settings(Landing, options.layout, "--layout")
    numbers = read_numbers(options.verdict, READ) if options.verdict else None
    for file in options.figures:
        if not file.is_file() or file.stat().st_size < 20:  # a PNG begins with its width
            raise ContractError(unreadable(file, "PNG file", "it is missing or cut off"))
        check_beside(file)
    write_text(options.output, landing_page(layout, numbers, options.figures))
    said = [WITHOUT] if numbers is None else lines(numbers, layout.scale)
    write_text(options.output.with_suffix(".txt"), "\n".join(said) + "\n")
    logging.info("wrote %s and .txt", options.output)
