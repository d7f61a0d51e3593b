"""`cocal monitor`: does a companion still hold on a later checkpoint? Its quality on new labelled rollouts."""

import argparse
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from cocal.confidence import LEARNT
from cocal.confidence.companion import Companion
from cocal.errors import ContractError
from cocal.fitting.config import prompt_digest
from cocal.fitting.fit import digest_of, of_later_steps, read
from cocal.fitting.held_out import LEAST_QUESTIONS, Metric
from cocal.fitting.models import Checkpoint
from cocal.fitting.quality import WRONG_WAY, measured
from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import metric_text
from cocal.models.loading import Policy
from cocal.rollouts.encoding import Encoder
from cocal.rollouts.experience import Experience
from cocal.rollouts.lines import NEEDED
from cocal.runtime.lock import hold
from cocal.runtime.machine import fix_threads, usual_batch_tokens
from cocal.store import write_text

WATCHED = {"ece": ("upper", "max_ece"), "auroc": ("lower", "min_auroc"), "brier": ("upper", "max_brier")}
"""The metrics that are compared with a bound, each with the worse end of its interval and the flag of its bound."""

LEFT = 3
"""Exit status if the companion no longer holds; no error has this status."""


def run_monitor(options: argparse.Namespace) -> None:
    """Measure, compare with the bounds, add a line to the file, and exit with status `LEFT` if a bound is broken.

    A metric breaks its bound if its whole interval is worse; if its value alone is, this is printed. A bound that is
    not given is the worse end of the interval on the companion's card. A ContractError names useless rollouts.
    """
    fix_threads(alone=True)
    companion = Companion.from_pretrained(options.companion)
    config, by = companion.config, companion.identity()[:12]
    checkpoint = Checkpoint.find(options.model, options.revision)
    config.check_model(checkpoint.architecture)
    config.spec.chosen(options.target)
    card = {metric.metric: metric for metric in config.held_out.metrics} if config.held_out else {}
    bounds = _bounds(options, card)
    hold(options.output)  # two processes at once would lose a line
    policy = checkpoint.load(options.precision)
    companion, experience = _new(options, companion, policy)
    rows, step = experience.rows, checkpoint.step
    last = int(rows["step"].max()) if experience.has_steps else 0
    if note := of_later_steps(step, last):
        logging.warning(note)
    step = last or None if step is None else step  # of the rollouts, where the checkpoint's folder does not say it
    ids = (rows[name].tolist() for name in ("prompt_ids", "response_ids"))
    tokens = options.batch_tokens or usual_batch_tokens()
    scored = companion.score(policy.model, policy.tokenizer, *ids, target=options.target, batch_tokens=tokens)
    confidence = cast(np.ndarray, scored)  # no trajectories were asked for
    settings = MetricSettings(resamples=options.resamples)
    correct = rows["correct"].to_numpy()
    metrics = measured(rows["question"], confidence, correct, settings, [*WATCHED]).set_index("metric")
    line = {"checkpoint": checkpoint.name, "step": step, "responses": len(rows)}
    line["questions"] = rows["question"].nunique()
    left, doubtful = [], []
    for name, (end, _) in WATCHED.items():
        value, lower, upper = metrics.loc[name, ["value", "lower", "upper"]]
        bound, stated = bounds[name], card.get(name)
        line |= {name: value, f"{name}_lower": lower, f"{name}_upper": upper, f"{name}_bound": bound}
        if bound is not None:
            sign, best = (1, lower) if end == "upper" else (-1, upper)
            if sign * (best - bound) > 0:
                left.append(name)
            elif sign * (value - bound) > 0:
                doubtful.append(name)
        shown = {"": value, "from": lower, "to": upper, "bound": bound, "card": getattr(stated, "value", None)}
        texts = (f"{word} {metric_text(name, n)}" for word, n in shown.items() if n is not None)
        print(f"  {name:<6}{', '.join(texts)}{', LEFT' * (name in left)}{', no bound' * (bound is None)}")
    _add(options.output, line | {"holds": not left, "companion": by})
    if metrics.at["auroc", "upper"] < 0.5:
        logging.warning(WRONG_WAY)
    if left:
        print(f"{checkpoint.name}: the companion no longer holds ({', '.join(left)}); fit it anew on late rollouts")
        raise SystemExit(LEFT)
    if doubtful:
        print(
            f"{checkpoint.name}: the companion is not shown to be worse, but {', '.join(doubtful)} lies beyond the "
            "bound, and its interval does not; give more questions"
        )
    else:
        print(f"{checkpoint.name}: the companion holds")


