"""`cocal monitor`: does a companion still hold on a later checkpoint? Its quality on new labelled rollouts."""

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.commands.words import field_mapping
from cocal.config.evaluation import MetricSettings
from cocal.errors import ConfigError, ContractError
from cocal.metrics.shown import metric_text
from cocal.own_policy.companion import Companion
from cocal.own_policy.facts import LEAST_QUESTIONS
from cocal.own_policy.fitting import Reading, read
from cocal.own_policy.models import Checkpoint
from cocal.own_policy.quality import measured
from cocal.runtime.machine import fix_threads, usual_batch_tokens
from cocal.store import write_text

if TYPE_CHECKING:
    from accelerate import Accelerator

WATCHED = {"ece": "upper", "auroc": "lower", "brier": "upper"}
"""The metrics that are held against a bound, and which end of an interval is the worse one."""
COLUMNS = ("checkpoint", "step", "responses", "questions", "holds")
HEADER = [*COLUMNS, *(f"{name}{end}" for name in WATCHED for end in ("", "_lower", "_upper", "_bound"))]


def run_monitor(options: argparse.Namespace) -> None:
    """Measure, compare with the bounds, add a line to the file, and end with status 1 where a bound is left.

    A metric leaves its bound where its whole interval is worse. A bound that is not given is the worse end of the
    interval on the companion's card.

    Raises:
        ConfigError: if a tracker is not installed.
        ContractError: if the rollouts are not usable, or have too few questions for an interval.
    """
    fix_threads(alone=True)
    tracker = _tracker(options)
    companion = Companion.from_pretrained(options.companion)
    about, checkpoint = companion.about, Checkpoint.find(options.model, options.revision)
    checkpoint.check_fit(about)
    policy = checkpoint.load(options.precision)
    above = about.correct_above if options.correct_above is None else options.correct_above
    reading = Reading({**about.fields, **field_mapping(options.field)}, above)
    rows = read(options.rollouts, companion.encoder(policy), reading).rows
    if (questions := rows["question"].nunique()) < LEAST_QUESTIONS:
        raise ContractError(
            f"{options.rollouts[0]}: {questions} question(s) give no interval; it takes at least {LEAST_QUESTIONS}"
        )
    ids = (rows[name].tolist() for name in ("prompt_ids", "response_ids"))
    tokens = options.batch_tokens or usual_batch_tokens()
    confidence = companion.score(policy.model, policy.tokenizer, *ids, target=options.target, batch_tokens=tokens)
    settings = MetricSettings(resamples=options.resamples)
    found = measured(rows["question"], confidence, rows["correct"].to_numpy(), settings).set_index("metric")
    card = {one.metric: one for one in about.held_out.metrics} if about.held_out else {}
    line = {"checkpoint": checkpoint.name, "step": checkpoint.step, "responses": len(rows), "questions": questions}
    left = []
    for name, end in WATCHED.items():
        value, lower, upper = found.loc[name, ["value", "lower", "upper"]]
        given = getattr(options, f"{'max' if end == 'upper' else 'min'}_{name}")
        bound = getattr(card.get(name), end, None) if given is None else given
        line |= {name: value, f"{name}_lower": lower, f"{name}_upper": upper, f"{name}_bound": bound}
        if bound is not None and (lower > bound if end == "upper" else upper < bound):
            left.append(name)
        texts = [metric_text(name, number) for number in (value, lower, upper)]
        against = "no bound" if bound is None else f"bound {metric_text(name, bound)}"
        on_card = (
            f", on the card {metric_text(name, card[name].value)}" if getattr(card.get(name), "value", None) else ""
        )
        print(f"  {name:<6} {texts[0]}  ({texts[1]} to {texts[2]}), {against}{on_card}{', LEFT' * (name in left)}")
    line["holds"] = not left
    place = _add(options.output, line)
    if tracker is not None:
        numbers = {f"companion/{name}": float(line[name]) for name in WATCHED}
        tracker.log(
            numbers | {"companion/holds": int(not left)}, step=place if checkpoint.step is None else checkpoint.step
        )
        tracker.end_training()
    if left:
        print(f"{checkpoint.name}: the companion no longer holds ({', '.join(left)}); fit it anew on late rollouts")
        raise SystemExit(1)
    print(f"{checkpoint.name}: the companion holds")


def is_monitor(path: Path) -> bool:
    """True if a file is one that this command writes."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        return lines.readline().rstrip("\r\n").split(",") == HEADER


def _add(path: Path, line: dict) -> int:
    """Add a line to the file, which is replaced as a whole; returns the number of the line, counted from 1."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, HEADER, lineterminator="\n")
    if not path.exists():
        writer.writeheader()
    writer.writerow(line)
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = (path.read_text(encoding="utf-8") if path.exists() else "") + text.getvalue()
    write_text(path, whole)
    return whole.count("\n") - 1


def _tracker(options: argparse.Namespace) -> "Accelerator | None":
    """accelerate's writer for TensorBoard or W&B, if one is asked for."""
    if options.report_to is None:
        return None
    from accelerate import Accelerator
    from accelerate.utils import is_tensorboard_available, is_wandb_available

    if not {"tensorboard": is_tensorboard_available, "wandb": is_wandb_available}[options.report_to]():
        raise ConfigError(f"--report-to {options.report_to}: it is not installed here; pip install {options.report_to}")
    tracker = Accelerator(cpu=True, log_with=options.report_to, project_dir=str(options.output.parent))
    tracker.init_trackers("cocal-monitor")
    return tracker
