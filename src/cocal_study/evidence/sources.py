"""The sources that judge claims: the paper's published numbers, and a study."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cocal.companion.spec import CompanionSpec
from cocal.metrics.calibration import METRICS, bin_index
from cocal.metrics.scores import PAIRED
from cocal.settings.base import Count, Model, Name
from cocal_study.config.methods import METHODS
from cocal_study.cubes.cells import policy_cell
from cocal_study.cubes.resamples import MAIN, Key, Resamples
from cocal_study.evidence.comparisons import at_chance, estimate
from cocal_study.evidence.estimates import Estimate
from cocal_study.evidence.predicates import Case, NotAssessableError, Quantity, Reader
from cocal_study.evidence.published import MACRO, Published
from cocal_study.planning.costs import Cost, Latency
from cocal_study.planning.results import ORDERS

PAPER_STAGES, PAPER_EARLY, PAPER_BUDGETS = (40, 80, 120), (5, 10, 20, 30, 40), (1, 2, 5, 10, 20, 40, 80, 120)
"""The paper's steps; those of a study stand for the ones at the same positions."""
TIMES = {
    "training_seconds": ("Training: LLM (h)", 3600.0),
    "sampling_seconds": ("Training: Sampling (h)", 3600.0),
    "fit_seconds": ("Training: MLP (s)", 1.0),
    "generation_seconds": ("Inference: LLM (s)", 1.0),
    "prediction_seconds": ("Inference: MLP (ms)", 1e-3),
}
"""Measured times: their columns in the paper's table of costs, and the units of these."""
SET_TIMES = {"pre_seconds": ("Pre (ms)", 1e-3), "post_seconds": ("Post (s)", 1.0)}
"""Measured times of one data set in the same way: before a response is generated, and after it."""
MEASURED = (*TIMES, *SET_TIMES, "prediction_over_generation")
"""Quantities that differ from run to run."""
_ROWS = {"self-consistency": "SelfConsis", "postcal-binary": "PostCal", "cocal-binary": "CoCal"}
_STATES = {"last": "Last token", "mean": "Response mean", "last+mean": "Last + mean"}
_BACKBONES = {"first": "Qwen3-8B", "second": "Qwen3-14B"}
_LAYERS = {"early": (0.0, 0.25), "late": (0.5, np.inf), "layers": (0.0, np.inf)}
_SHARES = {
    "extreme_share": lambda bins: np.isin(bins, (0, 9)).mean(),
    "high_share": lambda bins: (bins >= 8).mean(),
    "used_bins": lambda bins: len(np.unique(bins)) / 10,
}
"""Quantities of the confidences of a seed, by their ten bins."""
_LEAST_BLOCKS = 8
"""Least number of blocks of a backbone that has early layers (first quarter) and late ones (second half)."""
_DOMAINS = {"macro-mathematics": "Math", "macro-factual": "HonestyBench"}


class PublishedSource(Reader):
    """The paper's own tables."""

    def __init__(self, published: Published):
        self._published = published
        cells = published.cells[published.cells["metric"] != ""]
        self._values = {}
        for cell in cells.itertuples():
            title = cell.column.partition(": ")[0]
            dataset = cell.dataset if title == MACRO else title
            value = cell.value / 100 if cell.metric == "accuracy" else cell.value
            self._values[cell.backbone, cell.step, dataset, cell.method, cell.metric] = value

    def read(self, quantity: Quantity) -> Estimate:
        metric, method, case = quantity
        if metric in MEASURED:
            return Estimate(self._time(metric, method, case))
        method, at, states = method.partition("@")
        if case.comparison != MAIN or (at and states not in _STATES) or metric not in METRICS:
            raise NotAssessableError("the paper shows these numbers in a figure or in this sentence alone")
        if at or method == "cocal-pre-generation":
            if at:
                table, row, columns = "token_aggregation", _STATES[states], _BACKBONES[case.backbone]
            else:
                table, row, columns = "pre_generation", "Pre-generation", _DOMAINS[case.dataset]
            title = {"ece": "ECE", "auroc": "AUROC"}[metric]
            return Estimate(self._published.cell(table, row, f"{columns}: {title}")[0])
        key = (_BACKBONES[case.backbone].lower(), case.step, case.dataset, method, metric)
        if key not in self._values:
            raise NotAssessableError(f"no table of the paper has {METHODS[method].label} there")
        return Estimate(self._values[key])

    def _time(self, metric: str, method: str, case: Case) -> float:
        if metric in SET_TIMES:
            row = case.dataset.replace("AIME", "AIME 20").replace("AMC", "AMC 20")
            column, unit = SET_TIMES[metric]
            return unit * self._published.cell("time_to_confidence", row, column)[0]
        if metric == "prediction_over_generation":
            return self._time("prediction_seconds", method, case) / self._time("generation_seconds", method, case)
        column, unit = TIMES[metric]
        return unit * self._published.cell("cost", _ROWS[method], column)[0]


