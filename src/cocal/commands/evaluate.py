"""`cocal evaluate`: how good the confidences of a file are."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    from cocal.commands.flags import FINITE, RESAMPLES, add_fields, add_output, add_overwrite
    from cocal.commands.outputs import FOLDER

    parser.add_argument("input", type=Path, metavar="scored.jsonl", help="JSON lines with `confidence` and a label")
    add_output(parser, "--output", kind=FOLDER, required=True, metavar="FOLDER", help="folder of the report")
    add_overwrite(parser)
    add_fields(parser, "such as correct=acc, reward=score or question_id=id")
    parser.add_argument("--name", default="confidence", metavar="FIELD", help="field of the confidence")
    parser.add_argument("--correct-above", type=FINITE, metavar="X", help="a reward above X is a correct response")
    parser.add_argument("--resamples", type=RESAMPLES, default=1000, help="resamples of the questions for intervals")


def run(options: argparse.Namespace) -> None:
    """Measure, write the report, and say the main numbers."""
    from cocal.commands.flags import field_mapping
    from cocal.config.evaluation import MetricSettings
    from cocal.config.load import validate
    from cocal.metrics.shown import UNDEFINED, metric_text
    from cocal.own_policy.evaluation import NAMES, read, report
    from cocal.own_policy.scored import Reading

    settings = validate(MetricSettings, {"resamples": options.resamples}, "--resamples")
    scored = read(
        options.input, Reading(field_mapping(options.field), options.name, correct_above=options.correct_above)
    )
    numbers = report(scored, options.output, settings).set_index("metric")
    print(f"{options.input}: {len(scored.correct):,} responses to {len(scored.names):,} questions")
    for note in scored.notes:
        print(f"  {note}")
    for metric, (title, meaning) in NAMES.items():
        value, lower, upper = (metric_text(metric, numbers.at[metric, name]) for name in ("value", "lower", "upper"))
        interval = "" if lower == UNDEFINED else f"  ({lower} to {upper})"
        print(f"  {title:<30} {value:>6}{interval}  {meaning}")
    print(f"{options.output / 'index.html'}: the report on one page")
