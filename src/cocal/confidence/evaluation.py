"""Quality of the confidences in a file: numbers with intervals, two plots, one page."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
from jinja2 import Environment
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cocal.confidence.scored import BOXED, Scored, read_scored
from cocal.drawing.bins import legend_entries, plot_reliability
from cocal.drawing.style import INK, LEGEND, SMALL_PRINT, TEXT_WIDTH, paper_style, save_figure
from cocal.errors import ConfigError, ContractError
from cocal.fitting.baselines import FLAG, agreement, baselines, recalibrated
from cocal.fitting.config import CompanionConfig
from cocal.fitting.held_out import LEAST_QUESTIONS, HeldOut
from cocal.fitting.quality import measured, quality_of
from cocal.fitting.recipes import LEAST_FOLDS, folds_of
from cocal.metrics.calibration import reliability_bins
from cocal.metrics.ordered import Ordered
from cocal.metrics.scores import PAIRED
from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import csv_text, metric_text
from cocal.rollouts.format import Reading
from cocal.store import write_text
from cocal.store.atomic import together

NAMES = {
    "accuracy": ("Accuracy (%)", "share of correct responses, with or without a valid confidence"),
    "mean_confidence": ("Mean confidence", "near the accuracy, if it is calibrated"),
    "ece": ("ECE", "calibration error of ten equal bins; 0 is best"),
    "auroc": (
        "AUROC",
        "chance that a correct response has a higher confidence than a wrong one; 1 is best, 0.5 is none",
    ),
    "brier": ("Brier score", "mean squared error; 0 is best"),
    "log_loss": ("Log loss", "0 is best"),
    "smooth_ece": ("Smooth ECE", "calibration error without bins; 0 is best"),
    "aurc": ("AURC", "mean risk over all coverages; 0 is best"),
    "prr": ("PRR", "prediction rejection ratio; 1 is the best order, 0 a random one"),
    "accuracy_at_80": ("Accuracy at 80 % coverage (%)", "of the most confident 80 %"),
    "accuracy_at_50": ("Accuracy at 50 % coverage (%)", "of the most confident half"),
}
"""The metrics of the page, with their titles and what they mean."""
COVERAGES = np.arange(5, 101) / 100
"""Coverages that are drawn; smaller ones rest on a few responses."""
AFTER = " after recalibration"
"""Suffix of the name of a confidence that is refitted to the labels, as the baselines are."""
OWN = f"itself{AFTER}"
_FITTED = "Beside what others reach by logistic regressions on the same labels, out of fold."
_UNFITTED = (
    "No other confidence was fitted to these labels: that takes right and wrong responses, three questions, and a text "
    "of every response."
)
_COLOUR = "#2c6fad"


def read(source: Path, reading: Reading, name: str = "confidence", others: Sequence[str] = ()) -> Scored:
    """Read confidences, other ones to compare them with, and labels. Raises a ContractError that names file and row if
    a label is missing or a confidence is not from 0 to 1, and the file if no row has a confidence."""
    if clash := sorted({*others} & {name, "constant"}):
        raise ConfigError(f"--beside {clash[0]}: names the confidence itself, or a row of the table; give another")
    scored = read_scored(source, reading, ["label"], name=name, others=others, answers=True, answer=BOXED)
    if np.isnan([scored.confidence, *scored.others.values()]).any(axis=0).all():
        fields = " and in ".join(map(repr, [name, *others]))
        raise ContractError(f"{source}: no response has a valid confidence in {fields}; there is nothing to evaluate")
    if len(scored.names) < LEAST_QUESTIONS:
        scored = replace(scored, notes=(*scored.notes, f"fewer than {LEAST_QUESTIONS} questions give no interval"))
    return scored


def beside(scored: Scored, numbers: pd.DataFrame, card: Mapping[str, HeldOut], settings: MetricSettings) -> list[str]:
    """Lines of a table that compares the confidence, which has these `numbers`, with other fields, the companion's card
    and `baselines` fitted out of fold to the same labels, and sentences about which is better. If it is known which
    responses were truncated, a second table has the others. Responses that lack one of the confidences are left out."""
    valid = np.isfinite([scored.confidence, *scored.others.values()]).all(axis=0).astype(bool, copy=False)
    questions, correct = np.array(scored.names, dtype=object)[scored.question][valid], scored.correct[valid]
    length, truncated, tokens = (
        None if column is None else column[valid] for column in (scored.length, scored.truncated, scored.tokens)
    )
    confidence, given = scored.confidence[valid], {name: other[valid] for name, other in scored.others.items()}
    fitted: dict[str, np.ndarray] = {}
    if length is not None and len({*questions}) >= LEAST_FOLDS and 0 < correct.mean() < 1:
        agreed = agreement(
            questions.tolist(), [answer for answer, known in zip(scored.answers, valid, strict=True) if known]
        )
        fold = folds_of(questions.tolist(), settings.seed)
        for name, value in {OWN: confidence, **{f"{name}{AFTER}": value for name, value in given.items()}}.items():
            within = np.clip(value, 1e-6, 1 - 1e-6)
            fitted[name] = recalibrated(np.log(within / (1 - within))[:, None], correct, fold)
        fitted |= baselines(correct, fold, truncated, length + 1, tokens, agreed)
    others = given | fitted
    parts, lines = {"all of these": np.ones(len(correct), dtype=bool)}, [_FITTED if fitted else _UNFITTED, ""]
    if given and not valid.all():
        lines += [f"{(~valid).sum():,} responses lack one of these confidences and have no part.", ""]
    if truncated is not None and truncated.any() and not truncated.all():
        parts["those that ended"] = ~truncated
    for name, part in parts.items():
        # that a response ended says one thing of all that did
        kept = {title: other[part] for title, other in others.items() if title != FLAG or part.all()}
        whole, own = part.all() and valid.all(), (questions[part], confidence[part], correct[part])
        quality = quality_of(*own, kept, settings, numbers if whole else measured(*own, settings, PAIRED))
        more = card if part.all() else {}
        lines += [f"{name.capitalize()}, {part.sum():,}:", "", *quality.table(more, own=scored.name)[2:], ""]
        if standing := quality.standing(scored.name):
            lines += [f"On {name} {standing}.", ""]
        for title in given:
            lower, upper = quality.others[title].get("lower"), quality.others[title].get("upper")
            within = "" if lower is None or upper is None else f" ({lower:+.4f} to {upper:+.4f})"
            less = np.square(kept[title] - own[2]).mean() - np.square(own[1] - own[2]).mean()
            lines += [f"Brier score of {title} less that of {scored.name}: {less:+.4f}{within}.", ""]
        if quality.like_a_constant:
            lines += [f"On {name} the confidence is not shown to be better than a constant.", ""]
    return lines[:-1]


def report(
    scored: Scored, output: Path, settings: MetricSettings | None = None, card: Mapping[str, HeldOut] | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Write `numbers.csv`, `reliability.csv`, `quality.pdf` and `.png`, and `index.html`, which needs no other file,
    all or none of them. Return the numbers (`measured`) and the lines of the comparison (`beside`)."""
    settings = settings or MetricSettings()
    questions = np.array(scored.names, dtype=object)[scored.question]
    numbers = measured(questions, scored.confidence, scored.correct, settings)
    valid = ~np.isnan(scored.confidence)
    bins = reliability_bins(scored.confidence[valid], scored.correct[valid], settings.bins)
    lines = beside(scored, numbers, card or {}, settings)
    with together(output) as folder:
        write_text(folder / "numbers.csv", csv_text(numbers))
        write_text(folder / "reliability.csv", csv_text(bins))
        with paper_style():
            save_figure(draw(scored, numbers, bins), folder / "quality.pdf", {"source": str(scored.source)})
        picture = _inline((folder / "quality.png").read_bytes())
        write_text(folder / "index.html", _page(scored, numbers, lines, picture, settings.level))
    return numbers, lines


