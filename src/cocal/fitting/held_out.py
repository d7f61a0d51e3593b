"""The quality of confidences as a companion's files state it, and statistics of the responses behind it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cocal.metrics.shown import metric_text
from cocal.settings.base import Count, Model, Share
from cocal.store.rows import listed

if TYPE_CHECKING:
    import pandas as pd

LEAST_QUESTIONS = 10
"""Number of questions below which no interval is given, because a bootstrap over so few is misleading."""
LEAST_COMPARED = 20
"""Number of questions below which nothing is called better or worse."""
_LEAST_RESPONSES, _CUT = 20, 0.05
"""Least number of responses, and least difference between shares of truncated ones, for calling two sets different."""
_SHOWN = {"mean_confidence": "mean", "ece": "ECE", "auroc": "AUROC", "brier": "Brier score"}


class Metric(Model):
    """One metric with its interval; None where it is undefined."""

    metric: str
    value: float | None
    lower: float | None
    upper: float | None


class Bin(Model):
    """One bin of a reliability diagram; only bins with responses are kept."""

    left: float
    right: float
    count: Count
    accuracy: float
    mean_confidence: float


class HeldOut(Model):
    """Quality on responses to questions that were held out, truncated ones too."""

    steps: tuple[Count, Count] | None = None
    """First and last rollout step of the responses; None where they name no steps."""
    responses: Count
    questions: Count
    chose: bool = True
    """Whether these questions chose the best pass of the paper's recipe."""
    truncated: Share | None = None
    """Share of responses that were cut at the length limit; None where the rollouts do not say."""
    seeds: tuple[int, ...] = ()
    """The seeds whose mean confidence was measured."""
    target: str = "binary"
    metrics: tuple[Metric, ...]
    bins: tuple[Bin, ...] = ()
    """The reliability diagram."""
    constant: float | None = None
    """Brier score of the accuracy as a constant confidence; no other constant has a lower one on these responses."""
    others: dict[str, dict[str, float | None]] = {}
    """The metrics of other confidences in the same responses (`cocal.fitting.baselines`), by their names, and the
    interval of their Brier score less the companion's (`lower`, `upper`), if there are enough questions."""

    @classmethod
    def of(cls, measured: "pd.DataFrame", **stated: Any) -> "HeldOut":
        """Build it from the table of `cocal.fitting.quality.measured`."""
        rows = measured.astype(object).where(measured.notna(), None).to_dict("records")
        return cls(metrics=tuple(Metric(**row) for row in rows), **stated)

    def table(self, more: Mapping[str, "HeldOut | None"] = {}, own: str = "companion") -> list[str]:
        """Lines with what the quality rests on, and a table of its metrics beside those of `more` and of `others`."""
        rows, metrics = {own: [_text(name, self.value(name)) for name in _SHOWN]}, self._named
        if self.has_interval:
            ends = ((name, metrics[name].lower, metrics[name].upper) for name in _SHOWN)
            rows["its 95 % interval"] = [f"{_text(name, lower)} to {_text(name, upper)}" for name, lower, upper in ends]
        others = {title: {name: held.value(name) for name in _SHOWN} for title, held in more.items() if held}
        for title, values in (others | self.others).items():
            rows[title] = [_text(name, values.get(name)) for name in _SHOWN]
        if self.constant is not None:
            rows["constant"] = [*[""] * (len(_SHOWN) - 1), _text("brier", self.constant)]
        heads = ["confidence", *_SHOWN.values()]
        doubt = "" if self.has_interval else f"; fewer than {LEAST_QUESTIONS} questions give no interval"
        return [f"{self._basis}{doubt}.", "", *table_of([heads, *([name, *row] for name, row in rows.items())])]

    def standing(self, own: str = "the companion") -> str:
        """Which of the others have a higher or lower Brier score beyond chance, in words; empty without others."""
        ranks = {"lower than that of": [], "not separable from that of": [], "higher than that of": []}
        worse, unsure, better = ranks.values()
        for name, values in self.others.items():
            lower, upper = values.get("lower"), values.get("upper")
            if lower is not None and upper is not None:
                phrase = f"{name.removesuffix(', recalibrated')} ({_text('brier', values['brier'])})"
                (worse if lower > 0 else better if upper < 0 else unsure).append(phrase)
        said = "; ".join(f"{rank} {listed(names)}" for rank, names in ranks.items() if names)
        return said and f"{own}'s Brier score ({_text('brier', self.value('brier'))}) is {said}"

    @property
    def like_a_constant(self) -> bool:
        """Whether the companion's Brier score, or the upper end of its interval if any, reaches the constant's."""
        brier = self._named.get("brier")
        worst = brier and (brier.value if brier.upper is None else brier.upper)
        return worst is not None and self.constant is not None and worst >= self.constant

    @property
    def _named(self) -> dict[str, Metric]:
        return {metric.metric: metric for metric in self.metrics}

    def value(self, metric: str) -> float | None:
        """The value of a metric; None if it is undefined or was not measured."""
        return self._named[metric].value if metric in self._named else None

    @property
    def _basis(self) -> str:
        """The responses, the questions, the shares that were truncated and correct, and the steps, in words."""
        truncated = "" if self.truncated is None else f" ({_percent(self.truncated)} of them cut at the limit)"
        counts = {"response": self.responses, "held-out question": self.questions}
        responses, questions = (f"{count:,} {what}{'s' * (count != 1)}" for what, count in counts.items())
        first, last = self.steps or (None, None)
        when = f" of step {last}" if first == last else f" of steps {first} to {last}"
        share = ""
        if right := self._named.get("accuracy"):
            lower, value, upper = (_text("accuracy", number) for number in (right.lower, right.value, right.upper))
            share = f"; {value} % are right{f' ({lower} to {upper})' if right.lower is not None else ''}"
        return f"{responses}{truncated} to {questions}{when if self.steps else ''}{share}"

    @property
    def has_interval(self) -> bool:
        """Whether there are enough questions to resample."""
        return self.questions >= LEAST_QUESTIONS


