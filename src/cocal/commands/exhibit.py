"""`cocal exhibit NAME`: make a table or figure of the paper."""

import argparse
from pathlib import Path

from cocal.config import parse_settings
from cocal.errors import ConfigError, ContractError
from cocal.exhibits.base.inputs import check_inputs, origin_of, read_inputs
from cocal.exhibits.base.output import write_figure, write_table
from cocal.exhibits.base.registry import module_of


def run(options: argparse.Namespace) -> None:
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
    files: dict[str, Path | list[Path]] = {}
    for word in options.input:
        kind, equals, path = word.partition("=")
        if not equals:
            raise ConfigError(f"--input: {word!r} is not KIND=FILE, such as metrics=results/metrics/tiny.nc")
        files[kind] = Path(path)
    files |= {kind: [Path(path) for path in paths] for kind, *paths in options.inputs}
    check_inputs(module, files)
    inputs = read_inputs(files)
    origin = origin_of(layout, files, options.output) if layout else {}
    try:
        write(module, layout, inputs, options.output, origin)
    except ContractError as error:
        given = [*options.input, *(f"{kind}={' '.join(paths)}" for kind, *paths in options.inputs)]
        raise ContractError(f"{error} (read: {'; '.join(given)})") from None