def _bounds(options: argparse.Namespace, card: Mapping[str, Metric]) -> dict[str, float | None]:
    """The bound of each metric, as it is given or the worse end of the interval on the card; None without either."""
    given = {name: getattr(options, flag) for name, (_, flag) in WATCHED.items()}
    ends = {name: getattr(card.get(name), end, None) for name, (end, _) in WATCHED.items()}
    bounds = {name: ends[name] if bound is None else bound for name, bound in given.items()}
    if all(bound is None for bound in bounds.values()):
        raise ContractError(
            f"{options.companion}: its card has no interval to hold new numbers against; give a bound (--max-ece, "
            "--min-auroc, --max-brier)"
        )
    return bounds


def _new(options: argparse.Namespace, companion: Companion, policy: Policy) -> tuple[Companion, Experience]:
    """The companion with the given field names, and the rollouts. Raises a ContractError if these answer too few
    questions or seem to be rollouts that the companion has learnt from."""
    config, given, place = companion.config, dict(options.field), options.rollouts[0]
    labelled = {*given} & {*NEEDED["label"]}  # by another field than at the fit
    kept = {meaning: name for meaning, name in config.fields.items() if not (labelled and meaning in NEEDED["label"])}
    other = {"fields": {**kept, **given}, "max_response_length": options.max_response_length}
    other["correct_above"] = options.correct_above
    other["base_model"] = config.base_model.model_copy(update={"sample": None})  # a later checkpoint has other weights
    companion = companion.reading(options.ignore, **other)
    try:
        experience = read(options.rollouts, Encoder(policy, companion.config))
    except ContractError as error:
        remembered = (f"--field {meaning}={name};" for meaning, name in kept.items() if meaning not in given)
        if not any(flag in str(error) for flag in remembered):
            raise
        raise ContractError(f"{error} (the name is remembered from the fit: give another by --field)") from None
    rows = experience.rows
    if (questions := rows["question"].nunique()) < LEAST_QUESTIONS:
        raise ContractError(f"{place}: {questions} question(s) give no interval; it takes at least {LEAST_QUESTIONS}")
    known = config.prompts
    learnt = sum(prompt_digest(ids) in known for ids in rows["prompt_ids"])
    dated = experience.has_steps and config.has_steps and rows["step"].max() <= config.spec.steps
    if digest_of(rows) == config.learnt:
        said = "the companion has learnt from these rollouts, so that its quality on them says nothing"
        raise ContractError(f"{place}: {said}; give new ones of the later checkpoint")
    if dated and learnt == len(rows):
        said = "the companion has learnt from rollouts of these prompts and steps, and these seem to be a part of them"
        raise ContractError(f"{place}: {said}; give new ones, or leave their steps out if these are new")
    print("\n".join(f"  {note}" for note in experience.notes))
    if learnt:
        print(f"  {learnt:,} of {len(rows):,} prompts are {LEARNT}")
    return companion, experience


def _add(path: Path, line: dict) -> None:
    """Add a line to the file, which is replaced as a whole, unless the file already has it. Earlier lines keep their
    texts; those that an earlier version wrote have no companion."""
    new = {name: "" if pd.isna(value) else str(value) for name, value in line.items()}
    old = pd.read_csv(path, dtype=str, keep_default_na=False) if path.exists() else pd.DataFrame()
    if new in old.to_dict("records"):
        print(f"{path}: has this line already, and gets no second one")
        return
    write_text(path, pd.concat([old, pd.DataFrame([new])]).fillna("").to_csv(index=False))