class Part(Model):
    """Quality in a part of the responses to held-out questions, by each one's last prefix that ends in the part."""

    name: str
    """The part: a quarter, a range of tokens, or the whole response."""
    responses: Count
    auroc: float | None
    ece: float | None
    brier: float | None
    constant: float
    """See `HeldOut.constant`."""
    token_probability: float | None
    """AUROC of the mean token probability so far."""


_PARTS = {"auroc": "AUROC", "ece": "ECE", "brier": "Brier score", "constant": "Brier score of a constant"}
_PARTS |= {"token_probability": "AUROC of mean token probability"}


def table_of_parts(trajectory: Sequence[Part]) -> list[str]:
    """The lines of a table of parts."""
    parts = (
        [part.name, f"{part.responses:,}", *(_text(name, getattr(part, name)) for name in _PARTS)]
        for part in trajectory
    )
    return table_of([["part", "responses", *_PARTS.values()], *parts])


def table_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown, whose first row is its heads, padded for readers of the text itself."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in rows]
    heads, *lines = (f"| {line} |" for line in lines)
    return [heads, f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines]


class ResponseStatistics(Model):
    """Lengths and truncation of responses, by which other responses are recognised as different."""

    responses: Count
    lengths: tuple[float, float, float]
    """Quartiles of the number of tokens, the end token included."""
    truncated: Share | None
    """Share of responses that were cut at the length limit; None where this is not known of all."""

    @classmethod
    def of(
        cls, lengths: Sequence[int] | np.ndarray, truncated: Sequence[bool] | np.ndarray | None
    ) -> "ResponseStatistics":
        """The statistics of responses with these lengths."""
        quartiles = tuple(np.quantile(lengths, (0.25, 0.5, 0.75)).tolist())
        return cls(
            responses=len(lengths),
            lengths=quartiles,
            truncated=None if truncated is None else float(np.mean(truncated)),
        )

    def difference(self, others: "ResponseStatistics") -> str | None:
        """How other responses differ from these, in words, or None if they are alike or too few: in a median length
        outside these quartiles, or a share of truncated ones more than two standard errors away."""
        if others.responses < _LEAST_RESPONSES:
            return None
        said, (lower, median, upper) = [], self.lengths
        if not lower <= others.lengths[1] <= upper:
            said.append(
                f"a median length of {others.lengths[1]:,.0f} tokens instead of {median:,.0f} (half of those have "
                f"{lower:,.0f} to {upper:,.0f})"
            )
        if self.truncated is not None and others.truncated is not None:
            error = (self.truncated * (1 - self.truncated) / others.responses) ** 0.5
            if abs(others.truncated - self.truncated) > _CUT + 2 * error:
                said.append(
                    f"{_percent(others.truncated)} of them cut at the limit instead of {_percent(self.truncated)}"
                )
        if self.truncated is not None and others.truncated is None:
            said.append(
                "nothing that says which were cut at the limit, as those did, so that all count as whole (give "
                "--max-response-length)"
            )
        if not said:
            return None
        return (
            "These responses differ from those of the last stage that the companion learnt from: "
            f"{', and '.join(said)}. The quality on its model card may not hold for them: measure it (cocal evaluate)."
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _text(name: str, value: float | None) -> str:
    return metric_text(name, float("nan") if value is None else value)
