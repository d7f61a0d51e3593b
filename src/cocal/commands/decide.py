"""`cocal decide`: choose among responses, or abstain, by their confidences."""

import argparse
import shlex
from functools import partial

import numpy as np

from cocal.commands.flags import field_flags, given_flags
from cocal.confidence import deciding
from cocal.confidence.deciding import read_trajectories, write_decisions
from cocal.confidence.scored import read_scored
from cocal.errors import ConfigError
from cocal.metrics.choices import best_of_n, fewest_questions
from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import UNDEFINED, metric_text
from cocal.rollouts.format import Reading
from cocal.rollouts.lines import NEEDED

_TITLES = {
    "best-of-n": "best of n",
    "vote": "confidence-weighted vote",
    "majority": "majority vote",
    "first": "first response",
}

_RARE = 0.01
"""Probability, under the certified risk, below which the number of wrong answers is reported as too large."""


def run_decide(options: argparse.Namespace) -> None:
    """Decide, write the decisions, and say what was decided and how good it is."""
    reading = Reading(fields=dict(options.field), correct_above=options.correct_above)
    {"abstain": _abstain, "stop": _stop}.get(options.way, _choose)(options, reading)


def _choose(options: argparse.Namespace, reading: Reading) -> None:
    voting = options.way == "vote"
    pools = read_scored(
        options.input, reading, ("question",), ("responses",), name=options.name, answers=True, answer=options.answer
    )
    compared = voting or (pools.correct is not None and any(pools.answers))
    classes = deciding.classes_of(pools, options.domain) if compared else None
    chosen = deciding.rules(pools, classes)
    rows = chosen[options.way]
    write_decisions(pools, rows, {"responses": np.bincount(pools.question).tolist()}, options.output)
    print(pools.as_read)
    print(f"{options.output}: the {_TITLES[options.way]} decides {len(rows):,} question{'s' * (len(rows) != 1)}")
    baselines = [name for name in ("majority", "first") if name in chosen]
    if classes is not None and pools.sizes.max() > 1 and not (classes > 0).any():
        print("  All responses to a question agree. Does the field hold the right answer instead? Then --answer boxed.")
    if not compared and pools.correct is not None:
        print(f"  It is not compared with the majority vote, since {pools.without_answers}.")
    if classes is not None:
        for name in baselines:
            changed = int((classes[chosen[name]] != classes[rows]).sum())
            print(f"  {changed:,} of them get another answer than that of the {_TITLES[name]}")
    if pools.correct is None:
        print("  The lines have no labels, so the accuracy is unknown.")
        return
    measured = {name: chosen[name] for name in (options.way, *baselines)}
    for row in deciding.accuracies(pools, measured, MetricSettings(resamples=options.resamples)).itertuples():
        value, lower, upper = (metric_text("accuracy", number) for number in (row.value, row.lower, row.upper))
        interval = "" if lower == UNDEFINED else f"  ({lower} to {upper})"
        print(f"  accuracy of the {_TITLES[row.rule]:<26} {value:>5} %{interval}")


def _bounds(options: argparse.Namespace, flag: str) -> tuple[float, float]:
    """The bound of the risk, and the chance that it fails."""
    risk = getattr(options, flag)
    if options.threshold is not None and (risk or options.delta):
        raise ConfigError(
            f"--{flag.replace('_', '-')} and --delta certify a threshold by --calibration; leave them out, or "
            "--threshold"
        )
    return risk or 0.1, options.delta or 0.1


def _say_threshold(options: argparse.Namespace, threshold: float | None, unshown: str, meaning: str, kept: str) -> None:
    """Print what the threshold means and what is certified; without one, print what the calibration does not show."""
    if threshold is None:
        print(f"No threshold can be certified: {options.calibration} does not show that {unshown} or --delta.")
        return
    print(f"threshold {threshold!r}: {meaning}")
    if options.calibration:
        print(f"  With a probability of at least {kept}, if the companion has not learnt from them (Learn then Test).")


