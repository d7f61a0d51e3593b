"""`cocal table NAME`: write a table of the paper."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from cocal.exhibits.typesetting.grid import Grid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a table."""
    tables = parser.add_subparsers(dest="table", required=True, metavar="NAME")

    def table(name: str, text: str, write: Callable) -> argparse.ArgumentParser:
        one = tables.add_parser(name, help=text)
        one.add_argument("--output", required=True, metavar="FILE.tex", help="LaTeX table to write")
        one.add_argument("--html", required=True, metavar="FILE.html", help="the same as a web page")
        one.add_argument("--csv", required=True, metavar="FILE.csv", help="its numbers, one or a few a row")
        one.set_defaults(write=write)
        return one

    def layout(one: argparse.ArgumentParser, model: str) -> None:
        one.add_argument("--layout", required=True, help=f"{model}: JSON text, or the path of a YAML or JSON file")

    cube = "metric cube of `cocal metrics`"
    one = table("main", "accuracy, mean confidence, ECE and AUROC at one stage (table 1)", _write_main)
    one.add_argument("--metrics", required=True, metavar="FILE.nc", help=cube)
    one.add_argument("--backbone", required=True, help="backbone shown")
    one.add_argument("--step", type=int, required=True, help="policy step shown")
    layout(one, "MainLayout")

    one = table("hyperparameters", "settings of a study", _write_hyperparameters)
    one.add_argument("--study", required=True, help="study: JSON text, or the path of a YAML or JSON file")
    one.add_argument(
        "--wrong-rows",
        help="JSON: question set -> number of its rows that the registry knows to be wrong; default: none",
    )

    one = table("token_aggregation", "ECE and AUROC by pooled states", _write_token_aggregation)
    one.add_argument(
        "--metrics", nargs="+", required=True, metavar="FILE.nc", help=f"{cube} over layers and poolings, of a backbone"
    )
    layout(one, "AggregationLayout")

    one = table("pre_generation", "ECE and AUROC before and after the response", _write_pre_generation)
    one.add_argument("--metrics", required=True, metavar="FILE.nc", help=cube)
    layout(one, "PreGenerationLayout")

    latency = "inference times (cocal.study.costs.Latency)"
    one = table("time_to_confidence", "time before and after the response", _write_time_to_confidence)
    one.add_argument("--latency", required=True, type=Path, metavar="FILE.json", help=latency)
    layout(one, "TimesLayout")

    one = table("cost", "time of training and inference", _write_cost)
    for flag, text in (
        ("training", "time of GRPO training (cocal.study.costs.Cost)"),
        ("sampling", "time of PostCal's sampling"),
        ("companions", "time of the fit on all rollouts"),
        ("postcal-companions", "time of the fit on all of PostCal's responses"),
        ("latency", latency),
    ):
        one.add_argument(f"--{flag}", required=True, type=Path, metavar="FILE.json", help=text)
    layout(one, "CostLayout")

    one = tables.add_parser("all", help="a LaTeX document of all tables")
    one.add_argument("--tables", nargs="+", required=True, type=Path, metavar="FILE.tex", help="tables, in order")
    one.add_argument("--output", required=True, type=Path, metavar="FILE.tex", help="document to write")
    one.set_defaults(write=_write_all)


def run(options: argparse.Namespace) -> None:
    """Write the table that was named."""
    options.write(options)


def _write_main(options: argparse.Namespace) -> None:
    from cocal.config import parse_settings
    from cocal.exhibits.layout import MainLayout
    from cocal.exhibits.main import columns, main_grid, prepare_main
    from cocal.store import digest, read_dataset

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
    source = _source(layout.study, metrics=_digests(cube), layout=digest(made_of))
    _save(options, main_grid(numbers, layout, step=options.step, seeds=_seeds(cube), source=source), numbers)


def _write_hyperparameters(options: argparse.Namespace) -> None:
    from cocal.config import parse_settings
    from cocal.config.study import Study
    from cocal.exhibits.hyperparameters import WrongRows, hyperparameters_grid, prepare_hyperparameters
    from cocal.store import digest

    study = parse_settings(Study, options.study, "--study")
    wrong = parse_settings(WrongRows, options.wrong_rows, "--wrong-rows")
    settings = prepare_hyperparameters(study, wrong.root)
    _save(options, hyperparameters_grid(settings, study, source=_source(study.study, settings=digest(study))), settings)