class StudyScope(Model):
    """The parts of a study that stand for those of the paper."""

    backbones: tuple[Name, ...]
    """The first and, if it has one, the second backbone."""
    stages: tuple[Count, ...]
    early_steps: tuple[Count, ...]
    budgets: tuple[Count, ...]
    datasets: dict[str, Name]
    """By the titles of the paper's data sets, those that stand for them."""
    layers: dict[Name, tuple[int, ...]]
    """Zero-based indices of the compared layers of each backbone."""
    tiny: bool = False
    """True if the policies were pre-trained here, whose times say nothing about those of language models."""


@dataclass(frozen=True)
class StudySource(Reader):
    """A study's metric resamples, counts and times; what it lacks is empty."""

    scope: StudyScope
    resamples: Sequence[Resamples]
    """The resampled metrics of every comparison."""
    companions: Sequence[CompanionSpec] = ()
    """Specs of the companions of all budgets, of CoCal and PostCal."""
    predictions: Sequence[pd.DataFrame] = ()
    """Tables of predictions at the end of training, in the contract `PREDICTIONS`."""
    sampling: Cost | None = None
    """Time of PostCal's sampling."""
    fit: Cost | None = None
    """Time of the fit of CoCal's companions."""
    latency: Latency | None = None

    @property
    def level(self) -> float:
        return self.resamples[0].level if self.resamples else Reader.level

    def variants(self, method: str, case: Case) -> list[str]:
        """The methods that a name stands for; a group of layers stands for one method per layer. Early layers lie in
        the first quarter of the blocks, middle-to-late ones in the second half."""
        name, _, states = method.partition("@")
        if states not in _LAYERS:
            return [method]
        layers, (least, most) = self.scope.layers[self._backbone(case)], _LAYERS[states]
        if max(layers) + 1 < _LEAST_BLOCKS:
            blocks = max(layers) + 1
            raise NotAssessableError(f"a backbone of {blocks} blocks has no early and no middle-to-late layers")
        return [f"{name}@layer-{layer}" for layer in layers if least <= layer / max(layers) < most]

    def degenerate(self, method: str, case: Case) -> bool:
        try:
            return at_chance(*self._cell(method, case))
        except NotAssessableError:
            return False

    def read(self, quantity: Quantity) -> Estimate:
        metric, method, case = quantity
        if metric in PAIRED:
            return self._metric(metric, method, case)
        if metric in MEASURED:
            return Estimate(self._time(metric, method, case))
        if metric in _SHARES:
            return Estimate(self._of_confidences(metric, method, case))
        return Estimate(self._spec(method, case).training_error_share)  # error_share

    def _cell(self, method: str, case: Case) -> tuple[Resamples, Key]:
        backbone = self._backbone(case)
        name, _, states = method.partition("@")
        comparison = "ablations" if states else case.comparison
        resamples = next(
            (file for file in self.resamples if (file.backbone, file.comparison) == (backbone, comparison)), None
        )
        if resamples is None:
            raise NotAssessableError(f"the study has no comparison of this kind ({comparison})")
        if not resamples.data.sizes["resample"]:
            raise NotAssessableError("the study draws no resamples (metrics.resamples)")
        algorithm, step = policy_cell(name, self._step(case))
        source = self._learnt_from(case) if case.learnt_from else -1
        key = Key(name, algorithm, step, self._dataset(case), source, *self._state(states, backbone))
        if key not in resamples.places:
            raise NotAssessableError(f"the study does not evaluate {METHODS[name].label} there")
        return resamples, key

    def _metric(self, metric: str, method: str, case: Case) -> Estimate:
        resamples, key = self._cell(method, case)
        if metric not in resamples.data.indexes["metric"]:
            raise NotAssessableError(f"the resamples hold no {metric}: compute the metrics anew")
        number = estimate(resamples, key, metric)
        if np.isnan(number.value):
            raise NotAssessableError(f"the {metric} of {METHODS[key.method].label} is undefined there")
        return number

    def _state(self, states: str, backbone: str) -> tuple[int, str]:
        if states.startswith("layer-"):
            return int(states.removeprefix("layer-")), "last+mean"
        return (max(self.scope.layers[backbone]), states) if states else (-1, "")

    def _backbone(self, case: Case) -> str:
        place = ("first", "second").index(case.backbone)
        if place >= len(self.scope.backbones):
            raise NotAssessableError("the study has one backbone")
        return self.scope.backbones[place]

    def _step(self, case: Case) -> int:
        return _standing(case.step, PAPER_STAGES, self.scope.stages, "stages")

    def _learnt_from(self, case: Case) -> int:
        if case.comparison == "budgets":
            return _standing(case.learnt_from, PAPER_BUDGETS, self.scope.budgets, "budgets")
        if case.learnt_from in PAPER_STAGES:
            return _standing(case.learnt_from, PAPER_STAGES, self.scope.stages, "stages")
        return _standing(case.learnt_from, PAPER_EARLY, self.scope.early_steps, "early steps")

    def _dataset(self, case: Case) -> str:
        if case.dataset.startswith("macro-"):
            return case.dataset
        if case.dataset not in self.scope.datasets:
            raise NotAssessableError(f"no set of the study stands for {case.dataset}")
        return self.scope.datasets[case.dataset]

    def _of_confidences(self, metric: str, method: str, case: Case) -> float:
        """One of `_SHARES` of the valid confidences, as mean over seeds."""
        algorithm, step = policy_cell(method, self._step(case))
        wanted = {"dataset": self._dataset(case), "method": method, "algorithm": algorithm, "step": step}
        wanted["backbone"] = self._backbone(case)
        for table in self.predictions:
            chosen = np.logical_and.reduce([table[name] == value for name, value in wanted.items()])
            rows = table[chosen & table["valid"]]
            if len(rows):
                by_seed = rows.groupby("seed")["confidence"]
                return float(by_seed.agg(lambda values: _SHARES[metric](bin_index(values.to_numpy(), 10))).mean())
        raise NotAssessableError(f"the study has no confidences of {METHODS[method].label} there")

    def _spec(self, method: str, case: Case) -> CompanionSpec:
        experience = METHODS[method].experience
        order = ORDERS[experience] if experience else None
        steps = self._learnt_from(case) if case.learnt_from else self.scope.stages[-1]
        for spec in self.companions:
            if (spec.order, spec.steps, spec.validation_steps) == (order, steps, self.scope.stages[-1]):
                return spec
        raise NotAssessableError(f"the study has no companions of {METHODS[method].label} there")

    def _time(self, metric: str, method: str, case: Case) -> float:
        latency, costs = self.latency, {"sampling_seconds": self.sampling, "fit_seconds": self.fit}
        if self.scope.tiny:
            raise NotAssessableError("times of policies below a million parameters say nothing about language models")
        if cost := costs.get(metric):
            return cost.seconds
        if latency is None or metric in ("training_seconds", *costs):
            raise NotAssessableError("the study has not measured this time")
        if metric in SET_TIMES:
            dataset = self._dataset(case)
            times = [time for time in latency.time_to_confidence if time.dataset == dataset]
            if not times:
                raise NotAssessableError(f"the study has not timed {case.dataset}")
            return times[0].pre_ms / 1000 if metric == "pre_seconds" else times[0].post_s
        generation = latency.pool_seconds if method == "self-consistency" else latency.generation_seconds
        prediction = latency.prediction_ms / 1000
        if metric == "prediction_over_generation":
            return prediction / generation
        return generation if metric == "generation_seconds" else prediction


def _standing(step: int | None, paper: Sequence[int], own: Sequence[int], what: str) -> int:
    """The study's step at the same position as this one among the paper's; both must have equally many steps."""
    if step == paper[-1]:
        return own[-1]
    if len(own) != len(paper):
        raise NotAssessableError(f"the study has {len(own)} {what}, and the paper {len(paper)}")
    return own[paper.index(step)]
