"""`cocal evaluate`: a report of confidences that somebody has."""

import argparse
import logging

from cocal.commands.flags import field_mapping
from cocal.confidence import saved
from cocal.confidence.evaluation import NAMES, read, report
from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import UNDEFINED, metric_text
from cocal.rollouts.format import Reading


def run_evaluate(options: argparse.Namespace) -> None:
    """Measure, write the report, and say the main numbers."""
    reading = Reading(fields=field_mapping(options.field), correct_above=options.correct_above)
    scored = read(options.input, reading, options.name)
    card = None if options.companion is None else saved.read(saved.folder_of(options.companion))[1].held_out
    settings = MetricSettings(resamples=options.resamples)
    numbers, beside = report(scored, options.output, settings, card)
    numbers = numbers.set_index("metric")
    print(scored.as_read)
    for metric, (title, meaning) in NAMES.items():
        value, lower, upper = (metric_text(metric, numbers.at[metric, name]) for name in ("value", "lower", "upper"))
        interval = "" if lower == UNDEFINED else f"  ({lower} to {upper})"
        print(f"  {title:<30} {value:>6}{interval}  {meaning}")
    print("\n".join(["\nWhat others reach by the same labels, out of fold:", "", *beside, ""]))
    if numbers.at["auroc", "upper"] < 0.5:
        logging.warning(
            "wrong responses have the higher confidences: is either, label or confidence, the wrong way round?"
        )
    print(f"{options.output / 'index.html'}: the report on one page")
