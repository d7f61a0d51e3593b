"""`cocal evaluate`: a report on the quality of confidences in a file."""

import argparse
import logging

from cocal.confidence.companion import Companion
from cocal.confidence.evaluation import NAMES, read, report
from cocal.confidence.scored import Scored
from cocal.errors import ContractError
from cocal.fitting.held_out import HeldOut
from cocal.fitting.quality import WRONG_WAY
from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import UNDEFINED, metric_text
from cocal.rollouts.format import Reading


def _card(name: str, scored: Scored) -> dict[str, HeldOut]:
    """The held-out quality on the companion's card, by what it is of. Raises a ContractError if another companion gave
    the confidences, and logs a warning if the lines do not say which one did."""
    companion = Companion.from_pretrained(name)
    own = companion.identity()[:12]
    if others := [text for text in scored.companions if text.split()[:1] != [own]]:
        raise ContractError(
            f"{scored.source}: the confidences are by the companion {others[0]}, and {name} is {own}; give the one "
            "that gave them (--companion), or leave it out"
        )
    if not scored.companions:
        logging.warning("%s: no line says which companion gave its confidence; it may be another one", scored.source)
    config, stage = companion.config, ", last stage" if companion.config.held_out_all_steps else ""
    return {f"on the companion's card{stage}": config.held_out} if config.held_out else {}


def run_evaluate(options: argparse.Namespace) -> None:
    """Measure, write the report, and say the main numbers."""
    reading = Reading(fields=dict(options.field), correct_above=options.correct_above)
    scored = read(options.input, reading, options.name, options.beside)
    card = {} if options.companion is None else _card(options.companion, scored)
    settings = MetricSettings(resamples=options.resamples)
    numbers, beside = report(scored, options.output, settings, card)
    numbers = numbers.set_index("metric")
    print(scored.as_read)
    for metric, (title, meaning) in NAMES.items():
        value, lower, upper = (metric_text(metric, numbers.at[metric, name]) for name in ("value", "lower", "upper"))
        interval = "" if lower == UNDEFINED else f"  ({lower} to {upper})"
        print(f"  {title:<30} {value:>6}{interval}  {meaning}")
    print("\n".join(["", *beside, ""]))
    if numbers.at["auroc", "upper"] < 0.5:
        logging.warning(WRONG_WAY)
    print(f"{options.output / 'index.html'}: the report on one page")