def draw(scored: Scored, numbers: pd.DataFrame, bins: pd.DataFrame) -> Figure:
    """A reliability diagram above its counts, and the risk against the coverage beside it."""
    valid = ~np.isnan(scored.confidence)
    figure = Figure(figsize=(TEXT_WIDTH, 3.45))
    panels = figure.subplot_mosaic([["diagram", "risks"], ["histogram", "risks"]], height_ratios=(1.5, 0.47))
    figure.subplots_adjust(left=0.0764, right=0.9945, bottom=0.2957, top=0.913, wspace=0.2444, hspace=0.1624)
    diagram, histogram, risks = (panels[name] for name in ("diagram", "histogram", "risks"))
    plot_reliability(diagram, histogram, bins, _COLOUR)
    diagram.set(ylabel="Accuracy")
    histogram.set(ylabel="Count", xlabel="Confidence")
    for ax in (diagram, histogram):
        ax.yaxis.set_label_coords(-0.13, 0.5)
    value = dict(zip(numbers["metric"], numbers["value"], strict=True))
    diagram.set_title(f"ECE {metric_text('ece', value['ece'])}", pad=4)
    risks.set_title(f"AUROC {metric_text('auroc', value['auroc'])}", pad=4)
    correct = scored.correct[valid]
    curves = {
        "responses in order of confidence": (scored.confidence[valid], {"color": _COLOUR, "linewidth": 1.3}),
        "best order": (correct.astype(np.float64), {"color": INK, "linestyle": (0, (1, 1.4)), "linewidth": 1.0}),
        "random order": (np.zeros(len(correct)), {"color": INK, "linestyle": (0, (4, 2.5)), "linewidth": 0.7}),
    }
    highest = 0.0
    for order, look in curves.values():
        ordered = Ordered.of(np.arange(len(correct)), order, correct)
        counted = ordered.counted(np.ones((len(correct), 1), dtype=np.int32))
        risk = 100 * counted.risk_at(COVERAGES[:, None])[:, 0]  # of wrong responses among the most confident ones
        highest = max(highest, risk.max())
        risks.plot(100 * COVERAGES, risk, **look)
    risks.set(
        xlim=(0, 102), ylim=(-0.02 * highest or -1, 1.05 * highest or 1), xlabel="Coverage (%)", ylabel="Risk (%)"
    )
    handles = [*legend_entries(), *(Line2D([], [], label=name, **look) for name, (_, look) in curves.items())]
    figure.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 0.05), ncols=3, **LEGEND)
    rest = f"{int(valid.sum()):,} responses to {len(np.unique(scored.question[valid])):,} questions"
    figure.text(0.5, 0.012, f"{scored.source.name}: {rest}", ha="center", va="bottom", **SMALL_PRINT)
    return figure