def _abstain(options: argparse.Namespace, reading: Reading) -> None:
    max_risk, delta = _bounds(options, "max_risk")
    pools = read_scored(options.input, reading, ("question",), ("decision",), name=options.name)
    threshold = options.threshold
    said = [pools.as_read]
    if options.calibration:
        calibration = read_scored(options.calibration, reading, ("question",), name=options.name)
        certify = partial(deciding.threshold_for, pools, calibration, delta=delta)
        threshold = certify(max_risk=max_risk)
        said.append(calibration.as_read)
        risks = (percent for percent in range(1, 100) if certify(max_risk=percent / 100) is not None)
        if threshold is None and (least := next(risks, None)):
            said.append(
                f"  the lowest risk that it certifies is {least} %; to choose a bound by this, certify it by others"
            )
    rows = best_of_n(pools.question, pools.confidence)
    answered = pools.confidence[rows] >= (np.inf if threshold is None else threshold)
    decisions = np.where(answered, "answer", "abstain").tolist()
    write_decisions(pools, rows, {"decision": decisions}, options.output)
    print(*said, sep="\n")
    risk, sure = f"{100 * max_risk:g} %", f"{100 * (1 - delta):g} %"
    _say_threshold(
        options,
        threshold,
        f"any of them keeps the risk at or below {risk} with a probability of {sure}, so every question abstains. Give "
        f"more calibration questions ({fewest_questions(max_risk, delta)} with confident and right responses do, and "
        "it takes more where some are wrong), or a larger --max-risk",
        "questions with at least this confidence are answered",
        f"{sure}, at most {risk} of answered questions from this source are wrong",
    )
    if threshold is not None and options.calibration:
        unlabelled = {meaning: name for meaning, name in reading.fields.items() if meaning not in NEEDED["label"]}
        words = ["--threshold", repr(threshold), "--output", "OUT", *given_flags(options, {"name": "confidence"})]
        words = shlex.join([*words, *field_flags(unlabelled)])
        print(f"  Later files, with as many responses to a question, need no labels: cocal decide abstain FILE {words}")
    print(f"{options.output}: {answered.sum():,} of {len(rows):,} questions are answered, the others abstain")
    if pools.correct is not None and answered.any():
        wrong = ~pools.correct[rows]
        among, of_all = 100 * wrong[answered].mean(), 100 * wrong.mean()
        print(f"  wrong among the answered: {among:.1f} %; among all: {of_all:.1f} %")
        from scipy.stats import binom

        chance = binom.sf(wrong[answered].sum() - 1, answered.sum(), max_risk)
        if options.calibration and chance < _RARE:
            print(f"  That is more than {risk}, by more than chance: these questions are hardly from the same source.")


def _stop(options: argparse.Namespace, reading: Reading) -> None:
    risk, delta = _bounds(options, "risk")
    new, threshold = read_trajectories(options.input, reading, ("stopped_at",), options.name), options.threshold
    print(new.scored.as_read)
    if options.calibration:
        old = read_trajectories(options.calibration, reading, name=options.name)
        print(old.scored.as_read)
        threshold = deciding.threshold_to_stop(new, old, max_risk=risk, delta=delta)
    _say_threshold(
        options,
        threshold,
        f"at most {100 * risk:g} % of the stopped responses would have been right, so none is stopped. Give more "
        f"calibration questions ({fewest_questions(risk, delta)} whose response is stopped and wrong do), or a larger "
        "--risk",
        "responses are stopped where their confidence falls below it\n"
        f'  For `cocal serve`: "confidence_every": {new.every}, "confidence_stop_below": {threshold!r}',
        f"{100 * (1 - delta):g} %, at most {100 * risk:g} % of stopped responses from this source would have been "
        "right",
    )
    at, right = new.stopped(0.0 if threshold is None else threshold), new.scored.correct
    places, stopped = [place or None for place in at.tolist()], at > 0
    write_decisions(new.scored, np.arange(len(at)), {"stopped_at": places}, options.output)
    saved = 100 * (new.tokens - at)[stopped].sum() / new.tokens.sum()
    print(f"{options.output}: {stopped.sum():,} of {len(at):,} responses are stopped, {saved:.1f} % of tokens saved")
    if right is not None and stopped.any():
        among, lost = right[stopped].mean(), right[stopped].sum() / max(right.sum(), 1)
        print(f"  right among the stopped: {100 * among:.1f} %; of all right responses {100 * lost:.1f} % are lost")
