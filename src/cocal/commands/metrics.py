"""`cocal metrics`: compute the metric cube with bootstrap intervals."""

import argparse
import logging

import pandas as pd

from cocal.config import parse_settings
from cocal.config.evaluation import MacroAverages, MetricSettings
from cocal.metrics.calibration import METRICS
from cocal.metrics.cube import evaluate_cells, on_common_responses
from cocal.metrics.resamples import resamples_of
from cocal.metrics.scores import ALL, PAIRED
from cocal.store import read_frame, write_dataset
from cocal.store.contracts import PREDICTIONS
from cocal.study.lineage import Source, descent, inherited


def run(options: argparse.Namespace) -> None:
    """Compute the cube and write it."""
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
    evaluated = evaluate_cells(
        predictions, settings, groups.root, options.seeds, options.sweep, ALL if options.scores else PAIRED
    )
    depends_on = {"metrics": settings, "groups": groups.root, "seeds": options.seeds, "sweep": options.sweep}
    depends_on |= {"common_responses": options.common_responses, "scores": options.scores}
    sources = list(map(Source, options.predictions))
    facts = inherited(options.predictions[0], "backbone")
    write_dataset(
        options.output, evaluated.cube(metrics), descent(options.output, "metrics", depends_on, sources, **facts)
    )
    logging.info("wrote %s", options.output)
    if options.resamples:
        made = descent(options.resamples, "metrics", depends_on, sources, **facts)
        write_dataset(options.resamples, resamples_of(evaluated), made)
        logging.info("wrote %s", options.resamples)
