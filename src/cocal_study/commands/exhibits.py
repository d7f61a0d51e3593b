"""Tables and figures, the document of all tables, and the spread over replicates."""

import argparse
import logging
from pathlib import Path
from typing import Any, cast

from cocal.commands.words import pairs
from cocal.drawing.style import paper_style, save_figure
from cocal.errors import ConfigError, ContractError
from cocal.metrics.shown import csv_text
from cocal.store import write_text
from cocal.store.damage import unreadable
from cocal.store.files import check_seal, read_numbers
from cocal_study.config import parse_settings
from cocal_study.exhibits.base.exhibit import MATHEMATICS
from cocal_study.exhibits.base.inputs import check_inputs, origin_of, read_inputs
from cocal_study.exhibits.base.output import write_figure, write_table
from cocal_study.exhibits.base.registry import module_of
from cocal_study.exhibits.drawing.curves import draw_replicates
from cocal_study.exhibits.typesetting.landing import WITHOUT, Landing, landing_page
from cocal_study.exhibits.typesetting.latex import document
from cocal_study.exhibits.typesetting.verdict import READ, lines
from cocal_study.planning.digests import maker_of
from cocal_study.planning.replicates import Gathered, refusals, spread
from cocal_study.provenance.owner import owner_of


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
        raise ConfigError(
            f"--layout: {options.exhibit} needs one; `snakemake --printshellcmds` prints those of the workflow"
        )
    layout = parse_settings(expected, options.layout, "--layout") if expected else None
    given = pairs("--input", options.input, "KIND=FILE, such as metrics=results/metrics/tiny.nc")
    files: dict[str, Path | list[Path]] = {kind: Path(path) for kind, path in given}
    files |= {kind: [Path(path) for path in paths] for kind, *paths in options.inputs}
    check_inputs(module, files)
    inputs = read_inputs(files)
    origin = origin_of(layout, files, options.output) if layout else {}
    try:
        write(module, cast(Any, layout), inputs, options.output, origin)  # only a diagram has none
    except ContractError as error:
        read = [*options.input, *(f"{kind}={' '.join(paths)}" for kind, *paths in options.inputs)]
        raise ContractError(f"{error} (read: {'; '.join(read)})") from None


def run_document(options: argparse.Namespace) -> None:
    """Write the document."""
    write_text(options.output, document(options.tables, options.output))
    logging.info("wrote %s", options.output)


def run_landing(options: argparse.Namespace) -> None:
    """Write the page on which the report opens and, beside it, the verdict as text."""
    layout = parse_settings(Landing, options.layout, "--layout")
    numbers = read_numbers(options.verdict, READ) if options.verdict else None
    for file in options.figures:
        if not file.is_file() or file.stat().st_size < 20:  # a PNG begins with its width
            raise ContractError(unreadable(file, "PNG file", "it is missing or cut off"))
        check_seal(file)
    write_text(options.output, landing_page(layout, numbers, options.figures))
    said = [WITHOUT] if numbers is None else lines(numbers, layout.scale)
    write_text(options.output.with_suffix(".txt"), "\n".join(said) + "\n")
    logging.info("wrote %s and .txt", options.output)


def run_spread(options: argparse.Namespace) -> None:
    """Write mean, standard deviation and range of every number of every table and figure, and draw the main table's.

    Replicates take part whose required conditions lie between their bounds (`refusals`). Their numbers are those of the
    folders that hold their results, or else their places. Replicates that the output holds already stay there, unless
    they are given again.

    Raises:
        ContractError: if a replicate is not finished, or is of another study than the first, or if fewer than two take
            part.
    """
    studies = {folder: owner_of(folder) for folder in options.results}
    first = options.results[0]
    before, makers_file = None, options.output / "gathered.json"
    gathered = Gathered(study=studies[first], replicates={})
    if makers_file.exists():
        before, gathered = options.output, parse_settings(Gathered, str(makers_file))
        studies[options.output] = gathered.study
    for folder, study in studies.items():
        if study != studies[first]:
            raise ContractError(f"{folder}: holds study {study}, but {first} holds study {studies[first]}")
    names = [folder.resolve().parent.name for folder in options.results]
    numbers = map(int, names) if all(name.isdecimal() for name in names) else range(1, len(names) + 1)
    admitted, refused = {}, dict(gathered.refused)
    for number, folder in zip(numbers, options.results, strict=True):
        refused.pop(number, None)
        if reasons := refusals(folder):
            refused[number] = reasons
            logging.warning("%s takes no part, by its conditions: %s", folder, "; ".join(reasons))
        else:
            admitted[number] = folder
    # before anything is written: the gathered numbers may be tracked, and would count as changes since the commit
    kept = {number: maker for number, maker in gathered.replicates.items() if number not in {*admitted, *refused}}
    makers = kept | {number: maker_of(folder) for number, folder in admitted.items()}
    if len(makers) < 2:
        why = "; ".join(f"replicate {number}: {reasons[0]}" for number, reasons in refused.items())
        raise ContractError(
            "a spread needs two replicates at least that have the required conditions (tables/conditions), and there "
            f"are {len(makers)}{why and f' ({why})'}"
        )
    found = spread(admitted, before, kept)
    for name, numbers in found.items():
        write_text(options.output / name, csv_text(numbers))
    if "tables/main.csv" in found:
        figure = options.output / "figures/replications.pdf"
        with paper_style():
            save_figure(draw_replicates(found["tables/main.csv"], MATHEMATICS), figure, {"study": studies[first] or ""})
    gathered = Gathered(study=studies[first], replicates=dict(sorted(makers.items())), refused=refused)
    write_text(makers_file, gathered.model_dump_json(indent=1) + "\n")
    logging.info("%d tables and figures of %d replicates gathered in %s", len(found), len(makers), options.output)
