"""`cocal decide`: choose among the responses of a scored file, or abstain."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from cocal.own_policy.scored import Reading, Scored

_TITLES = {
    "best-of-n": "best of n",
    "vote": "confidence-weighted vote",
    "majority": "majority vote",
    "first": "first response",
}
_ABSTAIN = """\
The most confident response to each question is given if its confidence reaches a threshold; otherwise the verdict is
"abstain". Labelled responses to other questions certify the threshold by Learn then Test (Angelopoulos et al., 2021,
arXiv:2110.01052), with exact binomial p-values and fixed sequence testing in its fallback form (Wiens, 2003). With a
probability of at least 1 - DELTA over the calibration questions, a new question that is answered is answered wrongly
with a probability of at most RISK. This holds for any confidences, as long as calibration and new questions are
independent draws from one distribution, each with one decided response; further responses to a question count for
nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    from cocal.commands.flags import CHANCE, RESAMPLES, SHARE

    ways = parser.add_subparsers(dest="way", required=True, metavar="best-of-n | vote | abstain")
    for name, description in {
        "best-of-n": "Give each question its most confident response, among equals the earliest.",
        "vote": "Give each question the answer with the largest sum of confidences, by its most confident response. "
        "Between answers with equal sums the one that occurs first wins. A response without an answer has no vote.",
        "abstain": _ABSTAIN,
    }.items():
        way = ways.add_parser(name, description=description)
        _add_files(way)
        if name != "abstain":
            way.add_argument(
                "--answer",
                metavar="FIELD",
                help="field of the response's answer, or `boxed`: its last box (default: `answer`, else `boxed`)",
            )
            way.add_argument(
                "--domain",
                default="mathematics",
                choices=["mathematics", "factual"],
                help="how equal answers are found: by the verifier of mathematics, or by exact match",
            )
            way.add_argument(
                "--resamples", type=RESAMPLES, default=1000, help="resamples of the questions for intervals"
            )
            continue
        source = way.add_mutually_exclusive_group(required=True)
        source.add_argument("--calibration", type=Path, metavar="LABELLED", help="scored lines with labels, others")
        source.add_argument("--threshold", type=SHARE, metavar="T", help="a threshold that was certified earlier")
        way.add_argument("--max-risk", type=CHANCE, metavar="RISK", help="bound of the risk (default: 0.1)")
        way.add_argument("--delta", type=CHANCE, help="chance that the bound fails (default: 0.1)")


def _add_files(way: argparse.ArgumentParser) -> None:
    from cocal.commands.flags import FINITE, add_fields, add_output, add_overwrite

    way.add_argument("input", type=Path, metavar="scored.jsonl", help="JSON lines, as `cocal score` writes them")
    add_output(way, "--output", required=True, metavar="OUT", help="JSON lines, one for each question")
    add_overwrite(way)
    add_fields(way, "such as correct=acc, reward=score or question_id=id")
    way.add_argument("--name", default="confidence", metavar="FIELD", help="field of the confidence")
    way.add_argument("--correct-above", type=FINITE, metavar="X", help="a reward above X is a correct response")


def run(options: argparse.Namespace) -> None:
    """Decide, write the decisions, and say what was decided and how good it is."""
    from cocal.commands.flags import field_mapping
    from cocal.own_policy.scored import Reading

    answer = getattr(options, "answer", None)
    reading = Reading(field_mapping(options.field), options.name, answer, options.correct_above)
    if options.way == "abstain":
        _abstain(options, reading)
    else:
        _choose(options, reading)


def _choose(options: argparse.Namespace, reading: "Reading") -> None:
    import numpy as np

    from cocal.own_policy.deciding import classes_of, rules, vote_shares, write_decisions
    from cocal.own_policy.scored import read_scored

    voting = options.way == "vote"
    added = ("responses", "vote_share") if voting else ("responses",)
    pools = read_scored(options.input, reading, ("question",), added, answers=True)
    compared = voting or (pools.correct is not None and any(pools.answers))
    classes = classes_of(pools, options.domain) if compared else None
    chosen = rules(pools, classes)
    rows = chosen[options.way]
    values = {"responses": np.bincount(pools.question).tolist()}
    if voting:
        shares = vote_shares(pools, classes, rows)
        values["vote_share"] = [None if np.isnan(share) else share for share in shares.tolist()]
    write_decisions(pools, rows, values, options.output)
    _say_read(pools)
    print(f"{options.output}: the {_TITLES[options.way]} decides {len(rows):,} questions")
    others = [name for name in ("majority", "first") if name in chosen]
    if compared and pools.largest > 1 and not (classes > 0).any():
        print("  All responses to a question agree. Does the field hold the right answer instead? Then --answer boxed.")
    if not compared and pools.correct is not None:
        print(f"  It is not compared with the majority vote, since {pools.without_answers}.")
    for name in others if compared else ():
        changed = int((classes[chosen[name]] != classes[rows]).sum())
        print(f"  {changed:,} of them get another answer than that of the {_TITLES[name]}")
    _say_accuracies(pools, {name: chosen[name] for name in (options.way, *others)}, options.resamples)


