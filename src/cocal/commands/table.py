"""`cocal table NAME`: write a table of the paper."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a table."""
    tables = parser.add_subparsers(dest="table", required=True, metavar="NAME")
    main = tables.add_parser("main", help="accuracy, mean confidence, ECE and AUROC at one stage (table 1)")
    main.add_argument("--metrics", required=True, metavar="FILE.nc", help="metric cube of `cocal metrics`")
    main.add_argument("--backbone", required=True, help="backbone shown")
    main.add_argument("--step", type=int, required=True, help="policy step shown")
    main.add_argument("--layout", required=True, help="MainLayout: JSON text, or the path of a YAML or JSON file")
    main.add_argument("--output", required=True, metavar="FILE.tex", help="LaTeX table to write")
    main.add_argument("--csv", required=True, metavar="FILE.csv", help="its numbers to write, one a row")
    main.set_defaults(write=_write_main)


def run(options: argparse.Namespace) -> None:
    """Write the table that was named."""
    options.write(options)


def _write_main(options: argparse.Namespace) -> None:
    import logging

    from cocal.config import parse_settings
    from cocal.config.layout import MainLayout
    from cocal.store import digest, read_dataset, write_text
    from cocal.tables.main import columns, format_main, main_csv, prepare_main

    layout = parse_settings(MainLayout, options.layout, "--layout")
    cube = read_dataset(options.metrics)
    numbers = prepare_main(
        cube,
        backbone=options.backbone,
        step=options.step,
        datasets=[column.name for column in columns(layout)],
        methods=layout.methods,
    )
    made_of = {"layout": layout, "backbone": options.backbone, "step": options.step}
    digests = f"metrics {cube.attrs.get('digest', 'unknown')}; layout {digest(made_of)}"
    seeds = cube.sizes["seed"] - 1  # the other label is their mean
    write_text(options.output, format_main(numbers, layout, step=options.step, seeds=seeds, digests=digests))
    write_text(options.csv, main_csv(numbers))
    logging.getLogger(__name__).info("table main: wrote %s and %s", options.output, options.csv)