def _page(scored: Scored, numbers: pd.DataFrame, beside: list[str], picture: str, level: float) -> str:
    cells = numbers.set_index("metric")[["value", "lower", "upper"]]
    rows = [
        (title, *(metric_text(metric, number) for number in cells.loc[metric]), meaning)
        for metric, (title, meaning) in NAMES.items()
    ]
    invalid = int(np.isnan(scored.confidence).sum())
    page = files("cocal.confidence").joinpath("page.html").read_text(encoding="utf-8")
    return (
        Environment(autoescape=True)
        .from_string(page)
        .render(
            title=f"Quality of the confidences in {scored.source.name}",
            count=f"{len(scored.correct):,}",
            questions=f"{len(scored.names):,}",
            invalid=f"{invalid:,}" if invalid else "",
            level=f"{100 * level:g}",
            rows=rows,
            beside="\n".join(beside),
            picture=picture,
            notes=". ".join(note[:1].upper() + note[1:] for note in scored.notes),
        )
    )


def html(config: CompanionConfig, summary: str) -> str:
    """What a notebook shows of a companion: a heading, this summary of the quality on held-out questions, and
    the reliability diagram of all held-out responses, if it was kept."""
    head = f"<p><b>Companion of {escape(config.base_model.name)}</b> ({escape(config.architecture)})</p>"
    shown, picture = config.held_out_all_steps or config.held_out, ""
    if shown is not None and shown.bins:
        data = io.BytesIO()
        with paper_style():
            figure = Figure(figsize=(2.6, 2.9), layout="constrained")
            top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
            plot_reliability(top, bottom, pd.DataFrame([row.model_dump() for row in shown.bins]), _COLOUR)
            top.set(ylabel="Accuracy")
            bottom.set(ylabel="Responses", xlabel="Confidence")
            figure.savefig(data, format="png")
        picture = f'<img width="320" alt="Reliability diagram" src="{_inline(data.getvalue())}">'
    return f"{head}<pre>{escape(summary)}</pre>{picture}"


def _inline(picture: bytes) -> str:
    """A PNG as a data URL, which needs no file."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}"