def _abstain(options: argparse.Namespace, reading: "Reading") -> None:
    import numpy as np

    from cocal.commands.flags import field_flags, given_flags
    from cocal.errors import ConfigError
    from cocal.integrations.lines import NEEDED
    from cocal.metrics.abstention import fewest_questions
    from cocal.metrics.choices import best_of_n
    from cocal.own_policy.deciding import threshold_for, write_decisions
    from cocal.own_policy.scored import read_scored

    if options.threshold is not None and (options.max_risk or options.delta):
        raise ConfigError("--max-risk and --delta certify a threshold by --calibration; leave them out, or --threshold")
    max_risk, delta = options.max_risk or 0.1, options.delta or 0.1
    pools = read_scored(options.input, reading, ("question",), ("decision",))
    threshold = options.threshold
    if options.calibration:
        calibration = read_scored(options.calibration, reading, ("question",))
        threshold = threshold_for(pools, calibration, max_risk=max_risk, delta=delta)
    rows = best_of_n(pools.question, pools.confidence)
    answered = pools.confidence[rows] >= (np.inf if threshold is None else threshold)
    decisions = np.where(answered, "answer", "abstain").tolist()
    write_decisions(pools, rows, {"decision": decisions}, options.output)
    _say_read(pools)
    if options.calibration:
        _say_read(calibration)
    risk, sure = f"{100 * max_risk:g} %", f"{100 * (1 - delta):g} %"
    if threshold is None:
        print(
            f"No threshold can be certified: {calibration.source} does not show that any of them keeps the risk at or "
            f"below {risk} with a probability of {sure}, so every question abstains. Give more calibration questions "
            f"({fewest_questions(max_risk, delta)} with confident and right responses do, and it takes "
            "more where some are wrong), or a larger --max-risk or --delta."
        )
    else:
        print(f"threshold {threshold!r}: questions with at least this confidence are answered")
    if threshold is not None and options.calibration:
        print(
            f"  With a probability of at least {sure}, at most {risk} of answered questions from this source are wrong "
            "(Learn then Test)."
        )
        unlabelled = {meaning: name for meaning, name in reading.mapping.items() if meaning not in NEEDED["label"]}
        words = ["--threshold", repr(threshold), "--output", "OUT", *given_flags(options, {"name": "confidence"})]
        words = shlex.join([*words, *field_flags(unlabelled)])
        print(f"  Later files need no labels: cocal decide abstain FILE {words}")
    print(f"{options.output}: {answered.sum():,} of {len(rows):,} questions are answered, the others abstain")
    if pools.correct is not None and answered.any():
        right = pools.correct[rows]
        among, of_all = 100 * (~right[answered]).mean(), 100 * (~right).mean()
        print(f"  wrong among the answered: {among:.1f} %; among all: {of_all:.1f} %")


def _say_read(pools: "Scored") -> None:
    print(f"{pools.source}: {len(pools.question):,} responses to {len(pools.names):,} questions")
    for note in pools.notes:
        print(f"  {note}")


def _say_accuracies(pools: "Scored", chosen: "Mapping[str, np.ndarray]", resamples: int) -> None:
    from cocal.config.evaluation import MetricSettings
    from cocal.config.load import validate
    from cocal.metrics.shown import metric_text
    from cocal.own_policy.deciding import accuracies

    if pools.correct is None:
        print("  The lines have no labels, so the accuracy is unknown.")
        return
    settings = validate(MetricSettings, {"resamples": resamples}, "--resamples")
    for row in accuracies(pools, chosen, settings).itertuples():
        value, lower, upper = (metric_text("accuracy", number) for number in (row.value, row.lower, row.upper))
        print(f"  accuracy of the {_TITLES[row.rule]:<26} {value:>5} %  ({lower} to {upper})")
