"""`cocal metrics`: compute the metric cube with bootstrap intervals."""

import argparse
import logging
from pathlib import Path

from cocal.commands.flags import add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", help="metric settings: JSON text, or a YAML or JSON file")
    parser.add_argument("--groups", help='JSON: macro averages, such as {"macro-mathematics": ["math500", ...]}')
    parser.add_argument("--seeds", type=int, nargs="+", help="seeds that every companion must have (default: all)")
    parser.add_argument(
        "--predictions", nargs="+", required=True, type=Path, metavar="FILE", help="Parquet files or folders"
    )
    parser.add_argument(
        "--sweep",
        nargs="+",
        default=[],
        choices=["source_step", "validation_step", "layer", "pooling"],
        help="dimensions of the cube along which a method has several companions",
    )
    parser.add_argument(
        "--common-responses",
        action="store_true",
        help="confidence metrics cover only responses for which all methods that share them have a valid confidence",
    )
    parser.add_argument(
        "--scores",
        action="store_true",
        help="add the scores beyond the paper's metrics, such as the Brier score and the area under the risk",
    )
    add_output(parser, "--output", required=True, metavar="FILE.nc", help="metric cube to write")
    add_output(parser, "--resamples", metavar="FILE.nc", help="file for the paper's metrics of every resample")


def run(options: argparse.Namespace) -> None:
    """Compute the cube and write it."""
    import pandas as pd

    from cocal.config import parse_settings
    from cocal.config.evaluation import MacroAverages, MetricSettings
    from cocal.metrics.calibration import METRICS
    from cocal.metrics.cube import evaluate_cells, on_common_responses
    from cocal.metrics.resamples import resamples_of
    from cocal.metrics.scores import ALL
    from cocal.store import read_frame, write_dataset
    from cocal.store.contracts import PREDICTIONS
    from cocal.study.lineage import Source, descent, inherited

    settings = parse_settings(MetricSettings, options.settings)
    groups = parse_settings(MacroAverages, options.groups, "--groups")
    frames = [read_frame(path, PREDICTIONS) for path in options.predictions]
    predictions = pd.concat(frames, ignore_index=True)
    if options.common_responses:
        predictions = on_common_responses(predictions)
    present = set(predictions["dataset"].unique())
    for group, members in groups.root.items():
        for name in sorted(set(members) - present):
            logging.warning("no predictions on %s, so %s stays empty", name, group)
    metrics = ALL if options.scores else METRICS
    evaluated = evaluate_cells(predictions, settings, groups.root, options.seeds, options.sweep, metrics)
    depends_on = {"metrics": settings, "groups": groups.root, "seeds": options.seeds, "sweep": options.sweep}
    depends_on |= {"common_responses": options.common_responses, "scores": options.scores}
    sources = list(map(Source, options.predictions))
    facts = inherited(options.predictions[0], "backbone")
    write_dataset(options.output, evaluated.cube(), descent(options.output, "metrics", depends_on, sources, **facts))
    logging.info("wrote %s", options.output)
    if options.resamples:
        made = descent(options.resamples, "metrics", depends_on, sources, **facts)
        write_dataset(options.resamples, resamples_of(evaluated), made)
        logging.info("wrote %s", options.resamples)