def _write_token_aggregation(options: argparse.Namespace) -> None:
    from cocal.config import parse_settings
    from cocal.exhibits.layout import AggregationLayout
    from cocal.exhibits.token_aggregation import prepare_token_aggregation, token_aggregation_grid
    from cocal.store import digest, read_dataset

    layout = parse_settings(AggregationLayout, options.layout, "--layout")
    cubes = [read_dataset(path) for path in options.metrics]
    numbers = prepare_token_aggregation(cubes, layout)
    source = _source(layout.study, metrics=_digests(*cubes), layout=digest(layout))
    _save(options, token_aggregation_grid(numbers, layout, seeds=_seeds(cubes[0]), source=source), numbers)


def _write_pre_generation(options: argparse.Namespace) -> None:
    from cocal.config import parse_settings
    from cocal.exhibits.layout import PreGenerationLayout
    from cocal.exhibits.pre_generation import pre_generation_grid, prepare_pre_generation
    from cocal.store import digest, read_dataset

    layout = parse_settings(PreGenerationLayout, options.layout, "--layout")
    cube = read_dataset(options.metrics)
    numbers = prepare_pre_generation(cube, layout)
    source = _source(layout.study, metrics=_digests(cube), layout=digest(layout))
    _save(options, pre_generation_grid(numbers, layout, seeds=_seeds(cube), source=source), numbers)


def _write_time_to_confidence(options: argparse.Namespace) -> None:
    from cocal.config import parse_settings
    from cocal.exhibits.layout import TimesLayout
    from cocal.exhibits.time_to_confidence import prepare_time_to_confidence, time_to_confidence_grid
    from cocal.store import digest
    from cocal.study.costs import Latency, read_cost

    layout = parse_settings(TimesLayout, options.layout, "--layout")
    latency = read_cost(options.latency, Latency)
    numbers = prepare_time_to_confidence(latency, layout, str(options.latency))
    source = _source(layout.study, latency=digest(latency), layout=digest(layout))
    _save(options, time_to_confidence_grid(numbers, layout, latency, source=source), numbers)


def _write_cost(options: argparse.Namespace) -> None:
    from cocal.config import parse_settings
    from cocal.exhibits.cost import Costs, cost_grid, prepare_cost
    from cocal.exhibits.layout import CostLayout
    from cocal.store import digest
    from cocal.study.costs import Cost, Latency, read_cost

    layout = parse_settings(CostLayout, options.layout, "--layout")
    costs = Costs(
        training=read_cost(options.training, Cost),
        sampling=read_cost(options.sampling, Cost),
        companions=read_cost(options.companions, Cost),
        postcal_companions=read_cost(options.postcal_companions, Cost),
        latency=read_cost(options.latency, Latency),
    )
    numbers = prepare_cost(costs)
    source = _source(layout.study, costs=digest(vars(costs)), layout=digest(layout))
    _save(options, cost_grid(numbers, layout, costs, source=source), numbers)


def _write_all(options: argparse.Namespace) -> None:
    import logging

    from cocal.exhibits.typesetting.document import document
    from cocal.store import write_text

    write_text(options.output, document(options.tables, options.output))
    logging.getLogger(__name__).info("table all: wrote %s", options.output)


def _seeds(cube: "xr.Dataset") -> int:
    """Companion seeds of a cube: its other label is their mean."""
    return cube.sizes["seed"] - 1


def _digests(*cubes: "xr.Dataset") -> str:
    return ", ".join(cube.attrs.get("digest", "unknown") for cube in cubes)


def _source(study: str, **digests: str) -> str:
    return "; ".join([f"study {study}", *(f"{name} {value}" for name, value in digests.items())])


def _save(options: argparse.Namespace, grid: "Grid", numbers: "pd.DataFrame") -> None:
    """Write the table in its three forms."""
    import logging

    from cocal.exhibits.typesetting.html import page
    from cocal.exhibits.typesetting.latex import latex
    from cocal.metrics.shown import csv_text
    from cocal.store import write_text

    write_text(options.output, latex(grid))
    write_text(options.html, page(grid))
    write_text(options.csv, csv_text(numbers))
    logging.getLogger(__name__).info(
        "table %s: wrote %s, %s, %s", options.table, options.output, options.html, options.csv
    )
